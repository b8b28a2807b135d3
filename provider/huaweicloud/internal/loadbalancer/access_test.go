package loadbalancer

import (
	"fmt"
	"slices"
	"testing"
)

// access returns the sources that may connect to each listener.
func (w *world) access() []string {
	sources := map[string]string{}
	for _, g := range w.cloud.Groups() {
		var list []string
		for _, ip := range g.IpList {
			list = append(list, ip.Ip)
		}
		sources[g.Id] = fmt.Sprint(list)
	}
	var lines []string
	for _, l := range w.cloud.Listeners() {
		from := "all"
		if g := l.Ipgroup; g != nil && g.EnableIpgroup {
			from = g.Type + " " + sources[g.IpgroupId]
		}
		lines = append(lines, fmt.Sprintf("%s %d from %s", l.Protocol, l.ProtocolPort, from))
	}
	slices.Sort(lines)
	return lines
}

func (w *world) mustAdmit(sources string) {
	w.t.Helper()
	want := []string{"TCP 80 from " + sources, "UDP 53 from " + sources}
	if got := w.access(); !slices.Equal(got, want) {
		w.t.Errorf("the listeners are %q, want %q", got, want)
	}
}

func (w *world) limit(ranges ...string) { w.service.Spec.LoadBalancerSourceRanges = ranges }

func TestSourceRanges_LimitListeners(t *testing.T) {
	w := newWorld(t)
	w.limit("198.51.100.7/32", "192.0.2.9/24")
	w.mustEnsure()
	w.mustAdmit("white [192.0.2.0/24 198.51.100.7]")
	w.mustSettle()

	w.limit("203.0.113.0/24")
	w.mustEnsure()
	w.mustAdmit("white [203.0.113.0/24]")
	w.mustSettle()

	w.limit("203.0.113.0/24", "0.0.0.0/0")
	w.mustEnsure()
	w.mustAdmit("all")
	w.mustSettle()

	w.limit("10.0.0.0/8")
	w.mustEnsure()
	w.mustAdmit("white [10.0.0.0/8]")

	w.mustDelete()
	w.mustBe()
}

func TestSourceRanges_GroupIsRefused_NoListenerIsOpen(t *testing.T) {
	w := newWorld(t)
	w.limit("10.0.0.0/8")
	w.cloud.Fail("POST ipgroups", 403, "ELB.1301", "no permission")
	if _, err := w.ensure(); err == nil {
		t.Error("no error, want that of the IP address group")
	}
	if got := w.access(); len(got) > 0 {
		t.Errorf("the listeners are %q, want none", got)
	}
	w.mustEnsure()
	w.mustAdmit("white [10.0.0.0/8]")
}

func TestSourceRanges_AddedWhileOtherChangesFail_ListenersAreLimitedFirst(t *testing.T) {
	w := newWorld(t)
	w.mustEnsure()
	w.mustAdmit("all")
	w.limit("10.0.0.0/8")
	w.annotate(annotationAlgorithm, "SOURCE_IP")
	w.cloud.Fail("PUT pools", 403, "ELB.1301", "no permission")
	if _, err := w.ensure(); err == nil {
		t.Error("no error, want that of the pool")
	}
	w.mustAdmit("white [10.0.0.0/8]")
}
