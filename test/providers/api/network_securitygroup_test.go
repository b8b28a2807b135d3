package api_test

import (
	"testing"

	"github.com/fxccm/fxccm/test/internal/project"
)

func ruleBody(rest string) string {
	return `{"security_group_rule":{"security_group_id":"$group","direction":"ingress",` + rest +
		`}}`
}

// A new group allows all egress; several may have the same name; Neutron creates the group default
// itself.
func TestSecurityGroups_New_LetAllOut(t *testing.T) {
	t.Parallel()
	n := newNeutron(t, project.WithoutNetwork())
	made := n.make("group", "security-groups", "security_group",
		`{"name":"group","description":"d"}`)
	rules, _ := made["security_group_rules"].([]any)
	n.want("rules of a new group", len(rules), 2)
	for _, r := range rules {
		rule, _ := r.(project.Object)
		n.want("direction of a rule of a new group", rule["direction"], "egress")
	}
	n.make("second", "security-groups", "security_group", `{"name":"group"}`)
	n.make("stateless", "security-groups", "security_group",
		`{"name":"stateless","stateful":false}`)
	n.want("stateful", n.get("/security-groups/$stateless", "security_group", "stateful"), false)
	n.noted["default"] = n.list("/security-groups?name=default&project_id=$project&fields=id",
		"security_groups", "id")[0]
	n.want("by name",
		n.list(
			"/security-groups?name=group&name=stateless&name=nonsense&fields=name&project_id=$project", "security_groups", "name"),
		[]string{"group", "group", "stateless"})
	n.expect(
		exchange{
			"POST /security-groups", `{"security_group":{"name":"default"}}`, 409,
			"SecurityGroupDefaultAlreadyExists", "Default security group already exists.",
		},
		exchange{
			"POST /security-groups", `{"security_group":{"name":"x","tags":["a"]}}`, 400,
			"HTTPBadRequest", "Attribute 'tags' not allowed in POST",
		},
		exchange{
			"POST /security-groups", `{"security_group":{"name":"$toolong"}}`, 400,
			"HTTPBadRequest", "exceeds maximum length of 255",
		},
		exchange{
			"PUT /security-groups/$second", `{"security_group":{"name":"default"}}`, 409,
			"SecurityGroupDefaultAlreadyExists", "",
		},
		exchange{
			"PUT /security-groups/$default", `{"security_group":{"name":"x"}}`, 409,
			"SecurityGroupCannotUpdateDefault", "Updating default security group not allowed.",
		},
		exchange{
			"DELETE /security-groups/$default", "", 409, "SecurityGroupCannotRemoveDefault",
			"Insufficient rights for removing default security group.",
		},
		exchange{
			"GET /security-groups?stateful=false", "", 400, "HTTPBadRequest",
			"['stateful'] is invalid attribute for filtering",
		},
		exchange{
			"GET /security-groups/$unknown", "", 404, "SecurityGroupNotFound",
			"Security group $unknown does not exist",
		},
		exchange{"DELETE /security-groups/$second", "", 204, "", ""},
		exchange{
			"DELETE /security-groups/$second", "", 404, "SecurityGroupNotFound",
			"Security group $second does not exist",
		},
	)
}

// Neutron refuses a rule that allows the same traffic as another rule, even if it is written
// differently.
func TestSecurityGroupRules_SameInOtherWords_AreRefused(t *testing.T) {
	t.Parallel()
	n := newNeutron(t, project.WithoutNetwork())
	n.make("group", "security-groups", "security_group", `{"name":"group"}`)
	n.make("other", "security-groups", "security_group", `{"name":"other"}`)
	const (
		post   = "POST /security-group-rules"
		exists = "SecurityGroupRuleExists"
		https  = `"protocol":"tcp","port_range_min":443,"port_range_max":443`
	)
	before := n.revision("/security-groups/$group", "security_group")
	made := n.make("rule", "security-group-rules", "security_group_rule",
		`{"security_group_id":"$group","direction":"ingress","ethertype":"IPv4",`+https+
			`,"remote_ip_prefix":"10.0.0.0/8"}`)
	n.want("the description", made["description"], "")
	if n.revision("/security-groups/$group", "security_group") == before {
		t.Error("a new rule is no new revision of its group")
	}
	n.expect(
		exchange{
			post, ruleBody(https + `,"remote_ip_prefix":"10.0.0.0/8","ethertype":"IPv4"`), 409,
			exists, "Security group rule already exists. Rule id is $rule.",
		},
		exchange{
			post, ruleBody(https + `,"remote_ip_prefix":"10.0.0.0/8","description":"another"`),
			409, exists, "Rule id is $rule.",
		},
		exchange{
			post,
			ruleBody(
				`"protocol":"TCP","port_range_min":443,"port_range_max":443,"remote_ip_prefix":"10.0.0.0/8"`), 409, exists, "$rule",
		},
		exchange{
			post,
			ruleBody(
				`"protocol":"6","port_range_min":443,"port_range_max":443,"remote_ip_prefix":"10.0.0.0/8"`), 409, exists, "$rule",
		},
		exchange{
			post,
			ruleBody(
				`"protocol":6,"port_range_min":"443","port_range_max":"443","remote_ip_prefix":"10.0.0.0/8"`), 409, exists, "$rule",
		},
		// No prefix is the prefix of all, and no ports are all ports.
		exchange{post, ruleBody(https + `,"remote_ip_prefix":"0.0.0.0/0"`), 201, "", ""},
		exchange{post, ruleBody(https), 409, exists, ""},
		exchange{post, ruleBody(https + `,"ethertype":"ipv6"`), 201, "", ""},
		exchange{
			post, ruleBody(https + `,"ethertype":"IPv6","remote_ip_prefix":"::/0"`), 409,
			exists, "",
		},
		exchange{post, ruleBody(`"protocol":"udp"`), 201, "", ""},
		exchange{
			post, ruleBody(`"protocol":"udp","port_range_min":1,"port_range_max":65535`), 409,
			exists, "",
		},
		exchange{
			post, ruleBody(`"protocol":"sctp","port_range_min":9,"port_range_max":9`), 201, "",
			"",
		},
		exchange{
			post, ruleBody(`"protocol":"132","port_range_min":9,"port_range_max":9`), 409,
			exists, "",
		},
		exchange{post, ruleBody(`"protocol":"ipv6-icmp","ethertype":"IPv6"`), 201, "", ""},
		exchange{post, ruleBody(`"protocol":"icmpv6","ethertype":"IPv6"`), 409, exists, ""},
		exchange{post, ruleBody(`"remote_group_id":"$other"`), 201, "", ""},
		exchange{post, ruleBody(`"remote_group_id":"$other"`), 409, exists, ""},
		exchange{
			post, ruleBody(`"protocol":"icmp","port_range_min":8,"port_range_max":0`), 201, "",
			"",
		},
	)
	// The bits of the host are kept, an address becomes a network, and IPv6 takes its usual form.
	for given, shown := range map[string]string{
		`"10.9.0.5/8"`: "10.9.0.5/8", `"10.9.0.5"`: "10.9.0.5/32",
		`"FD00:0::5/64","ethertype":"IPv6"`: "fd00::5/64",
	} {
		made := n.make("shown", "security-group-rules", "security_group_rule",
			`{"security_group_id":"$other","direction":"ingress","protocol":"tcp","port_range_min":81,"port_range_max":81,"remote_ip_prefix":`+given+`}`)
		n.want("the prefix "+given, made["remote_ip_prefix"], shown)
	}
	n.expect(
		exchange{"DELETE /security-group-rules/$rule", "", 204, "", ""},
		exchange{
			"DELETE /security-group-rules/$rule", "", 404, "SecurityGroupRuleNotFound",
			"Security group rule $rule does not exist",
		},
		// With a group go the rules that are about it.
		exchange{"DELETE /security-groups/$other", "", 204, "", ""},
	)
	n.want("rules for the deleted group",
		n.list("/security-group-rules?security_group_id=$group&remote_group_id=$other",
			"security_group_rules", "id"), []string{})
}
