package octavia

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"testing"
	"time"

	"github.com/fxccm/fxccm/provider/openstack/openstacktest"
)

func TestGet_AndList_TellTheSame(t *testing.T) {
	w := newWorld(t)
	other := w.cloud.AddSubnet(openstacktest.Subnet{NetworkID: w.network, CIDR: "10.1.0.0/16"})
	flavor := w.cloud.AddLoadBalancerFlavor(openstacktest.LoadBalancerFlavor{Name: "small"})
	w.cloud.AddLoadBalancerZone("zone-1")
	id := w.cloud.AddLoadBalancer(openstacktest.LoadBalancer{
		OctaviaResource: openstacktest.OctaviaResource{Name: "lb", Tags: []string{"b", "a"}},
		Description:     "d",
		VIPSubnetID:     w.subnet, VIPAddress: "10.0.0.9",
		AdditionalVIPs: []openstacktest.AdditionalVIP{{SubnetID: other, Address: "10.1.0.9"}},
		FlavorID:       flavor, AvailabilityZone: "zone-1",
	})
	made, _ := w.cloud.LoadBalancer(id)
	got, err := w.Get(within(t), id)
	if err != nil {
		t.Fatal(err)
	}
	want := LoadBalancer{
		ID: id, Name: "lb", Description: "d", Tags: []string{"b", "a"}, Provider: "amphora",
		FlavorID: flavor, AvailabilityZone: "zone-1",
		VIP: VIP{
			Address: "10.0.0.9", PortID: made.VIPPortID,
			SubnetID: w.subnet, NetworkID: w.network,
		},
		AdditionalVIPs: []VIP{{Address: "10.1.0.9", SubnetID: other}},
		Status:         Active, Operating: "ONLINE",
		CreatedAt: w.clock.Now(), UpdatedAt: w.clock.Now(),
		Parts: []string{},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("Get returned\n%+v, want\n%+v", got, want)
	}
	snapshot, err := w.LoadBalancers(within(t), 0)
	if err != nil {
		t.Fatal(err)
	}
	if listed, ok := snapshot.ByID(id); !ok || !reflect.DeepEqual(listed, want) {
		t.Errorf("the list has\n%+v, want\n%+v", listed, want)
	}
}

func TestGet_MissingOrForbidden_ReturnsTheCause(t *testing.T) {
	w := newWorld(t)
	id := w.add("lb", 0, 0)
	stranger := w.open(w.cloud.AddProject(openstacktest.Project{Name: "stranger"}))
	if _, err := stranger.Get(within(t), id); !errors.Is(err, ErrForbidden) ||
		errors.Is(err, ErrNotFound) {
		t.Errorf("another project's: %v", err)
	}
	if _, err := w.Get(within(t), "00000000-0000-4000-8000-000000000000"); !errors.Is(err,
		ErrNotFound) {
		t.Errorf("an unknown ID: %v", err)
	}
	if _, err := w.Get(within(t), ""); !errors.Is(err, ErrNotFound) {
		t.Errorf("without an ID: %v", err)
	}
	if err := w.cloud.SetProvisioningStatus(id, "DELETED"); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Get(within(t), id); !errors.Is(err, ErrNotFound) {
		t.Errorf("a DELETED load balancer: %v", err)
	}
}

func TestGet_ResponseOfAnotherServer_IsNotErrNotFound(t *testing.T) {
	for name, answer := range map[string]func([]byte) (int, []byte){
		"a proxy's 404": func([]byte) (int, []byte) { return 404, []byte("<html>404</html>") },
		"another's 404": func([]byte) (int, []byte) { return 404, []byte(`{"error": {"message": "no"}}`) },
		"nothing":       func([]byte) (int, []byte) { return 200, []byte("{}") },
		"another one": func([]byte) (int, []byte) {
			return 200, []byte(`{"loadbalancer": {"id": "x", "provisioning_status": "ACTIVE"}}`)
		},
		"cut off": func(body []byte) (int, []byte) { return 200, body[:len(body)-2] },
		"no status": func(body []byte) (int, []byte) {
			return 200, without(body, "provisioning_status")
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			id := w.add("lb", 0, 0)
			w.rewrite("loadbalancer_get", answer)
			if lb, err := w.Get(within(t), id); err == nil || errors.Is(err, ErrNotFound) ||
				lb.ID != "" {
				t.Errorf("load balancer %q, %v; want an error other than ErrNotFound", lb.ID,
					err)
			}
		})
	}
}

// without removes an attribute from all objects of a JSON text.
func without(body []byte, attribute string) []byte {
	var value any
	if err := json.Unmarshal(body, &value); err != nil {
		panic(err)
	}
	var prune func(any)
	prune = func(value any) {
		switch value := value.(type) {
		case map[string]any:
			delete(value, attribute)
			for _, v := range value {
				prune(v)
			}
		case []any:
			for _, v := range value {
				prune(v)
			}
		}
	}
	prune(value)
	pruned, err := json.Marshal(value)
	if err != nil {
		panic(err)
	}
	return pruned
}

func TestTimestamp_WithoutAZoneIsUTC(t *testing.T) {
	noon := time.Date(2030, 1, 2, 12, 0, 0, 0, time.UTC)
	for text, want := range map[string]time.Time{
		`"2030-01-02T12:00:00"`:       noon,
		`"2030-01-02T12:00:00Z"`:      noon,
		`"2030-01-02T14:00:00+02:00"`: noon,
		`"2030-01-02T12:00:00.5"`:     noon.Add(time.Second / 2),
		`""`:                          {},
		`null`:                        {},
	} {
		var got timestamp
		if err := json.Unmarshal([]byte(text), &got); err != nil || !got.Equal(want) ||
			got.Location() != time.UTC {
			t.Errorf("%s is %v, %v; want %v", text, got.Time, err, want)
		}
	}
	for _, text := range []string{`"yesterday"`, `5`, `"2030-01-02"`} {
		var got timestamp
		if err := json.Unmarshal([]byte(text), &got); err == nil {
			t.Errorf("%s is parsed as %v", text, got.Time)
		}
	}
}

// FuzzTimestamp looks for a time that changes when it is written and parsed again.
func FuzzTimestamp(f *testing.F) {
	f.Add(`"2030-01-02T12:00:00"`)
	f.Add(`"2030-01-02T14:00:00.25+02:00"`)
	f.Add(`null`)
	f.Fuzz(func(t *testing.T, text string) {
		var first, second timestamp
		if json.Unmarshal([]byte(text), &first) != nil || first.IsZero() {
			return
		}
		again := fmt.Sprintf("%q", first.Format("2006-01-02T15:04:05.999999999"))
		if err := json.Unmarshal([]byte(again), &second); err != nil || !second.Equal(first.Time) {
			t.Errorf("%s is %v, and parsed again %v, %v", text, first.Time, second.Time, err)
		}
	})
}
