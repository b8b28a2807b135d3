package instances

import (
	"fmt"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
)

// A thousand nodes may cost these numbers of calls. OCCM sends four for each node.

func TestNodes_ThousandAreInitialized_CostFewCalls(t *testing.T) {
	for _, way := range []way{{1, false}, {1, true}, {32, false}, {32, true}} {
		// Both kinds of nodes come in one after the other and at once, known and unknown.
		named := way.clusterKnown == (way.workers == 1)
		t.Run(fmt.Sprintf("%s named=%t", way, named), func(t *testing.T) {
			w := newWorld(t)
			nodes := w.addNodes(1000)
			for _, node := range nodes {
				node.Spec.Taints = newNode("").Spec.Taints
				node.CreationTimestamp.Time = w.clock.Now()
				if named {
					node.Spec.ProviderID = ""
				}
			}
			if way.clusterKnown {
				w.cluster(nodes...)
			}
			forEach(nodes, way.workers, func(node *v1.Node) {
				metadata, err := w.InstanceMetadata(t.Context(), node)
				if err != nil || len(metadata.NodeAddresses) != 1 ||
					metadata.ProviderID == "" || metadata.InstanceType == "" {
					t.Errorf("metadata of %s: %+v, %v", node.Name, metadata, err)
				}
			})
			w.atMost(9)
		})
	}
}

// way describes how a controller calls: the number of workers, and whether the nodes of the cluster
// are known.
type way struct {
	workers      int
	clusterKnown bool
}

func (a way) String() string {
	return fmt.Sprintf("workers=%d clusterKnown=%t", a.workers, a.clusterKnown)
}

func TestNodes_StatusOfThousandIsRead_CostsFewCalls(t *testing.T) {
	for _, way := range []way{{1, false}, {64, true}} {
		t.Run(way.String(), func(t *testing.T) {
			w := newWorld(t)
			nodes := w.addNodes(1000)
			if way.clusterKnown {
				w.cluster(nodes...)
			}
			for range 2 {
				w.cloud.ForgetCalls()
				forEach(nodes, way.workers, func(node *v1.Node) {
					if metadata, err := w.InstanceMetadata(t.Context(), node); err != nil ||
						len(metadata.NodeAddresses) != 1 {
						t.Errorf("metadata of %s: %+v, %v", node.Name, metadata, err)
					}
				})
				w.atMost(6)
				w.pass(5 * time.Minute)
			}
		})
	}
}

func TestNodes_FiveHundredAreNotReadyForAMinute_CostFewCalls(t *testing.T) {
	for _, way := range []way{{1, false}, {32, true}} {
		t.Run(way.String(), func(t *testing.T) {
			w := newWorld(t)
			nodes := w.addNodes(1000)
			if way.clusterKnown {
				w.cluster(nodes...)
			}
			for range 12 {
				forEach(nodes[:500], way.workers, func(node *v1.Node) {
					if exists, err := w.InstanceExists(t.Context(), node); !exists || err != nil {
						t.Errorf("%s exists: %t, %v", node.Name, exists, err)
					}
					shutdown, err := w.InstanceShutdown(t.Context(), node)
					if shutdown || err != nil {
						t.Errorf("%s is shut down: %t, %v", node.Name, shutdown, err)
					}
				})
				w.pass(5 * time.Second)
			}
			w.atMost(30)
		})
	}
}

func TestFewNodes_AreRequestedDirectly(t *testing.T) {
	w := newWorld(t)
	nodes := w.addNodes(100)
	for range 10 {
		for _, node := range nodes[:2] {
			w.exists(node)
			if shutdown, err := w.InstanceShutdown(t.Context(), node); shutdown || err != nil {
				t.Errorf("shut down: %t, %v", shutdown, err)
			}
		}
		w.pass(5 * time.Second)
	}
	w.exactly(map[string]int{"server_get": 20})
	if _, _, sources := w.observed.values(); sources[SourceDirect] != 20 ||
		sources[SourceCache] != 20 || sources[SourceList] != 0 {
		t.Errorf("sources %v", sources)
	}
}

// A list of many pages is used only for many servers.
func TestLongList_IsNotReadForFewServers(t *testing.T) {
	w := newWorld(t)
	nodes := w.addNodes(60)
	w.cloud.SetPageSize(5)
	for _, node := range nodes {
		w.exists(node)
	}
	w.pass(time.Minute)
	w.cloud.ForgetCalls()
	for _, node := range nodes[:10] {
		w.exists(node)
	}
	w.exactly(map[string]int{"server_get": 10})
}
