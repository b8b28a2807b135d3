package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/fxccm/fxccm/provider/openstack/openstacktest"
)

// openStackTrial is a trial on a simulated OpenStack instead of the fake cloud.
type openStackTrial struct {
	*trial
	cloud *openStack
}

// onOpenStack is a trial. Not to finish within the limit is a result and no error.
func (b *bench) onOpenStack(
	ctx context.Context, title string, servers int,
	body func(context.Context, *openStackTrial) error, options ...openstacktest.Option,
) error {
	err := b.trial(ctx, 0, func(ctx context.Context, t *trial) error {
		t.title = title
		o := &openStackTrial{trial: t, cloud: newOpenStack(servers, options...)}
		// The processes end before what they talk to.
		t.after = func() error {
			o.cloud.Close()
			return nil
		}
		err := body(ctx, o)
		if err != nil && errors.Is(context.Cause(ctx), errLimit) {
			o.note(figure{title: title, unfinished: b.settings.limit})
			return nil
		}
		if cause := context.Cause(ctx); err != nil && cause != nil && !errors.Is(err, cause) {
			// A process has died, and what was under way only says that it was broken off.
			err = fmt.Errorf("%w: %w", err, cause)
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("%s: %w", title, err)
	}
	return nil
}

// run creates nodes, starts fxccm, and returns when all nodes are so. It tells how long that took
// from when the Lease named a holder.
func (t *openStackTrial) run(
	ctx context.Context, nodes []*corev1.Node, isSo func(*corev1.Node) bool, flags ...string,
) (time.Duration, error) {
	if err := t.prepare(ctx, nodes); err != nil {
		return 0, err
	}
	all, err := t.watch(ctx, isSo)
	if err != nil {
		return 0, err
	}
	from, err := t.leadCCM(ctx, flags...)
	if err != nil {
		return 0, err
	}
	to, err := all.wait()
	if err != nil {
		return 0, fmt.Errorf("wait for the nodes: %w", err)
	}
	return to.Sub(from), nil
}

func (t *openStackTrial) prepare(ctx context.Context, nodes []*corev1.Node) error {
	if err := t.bench.cluster.createNodes(ctx, nodes...); err != nil {
		return fmt.Errorf("create %d nodes: %w", len(nodes), err)
	}
	return t.bench.cluster.settle(ctx)
}

// startCCM starts fxccm on the cloud. Of flags that are given twice the last one counts.
func (t *openStackTrial) startCCM(flags ...string) (*replica, error) {
	return t.startWith("", flags...)
}

// leadCCM starts fxccm, and returns when it leads.
func (t *openStackTrial) leadCCM(ctx context.Context, flags ...string) (time.Time, error) {
	return t.lead(ctx, func() error {
		_, err := t.startCCM(flags...)
		return err
	})
}

// startWith has something more in cloud.conf.
func (t *openStackTrial) startWith(more string, flags ...string) (*replica, error) {
	config, err := t.cloud.writeConfig(t.bench.dir, more)
	if err != nil {
		return nil, err
	}
	return t.start(candidate{
		name: ours, program: "fxccm",
		flags: append([]string{"--cloud-provider=openstack", "--cloud-config=" + config}, flags...),
	})
}

// watch waits until all nodes are so.
func (t *openStackTrial) watch(ctx context.Context, isSo func(*corev1.Node) bool) (*sight, error) {
	return t.watchNodes(ctx, len(t.cloud.servers), isSo)
}

func (t *openStackTrial) note(f figure) { t.bench.note(f) }

// note keeps a figure, and tells it.
func (b *bench) note(f figure) {
	b.results.note(f)
	text := f.title + ": " + f.text()
	if verdict := f.verdict(); verdict != "" {
		text += ", " + verdict
	}
	if operations := f.operations(); operations != "" {
		text += " (" + operations + ")"
	}
	b.progress.say(text)
}
