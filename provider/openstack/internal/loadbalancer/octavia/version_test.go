package octavia

import (
	"errors"
	"testing"
	"time"

	"github.com/fxccm/fxccm/provider/openstack/internal/capability"
	"github.com/fxccm/fxccm/provider/openstack/openstacktest"
)

func TestVersion_IsTheNewestAndRemembered(t *testing.T) {
	for _, minor := range []int{0, 5, 27} {
		w := newWorld(t, openstacktest.WithLoadBalancerVersion(minor))
		for range 3 {
			if got, err := w.Version(within(t)); got != minor || err != nil {
				t.Errorf("version %d, %v; want %d", got, err, minor)
			}
		}
		w.calls(map[string]int{"version_list": 1})
	}
}

func TestVersion_NoAnswer_IsUnknownAndRetried(t *testing.T) {
	for name, answer := range map[string]func([]byte) (int, []byte){
		"error":       func([]byte) (int, []byte) { return 500, []byte("{}") },
		"a page":      func([]byte) (int, []byte) { return 200, []byte("<html>") },
		"no versions": func([]byte) (int, []byte) { return 200, []byte("{}") },
		"others' ones": func([]byte) (int, []byte) {
			return 200, []byte(`{"versions": [{"id": "v1"}, {"id": "v3.1"}, {"id": "v2.x"}]}`)
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.rewrite("version_list", answer)
			if minor, err := w.Version(within(t)); !errors.Is(err, capability.ErrUnknown) {
				t.Errorf("version %d, %v; want ErrUnknown", minor, err)
			}
			w.cloud.RemoveFaults()
			w.clock.Step(time.Minute)
			if minor, err := w.Version(within(t)); minor != 27 || err != nil {
				t.Errorf("later: version %d, %v", minor, err)
			}
		})
	}
}
