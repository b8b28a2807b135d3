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
)

const (
	// refreshPeriod is the time between two looks at the cluster.
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
	switch {
	case err != nil:
	case *dir != "":
		ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM,
			syscall.SIGHUP)
		defer stop()
		err = playground(ctx, *dir)
	case *many:
		err = runFleet(*binary, *check)
	default:
		err = run(*binary, *embedded, *check)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "demo:", err)
		os.Exit(1)
	}
}

// errInterrupted ends the demo without being a failure of it.
var errInterrupted = errors.New("interrupted")

func run(binary, embedded string, check bool) error {
	c, err := newCluster(binary, embedded)
	if err != nil {
		return err
	}
	return show(c, story[*cluster]{preparation(), chapters(), ending()}, check, false)
}

// show plays a story until it has ended, a step has failed, or a signal ends it. It paints a page
// or prints lines.
func show[W world](w W, s story[W], check, paints bool) error {
	ctx, cancel := context.WithCancelCause(context.Background())
	defer cancel(nil)
	// A second signal ends the demo immediately. Its child processes end with it.
	interrupted, restore := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer restore()
	defer context.AfterFunc(interrupted, func() {
		cancel(errInterrupted)
		restore()
	})()

	out := &display{out: os.Stdout, stepsOnly: check, paints: paints && !check, begun: time.Now()}
	d := &demo[W]{world: w, story: s, display: out, unattended: check}
	err := d.play(ctx)
	if errors.Is(err, errInterrupted) && !check {
		fmt.Println("\nStopping the processes, API server and etcd.")
		err = nil
	}
	logs := logTails(w.processes())
	keep := err != nil && logs != ""
	if stopErr := w.stop(context.Background(), keep); stopErr != nil {
		err = errors.Join(err, fmt.Errorf("clean up: %w", stopErr))
	}
	if keep {
		fmt.Fprintf(os.Stderr, "%s(more in %s)\n", logs, w.folder())
	}
	return err
}

// logTails returns the end of each process's log.
func logTails(processes []*replica) string {
	var out strings.Builder
	for _, r := range processes {
		if tail := r.logTail(failureTail); tail != "" {
			fmt.Fprintf(&out, "the end of %s:\n%s\n", r.log, tail)
		}
	}
	return out.String()
}

// world is everything that a demo runs.
type world interface {
	processes() []*replica
	// folder has the logs.
	folder() string
	// look reads the state that is shown while the steps run.
	look(ctx context.Context) ([]table, error)
	howToLookAround() string
	// stop ends all that was started, and removes the folder unless its logs are worth keeping.
	stop(ctx context.Context, keepLogs bool) error
}

// demo runs the steps of a story and shows their outcomes.
type demo[W world] struct {
	world      W
	story      story[W]
	display    *display
	unattended bool
}

// play returns when all steps of a check are done, when one has failed, or when ctx ends.
func (d *demo[W]) play(ctx context.Context) error {
	if err := d.take(ctx, d.story.preparation); err != nil {
		return err
	}
	d.display.say(d.world.howToLookAround())

	watching, stopWatching := context.WithCancel(ctx)
	var watcher sync.WaitGroup
	if !d.unattended {
		watcher.Go(func() { d.watch(watching) })
	}
	defer watcher.Wait()
	defer stopWatching()

	if err := d.take(ctx, d.story.chapters); err != nil {
		return err
	}
	if d.unattended {
		stopWatching()
		watcher.Wait()
		return d.take(ctx, d.story.ending)
	}
	d.display.say(
		"\nAll steps are done. The cluster keeps running for you to look around; Ctrl-C ends it.")
	<-ctx.Done()
	return context.Cause(ctx)
}

// take runs the steps in order, until one fails.
func (d *demo[W]) take(ctx context.Context, steps []step[W]) error {
	for _, s := range steps {
		d.display.step(outcome{name: s.name})
		begun := time.Now()
		seen, err := s.within(ctx, d.world)
		if err != nil && ctx.Err() != nil {
			return context.Cause(ctx) // nothing has failed
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
			if err := pause(ctx, stepPause); err != nil {
				return err
			}
		}
	}
	return nil
}

func (s step[W]) within(ctx context.Context, w W) (string, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, s.limit, fmt.Errorf("not within %s", s.limit))
	defer cancel()
	return s.do(ctx, w)
}

// watch shows the changes of the cluster until ctx ends. It ignores read errors, because a step
// reports them.
func (d *demo[W]) watch(ctx context.Context) {
	ticker := time.NewTicker(refreshPeriod)
	defer ticker.Stop()
	for {
		if tables, err := d.world.look(ctx); err == nil {
			d.display.observe(tables)
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return
		}
	}
}

func (c *cluster) howToLookAround() string {
	return fmt.Sprintf(`Look around from another terminal:
  export KUBECONFIG=%[1]s
  kubectl get nodes -o wide
  kubectl -n kube-system get leases
  kubectl get events
  curl -s %[2]s/_sim/counts
  curl -s %[2]s/_sim/servers
  curl -sk %[3]s?verbose
  tail -f %[4]s
and when the host runs:
  curl -s %[5]s/ccm/statusz
  curl -s %[6]s/v1/routes
  kubectl create service loadbalancer mine --tcp=80
`, c.file("admin.kubeconfig"), c.openStack.server.URL(), c.replicas[0].readyURL, c.replicas[0].log, c.hostURL(), c.fakeURL)
}
