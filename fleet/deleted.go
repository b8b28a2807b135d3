package fleet

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/record"
	cloudprovider "k8s.io/cloud-provider"

	"github.com/fxccm/fxccm/ccm"
	"github.com/fxccm/fxccm/internal/printable"
)

const (
	// cleanUpController is the only controller of a Manager that cleans up after a deleted cluster.
	cleanUpController = "load-balancer-cleanup"
	// cleanUpPeriod is the pause between two passes of the clean-up.
	cleanUpPeriod = 5 * time.Second
	// recordTimeout limits an attempt to write the finalizer of a Cluster.
	recordTimeout = 10 * time.Second
)

// Reasons of the events of a Cluster.
const (
	reasonCleaningUp = "DeletingLoadBalancers"
	reasonCleanedUp  = "DeletedLoadBalancers"
	reasonKept       = "KeepingLoadBalancers"
	reasonDisputed   = "DisputedClusterUID"
)

// errKept is wrapped by the error when a deleted cluster's load balancers are kept.
var errKept = errors.New("the load balancers of the deleted cluster are kept: delete them by " +
	"hand, or remove the finalizer " + loadBalancersFinalizer + " from the Cluster")

// isDeleting reports whether the fleet cleans up after the cluster when its API server is gone.
func (c *Cluster) isDeleting() bool { return c.object != nil && c.object.deleting }

// proveDeleted returns the UID of kube-system of a cluster that is deleted and whose API server is
// gone. Without this proof it returns an error. The error wraps errKept if both are proven, but the
// load balancers may still be needed.
func proveDeleted(ctx context.Context, cluster *Cluster) (uid string, err error) {
	ctx, cancel := context.WithTimeout(ctx, 3*probeTimeout)
	defer cancel()
	found, err := cluster.object.readDeletion(ctx)
	if err != nil {
		return "", err
	}
	config := cluster.RESTConfig
	if config == nil && found.noKubeconfig && found.server != "" {
		config = cluster.guard(&rest.Config{Host: found.server})
	}
	if err := proveGone(ctx, config, found.noKubeconfig); err != nil {
		return "", err
	}
	kept := found.kept
	if kept == nil && found.hasCloudConfig && cluster.CloudConfig == nil {
		kept = errors.New("the Secret with the provider's configuration is gone")
	}
	if kept != nil {
		return "", fmt.Errorf("%w: %w", kept, errKept)
	}
	return found.clusterUID, nil
}

// proveGone returns nil if the API server refuses connections, or if the kubeconfig Secret does not
// exist and the server does not answer. config is the last known one, or nil.
func proveGone(ctx context.Context, config *rest.Config, noKubeconfig bool) error {
	if config == nil {
		return errors.New("the address of the deleted cluster's API server is not known")
	}
	// The probe has no credentials and accepts any certificate, because any answer counts.
	access, _, err := newAccess(&rest.Config{
		Host: config.Host, Proxy: config.Proxy, Dial: config.Dial,
		TLSClientConfig: rest.TLSClientConfig{Insecure: true, ServerName: config.ServerName},
	})
	if err != nil {
		return err
	}
	defer access.reset()
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, access.address+"/version", nil)
	if err != nil {
		return err
	}
	response, err := access.RoundTrip(request)
	switch {
	case err == nil:
		_ = response.Body.Close()
		return errors.New("the API server of the deleted cluster answers")
	case context.Cause(ctx) != nil && !errors.Is(ctx.Err(), context.DeadlineExceeded):
		return err
	case errors.Is(err, errRefusedAddress):
		return err // the replica has not tried to connect
	case !isRefused(err) && !noKubeconfig:
		return fmt.Errorf("the API server of the deleted cluster does not refuse connections, and "+
			"its kubeconfig Secret exists: %w", err)
	}
	return nil
}

// isRefused reports whether the API server has refused a connection. A connection that a proxy
// refuses proves nothing about the API server.
func isRefused(err error) bool {
	dialed, ok := errors.AsType[*net.OpError](err)
	return ok && dialed.Op == "dial" && errors.Is(err, syscall.ECONNREFUSED)
}

// mayBeGone reports whether the fleet must check a cluster whose API server does not answer,
// because it may have to clean up after it.
func (f *Fleet) mayBeGone(name string, err error) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	cluster, ok := f.clusters[name]
	return ok && cluster.isDeleting() && (cluster.object.noKubeconfig || isRefused(err))
}

// record adds the finalizer to the Cluster while the fleet serves it. It returns after the write,
// or when ctx ends.
func (f *Fleet) record(ctx context.Context, m *member, cluster *Cluster, config *rest.Config) {
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		f.log.Error(err, "The Cluster gets no finalizer", "cluster", cluster.Name)
		return
	}
	once := func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, recordTimeout)
		defer cancel()
		system, err := client.CoreV1().Namespaces().Get(ctx, metav1.NamespaceSystem,
			metav1.GetOptions{})
		if err != nil {
			return fmt.Errorf("read the UID of namespace %s: %w", metav1.NamespaceSystem, err)
		}
		annotations := map[string]string{
			uidAnnotation: string(system.UID), serverAnnotation: config.Host,
			cloudConfigAnnotation: "",
		}
		if cluster.CloudConfig != nil {
			annotations[cloudConfigAnnotation] = "true"
		}
		disputed, err := cluster.object.record(ctx, annotations)
		if disputed != nil {
			text := "the load balancers would be kept if the Cluster was deleted: " +
				disputed.Error() + "; remove the annotation " + disputedAnnotation +
				" when that is corrected"
			f.note(m, text)
			f.tell(ctx, cluster, corev1.EventTypeWarning, reasonDisputed, text)
		}
		return err
	}
	pause := wait.Backoff{
		Duration: time.Second, Factor: 2, Jitter: 0.2, Steps: 10, Cap: time.Minute,
	}
	for {
		err := once(ctx)
		if err == nil || ctx.Err() != nil {
			return
		}
		f.log.Error(err, "The Cluster has no finalizer yet; its load balancers would remain",
			"cluster", cluster.Name)
		select {
		case <-time.After(pause.Step()):
		case <-ctx.Done():
			return
		}
	}
}

// cleanUpParams returns the Params of a Manager that cleans up after a deleted cluster. It has one
// controller, which needs no API server, and the cluster's provider. The controller calls ended
// with the reason if it cannot continue.
func (f *Fleet) cleanUpParams(
	m *member, cluster *Cluster, given *ccm.Params, ended func(error),
) ccm.Params {
	params := ccm.Params{
		Name: given.Name, Owner: given.Owner, Config: given.Config,
		Logger: given.Logger, Clock: given.Clock, Tracer: given.Tracer,
		RESTConfig: cluster.RESTConfig,
	}
	if params.RESTConfig == nil { // no request is sent to it
		params.RESTConfig = &rest.Config{Host: "https://" + cluster.Name + ".invalid"}
	}
	for _, provider := range given.Providers {
		params.Providers = append(params.Providers, withoutCluster(provider))
	}
	params.Config.Controllers = []string{cleanUpController}
	params.Controllers = []ccm.Controller{{
		Name: cleanUpController,
		New: func(_ context.Context, t *ccm.Term) (ccm.Runnable, error) {
			cleaner, ok := t.Cloud().(ccm.ClusterCleaner)
			if !ok {
				return nil, errors.ErrUnsupported
			}
			return ccm.RunnableFunc(func(ctx context.Context) error {
				if err := f.cleanUp(ctx, m, cluster, cleaner); err != nil && ctx.Err() == nil {
					ended(err)
				}
				<-ctx.Done()
				return nil
			}), nil
		},
	}}
	return params
}

// cleanUp deletes the load balancers of a deleted cluster in a term of its Lease. The API server
// must first be gone for Limits.Outage. Each pass proves the deletion again before its requests to
// the provider.
func (f *Fleet) cleanUp(
	ctx context.Context, m *member, cluster *Cluster, cleaner ccm.ClusterCleaner,
) error {
	begun := time.Now()
	for {
		uid, err := proveDeleted(ctx, cluster)
		if err != nil {
			return err
		}
		pause := min(cleanUpPeriod, f.params.Limits.Outage-time.Since(begun))
		if pause > 0 {
			f.note(m, "the cluster is deleted; its load balancers are deleted when its API server "+
				"is gone for "+f.params.Limits.Outage.String())
		} else {
			pause = cleanUpPeriod
			done, err := f.cleanUpOnce(ctx, m, cluster, cleaner, uid)
			if done || err != nil {
				return err
			}
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return nil
		}
	}
}

func (f *Fleet) cleanUpOnce(
	ctx context.Context, m *member, cluster *Cluster, cleaner ccm.ClusterCleaner, uid string,
) (done bool, err error) {
	f.tell(ctx, cluster, corev1.EventTypeNormal, reasonCleaningUp,
		"the API server is gone; deleting the load balancers with the tag of the cluster "+uid)
	left, err := cleaner.CleanUpCluster(ctx, uid)
	switch {
	case ctx.Err() != nil:
		return false, nil
	case errors.Is(err, errors.ErrUnsupported):
		return false, fmt.Errorf("%w: %w", err, errKept)
	case err != nil || len(left) > 0:
		text := "deleting the load balancers of the deleted cluster"
		if len(left) > 0 {
			text += "; left: " + strings.Join(left, ", ")
		}
		if err != nil {
			text += "; retrying after an error: " + err.Error()
			f.log.Error(err, "Deleting the load balancers of a deleted cluster failed; retrying",
				"cluster", cluster.Name)
		}
		f.note(m, text)
		f.log.Info("Deleting the load balancers of a deleted cluster", "cluster", cluster.Name,
			"left", left)
		return false, nil
	}
	f.tell(ctx, cluster, corev1.EventTypeNormal, reasonCleanedUp,
		"no load balancer with the tag of the cluster "+uid+" is left")
	if err := cluster.object.release(ctx); err != nil {
		f.note(m, err.Error())
		f.log.Error(err, "The finalizer of a deleted cluster remains; retrying", "cluster",
			cluster.Name)
		return false, nil
	}
	f.log.Info("Deleted the load balancers of a deleted cluster", "cluster", cluster.Name)
	m.cleanedUp.Store(true)
	return true, nil
}

// maxNote limits, in characters, the text about the clean-up, which may list load balancers. The
// cloud chooses parts of it.
const maxNote = 4096

// note sets the text about the clean-up in the status of a cluster.
func (f *Fleet) note(m *member, text string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	m.note = printable.Text(text, maxNote)
}

func (f *Fleet) tell(ctx context.Context, cluster *Cluster, kind, reason, message string) {
	if err := cluster.object.tell(ctx, kind, reason, message); err != nil && ctx.Err() == nil {
		f.log.Error(err, "Writing an event failed", "cluster", cluster.Name, "reason", reason)
	}
}

// withoutCluster is a provider whose cloud sends no request to the cluster's API server: it gets no
// informers, which would never sync, and its events are discarded.
func withoutCluster(provider ccm.Provider) ccm.Provider {
	open := provider.New
	provider.New = func(
		ctx context.Context, env ccm.ProviderEnv,
	) (cloudprovider.Interface, error) {
		env.Informers = nil
		env.Recorder = func(string) record.EventRecorder { return nil }
		cloud, err := open(ctx, env)
		if err != nil || cloud == nil {
			return nil, err
		}
		return cloudAlone{cloud}, nil
	}
	return provider
}

// cloudAlone hides all interfaces of a cloud but cloudprovider.Interface and ccm.ClusterCleaner.
type cloudAlone struct{ cloudprovider.Interface }

// CleanUpCluster implements ccm.ClusterCleaner.
func (c cloudAlone) CleanUpCluster(ctx context.Context, uid string) ([]string, error) {
	cleaner, ok := c.Interface.(ccm.ClusterCleaner)
	if !ok {
		return nil, fmt.Errorf("the cloud provider %s cannot clean up after a deleted cluster: %w",
			c.ProviderName(), errors.ErrUnsupported)
	}
	return cleaner.CleanUpCluster(ctx, uid)
}

// Close ends the cloud with the term.
func (c cloudAlone) Close() error {
	if closer, ok := c.Interface.(interface{ Close() error }); ok {
		return closer.Close()
	}
	return nil
}
