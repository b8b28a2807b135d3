package conformance

import (
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	cloudprovider "k8s.io/cloud-provider"

	"github.com/fxccm/fxccm/ccm/ccmtest"
	"github.com/fxccm/fxccm/ccm/status"
	"github.com/fxccm/fxccm/internal/waittest"
)

// check is a promise that a provider must keep.
type check struct {
	name string
	// isolation reports whether a process of its own protects the host from a failure.
	isolation bool
	// run returns the measurement.
	run func(*trial) string
}

func checks() []check {
	return []check{
		{"bad-configuration", true, (*trial).badConfiguration},
		{"three-terms", true, (*trial).threeTerms},
		{"leadership-lost", true, (*trial).leadershipLost},
		{"growth", true, (*trial).growth},
		{"cloud-failure", true, (*trial).cloudFailure},
		{"two-managers", true, (*trial).twoManagers},
		{"absence", false, (*trial).absence},
		{"provider-ids", false, (*trial).providerIDs},
		{"adopted-load-balancer", false, (*trial).adoptedLoadBalancer},
		{"endpoints", false, (*trial).endpoints},
	}
}

func (x *trial) badConfiguration() string {
	if x.suite.BadConfig == "" {
		x.Skip("the suite has no BadConfig")
	}
	file := x.suite.badConfigFile(x)
	cfg := ccmtest.Config()
	x.configure(&cfg, file)
	if validate := x.suite.Provider.Validate; validate != nil {
		if err := validate(cfg); err != nil {
			return "refused by Validate"
		}
	}
	app := x.startWith(file, &manager{})
	var current status.Manager
	waittest.Until(x, "the bad configuration is refused", func() error {
		if current = app.Manager.Status(); current.State == status.Degraded &&
			current.Reason != "" {
			return nil
		}
		return fmt.Errorf("the Manager is %s, ready: %t", current.State, current.Ready)
	})
	return "refused by New"
}

func (x *trial) threeTerms() string {
	m := x.start(x.suite.NewCloud(x))
	for term := range 3 {
		if term > 0 {
			x.lose(m)
		}
		m.lead()
		x.join(m)
	}
	return "a Node was initialized in each"
}

// maxDrain is how long a canceled call may continue.
const maxDrain = time.Second

// leadershipLost holds each operation of a journey in turn, and takes leadership away during each.
func (x *trial) leadershipLost() string {
	m := x.start(x.suite.NewCloud(x))
	m.WaitReady()
	x.travel(x.journey(m), nil)
	operations := operationsOf(m.cloud.Requests())
	if len(operations) == 0 {
		x.Fatal("the provider has sent no request to the cloud while two Nodes joined and left")
	}
	var held []string
	slowest := time.Duration(0)
	for _, operation := range operations {
		loss := x.loseDuring(m, operation)
		// On a busy machine one drain can be slow, and one canceled request can reach the cloud
		// late. A defect shows in each try.
		for tries := 1; loss.defect() != "" && tries < 3; tries++ {
			if again := x.loseDuring(m, operation); again.isHeld {
				loss = again
			}
		}
		if defect := loss.defect(); defect != "" {
			x.Fatalf("%s; the cloud held %q", defect, operation)
		}
		slowest = max(slowest, loss.took)
		if loss.isHeld {
			held = append(held, operation)
		}
	}
	if len(held) == 0 {
		x.Fatalf("none of the operations %q was requested again", operations)
	}
	return fmt.Sprintf("drained within %s while the cloud held one of %s",
		slowest.Round(time.Millisecond), strings.Join(held, ", "))
}

// A loss is the result of a loss of leadership while the cloud held an operation.
type loss struct {
	// isHeld is false if the journey did not need the operation.
	isHeld bool
	took   time.Duration
	// late is a change of the cloud or of an object after the term had drained, or "".
	late string
}

func (l loss) defect() string {
	switch {
	case l.late != "":
		return "after the term had drained " + l.late
	case l.took > maxDrain:
		return fmt.Sprintf("a call continues for %s after its cancellation",
			l.took.Round(time.Millisecond))
	}
	return ""
}

// loseDuring takes leadership away while the cloud holds an operation. Then the journey continues
// in the next term.
func (x *trial) loseDuring(m *manager, operation string) (seen loss) {
	x.Helper()
	began := len(m.cloud.Requests())
	release := m.cloud.Hold(operation)
	defer release()
	x.travel(x.journey(m), func() {
		isInFlight := func(r Request) bool { return r.Operation == operation && r.Ended.IsZero() }
		if seen.isHeld || !slices.ContainsFunc(m.cloud.Requests()[began:], isInFlight) {
			return
		}
		seen.isHeld = true
		lost := time.Now()
		m.Elector.Lose(nil)
		released := m.Elector.WaitReleased(x)
		seen.took = time.Since(lost)
		if !released.Drained {
			x.Fatalf("the term did not drain while the cloud held %q: %v", operation, released.Err)
		}
		ended, before := len(m.cloud.Requests()), x.objects()
		release()
		for until := time.Now().Add(quietTime); time.Now().Before(until); {
			for _, r := range m.cloud.Requests()[ended:] {
				if r.Mutating {
					seen.late = fmt.Sprintf("the cloud received %q", r.Operation)
				}
			}
			time.Sleep(pollInterval)
		}
		if changes := written(before, x.objects()); changes != "" {
			seen.late = changes + " in the API server"
		}
		m.lead()
	})
	return seen
}

// operationsOf returns the operations of requests, mutating ones first.
func operationsOf(requests []Request) []string {
	var changes, reads []string
	for _, r := range requests {
		switch {
		case slices.Contains(changes, r.Operation), slices.Contains(reads, r.Operation):
		case r.Mutating:
			changes = append(changes, r.Operation)
		default:
			reads = append(reads, r.Operation)
		}
	}
	return append(changes, reads...)
}

// cloudFailure lets all requests fail while there is work. The provider must do the work
// afterwards.
func (x *trial) cloudFailure() string {
	m := x.start(x.suite.NewCloud(x))
	m.WaitReady()
	x.join(m)
	began := len(m.cloud.Requests())
	end := m.cloud.Fail()
	defer end()
	name := x.name()
	m.cloud.AddInstance(name)
	x.createNode(m.cloud, name)
	const failures = 3
	waittest.Until(x, "the provider has sent requests that fail", func() error {
		if n := len(m.cloud.Requests()) - began; n < failures {
			return fmt.Errorf("%d requests", n)
		}
		return nil
	})
	end()
	ccmtest.Eventually(x, "the node is initialized", ccmtest.Initialized(x.client, name))
	waittest.Until(x, "the Manager is ready after the failure", func() error {
		if s := m.Manager.Status(); s.State != status.Leading || !s.Ready {
			return fmt.Errorf("the Manager is %s: %s", s.State, s.Reason)
		}
		return nil
	})
	return fmt.Sprintf("the provider works again after %d failed requests", failures)
}

// twoManagers runs two Managers on one API server. Each cloud has an instance for one Node only.
func (x *trial) twoManagers() string {
	first := x.start(x.suite.NewCloud(x))
	first.WaitReady()
	second := x.start(x.suite.NewCloud(x))
	second.WaitReady()
	x.join(first)
	x.join(second)
	second.Stop()
	x.join(first)
	second.Start()
	second.WaitReady()
	first.Stop()
	x.join(second)
	return "each uses its own cloud"
}

// absence compares a cloud that fails with an instance that is deleted. The Node is not ready, so
// the lifecycle controller deletes it when the provider reports its instance as absent.
func (x *trial) absence() string {
	m := x.start(x.suite.NewCloud(x))
	m.WaitReady()
	var nodes []*corev1.Node
	for range 3 { // a guard against mass deletion must not see the last Node
		nodes = append(nodes, x.join(m))
	}
	node := nodes[0]
	if exists, err := x.exists(m, node); err != nil || !exists {
		x.Fatalf("an existing instance: exists %t, error %v", exists, err)
	}
	end := m.cloud.Fail()
	defer end()
	if _, err := x.client.CoreV1().Nodes().Patch(x.Context(), node.Name,
		types.StrategicMergePatchType, []byte(notReady), metav1.PatchOptions{},
		"status"); err != nil {
		x.Fatal(err)
	}
	// A provider may answer from a cache for a while.
	for until := time.Now().Add(3 * time.Second); time.Now().Before(until); {
		exists, err := x.exists(m, node)
		if err == nil && !exists {
			x.Fatal("the provider reports an instance as absent while the cloud fails; " +
				"its Node would be deleted")
		}
		if err != nil {
			break
		}
		time.Sleep(pollInterval)
	}
	if _, err := x.client.CoreV1().Nodes().Get(x.Context(), node.Name,
		metav1.GetOptions{}); err != nil {
		x.Fatalf("after the failure of the cloud: %v", err)
	}
	end()
	m.cloud.RemoveInstance(node.Name)
	ccmtest.Eventually(x, "the node is gone",
		ccmtest.Gone(x.client.CoreV1().Nodes().Get, node.Name))
	return "the Node stays during a failure, and is deleted after its instance"
}

// notReady is a patch that sets a Node's status as if its kubelet had stopped.
const notReady = `{"status":{"conditions":[
	{"type":"Ready","status":"Unknown","reason":"NodeStatusUnknown"}]}}`

// exists calls the provider for the instance of a Node.
func (x *trial) exists(m *manager, node *corev1.Node) (bool, error) {
	x.Helper()
	ctx, cancel := context.WithTimeout(x.Context(), x.suite.WaitLimit)
	defer cancel()
	if v2, ok := m.provider().InstancesV2(); ok {
		exists, err := v2.InstanceExists(ctx, node)
		if errors.Is(err, cloudprovider.InstanceNotFound) {
			return false, nil
		}
		return exists, err
	}
	v1, ok := m.provider().Instances()
	if !ok {
		x.Skip("the provider serves no instances")
	}
	exists, err := v1.InstanceExistsByProviderID(ctx, node.Spec.ProviderID)
	if errors.Is(err, cloudprovider.InstanceNotFound) {
		return false, nil
	}
	return exists, err
}

// providerIDs checks a Node whose kubelet has set the bare ID of its instance.
func (x *trial) providerIDs() string {
	m := x.start(x.suite.NewCloud(x))
	m.WaitReady()
	node := x.join(m)
	bare := path.Base(node.Spec.ProviderID)
	if bare == node.Spec.ProviderID {
		x.Skip("the provider's own IDs are bare")
	}
	for _, name := range []string{node.Name, bare} {
		exists, err := x.exists(m, &corev1.Node{
			ObjectMeta: metav1.ObjectMeta{Name: name},
			Spec:       corev1.NodeSpec{ProviderID: bare},
		})
		if err == nil && !exists {
			x.Fatalf("an existing instance with the provider ID %q is reported as absent; "+
				"its Node %q would be deleted", bare, name)
		}
	}
	return fmt.Sprintf("%q is found or an error", bare)
}

func (x *trial) adoptedLoadBalancer() string {
	cloud, ok := x.suite.NewCloud(x).(Adopter)
	if !ok {
		x.Skip("the cloud is not an Adopter")
	}
	id, annotations := cloud.AddLoadBalancer()
	m := x.start(cloud)
	m.WaitReady()
	x.join(m)
	service := ccmtest.LoadBalancerService(x.name())
	service.Annotations = annotations
	ccmtest.CreateService(x, x.client, service)
	ccmtest.Eventually(x, "the Service has an address",
		ccmtest.ServiceAddress(x.client, service.Namespace, service.Name))
	if err := x.client.CoreV1().Services(service.Namespace).Delete(x.Context(), service.Name,
		metav1.DeleteOptions{}); err != nil {
		x.Fatal(err)
	}
	ccmtest.Eventually(x, "the Service is gone",
		ccmtest.Gone(x.client.CoreV1().Services(service.Namespace).Get, service.Name))
	if !cloud.HasLoadBalancer(id) {
		x.Fatalf("the load balancer %s of the user was deleted with the Service", id)
	}
	return "the load balancer of the user survives"
}
