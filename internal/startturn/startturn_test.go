package startturn_test

import (
	"context"
	"errors"
	"runtime"
	"testing"
	"time"

	"github.com/fxccm/fxccm/internal/startturn"
)

func TestTake_AllTurnsAreTaken_WaitsForOneThatEnds(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	var ends []func()
	for range runtime.NumCPU() {
		end, err := startturn.Take(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		ends = append(ends, end)
	}
	short, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	if _, err := startturn.Take(short); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Take with all turns taken: %v, want a wait until the context ends", err)
	}
	ends[0]()
	end, err := startturn.Take(t.Context())
	if err != nil {
		t.Fatalf("Take after a turn has ended: %v", err)
	}
	end()
	for _, end := range ends[1:] {
		end()
	}
}

func TestTake_FolderCannotBeMade_Fails(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", "/dev/null")
	if _, err := startturn.Take(t.Context()); err == nil {
		t.Error("Take succeeded without a folder for its files")
	}
}
