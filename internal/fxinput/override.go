package fxinput

// An Override changes the *ccm.Params of each Manager of an app after all decorators of the host.
// Package ccmtest replaces the parts of a host with it: fx allows one decorator for a type and
// module, which may be the host's.
type Override func(params any)

// Overrides is the tag of the value group that package ccm reads.
const Overrides = `group:"ccm.overrides"`
