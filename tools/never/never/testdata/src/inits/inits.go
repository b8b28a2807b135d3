package inits

func init() {} // want `init: init runs in every program that imports the package`

type T struct{}

// A method may have the name.
func (T) init() {}
