// Package persistentvolumelabel labels PersistentVolumes with the place of their volume in the
// cloud, so that the scheduler puts Pods where their volumes are. It is for providers that tell
// this place through cloudprovider.PVLabeler, and for PersistentVolumes that an administrator has
// written by hand: what a CSI driver provisions has its place from the driver. Upstream's cloud
// controller manager had such a controller until 1.14, and the API server an admission plugin for
// the same (PersistentVolumeLabel) until 1.30.
//
// It is also the example to follow for a controller of one's own, and uses nothing that a host
// could not use. In the order of a controller's life:
//
//   - [Controller] describes it to the Manager. It holds nothing: a process can lead many times,
//     and run many Managers.
//   - New, once a term, asks the term for what is needed, and returns [ccm.ErrSkip] if there is
//     nothing to do. It starts nothing that it does not hand over, and waits for nothing.
//   - Run works until the term is over, and waits for every goroutine that it has started.
//   - What decides is a function of values (change.go); what acts is next to Run (controller.go).
//
// The controller never asks whether this process still leads. The term does that: once it is over,
// calls to the cloud and writes to the API server are refused before they leave the process.
package persistentvolumelabel
