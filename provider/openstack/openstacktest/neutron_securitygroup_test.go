package openstacktest

import (
	"net/http"
	"slices"
	"testing"

	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/extensions/security/groups"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/extensions/security/rules"
)

func TestSecurityGroup_Default_IsMadeWhenFirstNeeded(t *testing.T) {
	s := start(t)
	if len(s.SecurityGroups()) != 0 {
		t.Error("the default group exists before its first use")
	}
	at := newSite(s)
	port := askNeutron(t, s, http.MethodPost, "ports",
		`{"port":{"network_id":"`+at.internal+`"}}`).succeeds(201, "port")
	group := s.SecurityGroups()[0]
	if got := port["security_groups"].([]any); group.Name != "default" || len(got) != 1 ||
		got[0] != group.ID {
		t.Errorf("the port has %v of %+v", got, s.SecurityGroups())
	}
	if got := len(s.SecurityGroupRules()); got != 4 {
		t.Errorf("%d rules of the default group, want 4", got)
	}
	askNeutron(t, s, http.MethodPost, "security-groups", `{"security_group":{"name":"default"}}`).
		refuses(409, "SecurityGroupDefaultAlreadyExists", "already exists")
	askNeutron(t, s, http.MethodPut, "security-groups/"+group.ID,
		`{"security_group":{"name":"x"}}`).
		refuses(409, "SecurityGroupCannotUpdateDefault", "not allowed")
	askNeutron(t, s, http.MethodDelete, "ports/"+port["id"].(string), "").succeeds(204, "")
	askNeutron(t, s, http.MethodDelete, "security-groups/"+group.ID, "").
		refuses(409, "SecurityGroupCannotRemoveDefault", "Insufficient rights")
	if got := askNeutron(t, s, http.MethodPost, "ports",
		`{"port":{"network_id":"`+at.internal+`","security_groups":[]}}`).
		succeeds(201, "port")["security_groups"].([]any); len(got) != 0 {
		t.Errorf("groups %v of a port that wants none", got)
	}
	askNeutron(t, s, http.MethodPost, "ports",
		`{"port":{"network_id":"`+at.internal+
			`","security_groups":["00000000-0000-4000-8000-00000000dead"]}}`).
		refuses(404, "SecurityGroupNotFound",
			"Security group 00000000-0000-4000-8000-00000000dead does not exist")
}

func TestSecurityGroup_Lifecycle(t *testing.T) {
	s := start(t)
	at := newSite(s)
	client := networkOf(t, s, s.Credentials())
	group, err := groups.Create(t.Context(), client,
		groups.CreateOpts{Name: "g", Description: "d"}).Extract()
	if err != nil {
		t.Fatal(err)
	}
	if len(group.Rules) != 2 || group.Rules[0].Direction != "egress" {
		t.Errorf("rules of a new group: %+v", group.Rules)
	}
	rule, err := rules.Create(t.Context(), client, rules.CreateOpts{
		SecGroupID: group.ID, Direction: rules.DirIngress, EtherType: rules.EtherType4,
		Protocol:     rules.ProtocolTCP,
		PortRangeMin: 80, PortRangeMax: 81, RemoteIPPrefix: "10.0.0.0/8",
	}).Extract()
	if err != nil {
		t.Fatal(err)
	}
	if rule.PortRangeMin != 80 || rule.RemoteIPPrefix != "10.0.0.0/8" || rule.Protocol != "tcp" {
		t.Errorf("rule %+v", rule)
	}
	grown, err := groups.Get(t.Context(), client, group.ID).Extract()
	if err != nil || len(grown.Rules) != 3 || grown.RevisionNumber <= group.RevisionNumber {
		t.Errorf("after a new rule: %v %+v", err, grown)
	}
	port := s.AddPort(Port{NetworkID: at.internal, SecurityGroups: []string{group.ID}})
	askNeutron(t, s, http.MethodDelete, "security-groups/"+group.ID, "").refuses(409,
		"SecurityGroupInUse", "Security Group "+group.ID+" in use.")
	askNeutron(t, s, http.MethodPut, "ports/"+port, `{"port":{"security_groups":[]}}`).succeeds(200,
		"port")
	if err := rules.Delete(t.Context(), client, rule.ID).ExtractErr(); err != nil {
		t.Fatal(err)
	}
	if err := groups.Delete(t.Context(), client, group.ID).ExtractErr(); err != nil {
		t.Fatal(err)
	}
	for _, rule := range s.SecurityGroupRules() {
		if rule.SecurityGroupID == group.ID {
			t.Errorf("a rule of a deleted group: %+v", rule)
		}
	}
}

func TestSecurityGroupRule_NotAsTheAPIWantsIt_IsRefused(t *testing.T) {
	s := start(t)
	group := s.AddSecurityGroup(SecurityGroup{Name: "g"})
	s.AddSecurityGroupRule(SecurityGroupRule{
		SecurityGroupID: group, Direction: "ingress",
		Protocol: "tcp", PortMin: new(80), PortMax: new(80),
	})
	create := func(attributes string) exchange {
		return askNeutron(t, s, http.MethodPost, "security-group-rules",
			`{"security_group_rule":{"security_group_id":"`+group+`","direction":"ingress",`+
				attributes+`}}`)
	}
	for name, c := range map[string]struct {
		attributes string
		status     int
		kind       string
	}{
		"there already":         {`"protocol":"TCP","port_range_min":80,"port_range_max":80`, 409, "SecurityGroupRuleExists"},
		"there by number":       {`"protocol":"6","port_range_min":80,"port_range_max":80`, 409, "SecurityGroupRuleExists"},
		"exists for any source": {`"protocol":"tcp","port_range_min":80,"port_range_max":80,"remote_ip_prefix":"0.0.0.0/0"`, 409, "SecurityGroupRuleExists"},
		"port 0":                {`"protocol":"udp","port_range_min":0,"port_range_max":70`, 400, "SecurityGroupInvalidPortValue"},
		"type of ICMP":          {`"protocol":"icmp","port_range_min":300`, 400, "SecurityGroupInvalidIcmpValue"},
		"ICMPv6 in IPv4":        {`"protocol":"icmpv6"`, 400, "SecurityGroupEthertypeConflictWithProtocol"},
		"direction":             {`"direction":"up"`, 400, "HTTPBadRequest"},
		"family":                {`"ethertype":"IPX"`, 400, "SecurityGroupRuleInvalidEtherType"},
		"protocol":              {`"protocol":"x"`, 400, "SecurityGroupRuleInvalidProtocol"},
		"protocol 256":          {`"protocol":256`, 400, "SecurityGroupRuleInvalidProtocol"},
		"ports of no protocol":  {`"port_range_min":80,"port_range_max":80`, 400, "SecurityGroupProtocolRequiredWithPorts"},
		"ports backwards":       {`"protocol":"udp","port_range_min":81,"port_range_max":80`, 400, "SecurityGroupInvalidPortRange"},
		"half a range":          {`"protocol":"udp","port_range_min":81`, 400, "SecurityGroupInvalidPortRange"},
		"port":                  {`"protocol":"udp","port_range_min":80,"port_range_max":70000`, 400, "SecurityGroupInvalidPortValue"},
		"two remotes":           {`"remote_ip_prefix":"10.0.0.0/8","remote_group_id":"` + group + `"`, 400, "SecurityGroupMultipleRemoteEntites"},
		"prefix":                {`"remote_ip_prefix":"x"`, 400, "InvalidCIDR"},
		"prefix of other":       {`"remote_ip_prefix":"fd00::/8"`, 400, "SecurityGroupRuleParameterConflict"},
		"remote group":          {`"remote_group_id":"none"`, 404, "SecurityGroupNotFound"},
		"group":                 {`"security_group_id":"none"`, 404, "SecurityGroupNotFound"},
	} {
		t.Run(name, func(t *testing.T) { create(c.attributes).refuses(c.status, c.kind, "") })
	}
	create(
		`"protocol":6,"port_range_min":443,"port_range_max":443,"ethertype":"IPv6","remote_ip_prefix":"fd00::1"`).succeeds(201, "security_group_rule")
}

func TestSecurityGroupRules_SeveralInOneRequest_AllOrNone(t *testing.T) {
	s := start(t)
	client := networkOf(t, s, s.Credentials())
	group := s.AddSecurityGroup(SecurityGroup{Name: "g"})
	rule := func(port int) rules.CreateOpts {
		return rules.CreateOpts{
			SecGroupID: group, Direction: rules.DirIngress, EtherType: rules.EtherType4,
			Protocol:     rules.ProtocolTCP,
			PortRangeMin: port, PortRangeMax: port,
		}
	}
	count := func() int {
		return len(slices.DeleteFunc(s.SecurityGroupRules(),
			func(r SecurityGroupRule) bool { return r.SecurityGroupID != group }))
	}
	before := count()
	if made, err := rules.CreateBulk(t.Context(), client,
		[]rules.CreateOpts{rule(80), rule(443)}).Extract(); err != nil || len(made) != 2 {
		t.Fatalf("%v %v", made, err)
	}
	if _, err := rules.CreateBulk(t.Context(), client,
		[]rules.CreateOpts{rule(8080), rule(80)}).Extract(); err == nil {
		t.Error("an existing rule was created again")
	}
	if got := count(); got != before+2 {
		t.Errorf("%d rules, want %d", got, before+2)
	}
	path := "security-group-rules?security_group_id=" + group + "&port_range_min=443"
	if got := askNeutron(t, s, http.MethodGet, path,
		"").names("security_group_rules"); !slices.Equal(got, []string{""}) {
		t.Errorf("found by port: %q", got)
	}
}
