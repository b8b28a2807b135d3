package main

import (
	"context"
	"io"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/fxccm/fxccm/ccm"
	"github.com/fxccm/fxccm/example/migrate"
)

const statusAbout = `Print the state of the running replicas: the leader, its term, controllers, load balancers, waiting nodes and
calls in flight.

Usage:
  fxccm status
  fxccm status --kubeconfig=admin.conf --server=https://10.0.0.5:10258 --server-ca=serving-ca.crt

Without --server, a port is forwarded to each pod of --selector, as "kubectl port-forward" does. The credentials of the
kubeconfig are sent to the secure port, which must let them get /statusz.
`

// statusLine is the command line of "fxccm status".
type statusLine struct {
	*replicasLine
	lease string
}

func newStatusLine() *statusLine {
	// Pods of the chart, of the manifests and of "fxccm migrate" have the label.
	s := &statusLine{replicasLine: newReplicasLine(
		"fxccm status", metav1.NamespaceSystem, "app.kubernetes.io/part-of=fxccm")}
	s.flags.Lookup("namespace").Usage = "The namespace of the CCM's pods and lease."
	s.flags.StringVar(&s.lease, "lease", "cloud-controller-manager",
		"The lease, as [namespace/]name.")
	return s
}

// runStatus is "fxccm status" from its arguments to its exit code.
func runStatus(args []string, stdout, stderr io.Writer) int {
	line := newStatusLine()
	return subcommand{
		name: "status", about: statusAbout, flags: line.flags, parse: line.parse,
		run: func(ctx context.Context, stdout, _ io.Writer) error { return line.run(ctx, stdout) },
	}.main(args, stdout, stderr)
}

// leaseStatus is the lease that the replicas share.
type leaseStatus struct {
	Namespace string    `json:"namespace"`
	Name      string    `json:"name"`
	Holder    string    `json:"holder,omitempty"`
	Renewed   time.Time `json:"renewed,omitzero"`
	Error     string    `json:"error,omitempty"`
}

// clusterStatus is the state that one run of the command has read.
type clusterStatus struct {
	Lease    leaseStatus           `json:"lease"`
	Replicas []replica[ccm.Status] `json:"replicas"`
}

func (s clusterStatus) answered() bool { return anyAnswered(s.Replicas) }

func (s clusterStatus) tables(now time.Time) (string, error) { return statusTables(s, now) }

func (s *statusLine) run(ctx context.Context, stdout io.Writer) error {
	cluster, err := migrate.Connect(s.kubeconfig)
	if err != nil {
		return err
	}
	return s.print(ctx, stdout, func(ctx context.Context) (snapshot, error) {
		return s.read(ctx, cluster)
	})
}

func (s *statusLine) read(
	ctx context.Context, cluster *migrate.Cluster,
) (clusterStatus, error) {
	namespace, name, found := strings.Cut(s.lease, "/")
	if !found {
		namespace, name = s.namespace, s.lease
	}
	status := clusterStatus{Lease: leaseStatus{Namespace: namespace, Name: name}}
	lease, err := cluster.CoordinationV1().Leases(namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		status.Lease.Error = err.Error()
	} else {
		status.Lease.Holder = ptr.Deref(lease.Spec.HolderIdentity, "")
		status.Lease.Renewed = ptr.Deref(lease.Spec.RenewTime, metav1.MicroTime{}).Time
	}
	status.Replicas, err = askReplicas[ccm.Status](ctx, s.replicasLine, cluster)
	return status, err
}
