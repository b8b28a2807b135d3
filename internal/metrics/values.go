package metrics

// An EndReason is why a term ended.
type EndReason string

// All reasons.
const (
	// Stopped terms ended because the Manager was stopped.
	Stopped EndReason = "stopped"
	// Lost terms ended because leadership was lost.
	Lost EndReason = "lost"
	// Failed terms ended because the provider, the informers or a controller failed.
	Failed EndReason = "failed"
	// DrainTimedOut terms exceeded their drain timeout, whatever the reason for their end was.
	DrainTimedOut EndReason = "drain_timeout"
)

// A Door is a place where calls pass the fence.
type Door string

// All doors.
const (
	// DoorKube is the transport of the term's clients of the API server.
	DoorKube Door = "kube"
	// DoorCloud is the guard around the cloud provider.
	DoorCloud Door = "cloud"
	// DoorProvider is the transport that a provider may use for its own requests.
	DoorProvider Door = "provider"
)

func endReasons() []EndReason { return []EndReason{Stopped, Lost, Failed, DrainTimedOut} }

func doors() []Door { return []Door{DoorKube, DoorCloud, DoorProvider} }
