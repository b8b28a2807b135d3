package fleet

import (
	"os"
	"runtime/debug"
)

// garbagePercent is half of Go's default.
const garbagePercent = 50

// SaveMemory lets the process collect garbage when its heap has grown by half, unless the
// environment variable GOGC is set. A fleet at rest allocates little, so memory counts more than
// the CPU time of the garbage collector.
func SaveMemory() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(garbagePercent)
	}
}
