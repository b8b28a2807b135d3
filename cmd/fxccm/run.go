package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"syscall"

	"go.uber.org/fx"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/component-base/logs"
	controllersmetrics "k8s.io/component-base/metrics/prometheus/controllers"
	"k8s.io/klog/v2"

	"github.com/fxccm/fxccm/ccm"
	"github.com/fxccm/fxccm/cmd/fxccm/cli"
	"github.com/fxccm/fxccm/options"
)

// appConstructor creates an app from its configuration. The tracer may be nil.
type appConstructor func(options.Configuration, ccm.Tracer) (*fx.App, error)

// runServer runs an app until it is stopped.
func runServer(line *commandLine, newApp appConstructor) error {
	completed, err := line.options.Complete()
	if err != nil {
		return err
	}
	if err := startLogging(line.logging); err != nil {
		return err
	}
	defer logs.FlushLogs()
	if err := ownProcess(completed); err != nil {
		return err
	}
	tracer, endTracing := startTracing()
	defer endTracing()
	app, err := newApp(completed.Configuration, tracer)
	if err == nil {
		err = app.Err()
	}
	if err != nil {
		return err
	}
	klog.Background().Info("Starting", "version", version())
	for _, warning := range completed.Warnings {
		klog.Background().Info("Warning: " + warning)
	}
	return runApp(app)
}

// runApp starts the app, and stops it at a signal or at the app's shutdown.
func runApp(app *fx.App) error {
	// Without it, a signal during the start would end the process at once.
	asked := app.Wait()
	if err := start(app); err != nil {
		return err
	}
	if code := end(app, <-asked); code != exitClean {
		return &cli.ExitError{Code: code}
	}
	return nil
}

// ownProcess sets global state of the process, which a library must not change.
func ownProcess(completed options.Completed) error {
	if err := utilfeature.DefaultMutableFeatureGate.SetFromMap(completed.FeatureGates); err != nil {
		return fmt.Errorf("--feature-gates: %w", err)
	}
	controllersmetrics.Register() // running_managed_controllers, as upstream
	if serving := completed.Serving; serving.Profiling && serving.ContentionProfiling {
		runtime.SetBlockProfileRate(1)
	}
	return nil
}

// start starts the app. After an error it stops the started parts: fx would do that with the
// context of the start, which may have ended.
func start(app *fx.App) error {
	ctx, cancel := context.WithTimeout(context.Background(), app.StartTimeout())
	defer cancel()
	err := app.Start(ctx)
	if err != nil {
		_ = stop(app)
	}
	return err
}

func stop(app *fx.App) error {
	ctx, cancel := context.WithTimeout(context.Background(), app.StopTimeout())
	defer cancel()
	return app.Stop(ctx)
}

// end stops the app, and returns the exit code.
func end(app *fx.App, asked fx.ShutdownSignal) int {
	defer exitOnNextSignal()()
	log := klog.Background()
	if asked.Signal != nil {
		log.Info("Stopping; another signal exits at once", "signal", asked.Signal.String())
	}
	err := stop(app)
	timedOut := (*ccm.DrainTimeoutError)(nil)
	switch {
	case errors.As(err, &timedOut):
		log.Error(err, "Stopped while a part of the term still runs; the lease is left to expire")
		return exitDrainTimeout
	case err != nil:
		log.Error(err, "Stopped with an error")
		return max(asked.ExitCode, exitFailed)
	}
	log.Info("Stopped")
	return asked.ExitCode
}

// exitOnNextSignal exits at a second signal without the drain, until the app has stopped.
func exitOnNextSignal() (stopped func()) {
	again, done := make(chan os.Signal, 1), make(chan struct{})
	signal.Notify(again, os.Interrupt, syscall.SIGTERM)
	go func() {
		select {
		case <-again:
			logs.FlushLogs()
			os.Exit(exitDrainTimeout)
		case <-done:
		}
	}()
	return func() {
		signal.Stop(again)
		close(done)
	}
}
