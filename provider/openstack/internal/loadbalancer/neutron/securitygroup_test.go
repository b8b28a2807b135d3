package neutron

import (
	"encoding/json"
	"slices"
	"testing"
	"time"

	clocktesting "k8s.io/utils/clock/testing"

	"github.com/fxccm/fxccm/provider/openstack/internal/failure"
	"github.com/fxccm/fxccm/provider/openstack/openstacktest"
)

func TestSecurityGroup_WithItsRules_IsOneRequest(t *testing.T) {
	s := newSite(t)
	id := s.AddSecurityGroup(
		openstacktest.SecurityGroup{Name: "lb-sg", Description: "d", Tags: []string{"a"}})
	low, high := 30080, 30090
	s.AddSecurityGroupRule(openstacktest.SecurityGroupRule{
		SecurityGroupID: id, Direction: "ingress", Protocol: "6", PortMin: &low, PortMax: &high,
		RemotePrefix: "10.1.2.3/8",
	})
	s.AddSecurityGroupRule(openstacktest.SecurityGroupRule{
		SecurityGroupID: id, Direction: "ingress", EtherType: "IPv6", Protocol: "udp",
		PortMin: &low, PortMax: &low, RemotePrefix: "fd00:0::/64",
	})
	s.AddSecurityGroupRule(openstacktest.SecurityGroupRule{
		SecurityGroupID: id, Direction: "ingress", Protocol: "sctp", PortMin: &low, PortMax: &low,
		RemotePrefix: "192.0.2.7",
	})
	s.ForgetCalls()
	group, err := s.SecurityGroup(t.Context(), "lb-sg")
	s.must(err)
	s.wantCalls(map[string]int{"security_group_list": 1})
	if group == nil || group.ID != id || group.Name != "lb-sg" || group.Description != "d" ||
		!slices.Equal(group.Tags, []string{"a"}) {
		t.Fatalf("found %+v", group)
	}
	for _, want := range []Rule{
		{Direction: "egress", EtherType: "IPv4", RemotePrefix: "0.0.0.0/0"},
		{Direction: "egress", EtherType: "IPv6", RemotePrefix: "::/0"},
		{Direction: "ingress", EtherType: "IPv4", Protocol: "tcp", PortMin: 30080, PortMax: 30090, RemotePrefix: "10.0.0.0/8"},
		{Direction: "ingress", EtherType: "IPv6", Protocol: "udp", PortMin: 30080, PortMax: 30080, RemotePrefix: "fd00::/64"},
		{Direction: "ingress", EtherType: "IPv4", Protocol: "sctp", PortMin: 30080, PortMax: 30080, RemotePrefix: "192.0.2.7/32"},
	} {
		if !slices.ContainsFunc(group.Rules,
			func(r Rule) bool { return r.Same(want) && r.ID != "" }) {
			t.Errorf("the rule %+v is missing in %+v", want, group.Rules)
		}
	}
	if len(group.Rules) != 5 {
		t.Errorf("%d rules", len(group.Rules))
	}
}

func TestLeftSecurityGroup_NamesAreListedOnceAnHour(t *testing.T) {
	s := newSite(t)
	s.AddSecurityGroup(openstacktest.SecurityGroup{Name: "left"})
	s.ForgetCalls()
	look := func(name string, found bool, calls int) {
		t.Helper()
		group, err := s.LeftSecurityGroup(t.Context(), name)
		s.must(err)
		if (group != nil) != found {
			t.Errorf("%s: found %+v", name, group)
		}
		s.wantCalls(map[string]int{"security_group_list": calls})
	}
	look("none", false, 1)
	look("other", false, 1)
	look("left", true, 2)
	s.clock.SetTime(s.clock.Now().Add(groupNamesAge))
	s.AddSecurityGroup(openstacktest.SecurityGroup{Name: "other"})
	look("other", true, 4)
}

func TestRule_AsNeutronShowsIt_HasTheFormOfADesiredOne(t *testing.T) {
	tcp := Rule{
		Direction: "ingress", EtherType: "IPv4", Protocol: "tcp", PortMin: 1,
		PortMax: 2, RemotePrefix: "10.0.0.0/8",
	}
	all := Rule{Direction: "ingress", EtherType: "IPv4", RemotePrefix: "0.0.0.0/0"}
	const ports = `"port_range_min": 1, "port_range_max": 2, "remote_ip_prefix": "10.1.2.3/8"`
	for shown, same := range map[string]*Rule{
		`"protocol": "TCP", ` + ports: &tcp, `"protocol": "6", ` + ports: &tcp,
		`"protocol": "17", ` + ports: nil, `"protocol": null`: &all,
		`"remote_group_id": "g"`: nil, `"remote_address_group_id": "g"`: nil,
	} {
		text := `{"id": "r", "direction": "INGRESS", "ethertype": "ipv4", ` + shown + `}`
		var is Rule
		if err := json.Unmarshal([]byte(text), &is); err != nil {
			t.Fatal(err)
		}
		if is.Same(tcp) != (same == &tcp) || is.Same(all) != (same == &all) {
			t.Errorf("%s: %+v", shown, is)
		}
	}
}

func TestSecurityGroup_None_IsNil(t *testing.T) {
	s := newSite(t)
	s.AddSecurityGroup(openstacktest.SecurityGroup{Name: "lb-sg-and-more"})
	foreign := s.AddProject(openstacktest.Project{Name: "other"})
	s.AddSecurityGroup(openstacktest.SecurityGroup{Name: "lb-sg", ProjectID: foreign.ProjectID})
	group, err := s.SecurityGroup(t.Context(), "lb-sg")
	if err != nil || group != nil {
		t.Errorf("found %+v, error %v", group, err)
	}
}

func TestSecurityGroup_SeveralOfAName_TheOldest(t *testing.T) {
	clock := clocktesting.NewFakePassiveClock(time.Now())
	s := newSite(t, openstacktest.WithClock(clock))
	younger := time.Hour
	clock.SetTime(clock.Now().Add(younger))
	s.AddSecurityGroup(openstacktest.SecurityGroup{ID: "a", Name: "lb-sg"})
	clock.SetTime(clock.Now().Add(-younger))
	oldest := s.AddSecurityGroup(openstacktest.SecurityGroup{ID: "b", Name: "lb-sg"})
	group, err := s.SecurityGroup(t.Context(), "lb-sg")
	s.must(err)
	if group == nil || group.ID != oldest {
		t.Errorf("found %+v, want %s", group, oldest)
	}
}

func TestCreateSecurityGroup_HasNoRulesAndItsTags(t *testing.T) {
	s := newSite(t)
	made, err := s.CreateSecurityGroup(t.Context(),
		SecurityGroup{Name: "lb-sg", Description: "d", Tags: []string{"a"}})
	s.must(err)
	s.wantCalls(map[string]int{
		"security_group_create": 1, "security_group_rule_delete": 2,
		"security_group_tag_replace": 1,
	})
	found, err := s.SecurityGroup(t.Context(), "lb-sg")
	s.must(err)
	if found == nil || found.ID != made.ID || len(found.Rules) != 0 || found.Description != "d" ||
		!slices.Equal(found.Tags, []string{"a"}) {
		t.Errorf("the group is %+v", found)
	}
	if len(made.Rules) != 0 || !slices.Equal(made.Tags, []string{"a"}) {
		t.Errorf("the result is %+v", made)
	}
}

func TestCreateSecurityGroup_Incomplete_IsReturnedWithTheError(t *testing.T) {
	for _, operation := range []string{"security_group_rule_delete", "security_group_tag_replace"} {
		s := newSite(t)
		s.Inject(openstacktest.Fault{Operation: operation, Status: 500})
		made, err := s.CreateSecurityGroup(t.Context(),
			SecurityGroup{Name: "lb-sg", Tags: []string{"a"}})
		if err == nil || made.ID == "" {
			t.Errorf("%s fails: made %+v, error %v, want both", operation, made, err)
		}
	}
}

func TestCreateRule_RuleExists_Succeeds(t *testing.T) {
	s := newSite(t)
	id := s.AddSecurityGroup(openstacktest.SecurityGroup{Name: "g"})
	wanted := Rule{
		Direction: "ingress", EtherType: "IPv4", Protocol: "udp",
		PortMin: 30000, PortMax: 30000, RemotePrefix: "10.0.0.0/8",
	}
	for range 2 {
		s.must(s.CreateRule(t.Context(), id, wanted))
	}
	group, err := s.SecurityGroup(t.Context(), "g")
	s.must(err)
	if !slices.ContainsFunc(group.Rules, wanted.Same) || len(group.Rules) != 3 {
		t.Errorf("the group has %+v", group.Rules)
	}
	s.SetNetworkQuota("security_group_rule", 0)
	wanted.PortMin--
	if err := s.CreateRule(t.Context(), id, wanted); !failure.Of(err).IsQuota() {
		t.Errorf("error %v, want one about the quota", err)
	}
}

// OCCM stops when a rule to delete does not exist.
func TestDeleteRule_OneThatIsGone_IsDone(t *testing.T) {
	s := newSite(t)
	if err := s.DeleteRule(t.Context(), "gone"); err != nil {
		t.Error(err)
	}
	s.Inject(openstacktest.Fault{Operation: "security_group_rule_delete", Status: 403})
	if err := s.DeleteRule(t.Context(), "gone"); err == nil {
		t.Error("a refusal counted as success")
	}
}

func TestDeleteSecurityGroup_InUse_IsAnError(t *testing.T) {
	s := newSite(t)
	id := s.AddSecurityGroup(openstacktest.SecurityGroup{Name: "g"})
	port := s.addPort("server", id)
	if err := s.DeleteSecurityGroup(t.Context(), id); err == nil {
		t.Error("a refusal counted as success")
	}
	s.must(s.DeletePort(port))
	for range 2 {
		s.must(s.DeleteSecurityGroup(t.Context(), id))
	}
}
