//go:build linux

package takeover_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/fxccm/fxccm/ccm/ccmtest"
	"github.com/fxccm/fxccm/ccm/ccmtest/controlplane"
	"github.com/fxccm/fxccm/cmd/fxccm/migrate"
	"github.com/fxccm/fxccm/internal/freeport"
	"github.com/fxccm/fxccm/test/commandblocks"
	"github.com/fxccm/fxccm/test/internal/project"
)

// commandLimit is generous: the real OpenStack takes minutes.
const commandLimit = 12 * time.Minute

// migrating is a cluster of OCCM with an administrator who runs fxccm migrate.
type migrating struct {
	*occm
	*machine
	kubeconfig string
	// flags are given to each command.
	flags  []string
	before project.Inventory
	// asOnPage has the commands read the kubeconfig that the environment names.
	asOnPage bool
	// answer is what the administrator answers to a question.
	answer string
}

// newMigrating makes a cluster with two Services that OCCM has served.
func newMigrating(t *testing.T, kind, namespace string) *migrating {
	t.Helper()
	o := newOCCM(t, "kubernetes")
	if namespace != metav1.NamespaceSystem {
		o.namespace(namespace)
	}
	return newMigratingIn(o, &machine{
		t: t, cluster: o.cluster, served: o.cluster, kind: kind, ns: namespace,
		holder: "control-plane-1_occm",
	}, nil)
}

// newMigratingIn has OCCM run on the machine, with the arguments in addition.
func newMigratingIn(
	o *occm, on *machine, more func(*corev1.PodTemplateSpec),
) *migrating {
	t := on.t
	t.Helper()
	o.manageSecurityGroups, o.subnetID = true, o.Subnets[4]
	servers := o.AddServers([]string{"node-1"})
	node := o.node(servers[0], o.Zones[0], "10.244.1.0/24", nil)
	o.route(servers[0], "10.244.1.0/24")
	var groups []string
	for _, service := range []*corev1.Service{
		o.created("web", ccmtest.ServicePorts(80, 443), monitored), o.created("inner", internal),
	} {
		groups = append(groups, o.openNodes(service))
		id, address := o.serve(service, []*corev1.Node{node})
		o.told(service, id, address)
	}
	o.admit(servers[0].Port, groups)
	mount := t.TempDir()
	m := &migrating{occm: o, kubeconfig: o.kubeconfig(on.cluster.RESTConfig()), machine: on}
	args := []string{
		"/bin/" + occmName, "--v=1", "--cluster-name=$(CLUSTER_NAME)",
		"--cloud-config=$(CLOUD_CONFIG)", "--cloud-provider=openstack",
		"--use-service-account-credentials=false", "--bind-address=127.0.0.1",
		fmt.Sprintf("--secure-port=%d", freeport.ForTest(t)), "--logtostderr=true",
		"--cluster-cidr=" + clusterCIDR.String(), "--leader-elect-lease-duration=3s",
		"--leader-elect-renew-deadline=2s", "--leader-elect-retry-period=300ms",
		"--leader-elect-resource-namespace=" + on.leaseNamespace(),
	}
	template := corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"k8s-app": occmName}},
		Spec: corev1.PodSpec{
			HostNetwork:        true,
			ServiceAccountName: "default",
			NodeSelector:       map[string]string{"node-role.kubernetes.io/control-plane": ""},
			Containers: []corev1.Container{{
				Name: occmName, Args: args,
				Image: "registry.k8s.io/provider-os/" + occmName + ":v1.36.0",
				Env: []corev1.EnvVar{
					{Name: "CLOUD_CONFIG", Value: filepath.Join(mount, "cloud.conf")},
					{Name: "CLUSTER_NAME", Value: o.clusterName},
				},
				VolumeMounts: []corev1.VolumeMount{
					{Name: "cloud", MountPath: mount, ReadOnly: true},
					{Name: "certificates", MountPath: "/etc/ssl/certs", ReadOnly: true},
				},
			}},
			Volumes: []corev1.Volume{
				{Name: "cloud", VolumeSource: corev1.VolumeSource{
					Secret: &corev1.SecretVolumeSource{SecretName: "cloud-config"},
				}},
				{Name: "certificates", VolumeSource: corev1.VolumeSource{
					HostPath: &corev1.HostPathVolumeSource{Path: "/etc/ssl/certs"},
				}},
			},
		},
	}
	if more != nil {
		more(&template)
	}
	m.install(o.cloudConf(hasty+"[LoadBalancer]\nmanage-security-group = false\n"), template)
	m.ensureAccount()
	m.machine.run()
	m.before = o.inventory()
	m.awaitOCCM()
	return m
}

// ensureAccount: no controller creates the ServiceAccount "default" here.
func (m *migrating) ensureAccount() {
	m.machine.t.Helper()
	_, err := m.machine.cluster.Admin.CoreV1().ServiceAccounts(m.ns).Create(m.machine.t.Context(),
		&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "default"}},
		metav1.CreateOptions{})
	if err != nil && !strings.Contains(err.Error(), "already exists") {
		m.machine.t.Fatal(err)
	}
}

// awaitOCCM waits until OCCM leads.
func (m *migrating) awaitOCCM() {
	m.machine.t.Helper()
	m.Wait("OCCM leads", func() error {
		lease, err := m.served.Admin.CoordinationV1().Leases(m.leaseNamespace()).Get(
			m.machine.t.Context(), leaseName, metav1.GetOptions{})
		if err == nil && ptr.Deref(lease.Spec.HolderIdentity, "") != m.holder {
			err = errors.New("it does not")
		}
		return err
	})
}

// migrate runs "fxccm migrate". It interrupts the command when it prints a line with stopAt.
func (m *migrating) migrate(stopAt string, args ...string) (code int, out string) {
	m.machine.t.Helper()
	return m.command(stopAt, append([]string{"migrate"}, args...)...)
}

// command runs a command of fxccm.
func (m *migrating) command(stopAt string, args ...string) (code int, out string) {
	t := m.machine.t
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), commandLimit)
	defer cancel()
	cmd := exec.CommandContext(ctx, shared.Binary, append(args, m.flags...)...)
	if m.asOnPage {
		cmd.Env = append(os.Environ(), "KUBECONFIG="+m.kubeconfig)
	} else {
		cmd.Args = append(cmd.Args, "--kubeconfig="+m.kubeconfig)
	}
	cmd.Stdin = strings.NewReader(m.answer)
	reader, writer := io.Pipe()
	cmd.Stdout, cmd.Stderr = writer, writer
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	read := make(chan string)
	go func() {
		var text strings.Builder
		lines := bufio.NewScanner(reader)
		for lines.Scan() {
			text.WriteString(lines.Text() + "\n")
			if stopAt != "" && strings.HasPrefix(lines.Text(), stopAt) {
				_ = cmd.Process.Signal(syscall.SIGINT)
			}
		}
		read <- text.String()
	}()
	_ = cmd.Wait() // the exit code tells
	_ = writer.Close()
	out = <-read
	if password := string(m.Config().Global.Password); strings.Contains(out, password) {
		t.Errorf("the output has the password:\n%s", out)
	}
	return cmd.ProcessState.ExitCode(), out
}

// want runs "fxccm migrate", and fails the test if its exit code or its output is another.
func (m *migrating) want(code int, texts []string, args ...string) string {
	t := m.machine.t
	t.Helper()
	got, out := m.migrate("", args...)
	for _, text := range texts {
		if !strings.Contains(out, text) {
			t.Errorf("fxccm migrate %v does not print %q", args, text)
		}
	}
	if got != code || t.Failed() {
		t.Fatalf("fxccm migrate %v: exit code %d, want %d:\n%s", args, got, code, out)
	}
	return out
}

// pageCommands are the arguments of the four commands of the page.
func pageCommands(t *testing.T) (check, plan, apply, rollback []string) {
	t.Helper()
	commands, err := commandblocks.RunBy("test/providers/takeover",
		"../../../docs/how-to/migrate-from-occm.md")
	if err != nil {
		t.Fatal(err)
	}
	if len(commands) != 4 {
		t.Fatalf("the page has %d commands, want 4", len(commands))
	}
	var all [4][]string
	for i, c := range commands {
		args, err := c.Args("fxccm", "migrate")
		if err != nil {
			t.Fatal(err)
		}
		all[i] = args
	}
	return all[0], all[1], all[2], all[3]
}

func TestMigrate_FromAnOCCM_AndBack(t *testing.T) {
	t.Parallel()
	check, plan, apply, rollback := pageCommands(t)
	for _, c := range []struct{ kind, namespace, owner string }{
		{"DaemonSet", metav1.NamespaceSystem, ""}, {"Deployment", "occm", "Helm release occm"},
	} {
		t.Run(c.kind, func(t *testing.T) {
			t.Parallel()
			m := newMigrating(t, c.kind, c.namespace)
			m.asOnPage = true
			spec, began := m.spec(), time.Now()
			m.want(0, []string{
				c.kind + " " + c.namespace + "/" + occmName, "2 tags only", "can start",
				"--logtostderr=true", c.owner, "manage-security-group", "lease",
				"host path /etc/ssl/certs",
			}, check...)
			var report struct {
				Blocked  bool
				Findings []struct{ Level, Subject, Text string }
			}
			err := json.Unmarshal([]byte(m.want(0, nil, "check", "-ojson")), &report)
			if err != nil || report.Blocked || len(report.Findings) == 0 {
				t.Errorf("the report: %v, %+v", err, report)
			}
			m.want(0, []string{"default/web", "2 Services: 2 tags only."}, plan...)
			m.want(1, []string{"not confirmed"}, apply...)
			m.wantNothingWritten(began)
			if now := m.spec(); !reflect.DeepEqual(now, spec) {
				t.Errorf("without a confirmation OCCM is changed to %v", now)
			}

			m.addNode("control-plane-1")
			m.answer = "y\n"
			m.wantStatus(m.want(0, []string{"fxccm runs the cluster"}, apply...))
			m.wantOnlyTags()
			m.want(0, []string{"already"}, apply...)
			m.wantServed(plan...)

			m.setImage("registry.example.com/fxccm:v2")
			m.want(0, []string{"runs again"}, rollback...)
			if now := m.spec(); !reflect.DeepEqual(now, spec) {
				t.Errorf("after the rollback OCCM is %v, want %v", now, spec)
			}
			m.awaitOCCM()
			m.want(0, []string{"Nothing to do"}, rollback...)
			m.wantOnlyTags()
			m.answer = "" // the dry run comes before the question
			m.want(1, []string{"not confirmed"}, apply...)
			refused, err := m.occm.cluster.Audit().All(
				controlplane.ByUser("system:serviceaccount:"+c.namespace+":"+fxccmName),
				func(r controlplane.AuditRecord) bool {
					return r.Decision == "forbid"
				})
			if err != nil || len(refused) > 0 {
				t.Errorf("the API server has refused %v, %v", refused, err)
			}
		})
	}
}

// setImage changes fxccm's image like "kubectl set image", as on the page.
func (m *migrating) setImage(image string) {
	t := m.machine.t
	t.Helper()
	patch := fmt.Appendf(nil, `{"spec": {"template": {"spec": {"containers": [
		{"name": "cloud-controller-manager", "image": %q}]}}}}`, image)
	if _, err := m.machine.cluster.Admin.AppsV1().Deployments(m.ns).Patch(t.Context(), fxccmName,
		types.StrategicMergePatchType, patch,
		metav1.PatchOptions{FieldManager: "kubectl-set"}); err != nil {
		t.Fatal(err)
	}
}

// wantStatus runs the command that apply has printed.
func (m *migrating) wantStatus(applied string) {
	t := m.machine.t
	t.Helper()
	_, command, _ := strings.Cut(applied, "\nLook at it: fxccm ")
	command, _, _ = strings.Cut(command, "\n")
	code, out := m.command("", strings.Fields(command)...)
	for _, want := range []string{
		"Lease " + m.ns + "/" + leaseName + ": held by fxccm-1,", "fxccm-1   leading", "running",
	} {
		if code != 0 || !strings.Contains(out, want) {
			t.Errorf("fxccm %s lacks %q: exit code %d\n%s", command, want, code, out)
		}
	}
}

// wantNothingWritten fails the test if the program has changed something in the cluster or in
// OpenStack. A dry run changes nothing.
func (m *migrating) wantNothingWritten(since time.Time) {
	t := m.machine.t
	t.Helper()
	audit := m.occm.cluster.Audit()
	written, err := audit.All(controlplane.ReceivedAfter(since), controlplane.Mutating(),
		controlplane.ByUserAgent("fxccm"), func(r controlplane.AuditRecord) bool {
			return !strings.Contains(r.RequestURI, "dryRun=All")
		})
	if err != nil || len(written) > 0 {
		t.Errorf("the API server was asked to change something: %v, %v", written, err)
	}
	read, err := audit.All(controlplane.ReceivedAfter(since), controlplane.ByUserAgent("fxccm"))
	if err != nil || len(read) == 0 {
		t.Errorf("the audit log does not know the program: %v", err)
	}
	if lines := m.before.Differences(m.inventory()); len(lines) > 0 {
		t.Errorf("OpenStack is changed:\n%s", strings.Join(lines, "\n"))
	}
}

// wantOnlyTags fails the test if more than tags has changed since OCCM.
func (m *migrating) wantOnlyTags() {
	m.machine.t.Helper()
	if lines := m.before.Differences(m.inventory(), "tags"); len(lines) > 0 {
		m.machine.t.Errorf("more than tags is changed:\n%s", strings.Join(lines, "\n"))
	}
}

func TestMigrate_AStepFails_OCCMRunsAgain(t *testing.T) {
	t.Parallel()
	m := newMigrating(t, "DaemonSet", metav1.NamespaceSystem)
	spec := m.spec()
	m.set(func() {
		m.onStart = func() {
			m.updateBalancers(func(project.Object) project.Object {
				return project.Object{"description": "changed"}
			})
		}
	})
	m.want(1, []string{
		"more than tags has changed", "description was", "Going back", "OCCM runs again",
	}, "apply", "--yes", "--timeout=2m", "--image="+goodImage)
	if now := m.spec(); !reflect.DeepEqual(now, spec) {
		t.Errorf("OCCM is %v, want %v", now, spec)
	}
	m.awaitOCCM()
}

// The sessionAffinity changed, and OCCM has ignored that.
func TestMigrate_AServiceWouldChange_BlocksUnlessAllowed(t *testing.T) {
	t.Parallel()
	m := newMigrating(t, "DaemonSet", metav1.NamespaceSystem)
	m.edit("web", affine)
	spec := m.spec()
	change := "fxccm would change more than tags (7 steps)"
	guests := []string{"kube_service_other_default_web", "fxccm-cluster=c2", "fxccm-guest=c2"}
	m.updateBalancers(func(lb project.Object) project.Object {
		if !strings.HasSuffix(lb["name"].(string), "_web") {
			return project.Object{}
		}
		tags := lb["tags"].([]any)
		for _, guest := range guests {
			tags = append(tags, guest)
		}
		return project.Object{"tags": tags}
	})
	m.want(migrate.ExitBlocked, []string{
		change, "is blocked",
		"is shared with another cluster (tags fxccm-cluster=c2, kube_service_other_default_web)",
	}, "check")
	m.want(migrate.ExitBlocked, []string{change, "nothing was changed"}, "apply", "--yes",
		"--image="+goodImage)
	if now := m.spec(); !reflect.DeepEqual(now, spec) {
		t.Errorf("OCCM is %v, want %v", now, spec)
	}
	m.wantOnlyTags()
	m.want(0, []string{"fxccm runs the cluster"}, "apply", "--yes", "--allow-changes",
		"--image="+goodImage)
	m.wantServed("plan")
	for _, line := range m.before.Differences(m.inventory(), "tags") {
		if !strings.Contains(line, "session_persistence") {
			t.Errorf("more is changed: %s", line)
		}
	}
}

// wantServed waits until fxccm has served both Services: the migration ends before that.
func (m *migrating) wantServed(plan ...string) {
	m.machine.t.Helper()
	m.Wait("fxccm has served both Services", func() error {
		if code, out := m.migrate("", plan...); !strings.Contains(out, "2 Services: 2 no change.") {
			return fmt.Errorf("exit code %d: %s", code, out)
		}
		return nil
	})
}

// updateBalancers changes fields of OCCM's load balancers.
func (m *migrating) updateBalancers(change func(lb project.Object) project.Object) {
	for _, lb := range m.before.Of("load balancer") {
		answer := m.User().Try(http.MethodPut, project.LoadBalancer,
			"/lbaas/loadbalancers/"+project.ID(lb), project.Object{"loadbalancer": change(lb)})
		if answer.Status >= 300 {
			m.machine.t.Errorf("%s", answer)
		}
		m.WaitBalancer(project.ID(lb))
	}
}

func TestMigrate_Interrupted_ApplyContinuesAndRollbackGoesBack(t *testing.T) {
	t.Parallel()
	m := newMigrating(t, "DaemonSet", metav1.NamespaceSystem)
	spec := m.spec()
	apply := []string{"apply", "--yes", "--image=" + goodImage}
	interrupt := func(at string, args ...string) {
		t.Helper()
		code, out := m.migrate(at, args...)
		// The comparison may end before the signal arrives.
		late := code == 0 && at == "Verifying"
		if !late && (code != 1 || !strings.Contains(out, "interrupted") ||
			!strings.Contains(out, "Run apply again")) {
			t.Fatalf("interrupted at %q: exit code %d:\n%s", at, code, out)
		}
	}
	for _, c := range []struct {
		// Each apply continues the previous one.
		at       []string
		finishes bool
	}{
		{[]string{"Installing", "Reading OpenStack", "Stopping"}, false},
		{[]string{
			"  waiting until the lease", "Starting fxccm", "  waiting until fxccm leads",
			"Verifying",
		}, true},
	} {
		for _, at := range c.at {
			interrupt(at, apply...)
		}
		if c.finishes {
			m.want(0, nil, apply...)
			m.wantOnlyTags()
			interrupt("Stopping fxccm", "rollback", "--yes")
		}
		m.want(0, nil, "rollback", "--yes")
		if now := m.spec(); !reflect.DeepEqual(now, spec) {
			t.Fatalf("rollback after %q: OCCM is %v, want %v", c.at, now, spec)
		}
		m.awaitOCCM()
		m.wantOnlyTags()
	}
}
