package main

import (
	"context"
	"fmt"
	"path/filepath"
	"time"
)

// labTrial is a trial on the lab.
type labTrial struct {
	*trial
	cloud *labCloud
	// running is the process that is measured; nil if none is.
	running *replica
	// alone is what Octavia needed while it had nothing else to do: for a new load balancer, one
	// change of it, its deletion. From it is computed how often OCCM would ask.
	alone struct{ creation, change, deletion time.Duration }
}

// A labFigure is what was measured of one thing that there is to do.
type labFigure struct {
	title string
	// took is until all was as it should be, in the cluster and in Octavia.
	took time.Duration
	// pending is how long of that Octavia was at work, pendingEach how long at each load balancer:
	// it may have been at several at once.
	pending, pendingEach time.Duration
	requests             tallies
	// logged is how many requests the services have noted, by service.
	logged map[string]int
	// occm is in requests, occmTime in seconds.
	occm, occmTime cost
}

// by is with what OCCM would need.
func (f labFigure) by(calls, time cost) labFigure {
	f.occm, f.occmTime = calls, time
	return f
}

// start starts fxccm as it is by default, but for what it does by the clock, which would be counted
// with whatever is measured meanwhile.
func (t *labTrial) startCCM(flags ...string) error {
	config, err := t.cloud.writeConfig(t.bench.dir)
	if err != nil {
		return err
	}
	t.running, err = t.start(candidate{name: ours, program: "fxccm", flags: append([]string{
		"--cloud-provider=openstack", "--cloud-config=" + config,
		"--node-status-update-frequency=" + neverPeriod.String(),
	}, flags...)})
	return err
}

// leadCCM starts fxccm, and returns when it leads.
func (t *labTrial) leadCCM(ctx context.Context, flags ...string) (time.Time, error) {
	return t.lead(ctx, func() error { return t.startCCM(flags...) })
}

// stopCCM ends the process; the lease is free then.
func (t *labTrial) stopCCM(ctx context.Context) error {
	err := t.running.stop(stopGrace)
	t.running = nil
	if err != nil {
		return err
	}
	return t.bench.cluster.settle(ctx)
}

// tallies are what the running process has counted, and how many of its requests are in flight.
func (t *labTrial) tallies(ctx context.Context) (_ tallies, underway int, _ error) {
	if t.running == nil {
		return tallies{}, 0, nil
	}
	return readTallies(ctx, fmt.Sprintf("https://127.0.0.1:%d", t.running.port),
		t.bench.cluster.plane.RESTConfig())
}

// awaitQuiet waits until fxccm has asked nothing for a while, and tells what it has asked until
// then.
func (t *labTrial) awaitQuiet(ctx context.Context) (tallies, error) {
	t.bench.progress.update(t.title + ": waiting until nothing more is asked")
	last, since := -1, time.Now()
	for {
		all, underway, err := t.tallies(ctx)
		if err != nil {
			return nil, err
		}
		if n := all.sum().count; underway > 0 || n != last {
			last, since = n, time.Now()
		}
		if time.Since(since) >= settleTime {
			return all, nil
		}
		if err := t.pause(ctx, 4*pollInterval); err != nil {
			return nil, fmt.Errorf("wait until nothing more is asked: %w", err)
		}
	}
}

// measure counts the requests while do runs, and until no request has been sent for a while after
// that. do returns when it began, and when the cluster showed that it was done; left,
// what OpenStack shows not to be done yet, which it is asked when all is quiet.
func (t *labTrial) measure(
	ctx context.Context, title string, do func() (begun, done time.Time, _ error),
	left func(context.Context) error,
) (f labFigure, err error) {
	t.title, f.title = title, title
	logs, project := filepath.Join(labFolder(), "log"), t.cloud.ID
	before, _, err := t.tallies(ctx)
	if err != nil {
		return f, err
	}
	mark, err := markLogs(logs)
	if err != nil {
		return f, err
	}
	watched := watchOctavia(ctx, t.cloud.User().API())
	defer func() { _ = watched.stop() }()
	begun, done, err := do()
	if err != nil {
		return f, err
	}
	after, err := t.awaitDone(ctx, watched, done, left)
	if err != nil {
		return f, err
	}
	if len(after) == 0 {
		return f, fmt.Errorf("fxccm serves no metric %s", requestMetric)
	}
	f.requests = after.since(before)
	if f.logged, err = countLogged(logs, mark, project); err != nil {
		return f, err
	}
	seen := watched.stop()
	var together time.Duration
	var balancers int
	if f.pending, together, balancers = seen.pending(); balancers > 0 {
		f.pendingEach = together / time.Duration(balancers)
	}
	if rest := seen.rest(); rest.After(done) {
		done = rest
	}
	f.took = done.Sub(begun)
	return f, nil
}

// awaitDone waits until nothing is left to do, and tells what has been asked until then. Between
// two steps of a longer work it may be quiet, too.
func (t *labTrial) awaitDone(
	ctx context.Context, watched *octavia, done time.Time, left func(context.Context) error,
) (tallies, error) {
	for end := time.Now().Add(t.bench.settings.limit); ; done = time.Now() {
		if err := watched.awaitRest(ctx, done); err != nil {
			return nil, err
		}
		all, err := t.awaitQuiet(ctx)
		if err != nil {
			return nil, err
		}
		err = left(ctx)
		if err == nil || time.Now().After(end) {
			return all, err
		}
	}
}

// noteLab keeps a figure, and tells it.
func (t *labTrial) noteLab(f labFigure) {
	t.bench.results.lab.figures = append(t.bench.results.lab.figures, f)
	t.bench.progress.say(fmt.Sprintf("lab: %s: %s s, %d calls (%s)", f.title, secondsText(f.took),
		f.requests.sum().count, f.kindsText()))
}
