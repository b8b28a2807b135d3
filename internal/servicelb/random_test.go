package servicelb_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/fxccm/fxccm/internal/servicelb"
)

// Two Managers of one cloud, one for Services without a class and one for a class, stop, start and
// get errors, while Services come, go, change hands and lose what was written to them.
func TestController_RandomChanges_EachServiceEndsWithItsLoadBalancer(t *testing.T) {
	for seed := range uint64(30) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			inWorld(t, false, func(w *world) {
				walk := &walk{world: w, random: rand.New(rand.NewPCG(seed, 0)), nodes: 1}
				for i := range walk.managers {
					walk.startOrStop(i)
				}
				for range 40 {
					walk.step()
				}
				walk.settle()
				err := errors.Join(walk.services(), walk.balancers(), noOverlap(w.calls()))
				if err != nil {
					t.Errorf("%v\n%s", err, strings.Join(walk.steps, "\n"))
				}
			})
		})
	}
}

// A walk makes random changes of a world.
type walk struct {
	*world
	random   *rand.Rand
	managers [2]*manager
	nodes    int
	steps    []string
}

func (w *walk) note(format string, args ...any) {
	w.steps = append(w.steps, time.Now().Format("04:05.000 ")+fmt.Sprintf(format, args...))
}

func pick[T any](w *walk, all ...T) T { return all[w.random.IntN(len(all))] }

func (w *walk) pause() {
	w.wait(pick(w, 0, 0, 0, 10*time.Millisecond, 500*time.Millisecond, time.Second, 3*time.Second,
		6*time.Second, 20*time.Second))
}

func (w *walk) startOrStop(i int) {
	if m := w.managers[i]; m != nil {
		w.note("stop Manager %d", i)
		m.stop()
		w.managers[i] = nil
		return
	}
	w.note("start Manager %d", i)
	w.managers[i] = w.start([]servicelb.Classes{onlyDefault, {Names: []string{"example.com/b"}}}[i])
}

// off changes the type as the API server does, which then removes the class and the address.
func off(s *v1.Service) {
	asClusterIP(s)
	s.Status.LoadBalancer.Ingress = nil
}

// on changes the type to LoadBalancer, of a random class.
func (w *walk) on(s *v1.Service) {
	pick(w, ofClass("example.com/b"), func(s *v1.Service) {
		s.Spec.Type = v1.ServiceTypeLoadBalancer
	})(s)
	w.note("%s is a load balancer of class %q", s.Name, ptr.Deref(s.Spec.LoadBalancerClass, ""))
}

func (w *walk) step() {
	methods := []string{"ensure", "update", "delete", "get"}
	name := pick(w, "web-0", "web-1")
	s := w.get(name)
	switch action := w.random.IntN(12); {
	case action == 0:
		w.startOrStop(w.random.IntN(2))
	case action == 1:
		method := pick(w, methods...)
		errs := make([]error, 1+w.random.IntN(3))
		for i := range errs {
			errs[i] = pick(w, errBroken, retryIn(-time.Second), retryIn(time.Second),
				retryIn(7*time.Second))
		}
		w.note("%s: %v", method, errs)
		w.fail(method, errs...)
	case action == 2:
		method, took := pick(w, methods...), time.Duration(w.random.IntN(8))*time.Second
		w.note("%s takes %s", method, took)
		w.slow(method, took)
	case action == 3:
		w.nodes++
		w.note("new node")
		w.addNode(fmt.Sprint("node-", w.nodes))
	case s == nil:
		w.add(name, w.on)
	case s.DeletionTimestamp != nil:
	case action <= 5:
		w.note("%s is no load balancer", name)
		w.change(name, off)
	case action <= 7:
		if s.Spec.Type == v1.ServiceTypeLoadBalancer {
			w.change(name, off)
			w.pause()
		}
		w.change(name, w.on)
	case action == 8:
		w.note("annotation of %s", name)
		w.change(name, func(s *v1.Service) {
			if s.Annotations == nil {
				s.Annotations = map[string]string{}
			}
			s.Annotations["a"] = time.Now().String()
		})
	case action == 9:
		w.note("no address of %s", name)
		w.change(name, func(s *v1.Service) { s.Status.LoadBalancer.Ingress = nil })
	default:
		w.note("delete %s", name)
		w.delete(name)
		if w.get(name) == nil && pick(w, true, false) {
			w.add(name, w.on)
		}
	}
	w.pause()
}

// settle ends all troubles, and waits.
func (w *walk) settle() {
	for _, method := range []string{"ensure", "update", "delete", "get"} {
		w.fail(method)
		w.slow(method, 0)
	}
	for i, m := range w.managers {
		if m == nil {
			w.startOrStop(i)
		}
	}
	w.wait(40 * time.Minute)
	for _, m := range w.managers {
		m.stop()
	}
}

// services returns an error if a Service has not what it has to have.
func (w *walk) services() (err error) {
	for _, name := range []string{"web-0", "web-1"} {
		s := w.get(name)
		if s == nil {
			continue
		}
		isBalanced := s.Spec.Type == v1.ServiceTypeLoadBalancer
		mark, isMarked := s.Annotations[servicelb.ServedClass]
		err = errors.Join(err, want(name+" is being deleted", s.DeletionTimestamp != nil, false),
			want(name+" has the mark", isMarked, isBalanced),
			want(name+" has the class", mark, ptr.Deref(s.Spec.LoadBalancerClass, "")),
			want(name+" has the finalizer", w.hasFinalizer(name), isBalanced),
			want(name+" has the address", w.address(name), w.cloud.balancers[s.UID]))
		last := ""
		for _, c := range w.calls() {
			if c.uid == s.UID && c.nodes != "" {
				last = c.nodes
			}
		}
		if isBalanced {
			err = errors.Join(err, want(name+" has the nodes", len(strings.Fields(last)), w.nodes))
		}
	}
	for _, e := range w.recorded {
		if e.Type == v1.EventTypeWarning && !strings.Contains(e.Message, errBroken.Error()) &&
			!strings.Contains(e.Message, "not deleted yet") {
			err = errors.Join(err, fmt.Errorf("event %s: %s", e.Reason, e.Message))
		}
	}
	return err
}

// balancers returns an error if the cloud has another load balancer, or lacks one.
func (w *walk) balancers() error {
	var got, wanted []types.UID
	for _, name := range []string{"web-0", "web-1"} {
		s := w.get(name)
		if s != nil && s.Spec.Type == v1.ServiceTypeLoadBalancer {
			wanted = append(wanted, s.UID)
		}
	}
	for uid := range w.cloud.balancers {
		got = append(got, uid)
	}
	slices.Sort(got)
	slices.Sort(wanted)
	return want("load balancers", got, wanted)
}
