package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"github.com/fxccm/fxccm/ccm/ccmtest/controlplane"
	"github.com/fxccm/fxccm/fleet"
)

func fleetStory() story[*fleetWorld] {
	return story[*fleetWorld]{
		preparation: []step[*fleetWorld]{
			{"a management cluster starts", 2 * time.Minute, prepareManagement},
			{"thirty clusters are created", 2 * time.Minute, prepareClusters},
		},
		chapters: []step[*fleetWorld]{
			{"three replicas share the clusters", 4 * time.Minute, startFleet},
			{"a replica is killed, the others serve its clusters", 3 * time.Minute, killReplica},
			{"the killed replica comes back", 3 * time.Minute, startKilled},
			{"ten clusters join", 3 * time.Minute, joinClusters},
			{"a cluster's token is replaced", 2 * time.Minute, replaceToken},
			{"a cluster leaves the fleet", 2 * time.Minute, removeCluster},
			{"fxccm fleet status shows each cluster", time.Minute, showStatus},
			{"no cluster was served twice, no request forbidden", time.Minute, lookBackOnFleet},
		},
		ending: []step[*fleetWorld]{
			{"the replicas stop cleanly", time.Minute, endFleet},
			{"no process and no file is left", time.Minute, endFleetWorld},
		},
	}
}

func prepareManagement(ctx context.Context, w *fleetWorld) (string, error) {
	if err := w.startManagement(ctx); err != nil {
		return "", err
	}
	if err := w.serveProjects(ctx); err != nil {
		return "", err
	}
	return fmt.Sprintf("an API server with Cluster API's kind at %s, an OpenStack with %d projects at %s",
		w.controlPlane.RESTConfig().Host, len(w.projects), w.cloud.URL()), nil
}

func prepareClusters(ctx context.Context, w *fleetWorld) (string, error) {
	for range clusterCount {
		if err := w.addMember(ctx); err != nil {
			return "", err
		}
	}
	return "each has an API endpoint, a token, a node, a Service and a project", nil
}

func startFleet(ctx context.Context, w *fleetWorld) (string, error) {
	for _, r := range w.replicas {
		if err := r.start(); err != nil {
			return "", err
		}
	}
	seen, err := w.awaitServed(ctx, w.all()...)
	return seen, errors.Join(err, w.awaitPlaced(ctx))
}

// awaitPlaced waits until fxccm fleet status shows that the preferred replica leads each cluster,
// so that no cluster moves any more.
func (w *fleetWorld) awaitPlaced(ctx context.Context) error {
	return w.until(ctx, func(ctx context.Context) error {
		var status struct{ Clusters []fleet.ClusterStatus }
		out, err := exec.CommandContext(ctx, w.binary,
			append(w.statusArguments(), "--output=json")...).Output()
		if err != nil {
			return fmt.Errorf("fxccm fleet status: %w: %s", err, out)
		}
		if err := json.Unmarshal(out, &status); err != nil {
			return err
		}
		for _, c := range status.Clusters {
			if c.State != fleet.StateLeading || !c.Ready || c.Leader != c.Preferred {
				return fmt.Errorf("%s is %s, ready %v, led by %s, preferred is %s: %s", c.Name,
					c.State, c.Ready, c.Leader, c.Preferred, c.Reason)
			}
		}
		return expect("the number of clusters", len(status.Clusters), len(w.all()))
	})
}

// awaitServed waits until each replica that runs leads, and the clusters are served.
func (w *fleetWorld) awaitServed(ctx context.Context, members ...*member) (string, error) {
	var seen []string
	err := w.until(ctx, func(ctx context.Context) error {
		v, err := w.view(ctx)
		if err != nil {
			return err
		}
		for _, m := range members {
			if err := v.served(m); err != nil {
				return err
			}
		}
		seen = nil
		for _, r := range w.replicas {
			leads := v.count(r.name, w.all())
			if (r.pid() != 0) != (leads > 0) {
				return fmt.Errorf("%s leads %d clusters; it %s", r.name, leads, r.state(false))
			}
			seen = append(seen, fmt.Sprintf("%s leads %d", r.name, leads))
		}
		return nil
	})
	return strings.Join(seen, ", "), err
}

// uninterrupted does something, and is an error if the Lease of one of the clusters has changed
// hands meanwhile.
func (w *fleetWorld) uninterrupted(
	ctx context.Context, members []*member, do func() error,
) error {
	before, err := w.view(ctx)
	if err != nil {
		return err
	}
	if err := do(); err != nil {
		return err
	}
	after, err := w.view(ctx)
	for _, m := range members {
		err = errors.Join(err,
			expect("the Lease of "+m.inFleet(), after.leases[m.lease()], before.leases[m.lease()]))
	}
	return err
}

func killReplica(ctx context.Context, w *fleetWorld) (string, error) {
	v, err := w.view(ctx)
	if err != nil {
		return "", err
	}
	killed := w.replicas[0]
	var orphans, others []*member
	for _, m := range w.all() {
		if v.leases[m.lease()].holder == killed.name {
			orphans = append(orphans, m)
		} else {
			others = append(others, m)
		}
	}
	begun, took := time.Now(), time.Duration(0)
	err = w.uninterrupted(ctx, others, func() error {
		if err := killed.kill(); err != nil {
			return err
		}
		for _, m := range orphans {
			if err := w.addService(ctx, m, "api"); err != nil {
				return err
			}
		}
		if _, err := w.awaitServed(ctx, orphans...); err != nil {
			return err
		}
		took = time.Since(begun)
		return w.awaitPlaced(ctx)
	})
	return fmt.Sprintf("its %d clusters are served again, each with one more Service, %.1f s after the "+
		"kill; the other %d were not interrupted", len(orphans), took.Seconds(),
		len(others)), err
}

func startKilled(ctx context.Context, w *fleetWorld) (string, error) {
	before, err := w.view(ctx)
	if err != nil {
		return "", err
	}
	if err := w.replicas[0].start(); err != nil {
		return "", err
	}
	if err := w.awaitPlaced(ctx); err != nil {
		return "", err
	}
	seen, err := w.awaitServed(ctx, w.all()...)
	if err != nil {
		return "", err
	}
	after, err := w.view(ctx)
	for _, m := range w.all() {
		was, is := before.leases[m.lease()].holder, after.leases[m.lease()].holder
		if was != is && is != w.replicas[0].name {
			err = errors.Join(err, fmt.Errorf("%s moved from %s to %s", m.inFleet(), was, is))
		}
	}
	return seen + "; clusters moved to it only", err
}

func joinClusters(ctx context.Context, w *fleetWorld) (string, error) {
	before := w.all()
	var seen string
	err := w.uninterrupted(ctx, before, func() (err error) {
		for range joiningCount {
			if err := w.addMember(ctx); err != nil {
				return err
			}
		}
		if seen, err = w.awaitServed(ctx, w.all()...); err != nil {
			return err
		}
		return w.awaitPlaced(ctx)
	})
	return seen + fmt.Sprintf("; the other %d were not interrupted", len(before)), err
}

// replaceToken makes the token of a cluster invalid and gives the fleet another one. No cluster is
// interrupted, and the one with the new token serves a new Service.
func replaceToken(ctx context.Context, w *fleetWorld) (string, error) {
	m := w.all()[1]
	err := w.uninterrupted(ctx, w.all(), func() error {
		m.endpoint.Rotate()
		if err := w.writeKubeconfig(ctx, m); err != nil {
			return err
		}
		if err := w.addService(ctx, m, "with-the-new-token"); err != nil {
			return err
		}
		_, err := w.awaitServed(ctx, w.all()...)
		return err
	})
	return fmt.Sprintf("%s serves a new Service; none of %d clusters was interrupted", m.inFleet(),
		len(w.all())), err
}

// removeCluster removes a cluster from the fleet, which releases its Lease and ends its requests.
func removeCluster(ctx context.Context, w *fleetWorld) (string, error) {
	w.mu.Lock()
	gone := w.members[0]
	w.members = w.members[1:]
	w.mu.Unlock()
	objects, err := dynamic.NewForConfig(w.controlPlane.RESTConfig())
	if err != nil {
		return "", err
	}
	clusters := objects.Resource(schema.GroupVersionResource{
		Group: "cluster.x-k8s.io", Version: "v1beta2", Resource: "clusters",
	})
	err = w.uninterrupted(ctx, w.all(), func() error {
		if err := clusters.Namespace(gone.project.team).Delete(ctx, gone.name,
			metav1.DeleteOptions{}); err != nil {
			return err
		}
		return w.until(ctx, func(ctx context.Context) error {
			v, err := w.view(ctx)
			return errors.Join(err,
				expect("the leader of "+gone.inFleet(), v.leases[gone.lease()].holder, ""),
				expect("the requests of "+gone.inFleet(), gone.endpoint.InFlight(), 0))
		})
	})
	return fmt.Sprintf("%s has no leader and no request; the other %d were not interrupted",
		gone.inFleet(), len(w.all())), errors.Join(err, gone.endpoint.Close())
}

// showStatus reads what an operator would read.
func showStatus(ctx context.Context, w *fleetWorld) (string, error) {
	err := w.awaitPlaced(ctx)
	return fmt.Sprintf("%d clusters, all leading and ready in the preferred replica",
		len(w.all())), err
}

// lookBackOnFleet checks the records of the clusters, of OpenStack and of the management cluster.
func lookBackOnFleet(ctx context.Context, w *fleetWorld) (string, error) {
	v, err := w.view(ctx)
	if err != nil {
		return "", err
	}
	for _, m := range w.all() {
		turns, lease := m.turnsSoFar(), v.leases[m.lease()]
		if len(turns) == 0 {
			return "", fmt.Errorf("%s was not changed by a replica", m.inFleet())
		}
		// A replica that changes something after another one has done so must have won the Lease
		// in between.
		if len(turns) > int(lease.transitions)+1 {
			return "", fmt.Errorf("%s was changed by %v in this order, but its Lease changed hands "+
				"%d times", m.inFleet(), turns, lease.transitions)
		}
		for _, s := range v.services[m.name] {
			if err := expect("the number of load balancers of a Service of "+m.inFleet(),
				len(v.balancers["fxccm-service="+string(s.UID)]), 1); err != nil {
				return "", err
			}
		}
		for _, refused := range m.endpoint.Refused() {
			if !strings.HasSuffix(refused, "another token") {
				return "", fmt.Errorf("%s refused a request: %s", m.inFleet(), refused)
			}
		}
	}
	user := controlplane.ByUser(controlplane.ServiceAccountUser(fleetNamespace, fleetAccount))
	requests, err := w.controlPlane.Audit().All(user)
	if err != nil {
		return "", err
	}
	denied, err := w.controlPlane.Audit().All(user, controlplane.Denied())
	if err != nil {
		return "", err
	}
	if len(requests) == 0 || len(denied) > 0 {
		return "", fmt.Errorf("of %d requests to the management cluster %d were forbidden: %v",
			len(requests), len(denied), denied)
	}
	return fmt.Sprintf("%d requests to the management cluster under the rules of deploy/fleet, %d to "+
		"OpenStack; each cluster was changed by the holder of its Lease", len(requests),
		len(w.cloud.Calls())), nil
}

// endFleet stops the replicas. They release their Leases and take back their announcements.
func endFleet(ctx context.Context, w *fleetWorld) (string, error) {
	if err := stopProcesses(w.replicas...); err != nil {
		return "", err
	}
	v, err := w.view(ctx)
	if err != nil {
		return "", err
	}
	for name, lease := range v.leases {
		if lease.holder != "" {
			return "", fmt.Errorf("the Lease %s is held by %s", name, lease.holder)
		}
	}
	return "exit code 0; all Leases are released", nil
}

func endFleetWorld(ctx context.Context, w *fleetWorld) (string, error) {
	if err := w.stop(ctx, false); err != nil {
		return "", err
	}
	if _, err := os.Stat(w.dir); !errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("the folder %s still exists", w.dir)
	}
	return "the management cluster has ended, and its folder is removed", nil
}
