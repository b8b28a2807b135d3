package plan

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/fxccm/fxccm/provider/openstack/internal/failure"
	"github.com/fxccm/fxccm/provider/openstack/internal/loadbalancer/neutron"
)

// Steps with Neutron need not wait for the load balancer: its VIP port exists as soon as it does.
type (
	// CreateFloatingIP creates a floating IP for the load balancer's VIP port, and tags it: two
	// requests. If Neutron refuses a subnet without a free address, the next one is tried.
	CreateFloatingIP struct {
		// LoadBalancer is the zero value for a floating IP that a later AttachFloatingIP attaches.
		LoadBalancer Ref
		Wanted       neutron.WantedFloatingIP
	}
	// AttachFloatingIP points an existing floating IP to the load balancer's VIP port.
	AttachFloatingIP struct {
		LoadBalancer Ref
		// ID is empty for the floating IP that an earlier CreateFloatingIP of the plan has created.
		ID, Address string
		// Release clears the description in the same request.
		Release bool
		// MayUse decides about the state that is read just before. Nil: any.
		MayUse func(neutron.FloatingIP) bool
	}
	// TakeFloatingIP attaches an unused floating IP of a pool to the load balancer's VIP port, and
	// tags it. If another client has taken one, the next one is tried.
	TakeFloatingIP struct {
		LoadBalancer Ref
		// Pool is the tag of the pool.
		Pool string
		// From are the unused floating IPs in the order of preference, at least one.
		From []neutron.FloatingIP
		// Tags are added.
		Tags []string
		// MayUse decides about the state that is read just before.
		MayUse func(neutron.FloatingIP) bool
	}
	DetachFloatingIP struct {
		ID, Address, Why string
		// Release clears the description in the same request. Without a tag, no later plan would
		// find the detached floating IP.
		Release bool
		Listed
	}
	DeleteFloatingIP struct {
		ID, Address, Why string
		Listed
	}
	// TagFloatingIP replaces its tags.
	TagFloatingIP struct {
		ID, Address string
		// Tags are nil to keep them.
		Tags []string
		// Release first clears the description, which names the Service: then any Service that
		// requests the address may use it.
		Release bool
		Listed
	}
)

// Listed is the state that a step expects of its floating IP. Another client may have changed it
// since the list, because a plan may wait for minutes.
type Listed struct {
	// Revision is the one that was listed, which alone is changed. Nil: unknown.
	Revision *int
	// Owned decides about the state of another revision, which is read just before. Nil: any.
	Owned func(neutron.FloatingIP) bool
}

// asChanged returns ErrChanged if a floating IP is no longer as a step expects.
func asChanged(err error) error {
	if errors.Is(err, neutron.ErrTaken) {
		return fmt.Errorf("%w: %w", ErrChanged, err)
	}
	return err
}

func (s CreateFloatingIP) String() string {
	text := "create a floating IP in network " + s.Wanted.NetworkID
	if s.Wanted.Address != "" {
		text = "create floating IP " + s.Wanted.Address + " in network " + s.Wanted.NetworkID
	}
	if len(s.Wanted.SubnetIDs) > 0 {
		text += ", subnet " + strings.Join(s.Wanted.SubnetIDs, " or ")
	}
	if s.LoadBalancer == (Ref{}) {
		text += ", that leads nowhere yet"
	}
	return text
}

func (s CreateFloatingIP) details() []string {
	return append([]string{"description " + s.Wanted.Description}, tagDetails(s.Wanted.Tags)...)
}

func (s CreateFloatingIP) quota() string { return "floating IPs" }

func (s CreateFloatingIP) chosen() []string {
	return append([]string{s.Wanted.NetworkID, s.Wanted.Address}, s.Wanted.SubnetIDs...)
}

func (s CreateFloatingIP) changesFloatingIP() {}

func (s CreateFloatingIP) predict(*predicted) bool { return true }

// take tries the subnets in their order until one has a free address.
func (s CreateFloatingIP) take(ctx context.Context, r *run) error {
	port := ""
	if s.LoadBalancer != (Ref{}) {
		var err error
		if port, err = r.vipPort(s.LoadBalancer); err != nil {
			return err
		}
	}
	subnets := s.Wanted.SubnetIDs
	if len(subnets) == 0 {
		subnets = []string{""} // Neutron chooses
	}
	var err error
	for _, subnet := range subnets {
		var made neutron.FloatingIP
		err = r.withNeutron(func() (err error) {
			made, err = r.Neutron.CreateFloatingIP(ctx, s.Wanted, subnet, port)
			return err
		})
		if made.ID != "" {
			r.result.FloatingIP = &made
		}
		if !errors.Is(err, neutron.ErrNoAddress) {
			return err
		}
	}
	return err
}

func (s AttachFloatingIP) String() string {
	text := "attach floating IP " + withID(s.Address, s.ID)
	if s.Release {
		text += ", no description"
	}
	return text
}

func (s AttachFloatingIP) changesFloatingIP() {}

func (s AttachFloatingIP) network() string { return "the network of floating IP " + s.Address }

func (s AttachFloatingIP) predict(*predicted) bool { return true }

// take attaches an existing floating IP, or the one that an earlier step has created.
func (s AttachFloatingIP) take(ctx context.Context, r *run) error {
	port, err := r.vipPort(s.LoadBalancer)
	if err != nil {
		return err
	}
	id := s.ID
	if id == "" {
		if r.result.FloatingIP == nil {
			return errors.New("no earlier step created the floating IP")
		}
		id = r.result.FloatingIP.ID
	}
	return r.withNeutron(func() error {
		attached, err := r.Neutron.AttachFloatingIP(ctx, id, port, s.Release, s.MayUse)
		if err == nil {
			r.result.FloatingIP = &attached
		}
		return err
	})
}

func (s TakeFloatingIP) String() string {
	text := fmt.Sprintf("take floating IP %s of the pool %s",
		withID(s.From[0].Address, s.From[0].ID), s.Pool)
	if more := len(s.From) - 1; more > 0 {
		text += fmt.Sprintf(", or another one of %d if that is taken", more)
	}
	return text
}

func (s TakeFloatingIP) details() []string { return tagDetails(s.Tags) }

func (s TakeFloatingIP) changesFloatingIP() {}

func (s TakeFloatingIP) network() string {
	return "the networks of the floating IPs of the pool " + s.Pool
}

func (s TakeFloatingIP) predict(*predicted) bool { return true }

// take attaches before it tags: Neutron refuses the later one of two attachments, but not of two
// tags. The next plan tags a floating IP that is only attached.
func (s TakeFloatingIP) take(ctx context.Context, r *run) error {
	port, err := r.vipPort(s.LoadBalancer)
	if err != nil {
		return err
	}
	for _, ip := range s.From {
		var attached neutron.FloatingIP
		err = r.withNeutron(func() (err error) {
			attached, err = r.Neutron.AttachFloatingIP(ctx, ip.ID, port, false, s.MayUse)
			return err
		})
		if err == nil {
			return s.tag(ctx, r, attached)
		}
		if !isAboutOne(err, port) {
			return err
		}
	}
	if errors.Is(err, neutron.ErrTaken) || errors.Is(err, ErrGone) {
		return fmt.Errorf("floating IPs of the pool %s: %w", s.Pool, ErrChanged)
	}
	return err
}

// isAboutOne reports whether an attachment failed because of the floating IP, so that another one
// may be attached. A pool may have addresses of networks that the router does not lead to. Neutron
// also sends 404 for a missing port.
func isAboutOne(err error, port string) bool {
	f := failure.Of(err)
	if errors.Is(err, ErrGone) {
		return f == nil || !strings.Contains(f.Message, port)
	}
	return errors.Is(err, neutron.ErrTaken) || f != nil && f.Type == failure.NoExternalGateway
}

// tag adds the tags to those that the floating IP had just before its attachment.
func (s TakeFloatingIP) tag(ctx context.Context, r *run, ip neutron.FloatingIP) error {
	r.result.FloatingIP = &ip
	tags := merged(ip.Tags, s.Tags)
	err := r.withNeutron(func() error { return r.Neutron.TagFloatingIP(ctx, ip.ID, tags) })
	if err == nil {
		ip.Tags = tags
	}
	return err
}

func (s DetachFloatingIP) String() string {
	text := "detach floating IP " + withID(s.Address, s.ID) + because(s.Why)
	if s.Release {
		text += ", no description"
	}
	return text
}

func (s DetachFloatingIP) changesFloatingIP() {}

func (s DetachFloatingIP) predict(*predicted) bool { return true }

func (s DetachFloatingIP) take(ctx context.Context, r *run) error {
	return asChanged(r.release(s.ID, func() error {
		return r.Neutron.DetachFloatingIP(ctx, s.ID, s.Release, s.Revision, s.Owned)
	}))
}

func (s DeleteFloatingIP) String() string {
	return "delete floating IP " + withID(s.Address, s.ID) + because(s.Why)
}

func (s DeleteFloatingIP) changesFloatingIP() {}

func (s DeleteFloatingIP) predict(*predicted) bool { return true }

func (s DeleteFloatingIP) take(ctx context.Context, r *run) error {
	return asChanged(r.release(s.ID, func() error {
		return r.Neutron.DeleteFloatingIP(ctx, s.ID, s.Revision, s.Owned)
	}))
}

func (s TagFloatingIP) String() string {
	var marks []string
	if s.Tags != nil {
		marks = append(marks, cmp.Or(strings.Join(s.Tags, ", "), "no tags"))
	}
	if s.Release {
		marks = append(marks, "no description")
	}
	return "tag floating IP " + withID(s.Address, s.ID) + ": " + strings.Join(marks, ", ")
}

func (s TagFloatingIP) onlyTags() bool { return true }

func (s TagFloatingIP) changesFloatingIP() {}

func (s TagFloatingIP) predict(*predicted) bool { return true }

func (s TagFloatingIP) take(ctx context.Context, r *run) error {
	return asChanged(r.withNeutron(func() (err error) {
		switch {
		case s.Release:
			err = r.Neutron.ClearFloatingIPDescription(ctx, s.ID, s.Revision, s.Owned)
		case s.Owned != nil:
			err = r.Neutron.CheckFloatingIP(ctx, s.ID, s.Owned)
		}
		if err == nil && s.Tags != nil {
			err = r.Neutron.TagFloatingIP(ctx, s.ID, s.Tags)
		}
		return err
	}))
}

func withID(address, id string) string {
	if id == "" {
		return address
	}
	return fmt.Sprintf("%s (%s)", address, id)
}
