package awsstub

import (
	"encoding/xml"
	"fmt"
	"net/url"
	"slices"
	"strconv"
)

type healthCheck struct {
	Target             string
	Interval           int
	Timeout            int
	UnhealthyThreshold int
	HealthyThreshold   int
}

type attributes struct {
	CrossZone   bool `xml:"CrossZoneLoadBalancing>Enabled"`
	AccessLog   bool `xml:"AccessLog>Enabled"`
	Draining    bool `xml:"ConnectionDraining>Enabled"`
	IdleTimeout int  `xml:"ConnectionSettings>IdleTimeout"`
}

type listenerDescription struct {
	Protocol         string `xml:"Listener>Protocol"`
	LoadBalancerPort int    `xml:"Listener>LoadBalancerPort"`
	InstanceProtocol string `xml:"Listener>InstanceProtocol"`
	InstancePort     int    `xml:"Listener>InstancePort"`
}

type member struct {
	ID string `xml:"InstanceId"`
}

type description struct {
	Name           string                `xml:"LoadBalancerName"`
	DNSName        string                `xml:"DNSName"`
	Listeners      []listenerDescription `xml:"ListenerDescriptions>member"`
	Subnets        []string              `xml:"Subnets>member"`
	SecurityGroups []string              `xml:"SecurityGroups>member"`
	Instances      []member              `xml:"Instances>member"`
	HealthCheck    healthCheck
}

// done is an empty answer to an action.
type done struct {
	XMLName xml.Name
	Result  struct{ XMLName xml.Name }
}

func doneWith(action string) done {
	d := done{XMLName: xml.Name{Local: action + "Response"}}
	d.Result.XMLName.Local = action + "Result"
	return d
}

func (c *Cloud) balancer(name string) (*Balancer, *fault) {
	if b, ok := c.balancers[name]; ok {
		return b, nil
	}
	return nil,
		&fault{
			"LoadBalancerNotFound",
			fmt.Sprintf("There is no ACTIVE Load Balancer named '%s'", name),
		}
}

func createLoadBalancer(c *Cloud, form url.Values) (any, *fault) {
	name := form.Get("LoadBalancerName")
	if _, ok := c.balancers[name]; ok {
		return nil,
			&fault{
				"DuplicateLoadBalancerName",
				fmt.Sprintf("Load Balancer named '%s' already exists", name),
			}
	}
	b := &Balancer{
		Name:           name,
		DNSName:        name + "." + Region + ".elb.example",
		Subnets:        list(form, "Subnets.member."),
		securityGroups: list(form, "SecurityGroups.member."),
		attributes:     attributes{IdleTimeout: 60},
	}
	for n := 1; form.Has(memberOf("Listeners", n, "Protocol")); n++ {
		b.Listeners = append(b.Listeners, Listener{
			Protocol:   form.Get(memberOf("Listeners", n, "Protocol")),
			Port:       number(form, memberOf("Listeners", n, "LoadBalancerPort")),
			TargetPort: number(form, memberOf("Listeners", n, "InstancePort")),
		})
	}
	for n := 1; form.Has(memberOf("Tags", n, "Key")); n++ {
		if form.Get(memberOf("Tags", n, "Key")) == "kubernetes.io/service-name" {
			b.Service = form.Get(memberOf("Tags", n, "Value"))
		}
	}
	c.balancers[name] = b
	return struct {
		XMLName xml.Name `xml:"CreateLoadBalancerResponse"`
		DNSName string   `xml:"CreateLoadBalancerResult>DNSName"`
	}{DNSName: b.DNSName}, nil
}

func describeLoadBalancers(c *Cloud, form url.Values) (any, *fault) {
	answer := struct {
		XMLName   xml.Name      `xml:"DescribeLoadBalancersResponse"`
		Balancers []description `xml:"DescribeLoadBalancersResult>LoadBalancerDescriptions>member"`
	}{}
	for _, name := range list(form, "LoadBalancerNames.member.") {
		b, err := c.balancer(name)
		if err != nil {
			return nil, err
		}
		answer.Balancers = append(answer.Balancers, b.describe())
	}
	return answer, nil
}

func (b *Balancer) describe() description {
	d := description{
		Name: b.Name, DNSName: b.DNSName, Subnets: b.Subnets,
		SecurityGroups: b.securityGroups, HealthCheck: b.health,
	}
	for _, l := range b.Listeners {
		d.Listeners = append(d.Listeners,
			listenerDescription{l.Protocol, l.Port, l.Protocol, l.TargetPort})
	}
	for _, id := range b.Members {
		d.Instances = append(d.Instances, member{id})
	}
	return d
}

// deleteLoadBalancer succeeds for a missing load balancer, as in AWS.
func deleteLoadBalancer(c *Cloud, form url.Values) (any, *fault) {
	delete(c.balancers, form.Get("LoadBalancerName"))
	return doneWith("DeleteLoadBalancer"), nil
}

func describeLoadBalancerAttributes(c *Cloud, form url.Values) (any, *fault) {
	b, err := c.balancer(form.Get("LoadBalancerName"))
	if err != nil {
		return nil, err
	}
	return struct {
		XMLName    xml.Name   `xml:"DescribeLoadBalancerAttributesResponse"`
		Attributes attributes `xml:"DescribeLoadBalancerAttributesResult>LoadBalancerAttributes"`
	}{Attributes: b.attributes}, nil
}

func modifyLoadBalancerAttributes(c *Cloud, form url.Values) (any, *fault) {
	b, err := c.balancer(form.Get("LoadBalancerName"))
	if err != nil {
		return nil, err
	}
	const prefix = "LoadBalancerAttributes."
	b.attributes = attributes{
		CrossZone:   form.Get(prefix+"CrossZoneLoadBalancing.Enabled") == "true",
		AccessLog:   form.Get(prefix+"AccessLog.Enabled") == "true",
		Draining:    form.Get(prefix+"ConnectionDraining.Enabled") == "true",
		IdleTimeout: number(form, prefix+"ConnectionSettings.IdleTimeout"),
	}
	return doneWith("ModifyLoadBalancerAttributes"), nil
}

func configureHealthCheck(c *Cloud, form url.Values) (any, *fault) {
	b, err := c.balancer(form.Get("LoadBalancerName"))
	if err != nil {
		return nil, err
	}
	b.health = healthCheck{
		Target:             form.Get("HealthCheck.Target"),
		Interval:           number(form, "HealthCheck.Interval"),
		Timeout:            number(form, "HealthCheck.Timeout"),
		UnhealthyThreshold: number(form, "HealthCheck.UnhealthyThreshold"),
		HealthyThreshold:   number(form, "HealthCheck.HealthyThreshold"),
	}
	return doneWith("ConfigureHealthCheck"), nil
}

func registerInstances(c *Cloud, form url.Values) (any, *fault) {
	return c.changeMembers("RegisterInstancesWithLoadBalancer", form,
		func(members, ids []string) []string {
			return append(members, ids...)
		})
}

func deregisterInstances(c *Cloud, form url.Values) (any, *fault) {
	return c.changeMembers("DeregisterInstancesFromLoadBalancer", form,
		func(members, ids []string) []string {
			return slices.DeleteFunc(members,
				func(id string) bool { return slices.Contains(ids, id) })
		})
}

func (c *Cloud) changeMembers(
	action string, form url.Values, change func(members, ids []string) []string,
) (any, *fault) {
	b, err := c.balancer(form.Get("LoadBalancerName"))
	if err != nil {
		return nil, err
	}
	var ids []string
	for n := 1; form.Has(memberOf("Instances", n, "InstanceId")); n++ {
		ids = append(ids, form.Get(memberOf("Instances", n, "InstanceId")))
	}
	members := change(slices.Clone(b.Members), ids)
	slices.Sort(members)
	b.Members = slices.Compact(members)
	return doneWith(action), nil
}

func memberOf(of string, n int, field string) string {
	return of + ".member." + strconv.Itoa(n) + "." + field
}

// number is 0 for invalid texts, which the SDK does not send.
func number(form url.Values, key string) int {
	n, _ := strconv.Atoi(form.Get(key))
	return n
}
