package desired

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/fxccm/fxccm/provider/openstack/internal/loadbalancer/settings"
)

// everything returns a State without a nil pointer, slice or map.
func everything(t *testing.T) State {
	t.Helper()
	d, _ := build(t, withLocal, withMonitor, managed, dualStack,
		withSettings(func(s *settings.Settings) {
			s.TLSContainer, s.XForwardedFor = certificate, true
		}),
		func(in *Input) {
			in.Places.FloatingSubnetIDs = []string{"a"}
		}, withPorts(v1.ServicePort{Protocol: v1.ProtocolTCP, Port: 80, NodePort: 30080}))
	d.Ports[0].Pool.Tags = []string{"x"}
	return d
}

// leaves calls do for each field below a value, with the field's path; do can change the field.
func leaves(path string, v reflect.Value, do func(string, reflect.Value)) {
	switch {
	case v.Type() == reflect.TypeFor[time.Time](), v.Kind() == reflect.String,
		v.Kind() == reflect.Int, v.Kind() == reflect.Bool:
		do(path, v)
	case v.Kind() == reflect.Struct:
		for i := range v.NumField() {
			leaves(path+"."+v.Type().Field(i).Name, v.Field(i), do)
		}
	case v.Kind() == reflect.Pointer:
		leaves(path, v.Elem(), do)
	case v.Kind() == reflect.Slice:
		for i := range v.Len() {
			leaves(fmt.Sprintf("%s[%d]", path, i), v.Index(i), do)
		}
		do(path+"[]", v)
	case v.Kind() == reflect.Map:
		do(path+"{}", v)
	default:
		panic("no test for " + path + ", of the kind " + v.Kind().String())
	}
}

// alter sets a field to another value.
func alter(v reflect.Value) {
	switch {
	case v.Type() == reflect.TypeFor[time.Time]():
		v.Set(reflect.ValueOf(time.Unix(1, 0)))
	case v.Kind() == reflect.String:
		v.SetString(v.String() + "x")
	case v.Kind() == reflect.Int:
		v.SetInt(v.Int() + 1)
	case v.Kind() == reflect.Bool:
		v.SetBool(!v.Bool())
	case v.Kind() == reflect.Slice && v.Len() == 0:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
	case v.Kind() == reflect.Slice:
		v.Set(v.Slice(0, v.Len()-1))
	case v.Kind() == reflect.Map:
		other := reflect.MakeMap(v.Type())
		other.SetMapIndex(reflect.ValueOf("another"), reflect.Zero(v.Type().Elem()))
		v.Set(other)
	}
}

// A new field that the hash omits would hide changes.
func TestHash_EachFieldCounts_ButForTheLoadBalancerItself(t *testing.T) {
	t.Parallel()
	want := everything(t).Hash()
	var paths []string
	pattern := everything(t)
	leaves("", reflect.ValueOf(&pattern),
		func(path string, _ reflect.Value) { paths = append(paths, path) })
	if len(paths) < 100 {
		t.Fatalf("only %d fields", len(paths))
	}
	for _, path := range paths {
		d := everything(t)
		found := false
		leaves("", reflect.ValueOf(&d), func(p string, v reflect.Value) {
			if p == path && !found {
				found = true
				alter(v)
			}
		})
		isLeftOut := strings.HasPrefix(path, ".LoadBalancer.") ||
			strings.HasPrefix(path, ".FloatingIP.") || path == ".Identity.LastAddress"
		if same := d.Hash() == want; same != isLeftOut {
			t.Errorf("after a change of %s: same hash %t", path, same)
		}
	}
}
