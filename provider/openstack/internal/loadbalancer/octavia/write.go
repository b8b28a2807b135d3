package octavia

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"net/http"
	"net/url"

	"github.com/gophercloud/gophercloud/v2"

	"github.com/fxccm/fxccm/internal/fence"
	"github.com/fxccm/fxccm/provider/openstack/internal/failure"
)

// ErrBusy is wrapped by the error of a change that Octavia refuses because of the state of the load
// balancer or the pool: it is being changed, or it is in ERROR. Octavia has changed nothing.
var ErrBusy = errors.New("it is immutable in its present state")

// ErrUncertain is wrapped by the error of a deletion with an unknown outcome. Octavia may carry out
// an immediate retry as well: its worker fails at the second deletion, and the load balancer stays
// PENDING_UPDATE forever (octavia 11.0.0, controller/worker/v2/controller_worker.py, delete_pool).
// So the caller reads the load balancer first.
var ErrUncertain = errors.New("its outcome is unknown")

// A change that was canceled, or whose response was lost, may have been carried out. All changes
// set a PENDING status on the load balancer, unless their comment states otherwise.
//
// The API refuses attributes that its version does not know, so attributes that are nil or have the
// default value are left out. admin_state_up is always left out, because it belongs to the
// operator.

// anyVersion is for an object that has only what the API supports.
const anyVersion = math.MaxInt

// CreateLoadBalancer creates a load balancer and its ports, which may be nil, with one request. The
// VIP exists when it returns, the rest when the load balancer is ACTIVE. A member's subnet that
// does not exist leads to ERROR only then.
func (a *API) CreateLoadBalancer(
	ctx context.Context, lb LoadBalancer, ports []Port,
) (LoadBalancer, error) {
	type newListener struct {
		Listener
		Pool Pool `json:"default_pool"`
	}
	var vips []shownVIP
	for _, vip := range lb.AdditionalVIPs {
		vips = append(vips, shownVIP{Address: vip.Address, SubnetID: vip.SubnetID})
	}
	var listeners []newListener
	for _, port := range ports {
		listeners = append(listeners, newListener{port.Listener, port.Pool})
	}
	request := struct {
		LoadBalancer
		AdditionalVIPs []shownVIP    `json:"additional_vips,omitempty"`
		Listeners      []newListener `json:"listeners,omitempty"`
	}{lb, vips, listeners}
	var answer struct {
		LoadBalancer creation `json:"loadbalancer"`
	}
	doing := "create load balancer " + lb.Name
	if err := a.write(ctx, doing, http.MethodPost, map[string]any{"loadbalancer": request}, &answer,
		"loadbalancers"); err != nil {
		return LoadBalancer{}, err
	}
	if answer.LoadBalancer.ID == "" {
		return LoadBalancer{}, fmt.Errorf("%s: %w", doing, errNoAnswer)
	}
	made, err := answer.LoadBalancer.value()
	made.Made = answer.LoadBalancer.ids()
	return made, err
}

// UpdateLoadBalancer replaces the load balancer's tags. fxccm changes no other field of it.
func (a *API) UpdateLoadBalancer(ctx context.Context, id string, tags []string) error {
	return a.update(ctx, "update load balancer", id, "loadbalancer",
		fields{"tags": append([]string{}, tags...)}, "loadbalancers", id)
}

// DeleteLoadBalancer deletes the load balancer, with its parts if cascade is set. Without cascade
// Octavia refuses if it has listeners or pools. It succeeds if the load balancer does not exist.
func (a *API) DeleteLoadBalancer(ctx context.Context, id string, cascade bool) error {
	query := ""
	if cascade {
		query = "?cascade=true"
	}
	return a.remove(ctx, "delete load balancer", id, "loadbalancers", id+query)
}

// FailoverLoadBalancer makes Octavia rebuild the amphorae. By default only administrators may
// (403).
func (a *API) FailoverLoadBalancer(ctx context.Context, id string) error {
	return a.writeTo(ctx, "fail over load balancer", id, http.MethodPut, nil, nil, "loadbalancers",
		id, "failover")
}

// CreateListener creates a listener with this default pool, "" for none, and returns its ID.
func (a *API) CreateListener(
	ctx context.Context, loadBalancerID string, listener Listener, poolID string,
) (id string, err error) {
	listener.PoolID = poolID
	return a.create(ctx, fmt.Sprintf("create listener %s of load balancer", listener.Name),
		loadBalancerID, "listener", listener, fields{"loadbalancer_id": loadBalancerID},
		"listeners")
}

// UpdateListener updates all mutable fields of the listener. Tags, timeouts, allowed CIDRs and TLS
// container stay as they are if they are nil or "", and so does the default pool if poolID is "".
func (a *API) UpdateListener(
	ctx context.Context, id string, listener Listener, poolID string,
) error {
	listener.PoolID = poolID
	change := FieldsOf[Listener]().update(listener, anyVersion)
	switch {
	case listener.Protocol != HTTP && listener.Protocol != TerminatedHTTPS:
		// Other listeners have no headers, and a provider may refuse the attribute.
		delete(change, "insert_headers")
	case listener.InsertHeaders == nil:
		change["insert_headers"] = map[string]string{}
	}
	return a.update(ctx, "update listener", id, "listener", change, "listeners", id)
}

// DeleteListener deletes the listener; its pool stays. It succeeds if the listener does not exist.
func (a *API) DeleteListener(ctx context.Context, id string) error {
	return a.remove(ctx, "delete listener", id, "listeners", id)
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
	pool.Members, pool.Monitor = nil, nil
	parent, of := fields{"loadbalancer_id": loadBalancerID}, "load balancer"
	if listenerID != "" {
		// The pool belongs to the load balancer of the listener.
		parent, of = fields{"listener_id": listenerID}, "listener"
		loadBalancerID = listenerID
	}
	return a.create(ctx, fmt.Sprintf("create pool %s of %s", pool.Name, of), loadBalancerID, "pool",
		pool, parent, "pools")
}

// UpdatePool updates the name, the algorithm and the persistence, and the tags unless they are nil.
// It returns a pool in ERROR to ACTIVE.
func (a *API) UpdatePool(ctx context.Context, id string, pool Pool) error {
	return a.update(ctx, "update pool", id, "pool", FieldsOf[Pool]().update(pool, anyVersion),
		"pools", id)
}

// DeletePool deletes the pool with its members and its monitor. Its listener then has no default
// pool. It succeeds if the pool does not exist.
func (a *API) DeletePool(ctx context.Context, id string) error {
	return a.remove(ctx, "delete pool", id, "pools", id)
}

// CreateMonitor creates the pool's monitor. A pool has at most one.
func (a *API) CreateMonitor(ctx context.Context, poolID string, monitor Monitor) error {
	_, err := a.create(ctx, "create the health monitor of pool", poolID, "healthmonitor", monitor,
		fields{"pool_id": poolID}, "healthmonitors")
	return err
}

// UpdateMonitor updates all fields but the type.
func (a *API) UpdateMonitor(ctx context.Context, id string, monitor Monitor) error {
	return a.update(ctx, "update health monitor", id, "healthmonitor",
		FieldsOf[Monitor]().update(monitor, anyVersion), "healthmonitors", id)
}

// DeleteMonitor succeeds if the monitor does not exist.
func (a *API) DeleteMonitor(ctx context.Context, id string) error {
	return a.remove(ctx, "delete health monitor", id, "healthmonitors", id)
}

// SetMembers replaces the pool's members with one request; it is a no-op if both are empty. Each
// member is then administratively up, not a backup, and monitored at its own address: Octavia
// resets missing fields of an existing member to their defaults, except name and subnet
// (octavia/api/v2/controllers/member.py, MembersController.put).
func (a *API) SetMembers(ctx context.Context, poolID string, members []Member) error {
	return a.writeTo(ctx, fmt.Sprintf("set %d members of pool", len(members)), poolID,
		http.MethodPut, map[string]any{"members": append([]Member{}, members...)}, nil, "pools",
		poolID, "members")
}

// CreateMember adds a member to the pool, and returns its id.
func (a *API) CreateMember(
	ctx context.Context, poolID string, member Member,
) (id string, err error) {
	member.ID = ""
	return a.create(ctx, fmt.Sprintf("create member %s of pool", member.Name), poolID, "member",
		member, nil, "pools", poolID, "members")
}

// UpdateMember updates the name, the weight and the monitor port of a member, and clears its backup
// flag unless the member should be a backup.
func (a *API) UpdateMember(ctx context.Context, poolID, id string, member Member) error {
	minor, err := a.Version(ctx)
	if err != nil {
		return fmt.Errorf("update member %s: %w", id, err)
	}
	return a.update(ctx, fmt.Sprintf("update member %s of pool", id), poolID, "member",
		FieldsOf[Member]().update(member, minor), "pools", poolID, "members", id)
}

// DeleteMember succeeds if the member does not exist.
func (a *API) DeleteMember(ctx context.Context, poolID, id string) error {
	return a.remove(ctx, fmt.Sprintf("delete member %s of pool", id), poolID, "pools", poolID,
		"members", id)
}

// fields are attributes of an object in a request.
type fields map[string]any

// bodyOf returns the body of a request: an object with its fields, which may be nil, and others.
func bodyOf(kind string, object any, others fields) (map[string]any, error) {
	text, err := json.Marshal(object)
	if err != nil {
		return nil, err
	}
	var known map[string]json.RawMessage
	if err := json.Unmarshal(text, &known); err != nil {
		return nil, err
	}
	all := fields{}
	for name, value := range known {
		all[name] = value
	}
	maps.Copy(all, others)
	return map[string]any{kind: all}, nil
}

// create creates an object below the one with the ID, and returns its ID.
func (a *API) create(
	ctx context.Context, doing, parent, kind string, object any, others fields, path ...string,
) (id string, err error) {
	body, err := bodyOf(kind, object, others)
	if err != nil {
		return "", err
	}
	var answer map[string]shownPart
	if err := a.writeTo(ctx, doing, parent, http.MethodPost, body, &answer, path...); err != nil {
		return "", err
	}
	if answer[kind].ID == "" {
		return "", fmt.Errorf("%s %s: %w", doing, parent, errNoAnswer)
	}
	return answer[kind].ID, nil
}

func (a *API) update(
	ctx context.Context, doing, id, kind string, change fields, path ...string,
) error {
	var answer map[string]any
	return a.writeTo(ctx, doing, id, http.MethodPut, map[string]any{kind: change}, &answer, path...)
}

// remove succeeds if the object does not exist.
func (a *API) remove(ctx context.Context, doing, id string, path ...string) error {
	err := a.writeTo(ctx, doing, id, http.MethodDelete, nil, nil, path...)
	switch {
	case errors.Is(err, ErrNotFound):
		return nil
	case isUncertain(err):
		return fmt.Errorf("%w: %w", ErrUncertain, err)
	}
	return err
}

// writeTo sends a request whose path or body holds the ID. Without an ID it would change another
// resource.
func (a *API) writeTo(
	ctx context.Context, doing, id, method string, body, answer any, path ...string,
) error {
	if id == "" {
		return fmt.Errorf("%s: its ID is unknown", doing)
	}
	return a.write(ctx, doing+" "+id, method, body, answer, path...)
}

// write sends a request that changes an object.
func (a *API) write(
	ctx context.Context, doing, method string, body, answer any, path ...string,
) error {
	client, err := a.config.Client(ctx)
	if err == nil {
		options := &gophercloud.RequestOpts{JSONBody: body, JSONResponse: answer}
		if method == http.MethodPut && answer != nil {
			options.OkCodes = []int{http.StatusOK, http.StatusAccepted}
		}
		address := client.ServiceURL(append([]string{"lbaas"}, path...)...)
		_, err = client.Request(ctx, method, address, options)
	}
	if err == nil {
		return nil
	}
	if known := kindOf(err); known != nil {
		err = fmt.Errorf("%w: %w", known, err)
	}
	return fmt.Errorf("%s: %w", doing, err)
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

// kindOf returns the error that callers act on; nil for others.
func kindOf(err error) error {
	switch f := failure.Of(err); {
	case f == nil:
	case f.IsNotFound():
		return ErrNotFound
	case f.IsBusy():
		return ErrBusy
	case f.IsForbidden():
		return ErrForbidden
	}
	return nil
}
