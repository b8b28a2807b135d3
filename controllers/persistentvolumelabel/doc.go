// Package persistentvolumelabel labels PersistentVolumes with the zone and the region of their
// volume in the cloud, so that the scheduler places Pods where their volumes are. It is for
// providers that implement cloudprovider.PVLabeler, and for PersistentVolumes that an administrator
// has written by hand: a CSI driver labels the volumes that it provisions. Upstream's cloud
// controller manager had such a controller until 1.14, and the API server an admission plugin for
// the same purpose (PersistentVolumeLabel) until 1.30.
//
// It is also an example of a host's own controller, and uses only packages that a host can import:
//
//   - [Controller] describes the controller to the Manager. The description has no state, because a
//     process can lead many times, and run many Managers.
//   - New is called once a term. It requests clients and informers from the term, and returns
//     [ccm.ErrSkip] if the controller has no work. It does not wait, and leaves no goroutine behind
//     if it fails.
//   - Run works until the term is over, and waits for all its goroutines.
//   - Functions without side effects decide (change.go), and the methods beside Run act
//     (controller.go).
//
// The controller never checks whether this process still leads. After the term, the fence refuses
// calls to the cloud and writes to the API server before they leave the process.
package persistentvolumelabel
