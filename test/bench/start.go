package main

import (
	"fmt"
	"time"

	"github.com/fxccm/fxccm/provider/fake"
)

// measureStart measures how long a process takes, on an empty cluster without a lease, until it
// leads and until it has done its first piece of work: to initialize the one node that waits.
func measureStart(b *bench) {
	b.measureLeading("start", noWorseTarget,
		"Start: process begins → it holds the lease",
		"Start: process begins → first node initialized",
		func(t *trial, c candidate, _ int) (led, worked time.Duration) {
			t.Check(t.cloud.AddInstances(fake.Instance{Name: "first"}))
			t.createNodes(newNode("first"))
			node := t.watchNode("first")
			p, at := t.lead(c)
			return at.Sub(p.Started), node.wait().Sub(p.Started)
		})
}

// measureLeading measures for each candidate, in each round, how long it takes until a process
// leads and until it has initialized a node.
func (b *bench) measureLeading(
	name string, target float64, leadTitle, workTitle string,
	measure func(_ *trial, _ candidate, round int) (led, worked time.Duration),
) {
	toLease := row{title: leadTitle, target: target, unit: seconds}
	toWork := row{title: workTitle, target: target, unit: seconds}
	for round := range b.rounds {
		for _, c := range candidates() {
			if c.backlogOnly {
				continue
			}
			title := fmt.Sprintf("%s, round %d: %s", name, round+1, c.name)
			b.trial(title, 0, func(t *trial) {
				led, worked := measure(t, c, round)
				b.results.add(toLease, c.name, sample{value: led.Seconds()})
				b.results.add(toWork, c.name, sample{value: worked.Seconds()})
				b.progress.say(fmt.Sprintf(
					"%s holds the lease after %.2f s, and has initialized a node after %.2f s",
					title, led.Seconds(), worked.Seconds()))
			})
		}
	}
}
