package main

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/yaml"

	"github.com/fxccm/fxccm/ccm/ccmtest"
	"github.com/fxccm/fxccm/ccm/ccmtest/controlplane"
	"github.com/fxccm/fxccm/deploy"
	"github.com/fxccm/fxccm/provider/openstack/openstacktest"
	"github.com/fxccm/fxccm/test/internal/endpoint"
	"github.com/fxccm/fxccm/test/internal/ports"
)

const (
	fleetNamespace = "fxccm-system"
	fleetAccount   = "fxccm-fleet"
	// fleetName begins the names of the Leases.
	fleetName = "demo"

	clusterCount = 30
	joiningCount = 10
)

//go:embed clusters.yaml
var clustersKind []byte

// fleetWorld is a management cluster, two projects of an OpenStack, the clusters of a fleet, and
// the replicas that serve them.
type fleetWorld struct {
	dir, binary string
	replicas    []*replica
	projects    []project

	controlPlane *controlplane.ControlPlane
	client       kubernetes.Interface
	cloud        *openstacktest.Cloud

	mu      sync.Mutex
	members []*member
}

// project is a project of OpenStack, which the clusters of one team use.
type project struct {
	team, id, network, conf string
}

// member is a cluster of the fleet: its API endpoint, and what the replicas changed there.
type member struct {
	name     string
	project  *project
	endpoint *endpoint.Endpoint

	mu sync.Mutex
	// turns are the replicas that changed something, in order, each as often as it followed another
	// one.
	turns []string
}

// inFleet is the name of the cluster in the fleet, and lease that of its Lease.
func (m *member) inFleet() string { return m.project.team + "." + m.name }
func (m *member) lease() string   { return fleetName + "." + m.inFleet() }
func (m *member) node() string    { return endpoint.NodeName(m.name, "node") }

func runFleet(binary string, check bool) error {
	path, err := executable("binary", binary)
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "fxccm-demo-")
	if err != nil {
		return fmt.Errorf("make a folder for the demo: %w", err)
	}
	w := &fleetWorld{dir: dir, binary: path}
	for _, name := range []string{"replica-a", "replica-b", "replica-c"} {
		port, err := ports.Free()
		if err != nil {
			return errors.Join(err, os.RemoveAll(dir))
		}
		w.replicas = append(w.replicas, w.newReplica(name, port))
	}
	return show(w, fleetStory(), check, isTerminal(os.Stdout))
}

func isTerminal(file *os.File) bool {
	info, err := file.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}

func (w *fleetWorld) newReplica(name string, port int) *replica {
	return &replica{
		name: name, binary: w.binary, port: port,
		readyURL: fmt.Sprintf("https://127.0.0.1:%d/readyz", port),
		log:      w.file(name + ".log"), args: []string{
			"fleet",
			"--kubeconfig=" + w.file("fleet.kubeconfig"),
			"--cloud-provider=openstack",
			"--clusters=clusterapi",
			"--name=" + fleetName,
			"--namespace=" + fleetNamespace,
			"--identity=" + name,
			"--user-agent=" + name, // names the replica in OpenStack's record of calls
			"--configure-cloud-routes=false",
			"--bind-address=127.0.0.1",
			"--secure-port=" + strconv.Itoa(port),
			"--v=2",
		},
	}
}

func (w *fleetWorld) processes() []*replica   { return w.replicas }
func (w *fleetWorld) folder() string          { return w.dir }
func (w *fleetWorld) file(name string) string { return filepath.Join(w.dir, name) }

func (w *fleetWorld) until(ctx context.Context, cond func(context.Context) error) error {
	return until(ctx, w.replicas, cond)
}

// startManagement starts the management cluster, with the kind of Cluster API and the shipped rules
// of a fleet.
func (w *fleetWorld) startManagement(ctx context.Context) (err error) {
	if w.controlPlane, err = controlplane.Start(ctx,
		controlplane.Options{LogDir: w.file("control-plane")}); err != nil {
		return err
	}
	admin := w.controlPlane.RESTConfig()
	if w.client, err = kubernetes.NewForConfig(admin); err != nil {
		return err
	}
	var kind map[string]any
	if err := yaml.UnmarshalStrict(clustersKind, &kind); err != nil {
		return err
	}
	if err := w.addNamespace(ctx, fleetNamespace); err != nil {
		return err
	}
	rules, err := deploy.Read(deploy.FleetRBAC)
	if err != nil {
		return err
	}
	rules = append(rules, &unstructured.Unstructured{Object: kind})
	if err := deploy.Create(ctx, admin, metav1.CreateOptions{}, rules...); err != nil {
		return err
	}
	identity, err := w.controlPlane.ServiceAccountConfig(fleetNamespace, fleetAccount)
	if err != nil {
		return err
	}
	return errors.Join(
		controlplane.WriteKubeconfig(w.file("admin.kubeconfig"), admin),
		controlplane.WriteKubeconfig(w.file("fleet.kubeconfig"), identity),
	)
}

func (w *fleetWorld) addNamespace(ctx context.Context, name string) error {
	_, err := w.client.CoreV1().Namespaces().Create(ctx,
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
	return err
}

// serveProjects starts an OpenStack with two projects, each with a network of its own.
func (w *fleetWorld) serveProjects(ctx context.Context) error {
	w.cloud = openstacktest.NewCloud(openstacktest.WithRegion(region), openstacktest.WithAdmin())
	w.cloud.Provision(openstacktest.ProvisioningRule{Duration: provisioning / 2})
	w.cloud.AddFlavor(openstacktest.Flavor{Name: machineType, VCPUs: 4, RAM: 8192, Disk: 80})
	outside := w.cloud.AddNetwork(openstacktest.Network{Name: "outside", External: true})
	w.cloud.AddSubnet(
		openstacktest.Subnet{Name: "outside", NetworkID: outside, CIDR: "203.0.113.0/24"})
	for i, team := range []string{"team-a", "team-b"} {
		login := w.cloud.AddProject(openstacktest.Project{Name: team})
		p := project{team: team, id: login.ProjectID}
		p.network = w.cloud.AddNetwork(
			openstacktest.Network{Name: team, ProjectID: p.id})
		subnet := w.cloud.AddSubnet(openstacktest.Subnet{
			Name: team, NetworkID: p.network, CIDR: fmt.Sprintf("10.%d.0.0/16", i),
		})
		router := w.cloud.AddRouter(openstacktest.Router{
			Name: team, ProjectID: p.id, ExternalNetworkID: outside,
		})
		if err := w.cloud.ConnectSubnet(router, subnet); err != nil {
			return err
		}
		p.conf = login.CloudConf(openstacktest.PasswordAuth) +
			"\n[LoadBalancer]\nfloating-network-id = " + outside + "\n"
		w.projects = append(w.projects, p)
		if err := w.addNamespace(ctx, team); err != nil {
			return err
		}
	}
	return nil
}

// addMember creates a cluster with a machine, a node and a Service, and enters it in the fleet, as
// Cluster API does. The teams have clusters in turn.
func (w *fleetWorld) addMember(ctx context.Context) error {
	w.mu.Lock()
	number := len(w.members)
	w.mu.Unlock()
	m := &member{
		name: fmt.Sprintf("cluster-%02d", number+1), project: &w.projects[number%len(w.projects)],
	}
	server := w.cloud.AddServer(openstacktest.Server{
		Name: m.node(), ProjectID: m.project.id, AvailabilityZone: zoneOf(number),
		Flavor: machineType,
	})
	w.cloud.AddPort(openstacktest.Port{
		NetworkID: m.project.network, ProjectID: m.project.id, DeviceID: server,
		DeviceOwner: machineOwner + zoneOf(number),
	})
	if err := w.addNamespace(ctx, m.name); err != nil {
		return err
	}
	node := ccmtest.TaintedNode(m.node())
	node.Labels[endpoint.PartLabel] = m.name
	if _, err := w.client.CoreV1().Nodes().Create(ctx, node, metav1.CreateOptions{}); err != nil {
		return err
	}
	if err := w.addService(ctx, m, "web"); err != nil {
		return err
	}
	var err error
	if m.endpoint, err = endpoint.Start(w.controlPlane.RESTConfig(), m.name,
		endpoint.WithHandler(m.record)); err != nil {
		return err
	}
	w.mu.Lock()
	w.members = append(w.members, m)
	w.mu.Unlock()
	if err := w.writeKubeconfig(ctx, m); err != nil {
		return err
	}
	secret := m.secret("-cloud-config", "cloud.conf", []byte(m.project.conf))
	if _, err := w.client.CoreV1().Secrets(m.project.team).Create(ctx, secret,
		metav1.CreateOptions{}); err != nil {
		return err
	}
	return deploy.Create(ctx, w.controlPlane.RESTConfig(), metav1.CreateOptions{}, m.object())
}

func (w *fleetWorld) addService(ctx context.Context, m *member, name string) error {
	service := ccmtest.LoadBalancerService(name, ccmtest.ServiceNamespace(m.name))
	_, err := w.client.CoreV1().Services(m.name).Create(ctx, service, metav1.CreateOptions{})
	return err
}

// writeKubeconfig creates or updates the Secret with the cluster's kubeconfig.
func (w *fleetWorld) writeKubeconfig(ctx context.Context, m *member) error {
	path := w.file(m.name + ".kubeconfig")
	if err := controlplane.WriteKubeconfig(path, m.endpoint.RESTConfig()); err != nil {
		return err
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	secrets := w.client.CoreV1().Secrets(m.project.team)
	secret := m.secret("-kubeconfig", "value", data)
	_, err = secrets.Create(ctx, secret, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		_, err = secrets.Update(ctx, secret, metav1.UpdateOptions{})
	}
	return err
}

func (m *member) secret(suffix, key string, data []byte) *corev1.Secret {
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Name:   m.name + suffix,
			Labels: map[string]string{"cluster.x-k8s.io/cluster-name": m.name},
		},
		Data: map[string][]byte{key: data},
	}
}

// object is the cluster's object in the management cluster.
func (m *member) object() *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Cluster",
		"metadata": map[string]any{"name": m.name, "namespace": m.project.team},
	}}
}

// record writes down which replica changes something in the cluster.
func (m *member) record(next http.Handler) http.Handler {
	return http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet {
			m.mu.Lock()
			for part := range strings.SplitSeq(r.UserAgent(), "/") {
				if strings.HasPrefix(part, "replica-") &&
					(len(m.turns) == 0 || m.turns[len(m.turns)-1] != part) {
					m.turns = append(m.turns, part)
				}
			}
			m.mu.Unlock()
		}
		next.ServeHTTP(rw, r)
	})
}

func (m *member) turnsSoFar() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.turns)
}

// all are the clusters that were added, in order.
func (w *fleetWorld) all() []*member {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.members)
}

func (w *fleetWorld) stop(ctx context.Context, keepLogs bool) error {
	errs := []error{stopProcesses(w.replicas...)}
	for _, m := range w.all() {
		if m.endpoint != nil {
			errs = append(errs, m.endpoint.Close())
			m.endpoint = nil
		}
	}
	if w.controlPlane != nil {
		errs = append(errs, w.controlPlane.Stop(ctx))
	}
	if w.cloud != nil {
		w.cloud.Close()
	}
	if !keepLogs {
		errs = append(errs, os.RemoveAll(w.dir))
	}
	return errors.Join(errs...)
}

func (w *fleetWorld) statusArguments() []string {
	args := []string{
		"fleet", "status", "--kubeconfig=" + w.file("admin.kubeconfig"),
		"--insecure-skip-tls-verify",
	}
	for _, r := range w.replicas {
		args = append(args, fmt.Sprintf("--server=https://127.0.0.1:%d", r.port))
	}
	return args
}

func (w *fleetWorld) howToLookAround() string {
	return fmt.Sprintf(`Look around from another terminal:
  export KUBECONFIG=%[1]s
  kubectl get clusters -A
  kubectl -n %[2]s get leases
  kubectl get nodes,services -A
  %[3]s %[4]s --watch
  tail -f %[5]s
`, w.file("admin.kubeconfig"), fleetNamespace, w.binary, strings.Join(w.statusArguments(), " "),
		w.replicas[0].log)
}
