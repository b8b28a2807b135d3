package client

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/gophercloud/gophercloud/v2/openstack/identity/v3/tokens"
)

func TestShape_OfAddressesAsClouds_HaveThem(t *testing.T) {
	for _, c := range []struct{ service, address, want string }{
		{serviceCompute, "http://host:8774/v2.1", "http://host:8774/v2.1/"},
		{serviceCompute, "http://host:8774/v2.1/", "http://host:8774/v2.1/"},
		{
			serviceCompute, "http://host:8774/v2/3f1c9a366a0c4f0e",
			"http://host:8774/v2/3f1c9a366a0c4f0e/",
		},
		{serviceCompute, "https://host/compute", "https://host/compute/v2.1/"},
		{serviceNetwork, "http://host:9696", "http://host:9696/"},
		{serviceNetwork, "http://host:9696/", "http://host:9696/"},
		{serviceNetwork, "https://host/networking/v2.0", "https://host/networking/"},
		{serviceNetwork, "https://host/networking/v2.0/", "https://host/networking/"},
		{serviceLoadBalancer, "https://host/load-balancer", "https://host/load-balancer/"},
		{serviceLoadBalancer, "https://host:9876/v2.0", "https://host:9876/"},
		{serviceLoadBalancer, "https://host:9876/v2", "https://host:9876/"},
		{serviceKeyManager, "https://host/key-manager/v1/", "https://host/key-manager/"},
	} {
		if got, err := shape(c.service, c.address); err != nil || got != c.want {
			t.Errorf("%s at %s: %s, %v, want %s", c.service, c.address, got, err, c.want)
		}
	}
	for _, address := range []string{"", "host:8774", "/v2.1", "http://%zz"} {
		if got, err := shape(serviceCompute, address); err == nil {
			t.Errorf("the endpoint of %q is %q", address, got)
		}
	}
}

func TestEndpoint_OfRegionAndInterface(t *testing.T) {
	who := &identity{catalog: []tokens.CatalogEntry{
		{Type: "volume"},
		{Type: serviceNetwork, Endpoints: []tokens.Endpoint{
			{Interface: "public", Region: "north", RegionID: "north", URL: "http://north"},
			{
				Interface: "internal", Region: "south", RegionID: "south",
				URL: "http://internal.south",
			},
			{Interface: "public", Region: "the south", RegionID: "south", URL: "http://south"},
		}},
		{Type: serviceKeyManager},
	}}
	for _, c := range []struct{ availability, region, want string }{
		{"public", "south", "http://south/"},
		{"public", "the south", "http://south/"},
		{"internal", "south", "http://internal.south/"},
		{"internal", "", "http://internal.south/"},
	} {
		if got, err := who.endpoint(serviceNetwork, c.availability, c.region); err != nil ||
			got != c.want {
			t.Errorf("%s interface in %q: %s, %v, want %s", c.availability,
				c.region, got, err, c.want)
		}
	}
	hostile := &identity{catalog: []tokens.CatalogEntry{{Type: serviceNetwork}}}
	for i := range 1000 {
		hostile.catalog[0].Endpoints = append(hostile.catalog[0].Endpoints, tokens.Endpoint{
			Interface: "public", Region: strconv.Itoa(i) + strings.Repeat("x", 10_000),
		})
	}
	if _, err := hostile.endpoint(serviceNetwork, "public", ""); err == nil ||
		len(err.Error()) > 10_000 {
		t.Errorf("the error about a hostile catalog has %d bytes", len(fmt.Sprint(err)))
	}
	if _, err := shape(serviceNetwork, "http://u:secret@[::1"); err == nil ||
		strings.Contains(err.Error(), "secret") {
		t.Errorf("the error about an invalid address is %v", err)
	}
	for _, c := range []struct{ service, availability, region, text string }{
		{serviceNetwork, "public", "", `Neutron: region of cloud.conf is not set, and Keystone's catalog has it in the regions "north", "south"; set it`},
		{serviceNetwork, "public", "west", `Neutron: region of cloud.conf is "west", but Keystone's catalog has it in the regions "north", "south"; correct it`},
		{serviceNetwork, "admin", "", `Neutron: os-endpoint-type of cloud.conf is "admin", and`},
		{serviceKeyManager, "public", "", `Barbican: os-endpoint-type of cloud.conf is "public", and`},
		{serviceLoadBalancer, "public", "", "Octavia: it is not in Keystone's catalog"},
	} {
		if _, err := who.endpoint(c.service, c.availability, c.region); err == nil ||
			!strings.Contains(err.Error(), c.text) {
			t.Errorf("%s in %q: %v, want %q", c.service, c.region, err, c.text)
		}
	}
}
