//go:build unix

package main

import (
	"context"
	"os"
	"syscall"
	"testing"

	"go.uber.org/fx"
)

func TestRunApp_SignalDuringTheStart_StopsTheApp(t *testing.T) {
	stopped := false
	app := fx.New(fx.NopLogger, fx.Invoke(func(all fx.Lifecycle) {
		all.Append(fx.Hook{
			OnStart: func(context.Context) error {
				return syscall.Kill(os.Getpid(), syscall.SIGTERM)
			},
			OnStop: func(context.Context) error {
				stopped = true
				return nil
			},
		})
	}))
	if err := runApp(app); err != nil || !stopped {
		t.Errorf("the app ended with %v, and was stopped: %t", err, stopped)
	}
}
