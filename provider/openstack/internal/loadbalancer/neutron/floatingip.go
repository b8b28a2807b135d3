package neutron

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"time"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/extensions/layer3/floatingips"

	"github.com/fxccm/fxccm/provider/openstack/internal/sharing"
)

// maxStale limits the retries of one change after concurrent changes by other clients.
const maxStale = 5

// FloatingIPQuery selects floating IPs that match any of its fields. An empty field matches
// nothing.
type FloatingIPQuery struct {
	PortID, Tag, Address, ID string
	// PoolTag is a second tag.
	PoolTag string
	// DetachedAddress selects only a detached floating IP with the Description.
	DetachedAddress, Description string
}

func (q FloatingIPQuery) fits(f FloatingIP) bool {
	return q.PortID != "" && f.PortID == q.PortID || q.Tag != "" &&
		slices.Contains(f.Tags, q.Tag) ||
		q.Address != "" && f.Address == q.Address ||
		q.ID != "" && f.ID == q.ID ||
		q.PoolTag != "" && slices.Contains(f.Tags, q.PoolTag) ||
		q.DetachedAddress != "" && f.Address == q.DetachedAddress && f.PortID == "" &&
			f.Description == q.Description
}

// FloatingIPsOf returns the floating IPs of the project that match the query, the oldest first, so
// that the one of which a Service has its address stays the first. A list that was begun after
// since is reused; with the zero time, the list begins after the call. Neutron has no "or" between
// filters, so one list of the project, shared by concurrent calls, is the cheapest.
func (a *API) FloatingIPsOf(
	ctx context.Context, query FloatingIPQuery, since time.Time,
) ([]FloatingIP, error) {
	newer := since.Add(1)
	if since.IsZero() {
		newer = sharing.AfterNow(a.config.Clock)
	}
	all, _, err := sharing.Of(ctx, a.config.Share, a.config.Clock, "floating IPs", newer,
		a.readFloatingIPs)
	var found []FloatingIP
	for _, f := range all {
		if query.fits(f) {
			found = append(found, f)
		}
	}
	return found, err
}

func (a *API) readFloatingIPs(ctx context.Context) ([]FloatingIP, error) {
	project, err := a.config.Project(ctx)
	if err != nil {
		return nil, fmt.Errorf("list floating IPs: %w", err)
	}
	all, err := list[FloatingIP](ctx, a, "floatingips", "floatingips", url.Values{
		"project_id": {project},
		"fields": {
			"id", "floating_ip_address", "floating_network_id", "description", "port_id",
			"tags", "created_at", "revision_number",
		},
	})
	for i := range all {
		all[i].Tags = a.shownTags(all[i].Tags)
	}
	// The times have one format, so their texts are in the order of time.
	slices.SortStableFunc(all, func(a, b FloatingIP) int {
		return cmp.Compare(a.CreatedAt, b.CreatedAt)
	})
	return all, err
}

// CreateFloatingIP creates a floating IP for the port, with the requested address or one of the
// subnet ("": of any subnet), and tags it: two requests. The error wraps [ErrNoAddress] if
// none is left. A floating IP with an ID beside an error was created, but not tagged.
func (a *API) CreateFloatingIP(
	ctx context.Context, wanted WantedFloatingIP, subnetID, portID string,
) (FloatingIP, error) {
	doing := "create floating IP in network " + wanted.NetworkID
	if subnetID != "" {
		doing += ", subnet " + subnetID
	}
	if wanted.Address != "" {
		doing += ", with address " + wanted.Address
	}
	var value FloatingIP
	err := a.request(ctx, doing, func(client *gophercloud.ServiceClient) (err error) {
		value, err = extract[FloatingIP](floatingips.Create(ctx, client, floatingips.CreateOpts{
			FloatingNetworkID: wanted.NetworkID, SubnetID: subnetID, FloatingIP: wanted.Address,
			PortID: portID, Description: wanted.Description,
		}).Result, "floatingip")
		return err
	})
	if err != nil {
		return FloatingIP{}, err
	}
	if len(wanted.Tags) == 0 {
		return value, nil
	}
	if err := a.TagFloatingIP(ctx, value.ID, wanted.Tags); err != nil {
		return value, err
	}
	if !a.isUntagged() {
		value.Tags, value.Revision = wanted.Tags, nil
	}
	return value, nil
}

// ErrTaken means that a floating IP has another owner or user now.
var ErrTaken = errors.New("the floating IP is taken")

// takenError is ErrTaken with a text about the floating IP.
type takenError struct{ text string }

func (e *takenError) Error() string { return e.text }

func (e *takenError) Is(target error) bool { return target == ErrTaken }

// AttachFloatingIP points a floating IP to the port, and clears its description if release. It
// reads the floating IP first: if that points to another port, or free (which may be nil) denies
// it, it stays there, and the error is [ErrTaken]. Neutron compares the revision, so of two
// concurrent calls one is refused. The result is the floating IP as read just before, with the
// changes.
func (a *API) AttachFloatingIP(
	ctx context.Context, id, portID string, release bool, free func(FloatingIP) bool,
) (FloatingIP, error) {
	doing := fmt.Sprintf("attach floating IP %s to port %s", id, portID)
	none := ""
	for range maxStale {
		is, err := a.floatingIP(ctx, doing, id)
		switch {
		case err != nil:
			return FloatingIP{}, err
		case is.PortID == portID:
			return is, nil
		case is.PortID != "":
			// The Service must not learn the ID of that port.
			return FloatingIP{}, &takenError{
				fmt.Sprintf("%s: %s is in use by another port", doing, is.Address),
			}
		case free != nil && !free(is):
			return FloatingIP{}, &takenError{
				fmt.Sprintf("%s: %s has another owner now", doing, is.Address),
			}
		}
		change := floatingips.UpdateOpts{PortID: &portID, RevisionNumber: is.Revision}
		if release {
			change.Description, is.Description = &none, none
		}
		err = a.updateFloatingIP(ctx, doing, id, change)
		switch {
		case err == nil:
			is.PortID, is.Revision = portID, nil
			return is, nil
		case !isStale(err):
			return FloatingIP{}, err
		}
	}
	return FloatingIP{}, changedByOthers(doing)
}

// DetachFloatingIP detaches a floating IP, and clears its description if release. revision and
// owned are those of [API.DeleteFloatingIP]. It succeeds if the floating IP does not exist.
func (a *API) DetachFloatingIP(
	ctx context.Context, id string, release bool, revision *int, owned func(FloatingIP) bool,
) error {
	none := ""
	change := floatingips.UpdateOpts{PortID: &none}
	if release {
		change.Description = &none
	}
	err := a.updateOwned(ctx, "detach floating IP "+id, id, revision, owned, change)
	if errors.Is(err, ErrNotFound) {
		return nil
	}
	return err
}

// updateOwned changes a floating IP. revision and owned are those of [API.DeleteFloatingIP].
func (a *API) updateOwned(
	ctx context.Context, doing, id string, revision *int, owned func(FloatingIP) bool,
	change floatingips.UpdateOpts,
) error {
	return a.changeOwned(ctx, doing, id, revision, owned, func(revision *int) error {
		change.RevisionNumber = revision
		return a.updateFloatingIP(ctx, doing, id, change)
	})
}

// updateFloatingIP changes a floating IP. It points to no port if the port is "": gophercloud sends
// null.
func (a *API) updateFloatingIP(
	ctx context.Context, doing, id string, change floatingips.UpdateOpts,
) error {
	return a.request(ctx, doing, func(client *gophercloud.ServiceClient) error {
		return floatingips.Update(ctx, client, id, change).Err
	})
}

// floatingIP reads a floating IP.
func (a *API) floatingIP(ctx context.Context, doing, id string) (is FloatingIP, err error) {
	err = a.request(ctx, doing, func(client *gophercloud.ServiceClient) (err error) {
		is, err = extract[FloatingIP](floatingips.Get(ctx, client, id).Result, "floatingip")
		return err
	})
	is.Tags = a.shownTags(is.Tags)
	return is, err
}

// DeleteFloatingIP releases the address, which the project may never get again. So it deletes only
// the revision of which the caller knows that it is the Service's. If that is nil, or no longer the
// newest, it reads the floating IP first: if owned denies it, the error is [ErrTaken]. It succeeds
// if the floating IP does not exist.
func (a *API) DeleteFloatingIP(
	ctx context.Context, id string, revision *int, owned func(FloatingIP) bool,
) error {
	doing := "delete floating IP " + id
	err := a.changeOwned(ctx, doing, id, revision, owned, func(revision *int) error {
		return a.remove(ctx, doing, func(client *gophercloud.ServiceClient) error {
			return deleteFloatingIP(ctx, client, id, revision)
		})
	})
	if errors.Is(err, ErrNotFound) {
		return nil
	}
	return err
}

// changeOwned calls change with the revision. If that is nil, or no longer the newest, it reads the
// floating IP first: if owned, which may be nil, denies it, the error is [ErrTaken].
func (a *API) changeOwned(
	ctx context.Context, doing, id string, revision *int, owned func(FloatingIP) bool,
	change func(revision *int) error,
) error {
	for range maxStale {
		if revision == nil && owned != nil {
			is, err := a.readOwned(ctx, doing, id, owned)
			if err != nil {
				return err
			}
			revision = is.Revision
		}
		if err := change(revision); !isStale(err) {
			return err
		}
		revision = nil
	}
	return changedByOthers(doing)
}

// readOwned reads a floating IP. If owned denies it, the error is [ErrTaken].
func (a *API) readOwned(
	ctx context.Context, doing, id string, owned func(FloatingIP) bool,
) (FloatingIP, error) {
	is, err := a.floatingIP(ctx, doing, id)
	if err == nil && !owned(is) {
		err = &takenError{is.Address + " was moved, or its tags or its description have changed"}
	}
	return is, err
}

// deleteFloatingIP deletes a revision of a floating IP, or with nil any.
func deleteFloatingIP(
	ctx context.Context, client *gophercloud.ServiceClient, id string, revision *int,
) error {
	var options gophercloud.RequestOpts
	if revision != nil {
		options.MoreHeaders = map[string]string{
			"If-Match": fmt.Sprintf("revision_number=%d", *revision),
		}
	}
	_, _, err := gophercloud.ParseResponse(
		client.Delete(ctx, client.ServiceURL("floatingips", id), &options))
	return err
}

// TagFloatingIP replaces the tags. It is a no-op on a cloud that does not keep tags. Neutron
// compares no revision here, so a caller whose tags are not new calls [API.CheckFloatingIP] just
// before.
func (a *API) TagFloatingIP(ctx context.Context, id string, tags []string) error {
	return a.replaceTags(ctx, "floatingips", id, tags)
}

// CheckFloatingIP reads a floating IP. If owned denies it, the error is [ErrTaken].
func (a *API) CheckFloatingIP(
	ctx context.Context, id string, owned func(FloatingIP) bool,
) error {
	_, err := a.readOwned(ctx, "read floating IP "+id, id, owned)
	return err
}

// ClearFloatingIPDescription removes the description, which names the Service of a floating IP.
// revision and owned are those of [API.DeleteFloatingIP].
func (a *API) ClearFloatingIPDescription(
	ctx context.Context, id string, revision *int, owned func(FloatingIP) bool,
) error {
	none := ""
	return a.updateOwned(ctx, "clear the description of floating IP "+id, id, revision, owned,
		floatingips.UpdateOpts{Description: &none})
}

func changedByOthers(doing string) error {
	return fmt.Errorf("%s: %d conflicts with concurrent changes", doing, maxStale)
}
