package ccm

import "context"

// A ClusterCleaner is a cloudprovider.Interface that can delete the load balancers of a cluster
// whose API server is gone. A provider may implement it. The Term's Cloud always does: the fence
// checks the call, and the error is errors.ErrUnsupported if the provider does not.
type ClusterCleaner interface {
	// CleanUpCluster deletes what the cloud's own records, such as tags, show to be the cluster's,
	// and nothing that a name alone shows. uid is that of the cluster's namespace kube-system. It
	// returns descriptions of what is left, and is called again until nothing is. It must not need
	// the API server of the cluster, keeps addresses that a Service may have wanted to keep, and
	// ends with ctx.
	CleanUpCluster(ctx context.Context, uid string) (left []string, err error)
}
