package allowed // want `init is allowed in gone and not needed there: take it off the list`

import (
	_ "embed"
	"os"
)

type T struct{}

func (t *T) Die() {
	panic("allowed")
	os.Exit(1) // want `exit: os.Exit`
}

func Die() {
	panic("in a function that is not on the list") // want `panic: panic where`
}
