package instances

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Errors that say why a node's instance is not reported as absent although it was not found. All leave the node as it is.
var (
	// ErrAbsenceUnconfirmed: Nova is asked once more, after a while.
	ErrAbsenceUnconfirmed = errors.New("the instance is missing, which is yet to be confirmed")
	// ErrInstancesVanished: more instances are absent than is believed. See the limits in config.Instances.
	ErrInstancesVanished = errors.New("the instance is missing, as too many others are at once: none of them is believed to be deleted")
	// ErrUnmatched: the node has never had an instance, and its kubelet runs somewhere.
	ErrUnmatched = errors.New("no server is the node's")
)

// errAbsent: the instance is known to be absent.
var errAbsent = errors.New("the instance does not exist")

// locate finds the instance of a node. The error is errAbsent if there is certainly none.
func (i *Instances) locate(ctx context.Context, s subject, p purpose) (outcome, error) {
	found, err := i.search(ctx, s, p)
	if err != nil {
		if errors.Is(err, errUnlisted) {
			i.suspect(s)
			err = fmt.Errorf("%w: %w", ErrAbsenceUnconfirmed, err)
		}
		return outcome{}, fmt.Errorf("find %s: %w", s, err)
	}
	if len(found.servers) > 0 {
		i.live(s, found.servers[0])
		return found, nil
	}
	return outcome{}, i.deny(ctx, s, found.at)
}

// search asks for the node's server: by its provider ID, else by its name. No servers: Nova has denied all that could be the node's.
func (i *Instances) search(ctx context.Context, s subject, p purpose) (outcome, error) {
	if s.id != "" {
		return i.find(ctx, s, p, question{id: s.id})
	}
	named, err := i.find(ctx, s, p, question{name: s.name})
	if err != nil {
		return outcome{}, err
	}
	if len(named.servers) > 0 {
		_, err := onlyOne(s.name, named.servers)
		return named, err
	}
	for _, id := range i.otherIDs(s) {
		other, err := i.find(ctx, s, p, question{id: id})
		switch {
		case err != nil:
			return outcome{}, err
		case len(other.servers) == 0:
			named.at = earlier(named.at, other.at)
		case !p.needsPorts() || id == s.nameAsID():
			return other, nil
		default:
			// It tells that the instance lives, but not that the node is what it says: only names and provider IDs do.
			return outcome{}, fmt.Errorf("%w: none has its name; server %s, which seems to be its, is named %s: rename it, or give the "+
				"kubelet a provider ID", ErrUnmatched, id, other.servers[0].Name)
		}
	}
	return named, nil
}

// nameAsID is the node's name, if it is an id: hosts that set kubelet's --hostname-override do so.
func (s subject) nameAsID() string {
	id, _ := parseUUID(s.name)
	return id
}

// otherIDs are ids that may be those of a server that is not found by the node's name: its name, the one that had this name
// before it was renamed, and the one that the machine claims to be.
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

// find asks one question for a node. A server that Nova shows as deleted is none.
func (i *Instances) find(ctx context.Context, s subject, p purpose, q question) (outcome, error) {
	now := i.clock.Now()
	q.purpose, q.ports = p, p.needsPorts()
	i.mu.Lock()
	refused := i.episode != nil
	i.see(s, now)
	q.missing = i.absences.due(s.key(), now, i.options.StatusMaxAge, refused)
	i.mu.Unlock()
	switch p {
	case status:
		q.found, q.unlisted = now.Add(-i.options.StatusMaxAge), now.Add(-i.options.AbsenceConfirmation)
	case refresh, describe:
		q.found = now.Add(-i.options.MetadataMaxAge)
	case initialise:
		q.found, q.missing = i.sinceRegistered(s, now), now
	}
	found, err := i.lookups.find(ctx, &q)
	if err == nil && len(found.servers) > 0 && !found.servers[0].exists() {
		return outcome{at: found.at}, nil
	}
	return found, err
}

// sinceRegistered is what a new node's metadata may be taken from: an answer from before the node was registered might show a server
// that was yet to get its addresses. The clocks may differ; so a very young one will do as well.
func (i *Instances) sinceRegistered(s subject, now time.Time) time.Time {
	return later(now.Add(-i.options.MetadataMaxAge), earlier(s.created, now.Add(-i.options.StatusMaxAge)))
}

// deny weighs that Nova has denied the instance, at a time. It returns errAbsent if that is to be believed.
func (i *Instances) deny(ctx context.Context, s subject, at time.Time) error {
	i.mu.Lock()
	refusing := i.episode != nil
	i.mu.Unlock()
	if refusing {
		// It is by a young list that the episode goes on, or ends.
		if err := i.checkList(ctx, s); err != nil {
			return fmt.Errorf("find out whether %s is missing: %w", s, err)
		}
	}
	believed, err := i.weigh(s, at)
	if !believed {
		return fmt.Errorf("%s: %w", s, err)
	}
	if err := i.checkList(ctx, s); err != nil {
		return fmt.Errorf("confirm that %s is missing: %w", s, err)
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.lookups.showsSince(s.id, s.name, at.Add(1)) {
		i.absences.live(s.key())
		return fmt.Errorf("%s: %w", s, ErrAbsenceUnconfirmed)
	}
	if i.vanished() {
		i.observer.AbsenceRefused()
		i.tell(s)
		return fmt.Errorf("%s: %w", s, ErrInstancesVanished)
	}
	i.logger.Info("An instance does not exist any more", "node", s.name, "server", s.id)
	return errAbsent
}

func (i *Instances) weigh(s subject, at time.Time) (believed bool, err error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	confirmed := i.absences.deny(s.key(), at)
	if s.ready {
		// A sign of life, from the kubelet.
		i.absences.begin(s.key())
	}
	wasRefusing := i.episode != nil
	refused := i.vanished()
	switch {
	case i.isUnmatched(s) && !s.silent:
		return false, ErrUnmatched
	case refused:
		i.observer.AbsenceRefused()
		i.tell(s)
		return false, ErrInstancesVanished
	case s.ready || wasRefusing || !confirmed:
		return false, ErrAbsenceUnconfirmed
	}
	return true, nil
}

// checkList has a young list of all servers be there. It tells whether this is the cloud that the cluster is in: whether the servers of
// the nodes that nobody asks about are missing too, so that not even one node is deleted when a wrong project has none of
// them. Where too few nodes are known for that, none is asked for.
//
// A node without any id is judged by a list, the one of its name. An empty list of all servers says that lists are not to be
// trusted now, or that there is nothing to lose by waiting.
func (i *Instances) checkList(ctx context.Context, s subject) error {
	byListOnly := s.id == "" && len(i.otherIDs(s)) == 0
	i.mu.Lock()
	enough := len(i.knownNodes()) >= i.options.VanishedNumber
	i.mu.Unlock()
	if !enough && !byListOnly {
		return nil
	}
	list, err := i.lookups.find(ctx, &question{list: true, found: i.clock.Now().Add(-i.options.AbsenceConfirmation)})
	if err == nil && byListOnly && len(list.servers) == 0 {
		return fmt.Errorf("%w: the list of all servers is empty", ErrAbsenceUnconfirmed)
	}
	return err
}

// isUnmatched tells whether the node is one that the cloud has not initialised, and of which no server was ever found. A
// misspelt name must not have it deleted.
func (i *Instances) isUnmatched(s subject) bool {
	_, matched := i.matched[s.name]
	return s.new && s.id == "" && !matched
}

func (i *Instances) suspect(s subject) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.absences.suspect(s.key(), i.clock.Now())
	if i.vanished() {
		i.tell(s)
	}
}

// live notes that the instance is there.
func (i *Instances) live(s subject, found *server) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if s.id == "" && (found.Name == s.name || found.ID == s.nameAsID()) {
		i.matched[s.name] = seenInstance{id: found.ID, at: i.clock.Now()}
	}
	if i.absences.live(s.key()) || i.episode != nil || i.outdated() {
		i.vanished()
	}
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}
