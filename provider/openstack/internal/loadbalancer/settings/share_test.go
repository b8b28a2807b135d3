package settings

import (
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"

	"github.com/fxccm/fxccm/provider/openstack/cloudconf"
)

// ofParts are the settings of the parts that a Service has in a load balancer, which may differ
// between Services that share one, and those that are equal in the whole cluster. All other fields
// of Settings are about the load balancer itself or its floating IP.
var ofParts = strings.Fields(`
	MemberSubnetID DefaultMemberSubnetID Algorithm ProxyProtocol XForwardedFor XForwardedPort
	XForwardedProto TLSContainer TLSVersions ListenerProtocols ConnectionLimit TimeoutClientData
	TimeoutMemberConnect TimeoutMemberData TimeoutTCPInspect Monitor MonitorDelay MonitorTimeout
	MonitorMaxRetries MonitorMaxRetriesDown SourceRanges NodeSelector MemberTarget Hostname
	ShareAs ShareKeys LoadBalancerID MayShare Recreate
	ManageSecurityGroups CascadeDelete Serial EnableIngressHostname CheckCertificates
	NeedsNoNodePorts IngressHostnameSuffix MaxShared MaxSharedListeners`)

func TestOfLoadBalancer_EachSetting_IsOfTheLoadBalancerOrOfItsParts(t *testing.T) {
	t.Parallel()
	all := reflect.TypeFor[Settings]()
	for i := range all.NumField() {
		name := all.Field(i).Name
		var s Settings
		switch field := reflect.ValueOf(&s).Elem().Field(i); field.Kind() {
		case reflect.String:
			field.SetString("x")
		case reflect.Bool:
			field.SetBool(true)
		}
		values := slices.Collect(maps.Values(s.ofLoadBalancer()))
		isOfWhole := slices.ContainsFunc(values, func(value string) bool { return value != "" })
		if isOfParts := slices.Contains(ofParts, name); isOfWhole == isOfParts {
			t.Errorf("%s is a setting of the load balancer: %t, of its parts: %t; Services that "+
				"share a load balancer must agree in the former", name, isOfWhole, isOfParts)
		}
	}
	for _, name := range ofParts {
		if _, is := all.FieldByName(name); !is {
			t.Errorf("there is no setting %s", name)
		}
	}
}

// sharing returns the keys of a Service that shares by name.
func sharing(t *testing.T, defaults Defaults, of *v1.Service) []ShareKey {
	t.Helper()
	of.Annotations[AnnotationShareAs] = "web"
	s, problems := Of(of, defaults)
	if len(Fatal(problems)) > 0 {
		t.Fatalf("the Service is refused: %v", problems)
	}
	return s.ShareKeys
}

func TestShareKeys_ServicesAgreeInTheLoadBalancer_AreEqual(t *testing.T) {
	t.Parallel()
	plain := sharing(t, presets(), short(map[string]string{}))
	if len(plain) != 1 {
		t.Fatalf("the keys are %v, want one", plain)
	}
	for name, value := range map[string]string{
		"connection-limit": "7", "x-forwarded-for": "true", "hostname": "a.example",
		"member-subnet-id": id1, "node-selector": "a=b", "enable-health-monitor": "true",
		"default-tls-container-ref": "", "load-balancer-id": id1,
		"load-balancer-address": "10.0.0.1",
		"subnet-id":             "", "keep-floatingip": "false", annotationInternal: "false",
		"example.com/other": "x",
	} {
		if got := sharing(t, presets(), short(map[string]string{name: value})); !slices.Equal(got,
			plain) {
			t.Errorf("with %s = %q the keys are %v, want %v", name, value, got, plain)
		}
	}
	for name, equal := range map[string][2]string{
		"subnet-id": {id1, strings.ReplaceAll(id1, "-", "")},
		"address":   {"::ffff:203.0.113.7", "203.0.113.7"},
	} {
		a := sharing(t, presets(), short(map[string]string{name: equal[0]}))
		b := sharing(t, presets(), short(map[string]string{name: equal[1]}))
		if !slices.Equal(a, b) || slices.Equal(a, plain) {
			t.Errorf("two forms of one %s have the keys %v and %v", name, a, b)
		}
	}
}

func TestShareKeys_ServicesDifferInTheLoadBalancer_OnlyTheNameIsEqual(t *testing.T) {
	t.Parallel()
	defaults := presets()
	defaults.Classes = map[string]cloudconf.LoadBalancerClass{"fast": {}}
	seen := map[string]string{sharing(t, defaults, short(map[string]string{}))[0].Request: "none"}
	name := sharing(t, defaults, short(map[string]string{}))[0].Name
	for setting, values := range map[string][]string{
		annotationInternal: {"true"}, "network-id": {id1, id2}, "subnet-id": {id1},
		"port-id": {id1}, "additional-subnet-id": {id1}, "address": {"203.0.113.7"},
		"floating-network-id": {id1, ""}, "floating-subnet-id": {id1}, "floating-subnet": {"a*"},
		"floating-subnet-tags": {"a"}, "floating-ip-id": {id1}, "floating-ip-tag": {"a"},
		"keep-floatingip": {"true"}, "lb-provider": {"ovn", ""}, "flavor-id": {id1, ""},
		"availability-zone": {"a", ""}, "class": {"fast"},
	} {
		for _, value := range values {
			got := sharing(t, defaults, short(map[string]string{setting: value}))[0]
			if other, is := seen[got.Request]; is {
				t.Errorf("%s = %q shares with %s", setting, value, other)
			}
			seen[got.Request] = setting + " = " + value
			if got.Name != name {
				t.Errorf("%s = %q changes the name, so an event cannot name the others", setting,
					value)
			}
		}
	}
	for _, families := range [][]v1.IPFamily{
		{v1.IPv6Protocol}, {v1.IPv4Protocol, v1.IPv6Protocol}, {v1.IPv6Protocol, v1.IPv4Protocol},
	} {
		service := short(map[string]string{})
		service.Spec.IPFamilies = families
		got := sharing(t, defaults, service)[0].Request
		if other, is := seen[got]; is {
			t.Errorf("a Service of %v shares with %s", families, other)
		}
		seen[got] = "families"
	}
}

// A new default concerns all Services alike. It must not take them apart, because that changes
// their addresses.
func TestShareKeys_OperatorChangesDefaults_KeysStay(t *testing.T) {
	t.Parallel()
	want := sharing(t, presets(), short(map[string]string{}))
	ordered := fullDefaults()
	ordered.LoadBalancer.InternalLB = true
	for name, defaults := range map[string]Defaults{
		"all options": fullDefaults(), "internal": ordered,
	} {
		if got := sharing(t, defaults, short(map[string]string{})); !slices.Equal(got, want) {
			t.Errorf("%s: the keys are %v, want %v", name, got, want)
		}
	}
}

// The keys are in the tags of load balancers. A version of fxccm with other keys would take all
// Services apart.
func TestShareKeys_NeverChange(t *testing.T) {
	t.Parallel()
	service := short(map[string]string{
		"class": "wide", "subnet-id": id1, "lb-provider": "", annotationInternal: "true",
	})
	defaults := presets()
	defaults.Classes = map[string]cloudconf.LoadBalancerClass{
		"wide": {ShareAcrossNamespaces: true},
	}
	want := []ShareKey{
		{"ebd3f26000091629e35122ceb5186b76", "529ba3bbefd1a5d6fc320c14ae757b6e"},
		{"5e066deff3e497219bebe16544261078", "529ba3bbefd1a5d6fc320c14ae757b6e"},
	}
	if got := sharing(t, defaults, service); !slices.Equal(got, want) {
		t.Errorf("the keys are %q, want %q", got, want)
	}
}

func TestShareKeys_EachScope_IsTheNamespaceUnlessTheClassIsWider(t *testing.T) {
	t.Parallel()
	defaults := presets()
	defaults.Classes = map[string]cloudconf.LoadBalancerClass{
		"narrow": {}, "wide": {ShareAcrossNamespaces: true},
		"some": {ShareAcrossNamespaces: true, Namespaces: []string{"shop", "office"}},
	}
	in := func(namespace, class, name string) []ShareKey {
		service := short(map[string]string{"class": class, "share-as": name})
		service.Namespace = namespace
		s, _ := Of(service, defaults)
		return s.ShareKeys
	}
	shares := func(a, b []ShareKey) bool {
		return slices.ContainsFunc(a, func(key ShareKey) bool { return slices.Contains(b, key) })
	}
	for name, test := range map[string]struct {
		a, b []ShareKey
		want bool
	}{
		"one namespace":                   {in("shop", "", "web"), in("shop", "", "web"), true},
		"another name":                    {in("shop", "", "web"), in("shop", "", "api"), false},
		"another namespace":               {in("shop", "", "web"), in("office", "", "web"), false},
		"another namespace, narrow class": {in("shop", "narrow", "web"), in("office", "narrow", "web"), false},
		"another namespace, wide class":   {in("shop", "wide", "web"), in("office", "wide", "web"), true},
		"two wide classes":                {in("shop", "wide", "web"), in("office", "some", "web"), false},
		"a namespace of the class":        {in("shop", "some", "web"), in("office", "some", "web"), true},
		"a namespace not of the class":    {in("shop", "some", "web"), in("thief", "some", "web"), false},
		"the name of a namespace and one": {in("shop", "", "web"), in("sho", "", "pweb"), false},
	} {
		if got := shares(test.a, test.b); got != test.want {
			t.Errorf("%s: sharing is %t, want %t", name, got, test.want)
		}
	}
	if keys := in("shop", "wide", ""); keys != nil {
		t.Errorf("without a name the keys are %v", keys)
	}
}

// Services share by default. The annotation chooses another name, or none.
func TestShareKeys_NameOfCloudConf_AnnotationBeatsClassBeatsIt(t *testing.T) {
	t.Parallel()
	defaults := parsed(t, "[LoadBalancer]\nshare-as = all\n"+
		"[LoadBalancerClass \"fast\"]\nshare-as = quick\n[LoadBalancerClass \"plain\"]\n")
	for _, c := range []struct {
		annotations map[string]string
		want        string
	}{
		{map[string]string{}, "all"},
		{map[string]string{"class": "plain"}, "all"},
		{map[string]string{"class": "fast"}, "quick"},
		{map[string]string{"class": "fast", "share-as": "web"}, "web"},
		{map[string]string{"class": "fast", "share-as": ""}, ""},
		{map[string]string{"share-as": ""}, ""},
	} {
		got, problems := Of(short(c.annotations), defaults)
		shares := len(got.ShareKeys) > 0
		if got.ShareAs != c.want || shares != (c.want != "") || len(problems) > 0 {
			t.Errorf("%v: the name is %q, want %q; the keys are %v, the problems %v", c.annotations,
				got.ShareAs, c.want, got.ShareKeys, problems)
		}
		if c.want == "" {
			continue
		}
		c.annotations["share-as"] = c.want
		if named, _ := Of(short(c.annotations), defaults); !slices.Equal(named.ShareKeys,
			got.ShareKeys) {
			t.Errorf("%v: the keys are %v, and without the annotation %v", c.annotations,
				named.ShareKeys, got.ShareKeys)
		}
	}
}

func TestOf_InvalidShareAs_IsRefused(t *testing.T) {
	t.Parallel()
	for _, value := range []string{"Web", "a.b", "a/b", "-a", " web", strings.Repeat("a", 64)} {
		got, problems := Of(short(map[string]string{"share-as": value}), presets())
		if len(Fatal(problems)) != 1 || got.ShareKeys != nil {
			t.Errorf("%q: the keys are %v, and the problems %v", value, got.ShareKeys, problems)
		}
	}
}
