package instances

import (
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
)

// EventVanished is the reason of the events on nodes that are kept although their instances are absent.
const EventVanished = "InstancesVanished"

// eventsPerEpisode bounds the nodes that are told.
const eventsPerEpisode = 10

// episode is the time in which more instances are absent than is believed: Nova answers, but for another project, or from a
// database that was restored, or without some of its cells. It ends when few enough are absent: they are back, or an operator has
// deleted nodes (kubectl delete node), or raised the limits.
type episode struct {
	told map[string]bool
}

// knownNode is a node of which it is known which instance it has.
type knownNode struct{ key, id, name string }

// census is how many of the known instances are absent.
type census struct{ known, absent int }

// tooMany tells whether so many at once are rather a fault of the cloud than the truth.
func (c census) tooMany(number int, share float64) bool {
	return c.absent >= number && float64(c.absent) > share*float64(c.known)
}

// vanished takes the census, and tells whether an absence is not believed. It is called with the lock held.
func (i *Instances) vanished() bool {
	nodes := i.knownNodes()
	c := census{known: len(nodes)}
	lacking := i.lookups.lacks(nodes)
	for at, n := range nodes {
		if lacking[at] || i.absences.has(n.key) {
			c.absent++
		}
	}
	i.absent, i.counted = c.absent, i.clock.Now()
	i.observer.AbsentInstances(c.absent)
	refused := c.tooMany(i.options.VanishedNumber, i.options.VanishedShare)
	if refused {
		i.trouble.Absence(c.absent, c.known)
	}
	switch {
	case refused && i.episode == nil:
		i.episode = &episode{told: map[string]bool{}}
		i.logger.Info("Too many instances have vanished at once; no node is reported as deleted", "absent", c.absent, "known", c.known)
	case !refused && i.episode != nil:
		i.episode = nil
		// What was denied meanwhile proves nothing: the cloud has only just come to its senses.
		i.absences.beginAll()
		i.trouble.AbsenceOver()
		i.logger.Info("No longer are too many instances absent", "absent", c.absent, "known", c.known)
	}
	return refused
}

// recountAfter is how long a census stands that has found some absent: their nodes are deleted without a word.
const recountAfter = time.Second

// outdated tells whether fewer may be absent than the last census has found. It is called with the lock held.
func (i *Instances) outdated() bool {
	return i.absent > 0 && i.clock.Since(i.counted) >= recountAfter
}

// knownNodes are the nodes of the cluster, or those that were asked about if the cluster's are not known. Nodes that have never had
// an instance do not count.
func (i *Instances) knownNodes() []knownNode {
	var known []knownNode
	if i.nodes == nil || !i.nodesSynced() {
		for key, s := range i.seen {
			known = append(known, knownNode{key, s.id, s.name})
		}
		return known
	}
	nodes, err := i.nodes.List(labels.Everything())
	if err != nil {
		return nil
	}
	for _, node := range nodes {
		s, err := i.subjectOf(node)
		if err == nil && !i.isUnmatched(s) {
			known = append(known, knownNode{s.key(), s.id, nodeNameOf(s)})
		}
	}
	return known
}

// nodeNameOf is what a list is asked for: the name only where there is no id.
func nodeNameOf(s subject) string {
	if s.id != "" {
		return ""
	}
	return s.name
}

// tell puts an event on a node, once in an episode. It is called with the lock held.
func (i *Instances) tell(s subject) {
	if i.recorder == nil || s.name == "" || i.episode == nil || i.episode.told[s.name] || len(i.episode.told) >= eventsPerEpisode {
		return
	}
	i.episode.told[s.name] = true
	reference := &v1.ObjectReference{APIVersion: "v1", Kind: "Node", Name: s.name, UID: types.UID(s.name)}
	if s.node != nil {
		reference.UID = s.node.UID
	}
	i.recorder.Eventf(reference, v1.EventTypeWarning, EventVanished,
		"Nova knows no %s, but so many instances have vanished at once that the node is kept. "+
			"If it is gone, delete the node, or raise vanished-number or vanished-share", s)
}

// seenInstance is an instance that was asked about.
type seenInstance struct {
	id, name string
	at       time.Time
}

// seenLife is how long an instance counts as known that nobody asks about: far longer than upstream's rounds.
const seenLife = 24 * time.Hour

// see notes that an instance is asked about. It is called with the lock held.
func (i *Instances) see(s subject, now time.Time) {
	if !i.isUnmatched(s) {
		i.seen[s.key()] = seenInstance{s.id, nodeNameOf(s), now}
	}
	if now.Sub(i.swept) < seenLife/24 {
		return
	}
	i.swept = now
	for key, seen := range i.seen {
		if now.Sub(seen.at) > seenLife {
			delete(i.seen, key)
		}
	}
	for name, matched := range i.matched {
		if now.Sub(matched.at) > seenLife {
			delete(i.matched, name)
		}
	}
	i.absences.forget(now.Add(-seenLife))
}
