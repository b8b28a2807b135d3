package neutron

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/fxccm/fxccm/provider/kit/batch"
)

// editsAtATime is how many ports of a batch are written concurrently.
const editsAtATime = 8

// groupEdit is a change of a port's security groups.
type groupEdit struct {
	port  NodePort
	group string
	add   bool
	err   error
}

// AddGroup adds the security group to the port's groups. port is its last seen state: if it has
// changed, the port is read again. Concurrent changes of one port are one request, for example when
// a node joins many Services.
func (a *API) AddGroup(ctx context.Context, port NodePort, groupID string) error {
	return a.editGroup(ctx, &groupEdit{port: port, group: groupID, add: true})
}

// RemoveGroup is the opposite of [API.AddGroup]. It succeeds if the port does not exist.
func (a *API) RemoveGroup(ctx context.Context, port NodePort, groupID string) error {
	return a.editGroup(ctx, &groupEdit{port: port, group: groupID})
}

func (a *API) editGroup(ctx context.Context, edit *groupEdit) error {
	if err := a.groupEdits.Ask(ctx, edit); err != nil {
		return err
	}
	return edit.err
}

func (a *API) editGroups(ctx context.Context, edits []*groupEdit) {
	byPort := map[string][]*groupEdit{}
	var ids []string
	for _, e := range edits {
		if byPort[e.port.ID] == nil {
			ids = append(ids, e.port.ID)
		}
		byPort[e.port.ID] = append(byPort[e.port.ID], e)
	}
	errs := batch.InParallel(ids, editsAtATime, func(id string) error {
		a.editPort(ctx, byPort[id])
		return nil
	})
	// A panic becomes the error of the calls for that port.
	for i, err := range errs {
		if err != nil {
			settle(byPort[ids[i]], err)
		}
	}
}

// editPort makes the changes of one port. If Neutron refuses them together, it makes each alone, so
// that a deleted group does not prevent the other changes.
func (a *API) editPort(ctx context.Context, edits []*groupEdit) {
	err := a.tryEdit(ctx, edits)
	if len(edits) == 1 || !isRefusal(err) {
		settle(edits, err)
		return
	}
	for _, e := range edits {
		// The previous change makes the last seen state of the port stale.
		e.port.Revision = -1
		settle([]*groupEdit{e}, a.tryEdit(ctx, []*groupEdit{e}))
	}
}

// tryEdit starts from the newest state of the port that one of the callers has seen. Without
// revisions, Neutron cannot verify that the state is current, so the port is read right before the
// write.
func (a *API) tryEdit(ctx context.Context, edits []*groupEdit) error {
	is := slices.MaxFunc(edits, func(a, b *groupEdit) int {
		return cmp.Compare(a.port.Revision, b.port.Revision)
	}).port
	seen := is.Revision >= 0
	for range maxStale {
		if !seen {
			var err error
			if is, err = a.port(ctx, is.ID); err != nil {
				return err
			}
		}
		seen = false
		groups := edited(is.SecurityGroups, edits)
		if slices.Equal(groups, is.SecurityGroups) {
			return nil
		}
		if err := a.putGroups(ctx, is.ID, groups, is.Revision); !isStale(err) {
			return err
		}
	}
	return changedByOthers(fmt.Sprintf("change the security groups of port %s", is.ID))
}

// edited returns the groups after the changes. Existing groups keep their order.
func edited(groups []string, edits []*groupEdit) []string {
	changed := slices.Clone(groups)
	if changed == nil {
		changed = []string{}
	}
	for _, e := range edits {
		has := slices.Contains(changed, e.group)
		switch {
		case e.add && !has:
			changed = append(changed, e.group)
		case !e.add && has:
			changed = slices.DeleteFunc(changed, func(id string) bool { return id == e.group })
		}
	}
	return changed
}

func settle(edits []*groupEdit, err error) {
	for _, e := range edits {
		e.err = err
		if !e.add && errors.Is(err, ErrNotFound) {
			e.err = nil
		}
	}
}
