package main

import (
	"context"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/fxccm/fxccm/ccm/status"
	"github.com/fxccm/fxccm/cmd/fxccm/cli"
)

const statusAbout = `Print the state of the running replicas: the leader, its term, controllers, load balancers, nodes that wait or fail,
and calls in flight.

Without --server, a port is forwarded to each pod of --selector, as "kubectl port-forward" does. The pod gets no credentials
of the kubeconfig. It gets a token that is valid for 10 minutes, of a ServiceAccount whose name is that of the pod's account
with the suffix "-status". The API server does not accept that token. The user must be allowed to create it, and the account
to get /statusz; the chart has both rules.
With --server, the credentials of the kubeconfig are sent to that server, after a check of its certificate.`

const statusExample = `  fxccm status
  fxccm status --watch
  fxccm status --server=https://10.0.0.5:10258 --server-ca=serving-ca.crt`

// podsSelector selects the pods of the chart, of the manifests and of "fxccm migrate".
const podsSelector = "app.kubernetes.io/part-of=fxccm"

// statusLine is the command line of "fxccm status".
type statusLine struct {
	replicasLine
	lease string
}

const defaultLease = "cloud-controller-manager"

// newStatusCommand is "fxccm status".
func newStatusCommand() *cobra.Command {
	line := &statusLine{}
	cmd := &cobra.Command{
		Use: "status", Short: "Print the state of the running replicas", Long: statusAbout,
		Example: statusExample, Args: cli.NoArgs,
		RunE: cli.UntilSignal(func(ctx context.Context, cmd *cobra.Command, _ []string) error {
			return line.run(ctx, cmd.OutOrStdout())
		}),
	}
	line.addFlags(cmd.Flags(), metav1.NamespaceSystem, podsSelector)
	cmd.Flags().Lookup("namespace").Usage = "The namespace of the CCM's pods and lease."
	cmd.Flags().StringVar(&line.lease, "lease", defaultLease, "The lease, as [namespace/]name.")
	return cmd
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
	Lease    leaseStatus               `json:"lease"`
	Replicas []replica[status.Manager] `json:"replicas"`
}

func (s clusterStatus) answered() bool { return anyAnswered(s.Replicas) }

func (s clusterStatus) tables(now time.Time) *cli.Tables { return statusTables(s, now) }

// check returns a usage error.
func (s *statusLine) check() error {
	if err := cli.CheckName("--lease", s.lease); err != nil {
		return err
	}
	return s.replicasLine.check()
}

func (s *statusLine) run(ctx context.Context, stdout io.Writer) error {
	if err := s.check(); err != nil {
		return err
	}
	cluster, err := s.Connect()
	if err != nil {
		return err
	}
	return s.print(ctx, stdout, func(ctx context.Context) (snapshot, error) {
		return s.read(ctx, cluster)
	})
}

func (s *statusLine) read(
	ctx context.Context, cluster *cli.Cluster,
) (clusterStatus, error) {
	namespace, name, found := strings.Cut(s.lease, "/")
	if !found {
		namespace, name = s.namespace, s.lease
	}
	current := clusterStatus{Lease: leaseStatus{Namespace: namespace, Name: name}}
	lease, err := cluster.CoordinationV1().Leases(namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		current.Lease.Error = err.Error()
	} else {
		current.Lease.Holder = ptr.Deref(lease.Spec.HolderIdentity, "")
		current.Lease.Renewed = ptr.Deref(lease.Spec.RenewTime, metav1.MicroTime{}).Time
	}
	current.Replicas, err = askReplicas[status.Manager](ctx, &s.replicasLine, cluster)
	refuseOthers(current.Replicas, false)
	return current, err
}
