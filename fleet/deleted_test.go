package fleet_test

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/fxccm/fxccm/ccm"
	"github.com/fxccm/fxccm/ccm/ccmtest/controlplane"
	"github.com/fxccm/fxccm/ccm/status"
	"github.com/fxccm/fxccm/fleet"
	"github.com/fxccm/fxccm/internal/netfault"
	"github.com/fxccm/fxccm/internal/waittest"
	"github.com/fxccm/fxccm/provider/openstack"
	"github.com/fxccm/fxccm/provider/openstack/cloudconf"
	"github.com/fxccm/fxccm/provider/openstack/openstacktest"
)

const (
	finalizer = "fxccm.dev/load-balancers"
	// hold is a finalizer of another controller, as Cluster API's own.
	hold = "example.com/hold"
)

var (
	definitions = schema.GroupVersionResource{
		Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions",
	}
	clustersOfAPI = schema.GroupVersionResource{
		Group: "cluster.x-k8s.io", Version: "v1beta2", Resource: "clusters",
	}
)

// deletedWorld has Clusters of Cluster API, each with an API server that can be turned off, and a
// cloud with a load balancer of each.
type deletedWorld struct {
	*world
	cloud   *openstacktest.Cloud
	subnet  string
	objects dynamic.Interface
	client  kubernetes.Interface
	servers map[string]*netfault.Proxy
}

func newDeletedWorld(t *testing.T) *deletedWorld {
	t.Helper()
	w := &deletedWorld{
		world: newWorld(t, 0), cloud: openstacktest.NewCloud(),
		objects: dynamic.NewForConfigOrDie(cluster.RESTConfig()),
		client:  kubernetes.NewForConfigOrDie(cluster.RESTConfig()),
		servers: map[string]*netfault.Proxy{},
	}
	t.Cleanup(w.cloud.Close)
	network := w.cloud.AddNetwork(openstacktest.Network{Name: "nodes"})
	w.subnet = w.cloud.AddSubnet(
		openstacktest.Subnet{NetworkID: network, CIDR: "10.0.0.0/16"})
	w.define()
	w.authorize()
	return w
}

// sourceUser has the rules of the chart for what the source reads and for the clean-up.
const sourceUser = "fleet-source"

func (w *deletedWorld) authorize() {
	w.t.Helper()
	roles := w.client.RbacV1()
	if _, err := roles.Roles(w.namespace).Create(w.t.Context(), &rbacv1.Role{
		ObjectMeta: metav1.ObjectMeta{Name: sourceUser},
		Rules: []rbacv1.PolicyRule{
			{
				APIGroups: []string{"cluster.x-k8s.io"}, Resources: []string{"clusters"},
				Verbs: []string{"list", "watch", "get", "patch"},
			},
			{
				APIGroups: []string{""}, Resources: []string{"secrets"},
				Verbs: []string{"list", "watch"},
			},
			{APIGroups: []string{""}, Resources: []string{"events"}, Verbs: []string{"create"}},
		},
	}, metav1.CreateOptions{}); err != nil {
		w.t.Fatal(err)
	}
	if _, err := roles.RoleBindings(w.namespace).Create(w.t.Context(), &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: sourceUser},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: sourceUser},
		Subjects: []rbacv1.Subject{{
			APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: sourceUser,
		}},
	}, metav1.CreateOptions{}); err != nil {
		w.t.Fatal(err)
	}
}

// define adds the type of Clusters. The fields of a Cluster that the fleet reads are those of
// Cluster API, whose own definition test/clusterapi uses.
func (w *deletedWorld) define() {
	w.t.Helper()
	crd := &unstructured.Unstructured{}
	if err := json.Unmarshal([]byte(`{"apiVersion": "apiextensions.k8s.io/v1",
"kind": "CustomResourceDefinition", "metadata": {"name": "clusters.cluster.x-k8s.io"},
"spec": {"group": "cluster.x-k8s.io", "scope": "Namespaced",
"names": {"kind": "Cluster", "listKind": "ClusterList", "plural": "clusters", "singular": "cluster"},
"versions": [{"name": "v1beta2", "served": true, "storage": true, "schema": {"openAPIV3Schema":
{"type": "object", "x-kubernetes-preserve-unknown-fields": true}}}]}}`), crd); err != nil {
		w.t.Fatal(err)
	}
	_, err := w.objects.Resource(definitions).Create(w.t.Context(), crd, metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		w.t.Fatal(err)
	}
	waittest.Until(w.t, "the API server serves Clusters", func() error {
		_, err := w.clustersAPI().List(w.t.Context(), metav1.ListOptions{})
		return err
	})
}

func (w *deletedWorld) clustersAPI() dynamic.ResourceInterface {
	return w.objects.Resource(clustersOfAPI).Namespace(w.namespace)
}

// add makes a Cluster with its Secrets, an API server whose kube-system has this UID, and a load
// balancer with its tags.
func (w *deletedWorld) add(name, uid, fleetLabel string) {
	w.t.Helper()
	api, release, err := netfault.APIHandler(cluster.RESTConfig())
	if err != nil {
		w.t.Fatal(err)
	}
	proxy, err := netfault.ListenHTTP(
		http.HandlerFunc(func(out http.ResponseWriter, in *http.Request) {
			if in.URL.Path != "/api/v1/namespaces/kube-system" {
				api.ServeHTTP(out, in)
				return
			}
			out.Header().Set("Content-Type", "application/json")
			_ = json.NewEncoder(out).Encode(corev1.Namespace{
				TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Namespace"},
				ObjectMeta: metav1.ObjectMeta{Name: "kube-system", UID: types.UID(uid)},
			})
		}))
	if err != nil {
		w.t.Fatal(err)
	}
	w.servers[name] = proxy
	w.t.Cleanup(func() {
		if err := proxy.Close(); err != nil {
			w.t.Error(err)
		}
		release()
	})
	object := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Cluster", "spec": map[string]any{},
	}}
	object.SetName(name)
	object.SetLabels(map[string]string{"fleet": fleetLabel})
	object.SetFinalizers([]string{hold})
	if _, err := w.clustersAPI().Create(w.t.Context(), object,
		metav1.CreateOptions{}); err != nil {
		w.t.Fatal(err)
	}
	file := filepath.Join(w.t.TempDir(), "kubeconfig")
	if err := controlplane.WriteKubeconfig(file, proxy.RESTConfig()); err != nil {
		w.t.Fatal(err)
	}
	kubeconfig, err := os.ReadFile(file)
	if err != nil {
		w.t.Fatal(err)
	}
	w.addSecret(name, "-kubeconfig", "value", kubeconfig)
	w.addSecret(name, "-cloud-config", "cloud.conf",
		[]byte(w.cloud.CloudConf("application-credential")))
	w.addLoadBalancer(name, uid, "kube_service_"+name+"_default_web", "service-of-"+name)
}

func (w *deletedWorld) addSecret(clusterName, suffix, key string, data []byte) {
	w.t.Helper()
	if _, err := w.client.CoreV1().Secrets(w.namespace).Create(w.t.Context(), &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Name:   clusterName + suffix,
			Labels: map[string]string{"cluster.x-k8s.io/cluster-name": clusterName},
		},
		Data: map[string][]byte{key: data},
	}, metav1.CreateOptions{}); err != nil {
		w.t.Fatal(err)
	}
}

func (w *deletedWorld) deleteSecret(name string) {
	w.t.Helper()
	if err := w.client.CoreV1().Secrets(w.namespace).Delete(w.t.Context(), name,
		metav1.DeleteOptions{}); err != nil {
		w.t.Fatal(err)
	}
}

// addLoadBalancer adds a load balancer as the provider makes it for a Cluster; without a UID, as
// OCCM does.
func (w *deletedWorld) addLoadBalancer(ofCluster, clusterUID, name, service string) {
	tags := []string{name}
	if clusterUID != "" {
		mark := sha256.Sum256([]byte(w.namespace + "/" + ofCluster))
		tags = append(tags, "fxccm-cluster="+clusterUID, "fxccm-service="+service,
			fmt.Sprintf("fxccm-owner=%x", mark[:16]))
	}
	w.cloud.AddLoadBalancer(openstacktest.LoadBalancer{
		OctaviaResource: openstacktest.OctaviaResource{Name: name, Tags: tags},
		VIPSubnetID:     w.subnet,
		Listeners: []openstacktest.Listener{{
			OctaviaResource: openstacktest.OctaviaResource{Name: "listener_0_" + name, Tags: tags},
			Protocol:        "TCP", ProtocolPort: 80,
		}},
	})
}

// startCleaner starts a replica that cleans up after the Clusters with the label.
func (w *deletedWorld) startCleaner(
	name, fleetLabel string, change ...func(*fleet.Params),
) *running {
	w.t.Helper()
	return w.start(name, append([]func(*fleet.Params){func(p *fleet.Params) {
		p.Name = "fleet-" + fleetLabel
		p.Source = w.source(fleetLabel, fleetLabel != "off")
		p.Limits.Outage = time.Second
		p.Manager = func(c fleet.Cluster) (ccm.Params, error) {
			data := c.CloudConfig
			if data == nil { // as --cloud-config
				data = []byte(w.cloud.CloudConf("password"))
			}
			cloud, _, err := cloudconf.Parse(data, cloudconf.Options{})
			if err != nil {
				return ccm.Params{}, err
			}
			params, err := w.manager(name)(c)
			params.Config.CloudProvider.UserAgents = []string{"replica-" + name}
			params.Providers = []ccm.Provider{openstack.Provider(openstack.WithConfig(cloud))}
			return params, err
		}
	}}, change...)...)
}

func (w *deletedWorld) source(fleetLabel string, cleanUp bool) fleet.Source {
	management := rest.CopyConfig(cluster.RESTConfig())
	management.Impersonate = rest.ImpersonationConfig{
		UserName: sourceUser, Groups: []string{"system:authenticated"},
	}
	return fleet.ClusterAPI(fleet.ClusterAPIConfig{
		Management: management, Namespace: w.namespace,
		Selector: "fleet=" + fleetLabel, CleanUpLoadBalancers: cleanUp,
	})
}

func (w *deletedWorld) get(name string) (*unstructured.Unstructured, error) {
	return w.clustersAPI().Get(w.t.Context(), name, metav1.GetOptions{})
}

func (w *deletedWorld) setFinalizers(name string, finalizers ...string) {
	w.t.Helper()
	patch, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"finalizers": finalizers},
	})
	if err != nil {
		w.t.Fatal(err)
	}
	if _, err := w.clustersAPI().Patch(w.t.Context(), name, types.MergePatchType, patch,
		metav1.PatchOptions{}); err != nil && !apierrors.IsNotFound(err) {
		w.t.Fatal(err)
	}
}

func (w *deletedWorld) deleteCluster(names ...string) {
	w.t.Helper()
	for _, name := range names {
		if err := w.clustersAPI().Delete(w.t.Context(), name,
			metav1.DeleteOptions{}); err != nil {
			w.t.Fatal(err)
		}
	}
}

func (w *deletedWorld) turnOff(names ...string) {
	w.t.Helper()
	for _, name := range names {
		if err := w.servers[name].Set(netfault.Refuse()); err != nil {
			w.t.Fatal(err)
		}
	}
}

// waitRecorded waits until the fleet has written its finalizer to the Clusters.
func (w *deletedWorld) waitRecorded(names ...string) {
	w.t.Helper()
	for _, name := range names {
		waittest.Until(w.t, "the Cluster "+name+" has the finalizer", func() error {
			object, err := w.get(name)
			if err == nil && !slices.Contains(object.GetFinalizers(), finalizer) {
				err = fmt.Errorf("it has %q", object.GetFinalizers())
			}
			return err
		})
	}
}

// writes are the requests to the cloud that may change anything.
func (w *deletedWorld) writes() (found []openstacktest.Call) {
	for _, call := range w.cloud.Calls() {
		if call.Method != http.MethodGet && call.Service != openstacktest.ServiceIdentity {
			found = append(found, call)
		}
	}
	return found
}

func (w *deletedWorld) loadBalancers() (names []string) {
	for _, lb := range w.cloud.LoadBalancers() {
		names = append(names, lb.Name)
	}
	return names
}

// waitTried waits until the replica has tried again to serve a cluster whose API server is gone.
func (w *deletedWorld) waitTried(r *running, name string) {
	w.t.Helper()
	var first time.Time
	waittest.Until(w.t, "the cluster "+name+" was looked at again", func() error {
		current := statusOf(r, w.namespace+"."+name)
		switch {
		case current.State != fleet.StateFailed || current.RetryAt.IsZero():
			return fmt.Errorf("it is %+v", current)
		case first.IsZero():
			first = current.RetryAt
		}
		if !current.RetryAt.After(first) {
			return fmt.Errorf("the next try is still at %s", first)
		}
		return nil
	})
}

// waitReason waits until the status of a Cluster has one of these reasons.
func (w *deletedWorld) waitReason(r *running, name string, reasons ...string) {
	w.t.Helper()
	waittest.Until(w.t, "the status of "+name+" says "+strings.Join(reasons, " or "), func() error {
		got := statusOf(r, w.namespace+"."+name)
		if !slices.ContainsFunc(reasons, func(reason string) bool {
			return strings.Contains(got.Reason, reason)
		}) {
			return fmt.Errorf("it is %+v", got)
		}
		return nil
	})
}

func TestDeletedCluster_ProofIsMissing_OnlyReadsReachTheCloud(t *testing.T) {
	t.Parallel()
	w := newDeletedWorld(t)
	on := []string{
		"undeleted", "unmarked", "keyless", "answering", "unreachable", "paused", "moved", "twin",
		"cloudless",
	}
	for _, name := range append(slices.Clone(on), "other-twin") {
		uid := "uid-of-" + name
		if strings.Contains(name, "twin") {
			uid = "uid-of-twins"
		}
		w.add(name, uid, "on")
	}
	w.add("off", "uid-of-off", "off")
	w.add("failing", "uid-of-failing", "failing")
	all := w.loadBalancers()
	a, off := w.startCleaner("a", "on"), w.startCleaner("off", "off")
	fail := make(chan struct{})
	failing := w.startCleaner("failing", "failing", func(p *fleet.Params) {
		source := p.Source
		p.Source = fleet.SourceFunc(func(ctx context.Context, update func([]fleet.Cluster)) error {
			ctx, stop := context.WithCancel(ctx)
			defer stop()
			go func() {
				select {
				case <-fail:
					stop()
				case <-ctx.Done():
				}
			}()
			select {
			case <-fail:
				return errors.New("the source is down")
			default:
			}
			_ = source.Run(ctx, update)
			return errors.New("the source is down")
		})
	})
	w.waitRecorded(append(slices.Clone(on), "other-twin", "failing")...)
	waittest.Until(t, "the cluster without the option is served", func() error {
		if got := statusOf(off, w.namespace+".off"); !got.Ready {
			return fmt.Errorf("it is %+v", got)
		}
		return nil
	})

	w.setFinalizers("unmarked", hold) // an operator ends the clean-up
	if _, err := w.clustersAPI().Patch(t.Context(), "paused", types.MergePatchType,
		[]byte(`{"spec": {"paused": true}}`), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := w.clustersAPI().Patch(t.Context(), "moved", types.MergePatchType, []byte(
		`{"metadata": {"annotations": {"clusterctl.cluster.x-k8s.io/delete-for-move": ""}}}`),
		metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	close(fail)
	waittest.Until(t, "the source fails", func() error {
		if problems := failing.Status().Problems; len(problems) != 1 {
			return fmt.Errorf("problems: %q", problems)
		}
		return nil
	})
	w.deleteCluster("unmarked", "answering", "unreachable", "paused", "moved", "twin", "cloudless",
		"off", "failing")
	if err := w.servers["unreachable"].Set(netfault.Reset()); err != nil {
		t.Fatal(err)
	}
	w.deleteSecret("cloudless-cloud-config")
	w.deleteSecret("keyless-kubeconfig")
	w.deleteSecret("answering-kubeconfig")
	w.turnOff("undeleted", "unmarked", "paused", "moved", "twin", "cloudless", "off", "failing")

	w.waitReason(a, "keyless", "there is no Secret keyless-kubeconfig")
	w.waitReason(a, "answering", "there is no Secret answering-kubeconfig")
	w.waitTried(a, "undeleted")
	w.waitTried(a, "unmarked")
	w.waitTried(a, "unreachable")
	w.waitReason(a, "cloudless", "the Secret with the provider's configuration is gone")
	w.waitTried(off, "off")
	w.waitTried(failing, "failing")
	w.waitReason(a, "paused", "is paused")
	w.waitReason(a, "moved", "was moved")
	w.waitReason(a, "twin", "Cluster "+w.namespace+"/other-twin has the same UID")
	for _, name := range []string{"keyless", "answering"} {
		if got := statusOf(a, w.namespace+"."+name); got.State != status.Leading {
			t.Errorf("%s is not served any more: %+v", name, got)
		}
	}
	object, err := w.get("off")
	if err != nil || slices.Contains(object.GetFinalizers(), finalizer) {
		t.Errorf("without the option, the Cluster has %v (%v)", object.GetFinalizers(), err)
	}

	// Another replica, which has never seen the API servers, concludes no more.
	b := w.startCleaner("b", "on")
	a.stop()
	a.done <- <-a.done
	w.waitReason(b, "twin", "has the same UID")
	w.waitReason(b, "cloudless", "the Secret with the provider's configuration is gone")
	w.waitReason(b, "keyless", "there is no Secret keyless-kubeconfig")
	w.waitReason(b, "answering", "there is no Secret answering-kubeconfig")
	for _, name := range []string{"undeleted", "unmarked", "answering", "unreachable"} {
		w.waitTried(b, name)
	}
	if writes := w.writes(); len(writes) > 0 {
		t.Errorf("the cloud has received %v", writes)
	}
	if got := w.loadBalancers(); !slices.Equal(got, all) {
		t.Errorf("the load balancers are %q, want %q", got, all)
	}
}

// The replica that cleans up is cut off in the middle. Another one finishes.
func TestDeletedCluster_BothProofs_ItsLoadBalancersAreDeletedByOneReplicaAtATime(t *testing.T) {
	t.Parallel()
	w := newDeletedWorld(t)
	w.add("gone", "uid-of-gone", "on")
	w.add("keyless", "uid-of-keyless", "on")
	w.add("stays", "uid-of-stays", "on")
	w.addLoadBalancer("gone", "", "kube_service_gone_default_of-occm", "")
	w.addLoadBalancer("gone", "uid-of-gone", "kube_service_gone_default_second", "second")
	first := w.startCleaner("first", "on")
	w.waitRecorded("gone", "keyless", "stays")
	w.setFinalizers("keyless", finalizer) // no other controller holds it
	first.stop()
	first.done <- <-first.done
	w.deleteCluster("gone", "keyless")
	w.deleteSecret("keyless-kubeconfig")
	w.turnOff("gone", "keyless")

	// Octavia refuses to delete for now.
	restore := w.cloud.Inject(openstacktest.Fault{
		Operation: "loadbalancer_delete", Status: http.StatusForbidden,
	})
	proxies := map[string]*netfault.Proxy{}
	replicas := map[string]*running{}
	for _, name := range []string{"a", "b"} {
		proxy, err := netfault.ListenAPI(cluster.RESTConfig())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := proxy.Close(); err != nil {
				t.Error(err)
			}
		})
		proxies[name] = proxy
		replicas[name] = w.startCleaner(name, "on", func(p *fleet.Params) {
			p.Management = proxy.RESTConfig()
		})
	}
	var leader, other string
	waittest.Until(t, "a replica tries to delete the load balancers of gone", func() error {
		for name, r := range replicas {
			current := statusOf(r, w.namespace+".gone")
			if current.Leader == name && strings.Contains(current.Reason, "default_second") {
				leader, other = name, map[string]string{"a": "b", "b": "a"}[name]
				return nil
			}
		}
		return fmt.Errorf("%+v", statusOf(replicas["a"], w.namespace+".gone"))
	})
	if err := proxies[leader].Set(netfault.BlackHole()); err != nil {
		t.Fatal(err)
	}
	waittest.Until(t, "the other replica goes on", func() error {
		current := statusOf(replicas[other], w.namespace+".gone")
		if current.Leader != other || !strings.Contains(current.Reason, "default_second") {
			return fmt.Errorf("it is %+v", current)
		}
		return nil
	})
	restore()

	waittest.Until(t, "the finalizer of gone is removed, and keyless is gone", func() error {
		object, err := w.get("gone")
		if err != nil || !slices.Equal(object.GetFinalizers(), []string{hold}) {
			return fmt.Errorf("gone has %v (%v)", object.GetFinalizers(), err)
		}
		if object, err = w.get("keyless"); !apierrors.IsNotFound(err) {
			return fmt.Errorf("keyless has %v (%v)", object.GetFinalizers(), err)
		}
		return nil
	})
	want := []string{"kube_service_stays_default_web", "kube_service_gone_default_of-occm"}
	if got := w.loadBalancers(); !slices.Equal(got, want) {
		t.Errorf("the load balancers %q are left, want %q", got, want)
	}
	waittest.Until(t, "the Lease of keyless is deleted", func() error {
		_, err := w.leases().Get(t.Context(), "fleet-on."+w.namespace+".keyless",
			metav1.GetOptions{})
		if !apierrors.IsNotFound(err) {
			return fmt.Errorf("it is there (%v)", err)
		}
		return nil
	})
	// The replica that was cut off has sent nothing after the other one began with a load balancer.
	begun := map[string]bool{}
	for _, call := range w.writes() {
		lb := call.Path
		if strings.Contains(call.UserAgent, "replica-"+other) {
			begun[lb] = true
		} else if begun[lb] {
			t.Errorf("%s sent %s %s after the other replica", call.UserAgent, call.Method,
				call.Path)
		}
	}
	if len(begun) == 0 {
		t.Errorf("the replica %s has deleted nothing: %v", other, w.writes())
	}
	events, err := w.client.CoreV1().Events(w.namespace).List(t.Context(), metav1.ListOptions{
		FieldSelector: "involvedObject.kind=Cluster,involvedObject.name=gone",
	})
	if err != nil {
		t.Fatal(err)
	}
	var reasons []string
	for _, event := range events.Items {
		reasons = append(reasons, event.Reason)
	}
	slices.Sort(reasons)
	if want := []string{"DeletedLoadBalancers", "DeletingLoadBalancers"}; !slices.Equal(reasons,
		want) {
		t.Errorf("the events of the Cluster are %q, want %q", reasons, want)
	}
}

// The API server of a tenant reports what it likes. Another cluster's UID, and one that changes,
// prove nothing, and no load balancer of another Cluster is deleted even if the annotations are
// changed.
func TestDeletedCluster_UIDIsForged_NoLoadBalancerOfAnotherIsDeleted(t *testing.T) {
	t.Parallel()
	w := newDeletedWorld(t)
	w.add("victim", "uid-of-victim", "on")
	a := w.startCleaner("a", "on")
	w.waitRecorded("victim")
	w.add("duplicate", "uid-of-victim", "on")
	w.add("changed", "uid-of-changed", "on")
	w.add("annotated", "uid-of-annotated", "on")
	w.add("empty", "", "on")
	w.waitRecorded("duplicate", "changed", "annotated")
	w.waitReason(a, "duplicate", "has the same UID of kube-system")
	w.patch("changed", `{"metadata": {"annotations": {"fxccm.dev/kube-system-uid": "other"}}}`)
	a.stop()
	a.done <- <-a.done
	b := w.startCleaner("b", "on")
	w.waitReason(b, "changed", "reports another UID of kube-system")
	waittest.Until(t, "an event reports it", func() error {
		events, err := w.client.CoreV1().Events(w.namespace).List(t.Context(),
			metav1.ListOptions{FieldSelector: "reason=DisputedClusterUID"})
		if err == nil && len(events.Items) < 2 {
			err = fmt.Errorf("%d events", len(events.Items))
		}
		return err
	})
	// A user who may patch the Clusters sets the UID, and removes the disputes.
	none := `"fxccm.dev/disputed-kube-system-uid": null`
	w.patch("duplicate", `{"metadata": {"annotations": {`+none+`}}}`)
	w.patch("victim", `{"metadata": {"annotations": {"fxccm.dev/kube-system-uid": null, `+none+`}}}`)
	w.patch("annotated",
		`{"metadata": {"annotations": {"fxccm.dev/kube-system-uid": "uid-of-victim"}}}`)
	w.deleteCluster("changed", "annotated")
	w.turnOff("changed", "annotated")
	w.waitReason(b, "changed", "has reported another UID of kube-system")
	// The first, if the UID of the victim is recorded again before the Cluster is looked at.
	w.waitReason(b, "annotated", "has the same UID of kube-system",
		"it has the UID of the cluster without its mark")
	if object, err := w.get("empty"); err != nil ||
		slices.Contains(object.GetFinalizers(), finalizer) {
		t.Errorf("the Cluster without a UID has %v (%v)", object.GetFinalizers(), err)
	}
	for _, name := range []string{"victim", "duplicate", "changed", "annotated"} {
		if !slices.Contains(w.loadBalancers(), "kube_service_"+name+"_default_web") {
			t.Errorf("the load balancer of %s is deleted", name)
		}
	}
	if writes := w.writes(); len(writes) > 0 {
		t.Errorf("the cloud has received %v", writes)
	}
}

func (w *deletedWorld) patch(name, patch string) {
	w.t.Helper()
	if _, err := w.clustersAPI().Patch(w.t.Context(), name, types.MergePatchType, []byte(patch),
		metav1.PatchOptions{}); err != nil {
		w.t.Fatal(err)
	}
}
