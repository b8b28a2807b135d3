package fleet

import (
	"os"
	"runtime/debug"
)

// garbagePercent is a quarter of Go's default. It also keeps the heap dense while clusters are set
// up: with half of the default, a cluster of 100 nodes keeps 0.6 MiB more at rest.
const garbagePercent = 25

// SaveMemory makes the process collect garbage when its heap has grown by a quarter, unless the
// environment variable GOGC is set. An idle fleet allocates little, so memory matters more than the
// CPU time of the garbage collector.
func SaveMemory() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(garbagePercent)
	}
}
