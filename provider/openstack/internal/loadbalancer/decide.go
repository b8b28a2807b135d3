package loadbalancer

import (
	"context"
	"errors"

	"github.com/fxccm/fxccm/provider/openstack/internal/events"
	"github.com/fxccm/fxccm/provider/openstack/internal/loadbalancer/desired"
	"github.com/fxccm/fxccm/provider/openstack/internal/loadbalancer/neutron"
	"github.com/fxccm/fxccm/provider/openstack/internal/loadbalancer/plan"
)

// decide returns the desired state.
func (r *reconciler) decide(ctx context.Context) (desired.State, error) {
	if err := r.readFloatingIPs(ctx); err != nil {
		return desired.State{}, err
	}
	if err := r.checkCertificate(ctx); err != nil {
		return desired.State{}, err
	}
	input := desired.Input{
		Identity: r.identity,
		Service:  r.service,
		Nodes:    desired.Candidates(r.nodes),
		Settings: r.settings,

		Guest:         r.found.role == plan.Guest,
		HasFloatingIP: r.found.hasFloatingIP(r.identity.ServiceTag(), r.settings.Address),
	}
	provider := r.settings.Provider
	if lb := r.found.balancer; lb != nil {
		input.LoadBalancerName, provider = lb.Name, lb.Provider
	}
	input.Features = desired.FeaturesOf(provider, r.found.apiMinor, r.settings.Serial)
	var notes []desired.Notice
	var err error
	input.Places, notes, err = desired.Resolve(ctx, r.of.config.Neutron, input, r.found.balancer)
	var impossible *desired.ImpossibleError
	switch {
	case errors.Is(err, desired.ErrNoNode):
		return desired.State{}, r.wait(r.found.lastChange(r.service), "%v", err)
	case errors.As(err, &impossible):
		return desired.State{},
			r.notes.refuse(aboutPlaces, &refusal{events.Unsupported, impossible.Message})
	case err != nil:
		return desired.State{}, err
	}
	r.notes.tell(aboutPlaces, notes...)
	want, notes, unsupported := desired.Build(input)
	if unsupported != nil {
		refused := &refusal{events.Unsupported, unsupported.Error()}
		r.notes.tell(aboutDesired, append(notes, refused.notice())...)
		return desired.State{}, refused
	}
	r.notes.tell(aboutDesired, notes...)
	return want, nil
}

func (r *reconciler) checkCertificate(ctx context.Context) error {
	if r.settings.TLSContainer == "" || !r.settings.CheckCertificates {
		return nil
	}
	err := r.of.config.Neutron.CheckCertificate(ctx, r.settings.TLSContainer)
	if errors.Is(err, neutron.ErrNoCertificate) {
		return r.notes.refuse(aboutPlaces, &refusal{events.CertificateNotFound, err.Error()})
	}
	return err
}
