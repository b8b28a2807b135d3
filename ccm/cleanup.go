package ccm

import "context"

// A ClusterCleaner is a cloudprovider.Interface that can delete the load balancers of a cluster
// whose API server is gone. A provider may implement it. [Term.Cloud] always implements it: the
// fence checks the call, and the error is errors.ErrUnsupported if the provider does not implement
// it.
type ClusterCleaner interface {
	// CleanUpCluster deletes the objects that the cloud's own records, such as tags, assign to the
	// cluster. A matching name alone is not enough, and neither is uid, the UID of the cluster's
	// namespace kube-system: the cluster's API server has reported it. The objects must also have
	// the mark of [ProviderEnv].Owner; without an Owner nothing is deleted. The result describes
	// the objects that are left; the caller repeats the call until the result is empty.
	// CleanUpCluster must work without the API server of the cluster, keep addresses that a Service
	// may be configured to keep, and end with ctx.
	CleanUpCluster(ctx context.Context, uid string) (left []string, err error)
}
