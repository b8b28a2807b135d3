package legacyregistry

var (
	MustRegister    = func(...any) {}
	DefaultGatherer any
)
