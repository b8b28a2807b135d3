//go:build linux

package drills_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apitypes "k8s.io/apimachinery/pkg/types"
	cloudproviderapi "k8s.io/cloud-provider/api"
	"k8s.io/utils/ptr"

	"github.com/fxccm/fxccm/provider/fake"
	"github.com/fxccm/fxccm/test/internal/replica"
)

// The load: each leader keeps this many mutating calls in flight. Each pause it gets a Node and a
// Service to write.
const (
	busyServices = 12
	busyTakes    = 30 * time.Millisecond
	busyPauses   = 50 * time.Millisecond

	unsettledPairs = 6
	unsettledPause = 50 * time.Millisecond
)

// A change is an edit or a deletion of a lease by an operator or another program.
type change struct {
	name string
	// do changes the lease, whose holder is leader; nil deletes it. The API server refuses some of
	// the changes.
	do func(lease *coordinationv1.Lease, leader, standby string)
}

type spec = coordinationv1.LeaseSpec

var deletion = change{name: "deleted"}

func specEdit(name string, do func(*spec)) change {
	return change{name, func(l *coordinationv1.Lease, _, _ string) { do(&l.Spec) }}
}

func annotationEdit(name, key, value string) change {
	return change{name, func(l *coordinationv1.Lease, _, _ string) {
		if l.Annotations == nil {
			l.Annotations = map[string]string{}
		}
		l.Annotations[key] = value
	}}
}

// mostAnnotations is the size in bytes of all annotations of an object that the API server accepts.
const mostAnnotations = validation.TotalAnnotationSizeLimitB

// fillAnnotations adds an annotation, so that the keys and values of all have this size in bytes.
func fillAnnotations(l *coordinationv1.Lease, size int) {
	const large = "example.com/large"
	if l.Annotations == nil {
		l.Annotations = map[string]string{}
	}
	l.Annotations[large] = ""
	for key, value := range l.Annotations {
		size -= len(key) + len(value)
	}
	l.Annotations[large] = strings.Repeat("a", max(0, size))
}

func after(d time.Duration) *metav1.MicroTime {
	return ptr.To(metav1.NewMicroTime(time.Now().Add(d)))
}

// The annotations are those of the proof of release.
const (
	digestAnnotation = "fxccm.dev/release-digest"
	tokenAnnotation  = "fxccm.dev/release-token"
	forgedToken      = "forged"
)

// release makes a lease look as if its holder had released it.
func release(l *coordinationv1.Lease, _, _ string) {
	now := ptr.To(metav1.NowMicro())
	l.Spec.HolderIdentity, l.Spec.LeaseDurationSeconds = ptr.To(""), ptr.To[int32](1)
	l.Spec.AcquireTime, l.Spec.RenewTime = now, now
}

// edits set each field of a lease to each kind of value. The first one is used by other drills.
var edits = []change{
	specEdit("another holder", func(l *spec) { l.HolderIdentity = ptr.To("another") }),
	specEdit("an empty holder", func(l *spec) { l.HolderIdentity = ptr.To("") }),
	specEdit("no holder", func(l *spec) { l.HolderIdentity = nil }),
	specEdit("a holder in Cyrillic", func(l *spec) { l.HolderIdentity = ptr.To("лидер") }),
	specEdit("a holder of 64 KiB", func(l *spec) {
		l.HolderIdentity = ptr.To(strings.Repeat("h", 64<<10))
	}),
	{"the standby as holder", func(l *coordinationv1.Lease, _, standby string) {
		l.Spec.HolderIdentity = ptr.To(standby)
	}},
	{"looks released", release},
	{"looks released, with a token", func(l *coordinationv1.Lease, leader, standby string) {
		release(l, leader, standby)
		l.Annotations = map[string]string{tokenAnnotation: forgedToken}
	}},

	specEdit("a duration of 1 s", func(l *spec) { l.LeaseDurationSeconds = ptr.To[int32](1) }),
	specEdit("a duration of a day", func(l *spec) {
		l.LeaseDurationSeconds = ptr.To[int32](86400)
	}),
	specEdit("the longest duration", func(l *spec) {
		l.LeaseDurationSeconds = ptr.To[int32](math.MaxInt32)
	}),
	specEdit("a negative duration", func(l *spec) { l.LeaseDurationSeconds = ptr.To[int32](-1) }),
	specEdit("no duration", func(l *spec) { l.LeaseDurationSeconds = nil }),

	specEdit("acquired an hour ago", func(l *spec) { l.AcquireTime = after(-time.Hour) }),
	specEdit("acquired in an hour", func(l *spec) { l.AcquireTime = after(time.Hour) }),
	specEdit("not acquired", func(l *spec) { l.AcquireTime = nil }),
	specEdit("renewed an hour ago", func(l *spec) { l.RenewTime = after(-time.Hour) }),
	specEdit("renewed in an hour", func(l *spec) { l.RenewTime = after(time.Hour) }),
	specEdit("renewed now", func(l *spec) { l.RenewTime = after(0) }),
	specEdit("not renewed", func(l *spec) { l.RenewTime = nil }),

	specEdit("the most transitions", func(l *spec) {
		l.LeaseTransitions = ptr.To[int32](math.MaxInt32)
	}),
	specEdit("negative transitions", func(l *spec) { l.LeaseTransitions = ptr.To[int32](-1) }),
	specEdit("an empty spec", func(l *spec) { *l = spec{} }),
	specEdit("no transitions", func(l *spec) { l.LeaseTransitions = nil }),
	specEdit("a preferred holder", func(l *spec) {
		l.PreferredHolder = ptr.To("another")
		l.Strategy = ptr.To(coordinationv1.OldestEmulationVersion)
	}),

	annotationEdit("another digest", digestAnnotation, "b0ab0254bd58eb87eaee3172ba49fefb"),
	annotationEdit("a token", tokenAnnotation, forgedToken),
	{"the most annotations", func(l *coordinationv1.Lease, _, _ string) {
		fillAnnotations(l, mostAnnotations)
	}},
	{"more annotations than the API server accepts", func(l *coordinationv1.Lease, _, _ string) {
		fillAnnotations(l, mostAnnotations+1)
	}},
	{"no annotations", func(l *coordinationv1.Lease, _, _ string) { l.Annotations = nil }},
}

// together makes several changes with one request.
func together(all ...change) change {
	names := make([]string, 0, len(all))
	for _, c := range all {
		names = append(names, c.name)
	}
	do := func(l *coordinationv1.Lease, leader, standby string) {
		for _, c := range all {
			c.do(l, leader, standby)
		}
	}
	return change{strings.Join(names, " and "), do}
}

// extent is the number of parallel clusters, and of deletions and of edits in each. Every third
// edit is of two to four fields.
func extent() (clusters, deletions, edits int) {
	if all() {
		return 5, 10, 20
	}
	return 2, 2, 6
}

// leaderlessLimit is how long no term may act after a change: twice the lease duration, because a
// holder that no process is may keep the others waiting for as long. On a busy machine, the
// campaign and the begin of a term take longer.
func leaderlessLimit() time.Duration {
	limit := 2*replica.QuickLease().Duration + machine.longest()
	if !all() {
		limit += 15 * time.Second
	}
	return limit
}

// Two replicas call the cloud as fast as they can, and write Nodes and Services, while the lease is
// deleted and edited at random moments.
func TestLease_DeletedOrEditedAtRandom_NoTwoTermsAct(t *testing.T) {
	t.Parallel()
	clusters, deleted, edited := extent()
	seen := make([]overlap, clusters)
	t.Run("clusters", func(t *testing.T) {
		for i := range clusters {
			t.Run(strconv.Itoa(i), func(t *testing.T) {
				t.Parallel()
				lane(t)
				w := newWorld(t, planes.shared.started(t), fmt.Sprintf("lease-%d", i))
				for _, name := range []string{"a", "b"} {
					w.start(w.name+"-"+name, programs.ccm)
				}
				w.load(busyServices, busyTakes, busyPauses)
				settle := w.unsettle(unsettledPairs, unsettledPause)
				defer settle()
				random := rand.New(rand.NewPCG(uint64(i), 1))
				var changes []change
				for range deleted {
					changes = append(changes, deletion)
				}
				for n := range edited {
					// The clusters together spread their edits over all kinds.
					c := edits[(i*edited+n)*len(edits)/(clusters*edited)]
					if n%3 == 2 {
						others := random.Perm(len(edits))[:1+random.IntN(3)]
						for _, other := range others {
							c = together(c, edits[other])
						}
					}
					changes = append(changes, c)
				}
				random.Shuffle(len(changes),
					func(i, j int) { changes[i], changes[j] = changes[j], changes[i] })
				w.disturb(random, changes)
				settle()
				seen[i] = overlapOf(w.cloud.Calls(fake.CallFilter{Mutating: true}.Matches))
				writes, err := w.writes()
				if err != nil {
					t.Error(err)
				}
				late, unled := w.wantNothingLate()
				seen[i].writes, seen[i].unled = len(writes), late+unled
				for i, example := range seen[i].examples {
					if i < 5 {
						t.Error(example)
					}
				}
				for _, m := range w.members {
					if m.HasExited() {
						t.Errorf("%s has ended with code %d", m.Name, m.ExitCode())
					}
				}
			})
		}
	})
	total := sum(seen...)
	if limit := leaderlessLimit(); total.leaderless > limit {
		t.Errorf("no term acted for %s, want at most %s", total.leaderless, limit)
	}
	results.addLease("fxccm and fxccm",
		fmt.Sprintf("%d deletions, %d edits", clusters*deleted, clusters*edited), total)
	if total.writes == 0 {
		t.Error("no member has written to the API server")
	}
	if total.calls > 0 {
		t.Errorf("%d of %d mutating calls were made while another term made some, during %s",
			total.calls, total.of, total.time)
	}
}

// unsettle adds pairs of a Node and a Service. Until settle is called, it undoes in turn what the
// leader has written to them, so that the leader writes to the API server all the time.
func (w *world) unsettle(pairs int, pause time.Duration) (settle func()) {
	w.t.Helper()
	first := len(w.nodes)
	for range pairs {
		w.addNode()
		w.addService()
	}
	nodes, services := w.nodes[first:], w.services[len(w.services)-pairs:]
	taint := fmt.Sprintf(`{"spec":{"taints":[{"key":%q,"value":"true","effect":%q}]}}`,
		cloudproviderapi.TaintExternalCloudProvider, corev1.TaintEffectNoSchedule)
	types := []corev1.ServiceType{corev1.ServiceTypeClusterIP, corev1.ServiceTypeLoadBalancer}
	ctx, cancel := context.WithCancel(w.t.Context())
	over := make(chan struct{})
	go func() {
		defer close(over)
		for i := 0; ctx.Err() == nil; i++ {
			_, err := w.plane.admin.CoreV1().Nodes().Patch(ctx, nodes[i%pairs],
				apitypes.MergePatchType, []byte(taint), metav1.PatchOptions{})
			if err == nil {
				retype := fmt.Sprintf(`{"spec":{"type":%q}}`, types[i/pairs%len(types)])
				_, err = w.plane.admin.CoreV1().Services(w.name).Patch(ctx, services[i%pairs],
					apitypes.MergePatchType, []byte(retype), metav1.PatchOptions{})
			}
			if err != nil && ctx.Err() == nil {
				w.t.Errorf("undo a write of the leader: %v", err)
			}
			time.Sleep(pause)
		}
	}()
	return func() {
		cancel()
		<-over
	}
}

// disturb changes the lease, each time at a random moment of a busy term.
func (w *world) disturb(random *rand.Rand, changes []change) {
	w.t.Helper()
	for _, c := range changes {
		leader := w.awaitBusy(time.Now())
		time.Sleep(time.Duration(random.Int64N(int64(time.Second))))
		began := time.Now()
		if err := w.change(c, leader); err != nil {
			w.t.Fatalf("%s: %v", c.name, err)
		}
		w.t.Logf("changed from %s to %s, while %s led: %s", clockTime(began),
			clockTime(time.Now()), leader.Name, c.name)
		// After a moment it is visible which process continues.
		w.awaitBusy(time.Now().Add(replica.QuickLease().Duration))
	}
}

// awaitBusy waits until, after the moment, a single term has called the cloud for a second. It
// returns the member of that term.
func (w *world) awaitBusy(after time.Time) (busy *member) {
	w.t.Helper()
	await(w.t, "a single term is busy", func() error {
		since := time.Now().Add(-time.Second)
		if since.Before(after) {
			return errors.New("the moment is in the future")
		}
		var callers []string
		var last time.Time
		for _, call := range w.cloud.Calls(fake.CallFilter{Mutating: true}.Matches,
			func(call fake.Call) bool { return call.Started.After(since) }) {
			callers, last = append(callers, call.Caller), call.Started
		}
		slices.Sort(callers)
		if callers = slices.Compact(callers); len(callers) != 1 ||
			time.Since(last) > 500*time.Millisecond {
			return fmt.Errorf("the cloud is called by %q, the last time %s ago", callers,
				time.Since(last))
		}
		for _, m := range w.members {
			if m.isOf(callers[0]) {
				busy = m
			}
		}
		return nil
	})
	return busy
}

// change changes the lease, and retries after a conflict.
func (w *world) change(c change, leader *member) error {
	standby := ""
	for _, m := range w.members {
		if m != leader {
			standby = m.Name
		}
	}
	leases := w.plane.admin.CoordinationV1().Leases(w.name)
	return within(patience, func() error {
		ctx, cancel := context.WithTimeout(w.t.Context(), 5*time.Second)
		defer cancel()
		if c.do == nil {
			err := leases.Delete(ctx, leaseName, metav1.DeleteOptions{})
			if apierrors.IsNotFound(err) {
				return nil
			}
			return err
		}
		lease, err := leases.Get(ctx, leaseName, metav1.GetOptions{})
		if err != nil {
			return err
		}
		c.do(lease, leader.Name, standby)
		_, err = leases.Update(ctx, lease, metav1.UpdateOptions{})
		if apierrors.IsInvalid(err) || apierrors.IsRequestEntityTooLargeError(err) {
			return nil // the change is one that no client can make
		}
		return err
	})
}

// An overlap measures how much two terms acted at once. A term acts from the beginning of its first
// call to the end of its last one.
type overlap struct {
	// calls is the number of calls that ended after another term had begun to act, and of the
	// number of all calls.
	calls, of int
	// time is the duration of the overlap.
	time time.Duration
	// leaderless is the longest time between two calls.
	leaderless time.Duration
	terms      int
	examples   []string
	// writes is the number of writes to the API server, and unled that of the calls and writes
	// without a valid lease or without an open fence.
	writes, unled int
}

func overlapOf(calls []fake.Call) (o overlap) {
	o.of = len(calls)
	first, last := map[string]time.Time{}, map[string]time.Time{}
	var callers []string // in the order in which they began
	var lastCall time.Time
	for _, call := range calls {
		if !lastCall.IsZero() {
			o.leaderless = max(o.leaderless, call.Started.Sub(lastCall))
		}
		lastCall = call.Started
		if _, known := first[call.Caller]; !known {
			first[call.Caller] = call.Started
			callers = append(callers, call.Caller)
		}
		if end := endOf(call); end.After(last[call.Caller]) {
			last[call.Caller] = end
		}
	}
	o.terms = len(callers)
	for i, earlier := range callers {
		for _, later := range callers[i+1:] {
			both := min(last[earlier].Sub(first[later]), last[later].Sub(first[later]))
			if both <= 0 {
				continue
			}
			o.time += both
			for _, call := range calls {
				if call.Caller == earlier && endOf(call).After(first[later]) &&
					call.Started.Before(last[later]) {
					o.calls++
					o.examples = append(o.examples,
						fmt.Sprintf("%s calls %s of %s from %s to %s, and %s acts since %s",
							call.Caller, call.Method,
							call.Object, call.Started.Format(time.StampMicro),
							endOf(call).Format(time.StampMicro), later,
							first[later].Format(time.StampMicro)))
				}
			}
		}
	}
	return o
}

func endOf(call fake.Call) time.Time {
	if !call.Finished {
		return time.Now()
	}
	return call.Ended
}

func sum(all ...overlap) (total overlap) {
	for _, o := range all {
		total.calls += o.calls
		total.of += o.of
		total.time += o.time
		total.terms += o.terms
		total.leaderless = max(total.leaderless, o.leaderless)
		total.writes += o.writes
		total.unled += o.unled
	}
	return total
}

func TestOverlapOf_CountsCallsDuringAnotherTerm(t *testing.T) {
	at := func(ms int) time.Time { return time.UnixMilli(int64(ms)) }
	call := func(caller string, from, to int) fake.Call {
		return fake.Call{Caller: caller, Started: at(from), Ended: at(to), Finished: true}
	}
	// Calls need not be in flight at once for two terms to act at once.
	o := overlapOf([]fake.Call{
		call("a/1", 0, 10), call("b/1", 20, 30), call("a/1", 40, 50),
		call("b/1", 60, 70), call("c/1", 70, 80),
	})
	if o.calls != 1 || o.time != 30*time.Millisecond || o.of != 5 || o.terms != 3 {
		t.Errorf("the overlap is %+v, want 1 call of 5 during 30 ms, of 3 terms", o)
	}
	if o := overlapOf([]fake.Call{
		call("a/1", 0, 10), call("b/1", 10, 30),
		call("a/2", 30, 40),
	}); o.calls != 0 || o.time != 0 {
		t.Errorf("the overlap of terms one after the other is %+v", o)
	}
}
