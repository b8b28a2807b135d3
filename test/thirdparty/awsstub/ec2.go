package awsstub

import (
	"encoding/xml"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strconv"
)

type tag struct {
	Key   string `xml:"key"`
	Value string `xml:"value"`
}

type privateAddress struct {
	Address string `xml:"privateIpAddress"`
}

type networkInterface struct {
	Status    string           `xml:"status"`
	Addresses []privateAddress `xml:"privateIpAddressesSet>item"`
}

type instance struct {
	ID             string             `xml:"instanceId"`
	Type           string             `xml:"instanceType"`
	State          string             `xml:"instanceState>name"`
	PrivateDNSName string             `xml:"privateDnsName"`
	PrivateIP      string             `xml:"privateIpAddress"`
	PublicIP       string             `xml:"ipAddress,omitempty"`
	Zone           string             `xml:"placement>availabilityZone"`
	Interfaces     []networkInterface `xml:"networkInterfaceSet>item"`
	Tags           []tag              `xml:"tagSet>item"`
}

type describeInstancesResponse struct {
	XMLName   xml.Name   `xml:"DescribeInstancesResponse"`
	Instances []instance `xml:"reservationSet>item>instancesSet>item"`
}

func describeInstances(c *Cloud, form url.Values) (any, *fault) {
	found, err := c.selectInstances(list(form, "InstanceId."), filters(form))
	if err != nil {
		return nil, err
	}
	answer := describeInstancesResponse{}
	for _, i := range found {
		answer.Instances = append(answer.Instances, instance{
			ID: i.ID, Type: i.Type, State: "running", PrivateDNSName: i.PrivateDNSName,
			PrivateIP: i.PrivateIP, PublicIP: i.PublicIP, Zone: i.Zone,
			Interfaces: []networkInterface{{
				Status:    "in-use",
				Addresses: []privateAddress{{i.PrivateIP}},
			}},
			Tags: []tag{{"kubernetes.io/cluster/" + ClusterID, "owned"}},
		})
	}
	return answer, nil
}

// selectInstances finds the instances with the IDs, or those that match the filters. As in EC2, an
// unknown ID fails the whole request.
func (c *Cloud) selectInstances(
	ids []string, filters map[string][]string,
) (found []Instance, err *fault) {
	for _, id := range ids {
		i, ok := c.instances[id]
		if !ok {
			return nil,
				&fault{
					"InvalidInstanceID.NotFound",
					fmt.Sprintf("The instance ID '%s' does not exist", id),
				}
		}
		found = append(found, i)
	}
	if len(ids) > 0 {
		return found, nil
	}
	for _, i := range c.sortedInstances() {
		matches := true
		for name, values := range filters {
			actual, ok := i.property(name)
			if !ok {
				return nil,
					&fault{
						"InvalidParameterValue",
						fmt.Sprintf("The stub does not know the filter '%s'", name),
					}
			}
			matches = matches && slices.Contains(values, actual)
		}
		if matches {
			found = append(found, i)
		}
	}
	return found, nil
}

func (i Instance) property(filter string) (value string, known bool) {
	switch filter {
	case "private-dns-name":
		return i.PrivateDNSName, true
	case "instance-state-name":
		return "running", true
	}
	return "", false
}

// filters reads Filter.1.Name, Filter.1.Value.1, Filter.1.Value.2, …
func filters(form url.Values) map[string][]string {
	found := map[string][]string{}
	for n := 1; ; n++ {
		prefix := "Filter." + strconv.Itoa(n)
		name := form.Get(prefix + ".Name")
		if name == "" {
			return found
		}
		found[name] = list(form, prefix+".Value.")
	}
}

// describeInstanceTopology returns no topology, as for most instance types.
func describeInstanceTopology(*Cloud, url.Values) (any, *fault) {
	return struct {
		XMLName xml.Name `xml:"DescribeInstanceTopologyResponse"`
	}{}, nil
}

type zone struct {
	Name string `xml:"zoneName"`
	ID   string `xml:"zoneId"`
	Type string `xml:"zoneType"`
}

func describeAvailabilityZones(*Cloud, url.Values) (any, *fault) {
	answer := struct {
		XMLName xml.Name `xml:"DescribeAvailabilityZonesResponse"`
		Zones   []zone   `xml:"availabilityZoneInfo>item"`
	}{}
	for _, name := range slices.Sorted(maps.Keys(zones)) {
		answer.Zones = append(answer.Zones, zone{name, zones[name], "availability-zone"})
	}
	return answer, nil
}

type subnet struct {
	ID   string `xml:"subnetId"`
	VPC  string `xml:"vpcId"`
	Zone string `xml:"availabilityZone"`
}

// describeSubnets returns the only subnet.
func describeSubnets(_ *Cloud, form url.Values) (any, *fault) {
	for _, id := range list(form, "SubnetId.") {
		if id != Subnet {
			return nil,
				&fault{
					"InvalidSubnetID.NotFound",
					fmt.Sprintf("The subnet ID '%s' does not exist", id),
				}
		}
	}
	return struct {
		XMLName xml.Name `xml:"DescribeSubnetsResponse"`
		Subnets []subnet `xml:"subnetSet>item"`
	}{Subnets: []subnet{{Subnet, VPC, "us-east-1a"}}}, nil
}

// describeSecurityGroups returns one group. It has no tag of the cluster, so the provider does not
// change it.
func describeSecurityGroups(*Cloud, url.Values) (any, *fault) {
	return struct {
		XMLName xml.Name `xml:"DescribeSecurityGroupsResponse"`
		IDs     []string `xml:"securityGroupInfo>item>groupId"`
	}{IDs: []string{securityGroup}}, nil
}

// describeRouteTables returns one table, which makes the subnet public.
func describeRouteTables(*Cloud, url.Values) (any, *fault) {
	return struct {
		XMLName xml.Name `xml:"DescribeRouteTablesResponse"`
		Main    bool     `xml:"routeTableSet>item>associationSet>item>main"`
		Gateway string   `xml:"routeTableSet>item>routeSet>item>gatewayId"`
	}{Main: true, Gateway: "igw-1"}, nil
}
