// Command demo runs the example binaries as processes on a real control plane: two replicas of the
// standalone binary on a simulated OpenStack, then a host that embeds the cloud controller manager,
// on a fake cloud. Run it with
//
//	make demo            a line for each step and each change; Ctrl-C ends it
//	make demo CHECK=1    only the steps; the exit code is 0 if all succeed
//	make demo FLEET=1    a fleet: many clusters on two projects, served by three replicas
//	make playground      only the control plane and OpenStack, for commands of your own
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/spf13/pflag"

	"github.com/fxccm/fxccm/test/internal/attempt"
)

const (
	// refreshPeriod is the time between two reads of the state.
	refreshPeriod = 100 * time.Millisecond

	// stepPause gives a reader time between two steps.
	stepPause = 2 * time.Second

	// failureTail is how many lines of each process's log are shown when a step has failed.
	failureTail = 25
)

func main() {
	flags := pflag.NewFlagSet("demo", pflag.ContinueOnError)
	binary := flags.String("binary", "bin/fxccm", "The example binary.")
	embedded := flags.String("embedded", "bin/fxccm-embedded", "The example binary of a host.")
	check := flags.Bool("check", false, "Verify each step and exit: 0 if all went well.")
	many := flags.Bool("fleet", false, "Show a fleet of clusters instead of one cluster.")
	dir := flags.String("playground", "",
		"Run only the control plane and OpenStack, and write their files into this folder.")
	err := flags.Parse(os.Args[1:])
	if errors.Is(err, pflag.ErrHelp) {
		return
	}
	if err == nil {
		err = attempt.Run(context.Background(), func(t *attempt.T) {
			switch {
			case *dir != "":
				playground(t, *dir)
			case *many:
				show(t, newFleet(t, *binary), *check)
			default:
				show(t, newCluster(t, *binary, *embedded), *check)
			}
		})
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "demo:", err)
		os.Exit(1)
	}
}

// errInterrupted ends the demo, but is not a failure.
var errInterrupted = errors.New("interrupted")

// onSignal returns a context that ends at the first signal. A second signal ends the program
// immediately, with its child processes.
func onSignal(t *attempt.T) context.Context {
	ctx, cancel := context.WithCancelCause(t.Context())
	interrupted, restore := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	context.AfterFunc(interrupted, func() {
		cancel(errInterrupted)
		restore()
	})
	return ctx
}

// world is the environment of a demo.
type world interface {
	story() story
	processes() []*replica
	// folder has the logs.
	folder() string
	// look reads the state to show while the steps run.
	look(ctx context.Context) ([]table, error)
	howToLookAround() string
	// stop stops everything that was started, and removes the folder unless its logs are kept.
	stop(keepLogs bool) error
}

// show runs the story of a world until it has ended, a step has failed, or a signal ends it.
func show(t *attempt.T, w world, check bool) {
	out := &display{out: os.Stdout, stepsOnly: check, begun: time.Now()}
	d := &demo{world: w, display: out, unattended: check}
	err := d.play(onSignal(t))
	if errors.Is(err, errInterrupted) && !check {
		fmt.Println("\nStopping the processes, API server and etcd.")
		err = nil
	}
	logs := logTails(w.processes())
	keep := err != nil && logs != ""
	if stopErr := w.stop(keep); stopErr != nil {
		err = errors.Join(err, fmt.Errorf("clean up: %w", stopErr))
	}
	if keep {
		fmt.Fprintf(os.Stderr, "%s(more in %s)\n", logs, w.folder())
	}
	t.Check(err)
}

// logTails returns the end of each process's log.
func logTails(processes []*replica) string {
	var out strings.Builder
	for _, r := range processes {
		if p := r.process.Load(); p != nil {
			fmt.Fprintf(&out, "the end of %s:\n%s\n", p.Log, p.Tail(failureTail))
		}
	}
	return out.String()
}

// demo runs the steps of a world and shows their outcomes.
type demo struct {
	world      world
	display    *display
	unattended bool
}

// play returns when all steps of a check have succeeded, when one has failed, or when ctx ends.
func (d *demo) play(ctx context.Context) error {
	s := d.world.story()
	if err := d.take(ctx, s.preparation); err != nil {
		return err
	}
	d.display.say(d.world.howToLookAround())
	if d.unattended {
		return d.take(ctx, append(s.chapters, s.ending...))
	}

	watching, stopWatching := context.WithCancel(ctx)
	var watcher sync.WaitGroup
	watcher.Go(func() { d.watch(watching) })
	defer watcher.Wait()
	defer stopWatching()
	if err := d.take(ctx, s.chapters); err != nil {
		return err
	}
	d.display.say(
		"\nAll steps are done. The cluster keeps running for you to look around; Ctrl-C ends it.")
	<-ctx.Done()
	return context.Cause(ctx)
}

// take runs the steps in order until one fails.
func (d *demo) take(ctx context.Context, steps []step) error {
	for _, s := range steps {
		d.display.step(outcome{name: s.name})
		begun := time.Now()
		seen, err := s.within(ctx)
		if err != nil && ctx.Err() != nil {
			return context.Cause(ctx) // no step has failed
		}
		o := outcome{name: s.name, seen: seen, state: succeeded, took: time.Since(begun)}
		if err != nil {
			o.seen, o.state = err.Error(), failed
		}
		d.display.step(o)
		if err != nil {
			return fmt.Errorf("failed at step %q: %w", s.name, err)
		}
		if !d.unattended {
			if err := sleep(ctx, stepPause); err != nil {
				return err
			}
		}
	}
	return nil
}

func (s step) within(ctx context.Context) (seen string, _ error) {
	ctx, cancel := context.WithTimeoutCause(ctx, s.limit, fmt.Errorf("not within %s", s.limit))
	defer cancel()
	return seen, attempt.Run(ctx, func(t *attempt.T) { seen = s.do(t) })
}

// watch shows the changes of the cluster until ctx ends. It ignores read errors, because a step
// reports them.
func (d *demo) watch(ctx context.Context) {
	for {
		if tables, err := d.world.look(ctx); err == nil {
			d.display.observe(tables)
		}
		if sleep(ctx, refreshPeriod) != nil {
			return
		}
	}
}
