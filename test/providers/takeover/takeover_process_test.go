package takeover_test

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/fxccm/fxccm/ccm/ccmtest"
	"github.com/fxccm/fxccm/ccm/ccmtest/controlplane"
	"github.com/fxccm/fxccm/test/child"
)

// The program is put in the place of OCCM's: the same arguments, the same cloud.conf, the lease
// that OCCM held. Subnet and external network are found as OCCM finds them, and names are as long
// as Octavia and Neutron take them: the description of the floating IP has 255 characters.
func TestProcess_InThePlaceOfOCCMs_TakesOverByTagsAlone(t *testing.T) {
	t.Parallel()
	o := newOCCM(t, "a-cluster-of-a-long-name-"+strings.Repeat("x", 45))
	o.floatingNetworkID = ""
	servers := o.AddServers([]string{"process-1", "process-2"})
	node := o.node(servers[0], o.Zones[0], "10.244.1.0/24", nil)
	o.route(servers[0], "10.244.1.0/24")
	base := o.inventory()
	var services []*corev1.Service
	for _, service := range []*corev1.Service{
		o.created(strings.Repeat("s", 63),
			ccmtest.ServiceNamespace(o.namespace(strings.Repeat("n", 63)))),
		o.created("inner", ccmtest.ServiceAnnotation(annotationInternal, "true")),
	} {
		id, address := o.serve(service, []*corev1.Node{node})
		services = append(services, o.told(service, id, address))
	}
	o.lease()
	before, told := o.inventory(), spoken(services, o.nodes())
	if deeds := o.look(before, services, o.nodes()); len(deeds) > 0 {
		t.Fatalf("OCCM itself would %v", deeds)
	}

	// What OCCM takes no notice of is a mistake to fxccm, unless it is told not to be strict.
	// [BlockStorage] is known to be of old: OCCM's chart still writes it.
	conf := o.writeConf(
		"[BlockStorage]\nbs-version = v2\n[LoadBalancer]\nmanage-security-group = false\n")
	kubeconfig, admin := o.kubeconfig(o.cluster.Identity), o.kubeconfig(o.cluster.RESTConfig())
	// What OCCM's manifest and chart say, and where the cluster is.
	args := []string{
		"--v=1", "--cluster-name=" + o.clusterName, "--cloud-config=" + conf,
		"--cloud-provider=openstack",
		"--use-service-account-credentials=false",
		"--controllers=cloud-node,cloud-node-lifecycle,route,service", "--bind-address=127.0.0.1",
		"--leader-elect=true", "--cluster-cidr=" + clusterCIDR.String(),
		"--configure-cloud-routes=true", "--route-reconciliation-period=2s",
		"--allocate-node-cidrs=true",
		"--kubeconfig=" + kubeconfig, "--secure-port=0",
	}
	if code, out := o.execute(args...); code != 1 ||
		!strings.Contains(out, "manage-security-group") || !strings.Contains(out, conf) {
		t.Errorf("of a key that it does not know: exit code %d, and\n%s", code, out)
	}
	args = append(args, "--cloud-config-strict=false")

	o.wantPlan(conf, admin, services, "tag")
	stop := o.launch(args...)
	o.waitTagged()
	o.waitLease(func(holder string) bool {
		return holder != "" && !strings.HasPrefix(holder, "control-plane-1")
	})
	o.wantPlan(conf, admin, services, "")
	stop()
	o.waitLease(func(holder string) bool { return holder == "" })
	if lines := before.Differences(o.inventory(), "tags"); len(lines) > 0 {
		t.Errorf("more than tags is changed:\n%s", strings.Join(lines, "\n"))
	}
	if now := spoken(o.services(), o.nodes()); strings.Join(now, "\n") != strings.Join(told, "\n") {
		t.Errorf("Services and nodes were\n%s\nand are\n%s", strings.Join(told, "\n"),
			strings.Join(now, "\n"))
	}

	// It works, and OCCM would continue it.
	stop = o.launch(args...)
	ccmtest.CreateNode(t, o.cluster.Admin,
		ccmtest.TaintedNode(servers[1].Name, ccmtest.NodePodCIDRs("10.244.2.0/24")))
	o.Wait("both nodes are members, and have routes", func() error {
		if deeds := o.look(o.inventory(), o.services(), o.nodes()); len(deeds) > 0 ||
			len(o.nodes()) != 2 {
			return fmt.Errorf("OCCM would %v", deeds)
		}
		return nil
	})
	for _, service := range services {
		if err := o.cluster.Admin.CoreV1().Services(service.Namespace).Delete(t.Context(),
			service.Name, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	if err := o.cluster.Admin.CoreV1().Nodes().Delete(t.Context(), servers[1].Name,
		metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	o.Wait("nothing of them is left", func() error {
		if lines := base.Differences(o.inventory()); len(lines) > 0 {
			return errors.New(strings.Join(lines, "\n"))
		}
		return nil
	})
	stop()
}

// namespace makes one.
func (o *occm) namespace(name string) string {
	o.t.Helper()
	_, err := o.cluster.Admin.CoreV1().Namespaces().Create(o.t.Context(),
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
	if err != nil {
		o.t.Fatal(err)
	}
	return name
}

func (o *occm) kubeconfig(cfg *rest.Config) (path string) {
	o.t.Helper()
	path = filepath.Join(o.t.TempDir(), "kubeconfig")
	if err := controlplane.WriteKubeconfig(path, cfg); err != nil {
		o.t.Fatal(err)
	}
	return path
}

// execute runs the program to its end.
func (o *occm) execute(args ...string) (code int, out string) {
	o.t.Helper()
	ctx, cancel := context.WithTimeout(o.t.Context(), 2*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, shared.Binary, args...)
	text, err := cmd.CombinedOutput()
	if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
		o.t.Fatal(err)
	}
	return cmd.ProcessState.ExitCode(), string(text)
}

// launch runs the program until stop is called, which it must obey in order, or the test ends.
func (o *occm) launch(args ...string) (stop func()) {
	o.t.Helper()
	p := child.Start(o.t, shared.Binary, args...)
	return func() {
		o.t.Helper()
		p.Signal(syscall.SIGTERM)
		if code := p.Wait(); code != 0 {
			o.t.Errorf("the program ended with %d", code)
		}
	}
}

// waitLease waits for the holder of the lease.
func (o *occm) waitLease(is func(holder string) bool) {
	o.t.Helper()
	o.Wait("the right replica holds the lease", func() error {
		lease, err := o.cluster.Admin.CoordinationV1().Leases(metav1.NamespaceSystem).Get(
			o.t.Context(), leaseName, metav1.GetOptions{})
		if err != nil {
			return err
		}
		var holder string
		if lease.Spec.HolderIdentity != nil {
			holder = *lease.Spec.HolderIdentity
		}
		if !is(holder) {
			return fmt.Errorf("it is %q", holder)
		}
		return nil
	})
}

// wantPlan fails the test if "fxccm plan" has a step for one of the Services that is about
// anything but tags; about "": any step.
func (o *occm) wantPlan(conf, kubeconfig string, services []*corev1.Service, about string) {
	o.t.Helper()
	for _, service := range services {
		code, out := o.execute("plan", "--cloud-config="+conf, "--cloud-config-strict=false",
			"--kubeconfig="+kubeconfig,
			"--cluster-name="+o.clusterName, service.Namespace+"/"+service.Name)
		if code != 0 {
			o.t.Errorf("fxccm plan: %d\n%s", code, out)
			continue
		}
		for _, step := range regexp.MustCompile(`(?m)^ *\d+\. .*`).FindAllString(out, -1) {
			if about == "" || !strings.Contains(step, about) {
				o.t.Errorf("fxccm plan has %q:\n%s", step, out)
			}
		}
		if nothing := strings.Contains(out, "No changes"); nothing != (about == "") {
			o.t.Errorf("fxccm plan tells\n%s", out)
		}
	}
}
