package main

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/fxccm/fxccm/test/internal/project"
)

// measureInitialize is from when the process leads until all nodes that wait are initialized.
func (t *labTrial) measureInitialize() {
	t.createNodes(t.cloud.nodes()[:t.labNodes]...)
	t.settle()
	f := t.measure(fmt.Sprintf("%d nodes initialized", t.labNodes),
		func() (begun, done time.Time) {
			all := t.watchNodes(t.labNodes, isInitialized)
			return t.leadCCM(), all.wait()
		}, nothing)
	t.note(f, occmNodes(t.labNodes), cost{})
	t.stopCCM()
}

// nothing has no further condition than the cluster's.
func nothing() error { return nil }

// measureStatusPass is of a process that has made a pass before, and makes the next one sooner than
// usual: each server has got another address, so that it is seen when it begins and when it is
// over.
func (t *labTrial) measureStatusPass() {
	t.leadCCM("--node-status-update-frequency=" + statusPeriod.String())
	t.awaitQuiet()
	access := t.giveAccessAddresses(t.labNodes)
	f := t.measure(fmt.Sprintf("Addresses of %d nodes refreshed", t.labNodes),
		func() (begun, done time.Time) {
			all := t.watchNodes(t.labNodes, func(node *corev1.Node) bool {
				return hasNodeAddress(node, corev1.NodeExternalIP, access[node.Name])
			})
			done = all.wait()
			return all.times[0], done
		}, nothing)
	t.note(f, occmNodes(t.labNodes), cost{})
	t.stopCCM()
}

// measureOne is of one Service, made and deleted, in a process that has just begun to lead, and of
// another one, when the process has learned how long Octavia takes.
func (t *labTrial) measureOne() {
	t.leadCCM()
	t.awaitQuiet()
	t.measureAlone("First Service", noTarget, noTarget)
	t.measureAlone("1 Service", createdCalls, deletedCalls)
}

func (t *labTrial) measureAlone(what string, createdTarget, deletedTarget float64) {
	made := t.measureMade(fmt.Sprintf("%s of %d ports made", what, balancerPorts),
		newService("alone", balancerPorts))
	t.alone.creation = made.pending
	calls, pauses := occmMade(1, balancerPorts, t.alone.creation)
	made.target = createdTarget
	t.note(made, calls, pauses)
	gone := t.measureServicesDeleted(what + " deleted")
	t.alone.deletion = gone.pending
	calls, pauses = occmDeleted(1, t.alone.deletion)
	gone.target = deletedTarget
	t.note(gone, calls, pauses)
	t.Check(t.cloud.checkEmpty())
}

func (t *labTrial) measureMany() {
	f := t.measureMade(fmt.Sprintf("%d Services of %d ports made", t.labServices, balancerPorts),
		newServices(t.labServices, balancerPorts)...)
	f.target = float64(createdCalls * t.labServices)
	calls, pauses := occmMade(t.labServices, balancerPorts, t.alone.creation)
	t.note(f, calls, pauses)
}

// measureMade is from when the Services are created until all have an address.
func (t *labTrial) measureMade(title string, services ...*corev1.Service) labFigure {
	return t.measure(title, func() (begun, done time.Time) {
		all := t.watchServed(services)
		begun = time.Now()
		t.createServices(services...)
		return begun, all.wait()
	}, t.poolsHave(len(services)*balancerPorts, t.labNodes))
}

// poolsHave is an error as long as there are not so many pools, each with so many members.
func (t *labTrial) poolsHave(pools, members int) func() error {
	return func() error { return t.cloud.checkPools(pools, members) }
}

// measureNothingToDo has all Services ensured again.
func (t *labTrial) measureNothingToDo() {
	f := t.measure(fmt.Sprintf("Nothing to do: %d Services are annotated", t.labServices),
		func() (begun, done time.Time) {
			all := t.watchEnsured(t.labServices)
			begun = time.Now()
			inParallel(t.trial, newServices(t.labServices, balancerPorts), t.annotate)
			return begun, all.wait()
		}, nothing)
	t.note(f, occmRestart(t.labServices, balancerPorts), cost{})
	t.checkNoWrites(f)
}

// measureRestart is of a process that finds what another one has made, from when it leads.
func (t *labTrial) measureRestart() {
	t.stopCCM()
	f := t.measure(fmt.Sprintf("Nothing to do: restart with %d Services and %d nodes",
		t.labServices, t.labNodes), func() (begun, done time.Time) {
		all := t.watchEnsured(t.labServices)
		return t.leadCCM(), all.wait()
	}, nothing)
	t.note(f, occmRestart(t.labServices, balancerPorts), cost{})
	t.checkNoWrites(f)
}

// checkNoWrites ends the trial if anything was changed where there was nothing to do.
func (t *labTrial) checkNoWrites(f labFigure) {
	if writes := f.requests.only(requestKind.isWrite); len(writes) > 0 {
		t.Fatalf("there was nothing to do, and something was changed: %v", writes)
	}
}

// measurePortAdded is of one Service that gets a port more.
func (t *labTrial) measurePortAdded() {
	more := newService("service-0000", balancerPorts+1)
	f := t.measure("A port added to a Service", func() (begun, done time.Time) {
		all := t.watchEnsured(1)
		begun = time.Now()
		port := more.Spec.Ports[balancerPorts]
		_, err := t.client.CoreV1().Services(more.Namespace).Patch(t.Context(), more.Name,
			types.StrategicMergePatchType, fmt.Appendf(nil,
				`{"spec":{"ports":[{"name":%q,"port":%d,"targetPort":%d}]}}`, port.Name, port.Port,
				port.Port), metav1.PatchOptions{})
		t.Check(err)
		return begun, all.wait()
	}, t.poolsHave(t.pools(), t.labNodes))
	if writes := f.requests.only(func(k requestKind) bool {
		return k.service == balancerService && k.isWrite()
	}).sum(); writes.count > 0 {
		t.alone.change = f.pending / time.Duration(writes.count)
	}
	calls, pauses := occmPortAdded(balancerPorts, t.alone.change)
	t.note(f, calls, pauses)
}

// pools are those of all Services, of which one has a port more.
func (t *labTrial) pools() int { return t.labServices*balancerPorts + 1 }

// measureNodeJoins is from when a node registers until it is a member of each pool.
func (t *labTrial) measureNodeJoins() {
	t.measureMembers("A node added", t.labNodes+1,
		func() { t.createNodes(t.cloud.nodes()[t.labNodes]) })
}

// measureNodeGone is from when a node whose server was deleted is not ready any more until it is a
// member of no pool.
func (t *labTrial) measureNodeGone() {
	gone := t.cloud.servers[t.labNodes]
	t.cloud.User().Delete(project.Compute, "/servers/"+gone.ID)
	t.cloud.WaitServer(gone.ID, "")
	t.measureMembers("A node's server gone", t.labNodes, func() {
		_, err := t.client.CoreV1().Nodes().Patch(t.Context(), gone.Name,
			types.StrategicMergePatchType, []byte(`{"status":{"conditions":[`+
				`{"type":"Ready","status":"Unknown","reason":"NodeStatusUnknown"}]}}`),
			metav1.PatchOptions{}, "status")
		t.Check(err)
	})
	wanted := map[string]bool{}
	for _, s := range t.cloud.servers[:t.labNodes] {
		wanted[s.Name] = true
	}
	t.checkNodes(wanted)
}

// measureMembers is from a change of nodes until each pool has so many members. Events do not tell:
// a Service whose load balancer was busy is ensured, and another is updated, perhaps before there
// was something to do.
func (t *labTrial) measureMembers(what string, members int, change func()) {
	f := t.measure(fmt.Sprintf("%s, %d load balancers of %d ports", what, t.labServices,
		balancerPorts), func() (begun, done time.Time) {
		begun = time.Now()
		change()
		return begun, time.Now()
	}, t.poolsHave(t.pools(), members))
	f.target = float64(nodeCalls * t.labServices)
	calls, pauses := occmMembers(t.labServices, balancerPorts, t.alone.change)
	t.note(f, calls, pauses)
}

func (t *labTrial) measureDeleted() {
	f := t.measureServicesDeleted(fmt.Sprintf("%d Services deleted", t.labServices))
	f.target = float64(deletedCalls * t.labServices)
	calls, pauses := occmDeleted(t.labServices, t.alone.deletion)
	t.note(f, calls, pauses)
	t.Check(t.cloud.checkEmpty())
}

// measureServicesDeleted is from when all Services are deleted until none is there any more.
func (t *labTrial) measureServicesDeleted(title string) labFigure {
	return t.measure(title, t.deleteServices, nothing)
}
