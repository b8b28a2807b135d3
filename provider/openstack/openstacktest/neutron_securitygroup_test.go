package openstacktest

import (
	"net/http"
	"slices"
	"testing"

	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/extensions/security/rules"
)

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
