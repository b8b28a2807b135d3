package instances

import (
	"context"
	"errors"
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"
	cloudprovider "k8s.io/cloud-provider"

	"github.com/fxccm/fxccm/provider/internal/kit/absence"
)

// ErrUnmatched: the node never had an instance, and its kubelet is running. The node stays
// unchanged, as with the errors of package absence.
var ErrUnmatched = errors.New("no server matches the node")

// locate finds the instance of a node. If it certainly does not exist, the error is
// cloudprovider.InstanceNotFound itself, with which controllers compare.
func (i *Instances) locate(ctx context.Context, node *v1.Node, p purpose) (outcome, error) {
	s, err := i.subjectOf(node)
	if err != nil {
		return outcome{}, err
	}
	found, err := i.search(ctx, s, p)
	if err != nil {
		if errors.Is(err, errUnlisted) {
			i.suspect(s)
			err = fmt.Errorf("%w: %w", absence.ErrUnconfirmed, err)
		}
		return outcome{}, fmt.Errorf("find %s: %w", s, err)
	}
	if len(found.servers) > 0 {
		i.live(s, found.servers[0])
		return found, nil
	}
	return outcome{}, i.deny(ctx, s, found.at)
}

// search finds the node's server by its provider ID, else by its name. No servers: Nova denied all
// candidates.
func (i *Instances) search(ctx context.Context, s subject, p purpose) (outcome, error) {
	if s.id != "" {
		return i.find(ctx, s, p, question{id: s.id})
	}
	named, err := i.find(ctx, s, p, question{name: s.name, systemUUID: s.systemUUID})
	if err != nil {
		return outcome{}, err
	}
	if len(named.servers) > 0 {
		return named, onlyOne(s.name, named.servers)
	}
	for _, id := range i.otherIDs(s) {
		other, err := i.find(ctx, s, p, question{id: id})
		switch {
		case err != nil:
			return outcome{}, err
		case len(other.servers) == 0:
			named.at = earlier(named.at, other.at)
		case !p.needsPorts() || id == s.nameAsID(),
			id == s.systemUUID && isDerived(s.name, other.servers[0]):
			return other, nil
		default:
			// The server exists, but only a name or a provider ID proves that it is the node's.
			return outcome{},
				fmt.Errorf("%w: server %s has its ID but is named %s", ErrUnmatched, id,
					other.servers[0].Name)
		}
	}
	return named, nil
}

// nameAsID is the node's name if it is an ID, as with kubelet's --hostname-override.
func (s subject) nameAsID() string {
	id, _ := parseUUID(s.name)
	return id
}

// otherIDs are candidates if no server has the node's name: the name itself, the server that had
// this name before it was renamed, and the machine's system UUID.
func (i *Instances) otherIDs(s subject) []string {
	i.mu.Lock()
	defer i.mu.Unlock()
	var ids []string
	for _, id := range []string{s.nameAsID(), i.matched[s.name].id, s.systemUUID} {
		if id != "" {
			ids = append(ids, id)
		}
	}
	return ids
}

// find looks up the servers of a node. A server with status DELETED does not count.
func (i *Instances) find(ctx context.Context, s subject, p purpose, q question) (outcome, error) {
	now := i.config.Clock.Now()
	q.purpose, q.ports, q.isLeaving = p, p.needsPorts(), i.isLeaving(s.node)
	i.mu.Lock()
	i.see(s, now)
	q.missing = i.guard.Due(s.key(), now, i.config.Options.StatusMaxAge)
	i.mu.Unlock()
	switch p {
	case status:
		q.found, q.unlisted = now.Add(-i.config.Options.StatusMaxAge),
			now.Add(-i.config.Options.AbsenceConfirmation)
	case refresh:
		q.found = now.Add(-i.config.RefreshAge)
	case initialize:
		q.found, q.missing = i.sinceRegistered(s, now), now
	}
	found, err := i.lookups.find(ctx, &q)
	if err == nil && len(found.servers) > 0 && !found.servers[0].exists() {
		return outcome{at: found.at}, nil
	}
	return found, err
}

// sinceRegistered is the earliest time of data for a new node's metadata: before the registration,
// the server may not have had its addresses. Clocks may differ, so very recent data is accepted,
// too.
func (i *Instances) sinceRegistered(s subject, now time.Time) time.Time {
	return later(now.Add(-i.config.Options.MetadataMaxAge),
		earlier(s.created, now.Add(-i.config.Options.StatusMaxAge)))
}

// deny evaluates a denial by Nova. It returns cloudprovider.InstanceNotFound if the absence is
// confirmed.
func (i *Instances) deny(ctx context.Context, s subject, at time.Time) error {
	i.mu.Lock()
	isRefusing := i.guard.IsRefusing()
	i.mu.Unlock()
	if isRefusing {
		// Only a recent list ends the episode.
		if err := i.checkList(ctx, s); err != nil {
			return fmt.Errorf("check whether %s is missing: %w", s, err)
		}
	}
	if err := i.weigh(s, at); err != nil {
		return fmt.Errorf("%s: %w", s, err)
	}
	if err := i.checkList(ctx, s); err != nil {
		return fmt.Errorf("confirm that %s is missing: %w", s, err)
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.lookups.showsSince(s.id, s.name, at.Add(1)) {
		i.guard.Found(s.key(), i.config.Clock.Now())
		return fmt.Errorf("%s: %w", s, absence.ErrUnconfirmed)
	}
	if i.guard.Holds(s.key(), i.config.Clock.Now()) {
		i.config.Observer.AbsenceRefused()
		i.recordVanished(s)
		return fmt.Errorf("%s: %w", s, absence.ErrMassDeletion)
	}
	i.config.Logger.Info("Instance no longer exists", "node", s.name, "server", s.id)
	return cloudprovider.InstanceNotFound
}

// weigh returns nil if the absence is confirmed.
func (i *Instances) weigh(s subject, at time.Time) error {
	i.mu.Lock()
	defer i.mu.Unlock()
	err := i.guard.Deny(s.key(), at, i.config.Clock.Now(), s.ready)
	switch {
	case i.isUnmatched(s) && !s.silent:
		return ErrUnmatched
	case errors.Is(err, absence.ErrMassDeletion):
		i.config.Observer.AbsenceRefused()
		i.recordVanished(s)
	}
	return err
}

// checkList ensures that a recent list of all servers exists. If the servers of other nodes are
// missing, too, this is probably the wrong project, and no node is deleted. Below vanished-number
// known nodes no list is needed.
//
// For a node without any ID, the list with its name decides. If the list of all servers is empty,
// no list decides.
func (i *Instances) checkList(ctx context.Context, s subject) error {
	byListOnly := s.id == "" && len(i.otherIDs(s)) == 0
	i.mu.Lock()
	enough := i.guard.NeedsList()
	i.mu.Unlock()
	if !enough && !byListOnly {
		return nil
	}
	list, err := i.lookups.find(ctx, &question{list: true, found: i.config.Clock.Now().
		Add(-i.config.Options.AbsenceConfirmation)})
	if err == nil && byListOnly && len(list.servers) == 0 {
		return fmt.Errorf("%w: Nova returned an empty server list", absence.ErrUnconfirmed)
	}
	return err
}

// isUnmatched: the cloud has not initialized the node, and no server ever matched it. A wrong name
// must not delete the node.
func (i *Instances) isUnmatched(s subject) bool {
	_, matched := i.matched[s.name]
	return s.new && s.id == "" && !matched
}

func (i *Instances) suspect(s subject) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.guard.Suspect(s.key(), i.config.Clock.Now()) {
		i.recordVanished(s)
	}
}

// live records that the instance exists.
func (i *Instances) live(s subject, found *server) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if s.id == "" && (nameKey(found.Name) == nameKey(s.name) || found.ID == s.nameAsID()) {
		i.matched[s.name] = seenInstance{id: found.ID, at: i.config.Clock.Now()}
	}
	i.guard.Found(s.key(), i.config.Clock.Now())
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}
