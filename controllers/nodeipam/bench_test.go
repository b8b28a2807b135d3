package nodeipam_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/fxccm/fxccm/ccm/ccmtest"
	"github.com/fxccm/fxccm/ccm/ccmtest/controlplane"
	"github.com/fxccm/fxccm/internal/waittest"
	"github.com/fxccm/fxccm/provider/fake"
)

// BenchmarkRangeAllocator_5000Nodes gives 5,000 nodes their ranges in one term, and records them in
// the next term. Run it with -benchtime=1x.
func BenchmarkRangeAllocator_5000Nodes(b *testing.B) {
	const nodes = 5000
	cfg := rest.CopyConfig(suite.cp.RESTConfig())
	cfg.QPS = -1
	admin := kubernetes.NewForConfigOrDie(cfg)
	for b.Loop() {
		b.StopTimer()
		add := func(ctx context.Context, name string) error {
			_, err := admin.CoreV1().Nodes().Create(ctx, ccmtest.ReadyNode(name),
				metav1.CreateOptions{})
			return err
		}
		remove := func(ctx context.Context, name string) error {
			return admin.CoreV1().Nodes().Delete(ctx, name, metav1.DeleteOptions{})
		}
		forEach(b, nodes, add)
		mark := suite.cp.Audit().Mark()
		b.StartTimer()

		began := time.Now()
		app := start(b, fake.New(), allocate("10.128.0.0/11", nil))
		waitAllocated(b, admin, nodes)
		b.ReportMetric(nodes/time.Since(began).Seconds(), "nodes/s")

		b.StopTimer()
		records, err := suite.cp.Audit().Since(mark, controlplane.ByUser(suite.user),
			controlplane.ByResource("", "nodes"))
		if err != nil {
			b.Fatal(err)
		}
		b.ReportMetric(float64(len(records))/nodes, "requests/node")
		app.Elector.Lose(fmt.Errorf("partition"))
		app.Elector.WaitReleased(b)
		mark = suite.cp.Audit().Mark()
		late := create(b, "late")
		began = time.Now()
		app.Elector.Lead()
		waitRanges(b, late, 1)
		b.ReportMetric(time.Since(began).Seconds(), "s-until-next-term-allocates")
		app.Stop()
		writes, err := suite.cp.Audit().Since(mark, controlplane.ByUser(suite.user),
			controlplane.ByResource("", "nodes"), controlplane.Mutating())
		if err != nil || len(writes) != 1 {
			b.Errorf("the second term changed %d nodes, want 1: %v", len(writes), err)
		}
		forEach(b, nodes, remove)
		b.StartTimer()
	}
}

func forEach(b *testing.B, n int, do func(ctx context.Context, name string) error) {
	b.Helper()
	group, ctx := errgroup.WithContext(b.Context())
	group.SetLimit(50)
	for i := range n {
		group.Go(func() error { return do(ctx, fmt.Sprintf("bench-%d", i)) })
	}
	if err := group.Wait(); err != nil {
		b.Fatal(err)
	}
}

// waitAllocated waits until n nodes have different ranges.
func waitAllocated(b *testing.B, admin kubernetes.Interface, n int) {
	b.Helper()
	waittest.Until(b, fmt.Sprintf("%d nodes have different ranges", n),
		func(ctx context.Context) error {
			list, err := admin.CoreV1().Nodes().List(ctx, metav1.ListOptions{ResourceVersion: "0"})
			if err != nil {
				return err
			}
			ranges := map[string]bool{}
			for _, node := range list.Items {
				if node.Spec.PodCIDR != "" {
					ranges[node.Spec.PodCIDR] = true
				}
			}
			if len(ranges) != n {
				return fmt.Errorf("%d ranges", len(ranges))
			}
			return nil
		})
}
