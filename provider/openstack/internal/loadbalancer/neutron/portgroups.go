package neutron

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/fxccm/fxccm/provider/kit/batch"
)

// editsAtATime is how many ports of a batch are written at a time.
const editsAtATime = 8

// groupEdit is a change of the security groups that a port bears.
type groupEdit struct {
	port  NodePort
	group string
	add   bool
	err   error
}

// AddGroup has the port bear the security group, beside those that it bears. port is as it was
// seen: if it has changed since it is read again. Changes of one port that come at the same time
// are one request, as when a node comes into many Services.
func (a *API) AddGroup(ctx context.Context, port NodePort, groupID string) error {
	return a.editGroup(ctx, &groupEdit{port: port, group: groupID, add: true})
}

// RemoveGroup is the opposite of [API.AddGroup]. A port that is gone does not bear the group.
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
	// A panic is the error of those whose port it was.
	for i, err := range errs {
		if err != nil {
			settle(byPort[ids[i]], err)
		}
	}
}

// editPort makes changes of one port. If Neutron refuses them together, each is made by itself: one
// group that is gone must not keep the others away.
func (a *API) editPort(ctx context.Context, edits []*groupEdit) {
	err := a.tryEdit(ctx, edits)
	if len(edits) == 1 || !isRefusal(err) {
		settle(edits, err)
		return
	}
	for _, e := range edits {
		// The change before this one makes what was seen of the port stale.
		e.port.Revision = -1
		settle([]*groupEdit{e}, a.tryEdit(ctx, []*groupEdit{e}))
	}
}

// tryEdit starts from the newest state of the port that one of the callers has seen. A cloud that
// counts no revisions cannot tell whether it still holds: there the port is read right before it is
// written.
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

// edited are the groups after the changes. Existing groups keep their order.
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
