package migrate

import (
	"context"
	"io"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/utils/ptr"
)

// waiting is a cluster in which OCCM's Pod runs, fxccm's Pod lacks its image, and OCCM holds the
// lease. If renewed is set, each read of the lease returns a newer one.
func waiting(t *testing.T, renewed bool) *migration {
	t.Helper()
	lease := &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "kube-system", Name: "cloud-controller-manager", ResourceVersion: "1",
		},
		Spec: coordinationv1.LeaseSpec{
			HolderIdentity: ptr.To("control-plane-1_occm"), LeaseDurationSeconds: ptr.To(int32(15)),
		},
	}
	pod := func(name string, labels map[string]string, state v1.ContainerState) *v1.Pod {
		return &v1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: name, Labels: labels},
			Spec:       v1.PodSpec{NodeName: "node-1"},
			Status:     v1.PodStatus{ContainerStatuses: []v1.ContainerStatus{{State: state}}},
		}
	}
	m := checked(t, occmPod(nil), conf, []string{"--timeout=20s"}, lease,
		pod("occm-1", map[string]string{"k8s-app": occmName}, v1.ContainerState{}),
		pod("fxccm-1", fxccmSelector().MatchLabels, v1.ContainerState{
			Waiting: &v1.ContainerStateWaiting{Reason: "ErrImagePull", Message: "not found"},
		}))
	version := 1
	m.Interface.(*fake.Clientset).PrependReactor("get", "leases",
		func(clienttesting.Action) (bool, runtime.Object, error) {
			if renewed {
				version++
				lease.ResourceVersion = strconv.Itoa(version)
			}
			return true, lease.DeepCopy(), nil
		})
	return m
}

func TestWaits_ConditionNeverMet_TimeOutWithTheCause(t *testing.T) {
	occm := &metav1.LabelSelector{MatchLabels: map[string]string{"k8s-app": occmName}}
	for name, c := range map[string]struct {
		wait func(*migration, context.Context) error
		want string
	}{
		"OCCM's Pod does not end": {
			func(m *migration, ctx context.Context) error { return m.awaitGone(ctx, "OCCM", occm) },
			"OCCM's Pods are gone: occm-1 on node-1",
		},
		"OCCM's lease is renewed": {
			(*migration).awaitFree, "the lease is free: control-plane-1_occm holds it",
		},
		"fxccm's image does not exist": {
			(*migration).awaitLeader,
			`fxccm leads and is ready: "control-plane-1_occm" leads, fxccm-1 is ErrImagePull not found`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := waiting(t, true)
				var out strings.Builder
				m.out = &out
				began := time.Now()
				err := c.wait(m, t.Context())
				if took := time.Since(began); took != 20*time.Second {
					t.Errorf("it waited %s, want the timeout of 20s", took)
				}
				if err == nil || !strings.Contains(err.Error(), "timeout after 20s") ||
					!strings.Contains(err.Error(), c.want) {
					t.Errorf("the error is %v, want the timeout and %q", err, c.want)
				}
				if got := strings.Count(out.String(), "waiting until"); got != 1 {
					t.Errorf("it prints its cause %d times, want once:\n%s", got, &out)
				}
			})
		})
	}
}

func TestAwaitFree_LeaseNotRenewed_IsFreeAfterItsDuration(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := waiting(t, false)
		m.out = io.Discard
		began := time.Now()
		err := m.awaitFree(t.Context())
		took := time.Since(began)
		if err != nil || took <= 15*time.Second || took > 17*time.Second {
			t.Errorf("after %s: %v, want no error just after the lease's 15s", took, err)
		}
	})
}
