package plan_test

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/utils/clock"

	"github.com/fxccm/fxccm/provider/openstack/internal/loadbalancer/desired"
	"github.com/fxccm/fxccm/provider/openstack/internal/loadbalancer/octavia"
	"github.com/fxccm/fxccm/provider/openstack/internal/loadbalancer/plan"
	"github.com/fxccm/fxccm/provider/openstack/internal/simclient"
	"github.com/fxccm/fxccm/provider/openstack/openstacktest"
)

// isNoSetting reports whether a field is an identity, a place in the tree, or a state. Other tests
// cover those.
func isNoSetting(name string) bool {
	return slices.Contains([]string{
		"id", "name", "description", "tags", "provisioning_status", "operating_status",
		"default_pool_id", "members", "healthmonitor",
	}, name)
}

// samples has two values of each setting that needs certain ones; others get texts and numbers.
func samples(name, certificate, other string) (first, second any) {
	switch name {
	case "connection_limit":
		return 7, -1
	case "insert_headers":
		return map[string]string{"X-Forwarded-For": "true"},
			map[string]string{"X-Forwarded-Port": "true"}
	case "allowed_cidrs":
		return []string{"10.0.0.0/8"}, []string{"10.1.0.0/16"}
	case "default_tls_container_ref":
		return certificate, other
	case "tls_versions":
		return []string{"TLSv1.2"}, []string{"TLSv1.2", "TLSv1.3"}
	case "lb_algorithm":
		return "ROUND_ROBIN", "LEAST_CONNECTIONS"
	case "session_persistence":
		return octavia.Persistence("SOURCE_IP"), octavia.Persistence("")
	case "weight":
		return 1, 0
	case "backup":
		return false, true
	case "http_method":
		return "GET", "HEAD"
	case "url_path":
		return "/healthz", "/readyz"
	case "expected_codes":
		return "200", "204"
	}
	return 3, 4
}

// fieldsWorld is a simulated cloud with one load balancer, all of whose settings have a value.
type fieldsWorld struct {
	t    *testing.T
	api  *octavia.API
	want desired.State
	id   string
	// The certificates are for samples.
	certificate, other string
}

func newFieldsWorld(t *testing.T) *fieldsWorld {
	cloud := openstacktest.NewCloud(openstacktest.WithProvisioning(0))
	t.Cleanup(cloud.Close)
	clients := simclient.Login(t, cloud.Credentials(), nil)
	w := &fieldsWorld{
		t: t, certificate: cloud.AddContainer(openstacktest.Container{}),
		other: cloud.AddContainer(openstacktest.Container{}),
		api: octavia.New(octavia.Config{
			Client: clients.LoadBalancer, Project: clients.Project, Clock: clock.RealClock{},
			Logger: logr.Discard(),
		}),
	}
	t.Cleanup(w.api.Close)
	network := cloud.AddNetwork(openstacktest.Network{Name: "vips"})
	subnet := cloud.AddSubnet(openstacktest.Subnet{NetworkID: network, CIDR: "10.0.0.0/16"})
	w.want = desire(onePort, internal, protocols(octavia.TerminatedHTTPS, octavia.HTTP))
	w.want.LoadBalancer.VIP.SubnetID = subnet
	port := &w.want.Ports[0]
	port.Pool.Members = port.Pool.Members[:1]
	port.Pool.Members[0].SubnetID = subnet
	port.Pool.Monitor = monitor(0, port.Listener.Name, octavia.MonitorHTTP)
	for _, object := range w.objects(port) {
		for _, name := range settingsOf(object) {
			first, _ := samples(name, w.certificate, w.other)
			set(t, object, name, first)
		}
	}
	made, err := w.api.CreateLoadBalancer(t.Context(), w.want.LoadBalancer, w.want.Ports)
	if err != nil {
		t.Fatal(err)
	}
	w.id = made.ID
	return w
}

// objects are the objects of a port.
func (w *fieldsWorld) objects(port *octavia.Port) []any {
	return []any{&port.Listener, &port.Pool, port.Pool.Monitor, &port.Pool.Members[0]}
}

// settingsOf returns the names of the settings that an update can change.
func settingsOf(object any) []string { return named(object, false) }

// fixedOf returns the names of the settings that no update can change.
func fixedOf(object any) []string { return named(object, true) }

func named(object any, fixed bool) (names []string) {
	for _, field := range reflect.VisibleFields(reflect.TypeOf(object).Elem()) {
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		isFixed := strings.HasPrefix(field.Tag.Get("octavia"), "create")
		if name != "" && name != "-" && !isNoSetting(name) && isFixed == fixed {
			names = append(names, name)
		}
	}
	return names
}

func field(t *testing.T, object any, name string) reflect.Value {
	t.Helper()
	v := reflect.ValueOf(object).Elem()
	for _, field := range reflect.VisibleFields(v.Type()) {
		if got, _, _ := strings.Cut(field.Tag.Get("json"), ","); got == name {
			return v.FieldByIndex(field.Index)
		}
	}
	t.Fatalf("%T has no field %s", object, name)
	return reflect.Value{}
}

func set(t *testing.T, object any, name string, value any) {
	t.Helper()
	of := field(t, object, name)
	if !reflect.TypeOf(value).AssignableTo(of.Type()) {
		t.Fatalf("%s of %T needs samples of type %s", name, object, of.Type())
	}
	of.Set(reflect.ValueOf(value))
}

func (w *fieldsWorld) observe() plan.Observed {
	w.t.Helper()
	lb, err := w.api.Get(w.t.Context(), w.id)
	if err != nil {
		w.t.Fatal(err)
	}
	contents, err := w.api.Contents(w.t.Context(), w.id, octavia.Full, time.Time{})
	if err != nil {
		w.t.Fatal(err)
	}
	return plan.Observed{
		LoadBalancer: &lb, Role: plan.Owner, Listeners: contents.Listeners, Pools: contents.Pools,
	}
}

// text is the plan of a new load balancer.
func (w *fieldsWorld) text() string {
	return plan.Text(plan.CreateLoadBalancer{
		LoadBalancer: w.want.LoadBalancer, Ports: w.want.Ports,
	})
}

func (w *fieldsWorld) write(step plan.Step) error {
	ctx := w.t.Context()
	switch s := step.(type) {
	case plan.UpdateListener:
		return w.api.UpdateListener(ctx, s.ID, s.Listener, s.Pool.ID)
	case plan.UpdatePool:
		return w.api.UpdatePool(ctx, s.ID, s.Pool)
	case plan.UpdateMonitor:
		return w.api.UpdateMonitor(ctx, s.ID, s.Monitor)
	case plan.UpdateMember:
		return w.api.UpdateMember(ctx, s.PoolID, s.ID, s.Member)
	}
	return fmt.Errorf("%T is no update", step)
}

// A new field of these types fails here until it is compared, written, shown, predicted and
// simulated.
func TestFields_EachSettingOfAnExistingObject_IsComparedWrittenShownAndSimulated(t *testing.T) {
	w := newFieldsWorld(t)
	if p := plan.Change(w.want, w.observe()); len(p.Steps) > 0 {
		t.Fatalf("the new load balancer differs: a field is not written, or not simulated:\n%s", p)
	}
	port := &w.want.Ports[0]
	for i, object := range w.objects(port) {
		for _, name := range settingsOf(object) {
			kind := reflect.TypeOf(object).Elem().Name()
			t.Run(kind+"/"+name, func(t *testing.T) {
				_, second := samples(name, w.certificate, w.other)
				before := w.text()
				set(t, object, name, second)
				if w.text() == before {
					t.Error("it is not shown in the plan of a new load balancer")
				}
				is := w.observe()
				p := plan.Change(w.want, is)
				if len(p.Steps) != 1 || !strings.Contains(p.Steps[0].String(), name+" ") {
					t.Fatalf("it is not compared:\n%s", p)
				}
				if err := w.write(p.Steps[0]); err != nil {
					t.Fatal(err)
				}
				now := w.observe()
				got := field(t, w.objects(&octavia.Port{
					Listener: now.Listeners[0], Pool: now.Pools[0],
				})[i], name).Interface()
				if !reflect.DeepEqual(got, second) {
					t.Errorf("it is not written, or not simulated: it is %v, want %v", got, second)
				}
				if p := plan.Change(w.want, now); len(p.Steps) > 0 {
					t.Errorf("it does not converge:\n%s", p)
				}
				after := plan.After(&octavia.Contents{
					Listeners: is.Listeners, Pools: is.Pools,
				}, p.Steps)
				want := &octavia.Contents{Listeners: now.Listeners, Pools: now.Pools}
				// After predicts no monitors: they are read again.
				if after != nil && !reflect.DeepEqual(after, want) || after == nil && i != 2 {
					t.Errorf("the prediction is\n%+v, want\n%+v", after, want)
				}
			})
		}
	}
}

func TestFields_EachFixedSettingOfAnExistingObject_IsComparedAndShown(t *testing.T) {
	w := newFieldsWorld(t)
	is := w.observe()
	port := &w.want.Ports[0]
	for _, object := range append(w.objects(port), &w.want.LoadBalancer) {
		for _, name := range fixedOf(object) {
			var other any = "other"
			switch name {
			case "protocol":
				other = octavia.Proxy
			case "protocol_port":
				other = 5
			}
			before, text := field(t, object, name).Interface(), w.text()
			set(t, object, name, other)
			if w.text() == text {
				t.Errorf("%s of %T is not shown in the plan of a new load balancer", name, object)
			}
			if p := plan.Change(w.want, is); len(p.Steps)+len(p.Notices) == 0 {
				t.Errorf("%s of %T is not compared", name, object)
			}
			set(t, object, name, before)
		}
	}
}

// A field that only a newer API has must say so: an older one refuses the whole request.
func TestFields_Each_BeginsWithTheVersionOfTheSimulator(t *testing.T) {
	check := func(kind string, simulated any, since func(name string) int, names []string) {
		for _, name := range names {
			minor, known := simulatedSince(reflect.TypeOf(simulated), name)
			if !known {
				t.Errorf("%s of a %s is not simulated", name, kind)
			} else if got := since(name); got != minor {
				t.Errorf("%s of a %s: since API 2.%d, but the simulator has it since 2.%d", name,
					kind, got, minor)
			}
		}
	}
	check("load balancer", openstacktest.LoadBalancer{},
		octavia.FieldsOf[octavia.LoadBalancer]().Since, namesOf[octavia.LoadBalancer]())
	check("listener", openstacktest.Listener{}, octavia.FieldsOf[octavia.Listener]().Since,
		namesOf[octavia.Listener]())
	check("pool", openstacktest.Pool{}, octavia.FieldsOf[octavia.Pool]().Since,
		namesOf[octavia.Pool]())
	check("member", openstacktest.Member{}, octavia.FieldsOf[octavia.Member]().Since,
		namesOf[octavia.Member]())
	check("monitor", openstacktest.HealthMonitor{}, octavia.FieldsOf[octavia.Monitor]().Since,
		namesOf[octavia.Monitor]())
}

// namesOf leaves out parts, and the persistence, which the simulator declares by hand.
func namesOf[T any]() (names []string) {
	for _, field := range reflect.VisibleFields(reflect.TypeFor[T]()) {
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		if !slices.Contains([]string{
			"", "-", "members", "healthmonitor", "session_persistence",
		}, name) {
			names = append(names, name)
		}
	}
	return names
}

// simulatedSince returns the version since which the simulator has a field.
func simulatedSince(of reflect.Type, name string) (minor int, known bool) {
	for _, field := range reflect.VisibleFields(of) {
		options := strings.Split(field.Tag.Get("api"), ",")
		if !slices.Contains(strings.Split(options[0], "|"), name) {
			continue
		}
		for _, option := range options[1:] {
			if _, err := fmt.Sscanf(option, "since=%d", &minor); err == nil {
				return minor, true
			}
		}
		return 0, true
	}
	return 0, false
}
