package options

// These names are for the tests in package options_test.
var (
	Differences       = differences
	ParseFeatureGates = parseFeatureGates
	Encode            = encode
)

type Difference = difference

const (
	Added   = isAdded
	Default = isDefault
)
