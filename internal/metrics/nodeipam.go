package metrics

import "github.com/prometheus/client_golang/prometheus"

// NodeIPAM are the metrics of node-ipam-controller.
type NodeIPAM struct {
	Catalog

	Ranges, Free, Waiting *prometheus.GaugeVec
}

// NewNodeIPAM makes the metrics of node-ipam-controller.
func NewNodeIPAM() *NodeIPAM {
	n := &NodeIPAM{}
	cidr := Label{Name: "cluster_cidr", Help: "The cluster CIDR, as in --cluster-cidr."}
	n.Ranges = n.Gauge("fxccm_node_ipam_ranges",
		"Node ranges in the cluster CIDR, if node-ipam-controller divides it. Only the leader has them.",
		ManagerLabel(), cidr)
	n.Free = n.Gauge("fxccm_node_ipam_ranges_free",
		"Node ranges in the cluster CIDR that no node and no service CIDR uses.",
		ManagerLabel(), cidr)
	n.Waiting = n.Gauge("fxccm_node_ipam_nodes_waiting",
		"Nodes that wait for a pod range because the last attempt failed.", ManagerLabel())
	return n
}
