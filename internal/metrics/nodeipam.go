package metrics

import "github.com/prometheus/client_golang/prometheus"

// NodeIPAM are the metrics of node-ipam-controller.
type NodeIPAM struct {
	Ranges, Free, Waiting *prometheus.GaugeVec
}

// NewNodeIPAM makes the metrics of [NodeIPAMTable].
func NewNodeIPAM() *NodeIPAM {
	return &NodeIPAM{
		Ranges: nodeRanges().Gauge(), Free: freeNodeRanges().Gauge(),
		Waiting: nodesWithoutRange().Gauge(),
	}
}

// Owned implements [Vecs].
func (n *NodeIPAM) Owned() []Vec { return []Vec{n.Ranges, n.Free, n.Waiting} }

// Common implements [Vecs].
func (*NodeIPAM) Common() []Vec { return nil }

// NodeIPAMTable lists the metrics of node-ipam-controller.
func NodeIPAMTable() []Metric {
	return []Metric{nodeRanges(), freeNodeRanges(), nodesWithoutRange()}
}

func nodeRanges() Metric {
	return Metric{
		Name: "fxccm_node_ipam_ranges", Type: Gauge,
		Labels: []Label{managerLabel(), clusterCIDRLabel()},
		Help:   "Node ranges in the cluster CIDR, if node-ipam-controller divides it. Only the leader has them.",
	}
}

func freeNodeRanges() Metric {
	return Metric{
		Name: "fxccm_node_ipam_ranges_free", Type: Gauge,
		Labels: []Label{managerLabel(), clusterCIDRLabel()},
		Help:   "Node ranges in the cluster CIDR that no node and no service CIDR uses.",
	}
}

func nodesWithoutRange() Metric {
	return Metric{
		Name: "fxccm_node_ipam_nodes_waiting", Type: Gauge, Labels: []Label{managerLabel()},
		Help: "Nodes that wait for a pod range because the last attempt failed.",
	}
}

func clusterCIDRLabel() Label {
	return Label{Name: "cluster_cidr", Help: "The cluster CIDR, as in --cluster-cidr."}
}
