// Package startturn lets a few heavy programs at once start on a machine, such as control planes of
// tests: when dozens start together, none is ready in time.
package startturn

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"time"
)

// pollInterval is the pause between two looks for a free turn.
const pollInterval = 50 * time.Millisecond

// Take waits for one of as many turns as the machine has cores, over all processes of the user. The
// caller calls end when its program is ready, or has failed. A process that ends gives its turns
// back. Systems without file locks have no limit. The error is that of ctx, or of the files of the
// locks, which are in the user's folder for caches.
func Take(ctx context.Context) (end func(), err error) {
	folder, err := os.UserCacheDir()
	if err != nil { // no home
		folder = os.TempDir()
	}
	folder = filepath.Join(folder, "fxccm")
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return nil, fmt.Errorf("make the folder of the turns: %w", err)
	}
	ticker := time.NewTicker(pollInterval)
	defer ticker.Stop()
	for {
		for i := range runtime.NumCPU() {
			file, err := lock(filepath.Join(folder, fmt.Sprintf("start-%d.lock", i)))
			if err != nil {
				return nil, fmt.Errorf("take a turn: %w", err)
			}
			if file != nil {
				return func() { _ = file.Close() }, nil
			}
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("wait for a turn: %w", context.Cause(ctx))
		case <-ticker.C:
		}
	}
}
