package anywhere // want `init is allowed in \* and not needed there: take it off the list`

import "os"

type T struct{}

func (t *T) Die() { panic("allowed") }

func Die() {
	panic("allowed")
	os.Exit(1) // want `exit: os.Exit`
}
