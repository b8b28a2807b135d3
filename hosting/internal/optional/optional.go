// Package optional adds the optional interfaces of a cloud to a view of that cloud.
package optional

import (
	"io"

	cloudprovider "k8s.io/cloud-provider"

	"github.com/fxccm/fxccm/ccm"
)

// View is implemented by each view of a cloud. CleanUpCluster returns errors.ErrUnsupported if the
// cloud is no [ccm.ClusterCleaner].
type View interface {
	cloudprovider.Interface
	ccm.ClusterCleaner
	io.Closer
}

// Add returns the view with the interfaces that are not nil. Callers find them by a type assertion.
func Add(
	view View, labels cloudprovider.PVLabeler, reports ccm.ObjectReporter,
) cloudprovider.Interface {
	switch {
	case labels != nil && reports != nil:
		return struct {
			View
			cloudprovider.PVLabeler
			ccm.ObjectReporter
		}{view, labels, reports}
	case labels != nil:
		return struct {
			View
			cloudprovider.PVLabeler
		}{view, labels}
	case reports != nil:
		return struct {
			View
			ccm.ObjectReporter
		}{view, reports}
	}
	return view
}
