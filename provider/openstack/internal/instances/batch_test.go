package instances

import (
	"context"
	"strings"
	"testing"

	"github.com/fxccm/fxccm/provider/openstack/openstacktest"
)

func TestHangingRequest_OtherLookups_Succeed(t *testing.T) {
	w := newWorld(t)
	nodes := w.addNodes(2)
	hanging, cancel := context.WithCancel(t.Context())
	w.cloud.Inject(openstacktest.Fault{
		Hang: true,
		Match: func(c openstacktest.Call) bool {
			return strings.HasSuffix(c.Path,
				idOf(nodes[0]))
		},
	})
	done := make(chan error, 1)
	go func() { _, err := w.V2().InstanceExists(hanging, nodes[0]); done <- err }()
	if _, err := w.cloud.WaitForCall(within(t), func(c openstacktest.Call) bool {
		return c.Operation == "server_get"
	}); err != nil {
		t.Fatal(err)
	}
	if !w.exists(nodes[1]) {
		t.Error("the other instance does not exist")
	}
	select {
	case err := <-done:
		t.Errorf("the request did not hang: %v", err)
	default:
	}
	cancel()
	<-done
}
