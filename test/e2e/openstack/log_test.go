//go:build !race

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
	"k8s.io/klog/v2"

	"github.com/fxccm/fxccm/ccm/ccmtest"
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

// Half of the log is upstream's, about nodes. Waiting is not logged, so the duration of Octavia's
// work does not matter.
func TestLog_FiftyNodesAndTenServicesAtV2_IsNoLongerThanThePeers(t *testing.T) {
	verbosely(t, "2")
	s := newBalancedSite(t, openstacktest.WithProvisioning(2*time.Second))
	begin := shared.klog.size()
	logger := klog.Background()
	r := ready(t, s, haste(1), balancing(s), func(l *launch) { l.Logger = &logger })
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
	if n := shared.klog.size() - begin; n > peerBytes {
		t.Errorf("until all Services are served %d bytes are logged, want at most %d", n, peerBytes)
	}
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
	r.stop()
	if n := shared.klog.size() - served; n > peerBytes/2 {
		t.Errorf(
			"for a change of all load balancers and their deletion %d bytes are logged, want at most %d", n, peerBytes/2)
	}
	log := shared.klog.since(begin)
	t.Logf("%d bytes until all Services are served, %d in all, most of them in\n%s", served-begin,
		len(log), kindsOf(log))
	for line := range strings.Lines(log) {
		if isNoise.MatchString(line) {
			t.Errorf("waiting is logged, or a whole plan: %s", line)
		}
	}
}

// isNoise matches failures, and lines that only developers need.
var isNoise = regexp.MustCompile(
	`error processing|Unhandled Error|type="Warning"|Load balancer (deletion )?plan|Listed `)
