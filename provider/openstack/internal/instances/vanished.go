package instances

import (
	"maps"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/fxccm/fxccm/provider/internal/kit/absence"
	"github.com/fxccm/fxccm/provider/openstack/internal/events"
)

// eventsPerEpisode limits the nodes that get events in one episode.
const eventsPerEpisode = 10

// episode is a period in which the mass deletion guard is active. It ends when few enough instances
// are absent: they exist again, or an operator deleted nodes or raised the limits.
type episode struct {
	// told is when the last event of a node was written.
	told map[string]time.Time
}

// knownNode is a node whose instance is known.
type knownNode struct {
	key, id, name string
	isLeaving     bool
}

// knownInstances are the instances that the guard counts. It is called with the lock held.
func (i *Instances) knownInstances() []absence.Instance {
	nodes := i.knownNodes()
	isUnlisted := i.lookups.lacks(nodes)
	known := make([]absence.Instance, len(nodes))
	for at, n := range nodes {
		known[at] = absence.Instance{
			Key: n.key, IsUnlisted: isUnlisted[at], IsLeaving: n.isLeaving,
		}
	}
	return known
}

// counted reports a count. It is called with the lock held.
func (i *Instances) counted(c absence.Count) {
	i.config.Observer.AbsentInstances(c.Absent)
	if c.IsRefused {
		i.config.Trouble.Absence(c.Absent, c.Known)
	}
	switch {
	case !c.HasChanged:
	case c.IsRefused:
		i.episode = &episode{told: map[string]time.Time{}}
		i.config.Logger.Info("Mass deletion guard active: too many instances are missing, no node is "+
			"deleted unless it is marked for removal", "absent", c.Absent, "known", c.Known)
	default:
		i.episode = nil
		i.config.Trouble.AbsenceOver()
		i.config.Logger.Info("Mass deletion guard lifted", "absent", c.Absent, "known", c.Known)
	}
}

// knownNodes returns the nodes of the cluster or, before they are synced, the requested ones. Nodes
// that never had an instance do not count.
func (i *Instances) knownNodes() []knownNode {
	var known []knownNode
	nodes, synced := i.nodes.list()
	if !synced {
		for key, s := range i.seen {
			known = append(known, knownNode{key: key, id: s.id, name: s.name})
		}
	}
	for _, node := range nodes {
		s, err := i.subjectOf(node)
		if err == nil && !i.isUnmatched(s) {
			known = append(known, knownNode{
				s.key(), s.id, nodeNameOf(s), i.isLeaving(node),
			})
		}
	}
	return known
}

// isLeaving reports whether a node is marked for removal.
func (i *Instances) isLeaving(node *v1.Node) bool {
	return absence.IsLeaving(node, i.config.Options.RemovalTaints)
}

// nodeNameOf returns the name to search in a list: "" if the ID is known.
func nodeNameOf(s subject) string {
	if s.id != "" {
		return ""
	}
	return s.name
}

// recordVanished writes an event on a node, and again each half hour of the episode. It is called
// with the lock held.
func (i *Instances) recordVanished(s subject) {
	if i.config.Recorder == nil || i.episode == nil {
		return
	}
	at, told := i.episode.told[s.name]
	now := i.config.Clock.Now()
	if told && now.Sub(at) < eventInterval || !told && len(i.episode.told) >= eventsPerEpisode {
		return
	}
	i.episode.told[s.name] = now
	reference := &v1.ObjectReference{
		APIVersion: "v1", Kind: "Node", Name: s.name,
		UID: s.node.UID,
	}
	i.config.Recorder.Eventf(reference, v1.EventTypeWarning,
		string(events.InstancesVanished),
		"Nova does not find %s, but too many instances are missing at once, and the node is not "+
			"marked for removal: the node is kept. If the instance is gone, delete the node, or "+
			"raise vanished-number or vanished-share", s)
}

// seenInstance is an instance that a caller requested.
type seenInstance struct {
	id, name string
	at       time.Time
}

// seenLife is how long an instance counts as known after the last call, much longer than the
// intervals of the node controllers.
const seenLife = 24 * time.Hour

// mostKept is how many instances, answers and results are kept, several times as many as a large
// cluster has nodes. The API server of a tenant may report new nodes without an end.
const mostKept = 30_000

// see records a call for an instance. It is called with the lock held.
func (i *Instances) see(s subject, now time.Time) {
	if !i.isUnmatched(s) {
		i.seen[s.key()] = seenInstance{s.id, nodeNameOf(s), now}
	}
	if max(len(i.seen), len(i.told), len(i.results)) > mostKept {
		// Servers still in use are looked up again, and absent ones confirmed again.
		clear(i.seen)
		clear(i.matched)
		clear(i.told)
		clear(i.results)
		i.guard.Forget(now)
	}
	if now.Sub(i.swept) < seenLife/24 {
		return
	}
	i.swept = now
	forgotten := now.Add(-seenLife)
	isOld := func(_ string, s seenInstance) bool { return s.at.Before(forgotten) }
	maps.DeleteFunc(i.seen, isOld)
	maps.DeleteFunc(i.matched, isOld)
	maps.DeleteFunc(i.told, func(_ string, t toldServer) bool { return t.at.Before(forgotten) })
	maps.DeleteFunc(i.results, func(_ string, r lookupResult) bool {
		return r.at.Before(forgotten)
	})
	i.guard.Forget(forgotten)
}
