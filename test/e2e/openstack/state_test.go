package openstack_test

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/fxccm/fxccm/ccm/ccmtest"
	"github.com/fxccm/fxccm/provider/openstack/openstacktest"
)

// The documented table: what a node that is not ready is told of its server's status.
func TestState_ShutdownTaint_ByTheStatusOfTheServer(t *testing.T) {
	t.Parallel()
	const (
		runs = iota
		down
		gone
	)
	tests := []struct {
		status string
		// power is Nova's power state; 0: what goes with the status.
		power   int
		outcome int
	}{
		{"ACTIVE", 0, runs},
		{"BUILD", 0, runs},
		{"REBOOT", 0, runs},
		{"HARD_REBOOT", 0, runs},
		{"PASSWORD", 0, runs},
		{"REBUILD", 0, runs},
		{"MIGRATING", 0, runs},
		{"RESIZE", 0, runs},
		{"VERIFY_RESIZE", 0, runs},
		{"REVERT_RESIZE", 0, runs},
		{"RESCUE", 0, runs},
		{"UNKNOWN", 0, runs},
		{"SOMETHING_NEW", 0, runs},
		{"ERROR", 1, runs},
		{"SHUTOFF", 0, down},
		{"SUSPENDED", 0, down},
		{"PAUSED", 0, down},
		{"SHELVED", 0, down},
		{"SHELVED_OFFLOADED", 0, down},
		{"SOFT_DELETED", 0, down},
		{"ERROR", 4, down},
		{"ERROR", 6, down},
		{"DELETED", 0, gone},
	}
	s := newSite(t)
	r := ready(t, s)
	var running, stopped []*corev1.Node
	var machines []machine
	for _, test := range tests {
		name := strings.ToLower(strings.ReplaceAll(test.status, "_", "-"))
		if test.power != 0 {
			name += fmt.Sprint("-", test.power)
		}
		m := s.addServer("state-"+name, func(i *openstacktest.Server) {
			i.Status, i.PowerState = test.status, test.power
		})
		node := notReady(t, m)
		switch test.outcome {
		case runs:
			running = append(running, node)
		case down:
			stopped, machines = append(stopped, node), append(machines, m)
		case gone:
			ccmtest.WaitNodeGone(t, shared.Client(t), m.name)
		}
	}
	for _, node := range stopped {
		waitShutdownTaint(t, node.Name, true)
	}
	before := s.mark()
	s.waitCalls(before, 3, operations("server_list"), "all servers are listed")
	wantUntouched(t, running...)

	for _, m := range machines {
		s.must(s.UpdateServer(m.id,
			func(i *openstacktest.Server) { i.Status, i.PowerState = "ACTIVE", 0 }))
	}
	// That the server runs again is not enough: the kubelet has to say so.
	before = s.mark()
	s.waitCalls(before, 3, operations("server_list"), "all servers are listed")
	for _, node := range stopped {
		if !isShutDown(getNode(t, node.Name)) {
			t.Errorf("the taint of %s, which is not ready, is gone", node.Name)
		}
		setReady(t, node.Name, corev1.ConditionTrue)
	}
	for _, node := range stopped {
		waitShutdownTaint(t, node.Name, false)
	}
	r.unbroken()
}
