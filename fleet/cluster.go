package fleet

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"reflect"
	"time"

	"k8s.io/client-go/rest"
)

// A Cluster is one cluster of a fleet, as its [Source] describes it.
type Cluster struct {
	// Name identifies the cluster in the fleet: in leases, logs and metrics. It must be a DNS
	// subdomain of at most 180 characters, and must not change over the life of the cluster.
	Name string

	// UID distinguishes a cluster from an earlier one of the same name. A change replaces the
	// Manager. Optional.
	UID string

	// Labels are the labels of the cluster's object in the source, for [Params].Manager. A change
	// replaces the Manager, unless [Params].Labels leaves the label out.
	Labels map[string]string

	// RESTConfig is the client configuration of the cluster's API server. The Manager continues to
	// run when the credentials or the proxy change. A change of the address replaces it.
	RESTConfig *rest.Config

	// CloudConfig is the provider's configuration, for [Params].Manager. A change replaces the
	// Manager, unless [Cluster.OnCloudConfig] applies it.
	CloudConfig []byte

	// Err is why the source cannot read the cluster. The Manager continues with the last readable
	// configuration, and [Status] shows the error. It must not contain secrets.
	Err error

	// owner is [ccm.Params].Owner of the Manager; "" unless the source is [ClusterAPI].
	owner string
	// object is nil unless the source is [ClusterAPI] and the fleet cleans up after its Clusters.
	object *clusterObject
	// isTrusted is set by Trusted. rules are those that apply, or nil for a trusted cluster.
	isTrusted bool
	rules     *AccessRules
	// joined is when this replica saw the cluster first.
	joined time.Time
	// The fleet sets these in the Cluster that it passes to Params.Manager. cloud limits the
	// responses of the cluster's own cloud.
	onCloudConfig func(ReplaceCloudConfig)
	cloud         *cloudLimits
}

// ReplaceCloudConfig gives the provider of a running Manager another configuration, such as rotated
// credentials. If isKept is false, the fleet replaces the Manager. After an error, the fleet tries
// again later, and [Status] shows the error.
type ReplaceCloudConfig func(ctx context.Context, data []byte) (isKept bool, err error)

// OnCloudConfig is for [Params].Manager: the fleet calls replace, one call at a time, when only the
// CloudConfig of this cluster changes. It has no effect on a Cluster that the fleet did not pass.
func (c *Cluster) OnCloudConfig(replace ReplaceCloudConfig) {
	if c.onCloudConfig != nil {
		c.onCloudConfig(replace)
	}
}

// A Source yields the clusters of a fleet.
type Source interface {
	// Run calls update with all clusters of the fleet: first when it has read all of them, and
	// again after each change. A cluster that is missing in an update leaves the fleet, so the list
	// must be complete; a cluster that cannot be read is passed with Err. Neither the fleet nor the
	// source may change the passed clusters.
	//
	// Run returns when ctx has ended. An earlier return is a failure: the fleet keeps the clusters,
	// and calls Run again after a pause.
	Run(ctx context.Context, update func([]Cluster)) error
}

// SourceFunc is a function as a [Source].
type SourceFunc func(ctx context.Context, update func([]Cluster)) error

// Run calls f.
func (f SourceFunc) Run(ctx context.Context, update func([]Cluster)) error { return f(ctx, update) }

// Static is a [Source] of clusters that do not change.
func Static(clusters ...Cluster) Source {
	return SourceFunc(func(ctx context.Context, update func([]Cluster)) error {
		update(clusters)
		<-ctx.Done()
		return nil
	})
}

// isLike reports whether a later state of the cluster is the same.
func (c *Cluster) isLike(next *Cluster) bool {
	hasSameObject := c.object == next.object ||
		c.object != nil && next.object != nil && *c.object == *next.object
	if fmt.Sprint(c.Err) != fmt.Sprint(next.Err) || !hasSameObject {
		return false
	}
	return next.Err != nil || !c.needsNewManager(next) && c.hasSameCloud(next) &&
		(c.RESTConfig == nil || sameAccess(c.RESTConfig, next.RESTConfig))
}

// hasSameCloud reports whether the provider's configuration is the same.
func (c *Cluster) hasSameCloud(changed *Cluster) bool {
	return (c.CloudConfig == nil) == (changed.CloudConfig == nil) &&
		bytes.Equal(c.CloudConfig, changed.CloudConfig)
}

// needsNewManager reports whether the running Manager cannot follow a change of the cluster.
func (c *Cluster) needsNewManager(changed *Cluster) bool {
	return c.UID != changed.UID || !maps.Equal(c.Labels, changed.Labels) ||
		(c.RESTConfig == nil) != (changed.RESTConfig == nil) ||
		c.RESTConfig != nil && !sameServer(c.RESTConfig, changed.RESTConfig)
}

// sameServer reports whether two configurations differ only in the fields that [access] replaces.
func sameServer(a, b *rest.Config) bool {
	return a.Host == b.Host && a.APIPath == b.APIPath &&
		reflect.DeepEqual(a.ContentConfig, b.ContentConfig) &&
		a.QPS == b.QPS && a.Burst == b.Burst && a.UserAgent == b.UserAgent
}
