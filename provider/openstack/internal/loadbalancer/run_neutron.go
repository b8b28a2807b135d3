package loadbalancer

import (
	"context"
	"errors"
	"fmt"

	"github.com/fxccm/fxccm/provider/openstack/internal/loadbalancer/neutron"
	"github.com/fxccm/fxccm/provider/openstack/internal/loadbalancer/plan"
)

// takeWithNeutron takes a step with Neutron. It does not wait, because a VIP port exists as soon as
// its load balancer does.
func (r *run) takeWithNeutron(ctx context.Context, step plan.Step) error {
	err := r.askNeutron(ctx, step)
	r.result.wroteAt = r.Clock.Now()
	if errors.Is(err, neutron.ErrNotFound) {
		return fmt.Errorf("%w: %w", errGone, err)
	}
	return err
}

func (r *run) askNeutron(ctx context.Context, step plan.Step) error {
	switch s := step.(type) {
	case plan.CreateFloatingIP:
		return r.createFloatingIP(ctx, s)
	case plan.AttachFloatingIP:
		return r.attachFloatingIP(ctx, s)
	case plan.DetachFloatingIP:
		return r.Neutron.DetachFloatingIP(ctx, s.ID)
	case plan.DeleteFloatingIP:
		return r.Neutron.DeleteFloatingIP(ctx, s.ID)
	case plan.TagFloatingIP:
		return r.Neutron.TagFloatingIP(ctx, s.ID, s.Tags)

	case plan.CreateSecurityGroup:
		return r.createGroup(ctx, s)
	case plan.TagSecurityGroup:
		return r.Neutron.TagSecurityGroup(ctx, s.ID, s.Tags)
	case plan.DeleteSecurityGroup:
		return r.Neutron.DeleteSecurityGroup(ctx, s.ID)
	case plan.CreateRule:
		return r.withGroup(s.Group,
			func(id string) error { return r.Neutron.CreateRule(ctx, id, s.Rule) })
	case plan.DeleteRule:
		return r.Neutron.DeleteRule(ctx, s.ID)
	case plan.AddGroup:
		return r.withGroup(s.Group,
			func(id string) error { return r.Neutron.AddGroup(ctx, s.Port, id) })
	case plan.RemoveGroup:
		return r.Neutron.RemoveGroup(ctx, s.Port, s.GroupID)
	}
	return fmt.Errorf("unknown step %T", step)
}

// createFloatingIP tries the subnets in their order until one has a free address.
func (r *run) createFloatingIP(ctx context.Context, s plan.CreateFloatingIP) error {
	port := ""
	if s.LoadBalancer != (plan.Ref{}) {
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
		made, err = r.Neutron.CreateFloatingIP(ctx, s.Wanted, subnet, port)
		if made.ID != "" {
			r.result.floatingIP = &made
		}
		if !errors.Is(err, neutron.ErrNoAddress) {
			return err
		}
	}
	return err
}

// attachFloatingIP attaches an existing floating IP, or the one that an earlier step has created.
func (r *run) attachFloatingIP(ctx context.Context, s plan.AttachFloatingIP) error {
	port, err := r.vipPort(s.LoadBalancer)
	if err != nil {
		return err
	}
	attached := neutron.FloatingIP{ID: s.ID, Address: s.Address}
	if s.ID == "" {
		if r.result.floatingIP == nil {
			return errors.New("no earlier step created the floating IP")
		}
		attached = *r.result.floatingIP
	}
	if err := r.Neutron.AttachFloatingIP(ctx, attached.ID, port); err != nil {
		return err
	}
	attached.PortID = port
	r.result.floatingIP = &attached
	return nil
}

// vipPort returns the port of the load balancer's VIP.
func (r *run) vipPort(ref plan.Ref) (string, error) {
	lb := r.result.loadBalancer
	if lb == nil || lb.ID != r.loadBalancer(ref) || lb.VIP.PortID == "" {
		return "", fmt.Errorf("the VIP port of load balancer %s is unknown", r.loadBalancer(ref))
	}
	return lb.VIP.PortID, nil
}

func (r *run) createGroup(ctx context.Context, s plan.CreateSecurityGroup) error {
	made, err := r.Neutron.CreateSecurityGroup(ctx, s.Group)
	if err != nil {
		return err
	}
	// A plan creates at most one group, so each later reference means this one.
	r.group = made.ID
	return nil
}

func (r *run) withGroup(ref plan.Ref, request func(id string) error) error {
	id := ref.ID
	if id == "" {
		id = r.group
	}
	if id == "" {
		return errors.New("no earlier step created the security group")
	}
	return request(id)
}
