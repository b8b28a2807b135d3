package openstack_test

import (
	"flag"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"

	"github.com/fxccm/fxccm/ccm/ccmtest"
	"github.com/fxccm/fxccm/provider/openstack/cloudconf"
	"github.com/fxccm/fxccm/provider/openstack/openstacktest"
)

// verbosely sets klog's --v until the test ends.
func verbosely(t *testing.T, v string) {
	t.Helper()
	flags := flag.NewFlagSet("klog", flag.ContinueOnError)
	klog.InitFlags(flags)
	before := flags.Lookup("v").Value.String()
	if err := flags.Set("v", v); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = flags.Set("v", before) })
}

// quantity matches a number, an ID or a time in a line of the log.
var quantity = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f-]+|\d+`)

// kindsOf lists the kinds of lines that use most of the log.
func kindsOf(log string) string {
	bytes, lines := map[string]int{}, map[string]int{}
	for line := range strings.Lines(log) {
		kind := quantity.ReplaceAllString(line[:min(len(line), 200)], "#")
		if _, rest, ok := strings.Cut(kind, "] "); ok {
			kind = rest
		}
		kind = strings.TrimSpace(kind[:min(len(kind), 60)])
		bytes[kind] += len(line)
		lines[kind]++
	}
	var kinds []string
	for kind, n := range bytes {
		kinds = append(kinds, fmt.Sprintf("%7d bytes in %4d lines: %s", n, lines[kind], kind))
	}
	slices.Sort(kinds)
	slices.Reverse(kinds)
	return strings.Join(kinds[:min(len(kinds), 12)], "\n")
}

// peerBytes is what openstack-cloud-controller-manager (c453fb7c9, with its defaults) logs at --v=2
// while it initializes 50 nodes and serves 10 Services, measured on a real OpenStack on 2026-11-22.
const peerBytes = 142_000

// mostBytes is how much fxccm may log for the same. Half of it is upstream's, about nodes.
const mostBytes = peerBytes / 2

// atV2 runs the whole CCM with its log in klog, at --v=2.
func atV2(t *testing.T, s *site, change ...func(*launch)) *replica {
	t.Helper()
	verbosely(t, "2")
	logger := klog.Background()
	return ready(t, s, append([]func(*launch){
		haste(1), balancing(s), func(l *launch) { l.Logger = &logger },
	}, change...)...)
}

// wantQuiet fails the test if lines are logged in the next 30 periods, in which nothing changes.
func wantQuiet(t *testing.T) {
	t.Helper()
	time.Sleep(10 * monitorPeriod) // the last nodes get their conditions
	begin := shared.klog.size()
	time.Sleep(30 * monitorPeriod)
	if atRest := shared.klog.since(begin); atRest != "" {
		t.Errorf("at rest, lines are logged in 30 periods:\n%s", atRest)
	}
}

func TestLog_NodesGetRoutesAtV2_HasNoFailureAndNoLineAtRest(t *testing.T) {
	s := newBalancedSite(t)
	begin := shared.klog.size()
	r := atV2(t, s, configured(func(c *cloudconf.Config) { c.Route.RouterID = s.router }))
	for i := range 5 {
		m := s.addServer(fmt.Sprint("log-routed-", i))
		tainted(t, m.name, ccmtest.NodePodCIDRs(fmt.Sprintf("10.244.%d.0/24", i+1)))
		initialized(t, m.name)
		setReady(t, m.name, corev1.ConditionTrue)
		waitNetwork(t, m.name)
	}
	wantQuiet(t)
	log := shared.klog.since(begin)
	r.stop()
	t.Logf("%d bytes, most of them in\n%s", len(log), kindsOf(log))
	wantNoNoise(t, log)
}

// Waiting is not logged, so the duration of Octavia's work does not matter.
func TestLog_FiftyNodesAndTenServicesAtV2_IsShorterThanThePeersWithoutAFailure(t *testing.T) {
	s := newBalancedSite(t, openstacktest.WithProvisioning(2*time.Second))
	begin := shared.klog.size()
	r := atV2(t, s)
	var names, services []string
	for i := range 50 {
		names = append(names, fmt.Sprintf("log-%02d", i))
	}
	machines := s.addServers(names...)
	for _, name := range names {
		tainted(t, name)
	}
	for _, name := range names {
		initialized(t, name)
		setReady(t, name, corev1.ConditionTrue)
	}
	for i := range 10 {
		services = append(services,
			createService(t, shared.Client(t), fmt.Sprint("log-", i),
				ccmtest.ServicePorts(80, 443, 8080)).Name)
	}
	for _, name := range services {
		waitServed(t, shared.Client(t), name)
	}
	if n := shared.klog.size() - begin; n > mostBytes {
		t.Errorf("until all Services are served %d bytes are logged, want at most %d", n, mostBytes)
	}
	wantQuiet(t)
	served := shared.klog.size()

	late := s.addNodes(shared.Client(t), "log-late")
	for _, name := range services {
		service := getService(t, shared.Client(t), name)
		s.waitShape(service, s.usual(service, append(machines, late...)...))
	}
	var deletions sync.WaitGroup
	for _, name := range services {
		deletions.Go(func() { deleteService(t, shared.Client(t), name) })
	}
	deletions.Wait()
	if n := shared.klog.size() - served; n > mostBytes/2 {
		t.Errorf("for a change of all load balancers and their deletion %d bytes are logged, "+
			"want at most %d", n, mostBytes/2)
	}
	log := shared.klog.since(begin)
	r.stop() // refuses the requests in flight, which is logged
	t.Logf("%d bytes until all Services are served, %d in all, most of them in\n%s", served-begin,
		len(log), kindsOf(log))
	wantNoNoise(t, log)
}

// monitorPeriod is that of the passes over nodes and routes.
const monitorPeriod = 100 * time.Millisecond

// isNoise matches failures, and lines that only developers need.
var isNoise = regexp.MustCompile(
	`^E\d{4} |error processing|type="Warning"|Load balancer (deletion )?plan|Listed `)

// wantNoNoise fails the test if the log has a failure or if an event is a warning.
func wantNoNoise(t *testing.T, log string) {
	t.Helper()
	for line := range strings.Lines(log) {
		if isNoise.MatchString(line) {
			t.Errorf("a failure is logged, waiting, or a whole plan: %s", line)
		}
	}
	all, err := shared.Client(t).CoreV1().Events("").List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range all.Items {
		if e.Type == corev1.EventTypeWarning {
			t.Errorf("%s %s has the warning %s: %s", e.InvolvedObject.Kind, e.InvolvedObject.Name,
				e.Reason, e.Message)
		}
	}
}

// brokenFor is how long the test below waits.
var brokenFor = flag.Duration("broken-for", 5*time.Second,
	"how long the log of a Service with a wrong setting is measured")

func TestLog_ServiceHasAWrongSetting_IsLoggedOnce(t *testing.T) {
	s := newBalancedSite(t, openstacktest.WithProvisioning(2*time.Second))
	r := atV2(t, s)
	s.addNodes(shared.Client(t), "broken-1")
	time.Sleep(10 * monitorPeriod)
	begin, requests := shared.klog.size(), s.mark()
	service := createService(t, shared.Client(t), "broken", annotated(
		annotation+"floating-network-id", "6f2a4c1e-93b7-4d05-8e21-0c5b7a9d3f64"))
	waitServiceEvent(t, service, corev1.EventTypeWarning, "floating-network-id",
		"6f2a4c1e-93b7-4d05-8e21-0c5b7a9d3f64")
	time.Sleep(*brokenFor)
	log := shared.klog.since(begin)
	r.stop()
	// fxccm annotates the Service with its load balancer: the next call comes at once.
	if calls := s.since(requests, operations("floating_ip_create")); *brokenFor < time.Minute &&
		len(calls) != 1 {
		t.Errorf("Neutron got %d requests for a floating IP, want one:\n%s", len(calls),
			describe(s.since(requests, operations("*"))))
	}
	t.Logf("%d bytes in %d lines in %s, most of them in\n%s", len(log), strings.Count(log, "\n"),
		*brokenFor, kindsOf(log))
	if n := strings.Count(log, "\n"); n > 12 {
		t.Errorf("%d lines are logged, want at most 12", n)
	}
	for line := range strings.Lines(log) {
		if strings.HasPrefix(line, "E") {
			t.Errorf("a refusal is an error of the log: %s", line)
		}
	}
}
