package octavia

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack/loadbalancer/v2/listeners"
	"github.com/gophercloud/gophercloud/v2/openstack/loadbalancer/v2/loadbalancers"
	"github.com/gophercloud/gophercloud/v2/openstack/loadbalancer/v2/monitors"
	"github.com/gophercloud/gophercloud/v2/openstack/loadbalancer/v2/pools"

	"github.com/fxccm/fxccm/internal/fence"
)

// ErrBusy is wrapped by the error of a change that Octavia refuses because of the state of the load
// balancer or the pool: it is being changed, or it is in ERROR. Octavia has changed nothing.
var ErrBusy = errors.New("it is immutable in its present state")

// ErrQuota is wrapped by the error of a creation that would exceed the project's quota.
var ErrQuota = errors.New("the project's quota is exceeded")

// ErrUncertain is wrapped by the error of a deletion with an unknown outcome. Octavia may carry out
// an immediate retry as well: its worker fails at the second deletion, and the load balancer stays
// PENDING_UPDATE forever (octavia 11.0.0, controller/worker/v2/controller_worker.py, delete_pool).
// So the caller reads the load balancer first.
var ErrUncertain = errors.New("its outcome is unknown")

// A change that was canceled, or whose response was lost, may have been carried out. All changes
// set a PENDING status on the load balancer, unless their comment states otherwise.

// CreateLoadBalancer creates a load balancer and its ports, which may be nil, with one request. The
// VIP exists when it returns, the rest when the load balancer is ACTIVE. A member's subnet that
// does not exist leads to ERROR only then.
func (a *API) CreateLoadBalancer(
	ctx context.Context, lb LoadBalancer, ports []Port,
) (LoadBalancer, error) {
	var made LoadBalancer
	err := a.write(ctx, "create load balancer "+lb.Name,
		func(client *gophercloud.ServiceClient) error {
			var body struct {
				LoadBalancer creation `json:"loadbalancer"`
			}
			err := loadbalancers.Create(ctx, client,
				loadBalancerCreation(lb, ports)).ExtractInto(&body)
			switch {
			case err != nil:
				return err
			case body.LoadBalancer.ID == "":
				return errNoAnswer
			}
			made, err = body.LoadBalancer.value()
			made.Made = body.LoadBalancer.ids()
			return err
		})
	return made, err
}

// UpdateLoadBalancer replaces the load balancer's tags. fxccm changes no other field of it.
func (a *API) UpdateLoadBalancer(ctx context.Context, id string, tags []string) error {
	return a.writeTo(ctx, "update load balancer", id,
		func(client *gophercloud.ServiceClient) error {
			all := append([]string{}, tags...)
			return loadbalancers.Update(ctx, client, id, loadbalancers.UpdateOpts{Tags: &all}).Err
		})
}

// DeleteLoadBalancer deletes the load balancer, with its parts if cascade is set. Without cascade
// Octavia refuses if it has listeners or pools. It succeeds if the load balancer does not exist.
func (a *API) DeleteLoadBalancer(ctx context.Context, id string, cascade bool) error {
	return a.remove(ctx, "delete load balancer", id, func(client *gophercloud.ServiceClient) error {
		return loadbalancers.Delete(ctx, client, id,
			loadbalancers.DeleteOpts{Cascade: cascade}).ExtractErr()
	})
}

// FailoverLoadBalancer makes Octavia rebuild the amphorae. By default only administrators may
// (403).
func (a *API) FailoverLoadBalancer(ctx context.Context, id string) error {
	return a.writeTo(ctx, "fail over load balancer", id,
		func(client *gophercloud.ServiceClient) error {
			return loadbalancers.Failover(ctx, client, id).ExtractErr()
		})
}

// CreateListener creates a listener with this default pool, "" for none, and returns its ID.
func (a *API) CreateListener(
	ctx context.Context, loadBalancerID string, listener Listener, poolID string,
) (id string, err error) {
	opts := listenerCreation(listener)
	opts.LoadbalancerID, opts.DefaultPoolID = loadBalancerID, poolID
	err = a.writeTo(ctx, fmt.Sprintf("create listener %s of load balancer", listener.Name),
		loadBalancerID,
		func(client *gophercloud.ServiceClient) (err error) {
			id, err = idOf("listener", listeners.Create(ctx, client, opts).Result)
			return err
		})
	return id, err
}

// UpdateListener updates all mutable fields of the listener. Tags, timeouts, allowed CIDRs and TLS
// container stay as they are if they are nil or "", and so does the default pool if poolID is "".
func (a *API) UpdateListener(
	ctx context.Context, id string, listener Listener, poolID string,
) error {
	return a.writeTo(ctx, "update listener", id, func(client *gophercloud.ServiceClient) error {
		return listeners.Update(ctx, client, id, listenerChange(listener, poolID)).Err
	})
}

// DeleteListener deletes the listener; its pool stays. It succeeds if the listener does not exist.
func (a *API) DeleteListener(ctx context.Context, id string) error {
	return a.remove(ctx, "delete listener", id, func(client *gophercloud.ServiceClient) error {
		return listeners.Delete(ctx, client, id).ExtractErr()
	})
}

// CreatePool creates a pool without members and monitor, and returns its ID. It becomes the
// listener's default pool, if listenerID is not "": the listener must have none.
//
// Octavia accepts a pool with members and monitor only as a part of a whole load balancer. A
// request for a single pool accepts these attributes, but does not handle them correctly
// (octavia/api/v2/controllers/pool.py, post).
func (a *API) CreatePool(
	ctx context.Context, loadBalancerID, listenerID string, pool Pool,
) (id string, err error) {
	opts, parent, of := poolCreation(pool), loadBalancerID, "load balancer"
	if listenerID != "" {
		// The pool belongs to the load balancer of the listener.
		opts.ListenerID, parent, of = listenerID, listenerID, "listener"
	} else {
		opts.LoadbalancerID = loadBalancerID
	}
	err = a.writeTo(ctx, fmt.Sprintf("create pool %s of %s", pool.Name, of), parent,
		func(client *gophercloud.ServiceClient) (err error) {
			id, err = idOf("pool", pools.Create(ctx, client, opts).Result)
			return err
		})
	return id, err
}

// UpdatePool updates the name, the algorithm and the persistence, and the tags unless they are nil.
// It returns a pool in ERROR to ACTIVE.
func (a *API) UpdatePool(ctx context.Context, id string, pool Pool) error {
	return a.writeTo(ctx, "update pool", id, func(client *gophercloud.ServiceClient) error {
		return pools.Update(ctx, client, id, poolChange(pool)).Err
	})
}

// DeletePool deletes the pool with its members and its monitor. Its listener then has no default
// pool. It succeeds if the pool does not exist.
func (a *API) DeletePool(ctx context.Context, id string) error {
	return a.remove(ctx, "delete pool", id, func(client *gophercloud.ServiceClient) error {
		return pools.Delete(ctx, client, id).ExtractErr()
	})
}

// CreateMonitor creates the pool's monitor. A pool has at most one.
func (a *API) CreateMonitor(ctx context.Context, poolID string, monitor Monitor) error {
	opts := monitorCreation(monitor)
	opts.PoolID = poolID
	return a.writeTo(ctx, "create the health monitor of pool", poolID,
		func(client *gophercloud.ServiceClient) error {
			return monitors.Create(ctx, client, opts).Err
		})
}

// UpdateMonitor updates all fields but the type.
func (a *API) UpdateMonitor(ctx context.Context, id string, monitor Monitor) error {
	return a.writeTo(ctx, "update health monitor", id,
		func(client *gophercloud.ServiceClient) error {
			return monitors.Update(ctx, client, id, monitorChange(monitor)).Err
		})
}

// DeleteMonitor succeeds if the monitor does not exist.
func (a *API) DeleteMonitor(ctx context.Context, id string) error {
	return a.remove(ctx, "delete health monitor", id,
		func(client *gophercloud.ServiceClient) error {
			return monitors.Delete(ctx, client, id).ExtractErr()
		})
}

// SetMembers replaces the pool's members with one request; it is a no-op if both are empty. Each
// member is then administratively up, not a backup, and monitored at its own address.
func (a *API) SetMembers(ctx context.Context, poolID string, members []Member) error {
	return a.writeTo(ctx, fmt.Sprintf("set %d members of pool", len(members)), poolID,
		func(client *gophercloud.ServiceClient) error {
			return pools.BatchUpdateMembers(ctx, client, poolID, memberBatch(members)).ExtractErr()
		})
}

// CreateMember adds a member to the pool, and returns its id.
func (a *API) CreateMember(
	ctx context.Context, poolID string, member Member,
) (id string, err error) {
	err = a.writeTo(ctx, fmt.Sprintf("create member %s of pool", member.Name), poolID,
		func(client *gophercloud.ServiceClient) (err error) {
			id, err = idOf("member",
				pools.CreateMember(ctx, client, poolID, memberCreation(member)).Result)
			return err
		})
	return id, err
}

// UpdateMember updates the name, the weight and the monitor port of a member, and clears its backup
// flag unless the member should be a backup.
func (a *API) UpdateMember(ctx context.Context, poolID, id string, member Member) error {
	minor, err := a.Version(ctx)
	if err != nil {
		return fmt.Errorf("update member %s: %w", id, err)
	}
	return a.writeTo(ctx, fmt.Sprintf("update member %s of pool", id), poolID,
		func(client *gophercloud.ServiceClient) error {
			return pools.UpdateMember(ctx, client, poolID, id, memberChange{member, minor}).Err
		})
}

// DeleteMember succeeds if the member does not exist.
func (a *API) DeleteMember(ctx context.Context, poolID, id string) error {
	return a.remove(ctx, fmt.Sprintf("delete member %s of pool", id), poolID,
		func(client *gophercloud.ServiceClient) error {
			return pools.DeleteMember(ctx, client, poolID, id).ExtractErr()
		})
}

// write sends a request that changes an object.
func (a *API) write(
	ctx context.Context, doing string, request func(*gophercloud.ServiceClient) error,
) error {
	client, err := a.client(ctx)
	if err == nil {
		err = request(client)
	}
	switch {
	case err == nil:
		return nil
	case isNotFound(err):
		err = fmt.Errorf("%w: %w", ErrNotFound, err)
	case isBusy(err):
		err = fmt.Errorf("%w: %w", ErrBusy, err)
	case isRefusal(err, http.StatusForbidden, "quota"):
		err = fmt.Errorf("%w: %w", ErrQuota, err)
	case isForbidden(err):
		err = fmt.Errorf("%w: %w", ErrForbidden, err)
	}
	return fmt.Errorf("%s: %w", doing, err)
}

// writeTo sends a request whose path or body holds the ID. Without an ID it would change another
// resource.
func (a *API) writeTo(
	ctx context.Context, doing, id string, request func(*gophercloud.ServiceClient) error,
) error {
	if id == "" {
		return fmt.Errorf("%s: its ID is unknown", doing)
	}
	return a.write(ctx, doing+" "+id, request)
}

// remove succeeds if the object does not exist.
func (a *API) remove(
	ctx context.Context, doing, id string, request func(*gophercloud.ServiceClient) error,
) error {
	err := a.writeTo(ctx, doing, id, request)
	switch {
	case errors.Is(err, ErrNotFound):
		return nil
	case isUncertain(err):
		return fmt.Errorf("%w: %w", ErrUncertain, err)
	}
	return err
}

// isUncertain reports whether an error leaves open if a request was carried out: no response, or a
// proxy's error for a missing response.
func isUncertain(err error) bool {
	if gophercloud.ResponseCodeIs(err, http.StatusBadGateway) ||
		gophercloud.ResponseCodeIs(err, http.StatusGatewayTimeout) {
		return true
	}
	var unanswered *url.Error
	return errors.As(err, &unanswered) && !errors.Is(err, context.Canceled) &&
		!errors.Is(err, fence.ErrClosed)
}

// idOf returns the ID of the created object.
func idOf(kind string, result gophercloud.Result) (string, error) {
	var body map[string]struct {
		ID string `json:"id"`
	}
	if err := result.ExtractInto(&body); err != nil {
		return "", err
	}
	if body[kind].ID == "" {
		return "", errNoAnswer
	}
	return body[kind].ID, nil
}

// isBusy distinguishes conflicts because of a state from conflicts with existing objects, such as
// another listener on the same port (octavia/common/exceptions.py: ImmutableObject, and
// LBPendingStateError for the load balancer itself).
func isBusy(err error) bool {
	return isRefusal(err, http.StatusConflict, "immutable") ||
		isRefusal(err, http.StatusConflict, "invalid state")
}

// isForbidden distinguishes a refusal by the policy from one by a quota: both are 403.
func isForbidden(err error) bool { return isRefusal(err, http.StatusForbidden, "policy") }

func isRefusal(err error, code int, words string) bool {
	var unexpected gophercloud.ErrUnexpectedResponseCode
	return errors.As(err, &unexpected) && unexpected.Actual == code &&
		bytes.Contains(bytes.ToLower(unexpected.Body), []byte(words))
}
