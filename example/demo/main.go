// Command demo runs the example binaries as processes on a real control plane: two replicas of the
// standalone binary on a simulated OpenStack, then a host that embeds the cloud controller manager,
// on a fake cloud. Run it with
//
//	make demo            a line for each step and each change; Ctrl-C ends it
//	make demo CHECK=1    only the steps; the exit code is 0 if all succeed
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
	ctx, cancel := context.WithCancelCause(context.Background())
	defer cancel(nil)
	// A second signal ends the demo immediately. Its child processes end with it.
	interrupted, restore := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer restore()
	defer context.AfterFunc(interrupted, func() {
		cancel(errInterrupted)
		restore()
	})()

	out := &display{out: os.Stdout, stepsOnly: check, begun: time.Now()}
	d := &demo{cluster: c, display: out, unattended: check}
	err = d.play(ctx)
	if errors.Is(err, errInterrupted) && !check {
		fmt.Println("\nStopping the processes, API server and etcd.")
		err = nil
	}
	logs := c.logTails()
	keep := err != nil && logs != ""
	if stopErr := c.stop(context.Background(), keep); stopErr != nil {
		err = errors.Join(err, fmt.Errorf("clean up: %w", stopErr))
	}
	if keep {
		fmt.Fprintf(os.Stderr, "%s(more in %s)\n", logs, c.dir)
	}
	return err
}

// logTails returns the end of each process's log.
func (c *cluster) logTails() string {
	var out strings.Builder
	for _, r := range c.processes() {
		if tail := r.logTail(failureTail); tail != "" {
			fmt.Fprintf(&out, "the end of %s:\n%s\n", r.log, tail)
		}
	}
	return out.String()
}

// demo runs the steps and shows their outcomes.
type demo struct {
	cluster    *cluster
	display    *display
	unattended bool
}

// play returns when all steps of a check are done, when one has failed, or when ctx ends.
func (d *demo) play(ctx context.Context) error {
	if err := d.take(ctx, preparation()); err != nil {
		return err
	}
	d.display.say(d.cluster.howToLookAround())

	watching, stopWatching := context.WithCancel(ctx)
	var watcher sync.WaitGroup
	watcher.Go(func() { d.watch(watching) })
	defer watcher.Wait()
	defer stopWatching()

	if err := d.take(ctx, story()); err != nil {
		return err
	}
	if d.unattended {
		stopWatching()
		watcher.Wait()
		return d.take(ctx, ending())
	}
	d.display.say(
		"\nAll steps are done. The cluster keeps running for you to look around; Ctrl-C ends it.")
	<-ctx.Done()
	return context.Cause(ctx)
}

// take runs the steps in order, until one fails.
func (d *demo) take(ctx context.Context, steps []step) error {
	for _, s := range steps {
		d.display.step(outcome{name: s.name})
		begun := time.Now()
		seen, err := s.within(ctx, d.cluster)
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

func (s step) within(ctx context.Context, c *cluster) (string, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, s.limit, fmt.Errorf("not within %s", s.limit))
	defer cancel()
	return s.do(ctx, c)
}

// watch shows the changes of the cluster until ctx ends. It ignores read errors, because a step
// reports them.
func (d *demo) watch(ctx context.Context) {
	ticker := time.NewTicker(refreshPeriod)
	defer ticker.Stop()
	for {
		if tables, err := d.cluster.look(ctx); err == nil {
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
