package main

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/fxccm/fxccm/test/internal/project"
)

// measures are in the order in which they are made; each continues from the previous one.
func (t *labTrial) measures() []func(context.Context) error {
	return []func(context.Context) error{
		t.measureInitialise, t.measureStatusPass,
		t.measureOne, t.measureMany, t.measureNothingToDo, t.measureRestart,
		t.measurePortAdded, t.measureNodeJoins, t.measureNodeGone, t.measureDeleted,
	}
}

func (t *labTrial) services() []*corev1.Service {
	return newServices(t.bench.settings.labServices, balancerPorts)
}

// measureInitialise is from when the process leads until all nodes that wait are initialised.
func (t *labTrial) measureInitialise(ctx context.Context) error {
	n := t.bench.settings.labNodes
	if err := t.bench.cluster.createNodes(ctx, t.cloud.nodes()[:n]...); err != nil {
		return fmt.Errorf("create %d nodes: %w", n, err)
	}
	if err := t.bench.cluster.settle(ctx); err != nil {
		return err
	}
	f, err := t.measure(ctx, fmt.Sprintf("%d nodes initialised", n),
		func() (begun, done time.Time, _ error) {
			all, err := t.watchNodes(ctx, n, isInitialised)
			return t.leadUntil(ctx, all, err)
		}, nothing)
	if err != nil {
		return err
	}
	t.noteLab(f.by(occmNodes(n), cost{}))
	return t.stopCCM(ctx)
}

// leadUntil starts fxccm, and returns when it led and when all was seen. err is that of the watch.
func (t *labTrial) leadUntil(
	ctx context.Context, all *sight, err error,
) (begun, done time.Time, _ error) {
	if err != nil {
		return begun, done, err
	}
	if begun, err = t.leadCCM(ctx); err != nil {
		return begun, done, err
	}
	done, err = all.wait()
	return begun, done, err
}

// nothing has no further condition than the cluster's.
func nothing(context.Context) error { return nil }

// measureStatusPass is of a process that has made a pass before, and makes the next one sooner than
// usual: each server has got another address, so that it is seen when it begins and when it is
// over.
func (t *labTrial) measureStatusPass(ctx context.Context) error {
	n := t.bench.settings.labNodes
	frequency := "--node-status-update-frequency=" + statusPeriod.String()
	if _, err := t.leadCCM(ctx, frequency); err != nil {
		return err
	}
	if _, err := t.awaitQuiet(ctx); err != nil {
		return err
	}
	access, err := t.cloud.giveAccessAddresses(ctx, n)
	if err != nil {
		return fmt.Errorf("give the servers addresses: %w", err)
	}
	f, err := t.measure(ctx, fmt.Sprintf("Addresses of %d nodes refreshed", n),
		func() (begun, done time.Time, _ error) {
			var first time.Time
			all, err := t.watchNodes(ctx, n, func(node *corev1.Node) bool {
				is := hasNodeAddress(node, corev1.NodeExternalIP, access[node.Name])
				if is && first.IsZero() {
					first = time.Now()
				}
				return is
			})
			if err != nil {
				return begun, done, err
			}
			done, err = all.wait()
			return first, done, err
		}, nothing)
	if err != nil {
		return err
	}
	t.noteLab(f.by(occmNodes(n), cost{}))
	return t.stopCCM(ctx)
}

// measureOne is of one Service, made and deleted, in a process that has just begun to lead.
func (t *labTrial) measureOne(ctx context.Context) error {
	if _, err := t.leadCCM(ctx); err != nil {
		return err
	}
	if _, err := t.awaitQuiet(ctx); err != nil {
		return err
	}
	one := newServiceOf("alone", balancerPorts)
	made, err := t.measureMade(ctx, fmt.Sprintf("1 Service of %d ports made", balancerPorts), one)
	if err != nil {
		return err
	}
	t.alone.creation = made.pending
	t.noteLab(made.by(occmMade(1, balancerPorts, t.alone.creation)))
	gone, err := t.measureServicesDeleted(ctx, "1 Service deleted")
	if err != nil {
		return err
	}
	t.alone.deletion = gone.pending
	t.noteLab(gone.by(occmDeleted(1, t.alone.deletion)))
	return t.cloud.checkEmpty()
}

func (t *labTrial) measureMany(ctx context.Context) error {
	n := t.bench.settings.labServices
	f, err := t.measureMade(ctx, fmt.Sprintf("%d Services of %d ports made", n, balancerPorts),
		t.services()...)
	if err != nil {
		return err
	}
	t.noteLab(f.by(occmMade(n, balancerPorts, t.alone.creation)))
	return nil
}

// measureMade is from when the Services are created until all have an address.
func (t *labTrial) measureMade(
	ctx context.Context, title string, services ...*corev1.Service,
) (labFigure, error) {
	f, err := t.measure(ctx, title, func() (begun, done time.Time, _ error) {
		all, err := t.watchServed(ctx, services)
		if err != nil {
			return begun, done, err
		}
		begun = time.Now()
		if err := t.bench.cluster.createServices(ctx, services...); err != nil {
			return begun, done, fmt.Errorf("create the Services: %w", err)
		}
		done, err = all.wait()
		return begun, done, err
	}, t.poolsHave(len(services)*balancerPorts, t.bench.settings.labNodes))
	return f, err
}

// poolsHave is an error as long as there are not so many pools, each with so many members.
func (t *labTrial) poolsHave(pools, members int) func(context.Context) error {
	return func(ctx context.Context) error { return t.cloud.checkPools(ctx, pools, members) }
}

// measureNothingToDo has all Services ensured again, by an annotation without a meaning.
func (t *labTrial) measureNothingToDo(ctx context.Context) error {
	n := t.bench.settings.labServices
	title := fmt.Sprintf("Nothing to do: %d Services are annotated", n)
	f, err := t.measureEvents(ctx, title, ensuredReason, n, nothing, func() error {
		return inParallel(ctx, t.services(),
			func(ctx context.Context, service *corev1.Service) error {
				return t.patchService(ctx, service.Name,
					`{"metadata":{"annotations":{"bench.example.com/note":"again"}}}`)
			})
	})
	if err != nil {
		return err
	}
	t.noteLab(f.by(occmRestart(n, balancerPorts), cost{}))
	return checkNoWrites(f)
}

// measureRestart is of a process that finds what another one has made, from when it leads.
func (t *labTrial) measureRestart(ctx context.Context) error {
	if err := t.stopCCM(ctx); err != nil {
		return err
	}
	n := t.bench.settings.labServices
	title := fmt.Sprintf("Nothing to do: restart with %d Services and %d nodes", n,
		t.bench.settings.labNodes)
	f, err := t.measure(ctx, title, func() (begun, done time.Time, _ error) {
		all, err := t.watchEvents(ctx, ensuredReason, n)
		return t.leadUntil(ctx, all, err)
	}, nothing)
	if err != nil {
		return err
	}
	t.noteLab(f.by(occmRestart(n, balancerPorts), cost{}))
	return checkNoWrites(f)
}

// checkNoWrites is an error if anything was changed where there was nothing to do.
func checkNoWrites(f labFigure) error {
	if writes := f.requests.only(requestKind.isWrite); len(writes) > 0 {
		return fmt.Errorf("there was nothing to do, and something was changed: %v", writes)
	}
	return nil
}

// measurePortAdded is of one Service that gets a port more.
func (t *labTrial) measurePortAdded(ctx context.Context) error {
	const port = balancerPorts + 1
	name := t.services()[0].Name
	more := newServiceOf(name, port).Spec.Ports[balancerPorts]
	f, err := t.measureEvents(ctx, "A port added to a Service", ensuredReason, 1,
		t.poolsHave(t.pools(), t.bench.settings.labNodes), func() error {
			return t.patchService(ctx, name,
				fmt.Sprintf(`{"spec":{"ports":[{"name":%q,"port":%d,"targetPort":%d}]}}`, more.Name,
					more.Port, more.Port))
		})
	if err != nil {
		return err
	}
	if writes := f.requests.only(func(k requestKind) bool {
		return k.service == balancerService && k.isWrite()
	}).sum(); writes.count > 0 {
		t.alone.change = f.pending / time.Duration(writes.count)
	}
	t.noteLab(f.by(occmPortAdded(balancerPorts, t.alone.change)))
	return nil
}

// pools are those of all Services, of which one has a port more.
func (t *labTrial) pools() int { return t.bench.settings.labServices*balancerPorts + 1 }

// measureNodeJoins is from when a node registers until it is a member of each pool.
func (t *labTrial) measureNodeJoins(ctx context.Context) error {
	n, s := t.bench.settings.labNodes, t.bench.settings.labServices
	f, err := t.measureNodes(ctx,
		fmt.Sprintf("A node added, %d load balancers of %d ports", s, balancerPorts),
		t.poolsHave(t.pools(), n+1), func() error {
			return t.bench.cluster.createNodes(ctx, t.cloud.nodes()[n])
		})
	if err != nil {
		return err
	}
	t.noteLab(f.by(occmMembers(s, balancerPorts, t.alone.change)))
	return nil
}

// measureNodeGone is from when a node whose server was deleted is not ready any more until it is a
// member of no pool.
func (t *labTrial) measureNodeGone(ctx context.Context) error {
	n, s := t.bench.settings.labNodes, t.bench.settings.labServices
	gone := t.cloud.servers[n]
	t.cloud.User().Delete(project.Compute, "/servers/"+gone.ID)
	t.cloud.WaitServer(gone.ID, "")
	f, err := t.measureNodes(ctx,
		fmt.Sprintf("A node's server gone, %d load balancers of %d ports", s, balancerPorts),
		t.poolsHave(t.pools(), n), func() error {
			return t.silence(ctx, gone.Name)
		})
	if err != nil {
		return err
	}
	t.noteLab(f.by(occmMembers(s, balancerPorts, t.alone.change)))
	return t.checkNodes(ctx, namesOf(t.cloud.servers[:n]))
}

func namesOf(servers []project.Server) map[string]bool {
	all := map[string]bool{}
	for _, s := range servers {
		all[s.Name] = true
	}
	return all
}

// silence marks a node as not ready.
func (t *labTrial) silence(ctx context.Context, name string) error {
	_, err := t.bench.cluster.client.CoreV1().Nodes().Patch(ctx, name,
		types.StrategicMergePatchType,
		[]byte(
			`{"status":{"conditions":[{"type":"Ready","status":"Unknown","reason":"NodeStatusUnknown"}]}}`), metav1.PatchOptions{}, "status")
	if err != nil {
		return fmt.Errorf("let node %s be not ready: %w", name, err)
	}
	return nil
}

func (t *labTrial) measureDeleted(ctx context.Context) error {
	n := t.bench.settings.labServices
	f, err := t.measureServicesDeleted(ctx, fmt.Sprintf("%d Services deleted", n))
	if err != nil {
		return err
	}
	t.noteLab(f.by(occmDeleted(n, t.alone.deletion)))
	return t.cloud.checkEmpty()
}

// measureServicesDeleted is from when all Services are deleted until none is there any more.
func (t *labTrial) measureServicesDeleted(ctx context.Context, title string) (labFigure, error) {
	services := t.bench.cluster.client.CoreV1().Services(serviceNamespace)
	return t.measure(ctx, title, func() (begun, done time.Time, _ error) {
		all, err := services.List(ctx, metav1.ListOptions{})
		if err != nil {
			return begun, done, err
		}
		begun = time.Now()
		err = inParallel(ctx, all.Items, func(ctx context.Context, service corev1.Service) error {
			return services.Delete(ctx, service.Name, metav1.DeleteOptions{})
		})
		for left := len(all.Items); err == nil && left > 0; {
			t.bench.progress.update(fmt.Sprintf("%s: %d are left", title, left))
			if err = t.pause(ctx, 4*pollInterval); err != nil {
				break
			}
			if all, err = services.List(ctx, metav1.ListOptions{}); err == nil {
				left = len(all.Items)
			}
		}
		return begun, time.Now(), err
	}, nothing)
}

// measureEvents is from a change until there has been such an event on so many Services because of
// it, and nothing is left to do.
func (t *labTrial) measureEvents(
	ctx context.Context, title, reason string, services int, left func(context.Context) error,
	change func() error,
) (labFigure, error) {
	return t.measure(ctx, title, func() (begun, done time.Time, _ error) {
		all, err := t.watchEvents(ctx, reason, services)
		if err != nil {
			return begun, done, err
		}
		begun = time.Now()
		if err := change(); err != nil {
			return begun, done, err
		}
		done, err = all.wait()
		return begun, done, err
	}, left)
}

// measureNodes is from a change of nodes until the pools are as they should be. Events do not tell:
// a Service whose load balancer was busy is ensured, and another is updated, perhaps before there
// was something to do.
func (t *labTrial) measureNodes(
	ctx context.Context, title string, left func(context.Context) error, change func() error,
) (labFigure, error) {
	return t.measure(ctx, title, func() (begun, done time.Time, _ error) {
		begun = time.Now()
		err := change()
		return begun, time.Now(), err
	}, left)
}

func (t *labTrial) patchService(ctx context.Context, name, patch string) error {
	_, err := t.bench.cluster.client.CoreV1().Services(serviceNamespace).Patch(ctx, name,
		types.StrategicMergePatchType, []byte(patch), metav1.PatchOptions{})
	if err != nil {
		return fmt.Errorf("change service %s: %w", name, err)
	}
	return nil
}
