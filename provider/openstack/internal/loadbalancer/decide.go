package loadbalancer

import (
	"context"
	"errors"
	"slices"

	"github.com/fxccm/fxccm/provider/openstack/internal/events"
	"github.com/fxccm/fxccm/provider/openstack/internal/loadbalancer/desired"
	"github.com/fxccm/fxccm/provider/openstack/internal/loadbalancer/neutron"
	"github.com/fxccm/fxccm/provider/openstack/internal/loadbalancer/plan"
	"github.com/fxccm/fxccm/provider/openstack/internal/loadbalancer/settings"
)

// decide finds the load balancer and decides what it should be. admit may end the reconcile in
// between.
func (r *reconciler) decide(
	ctx context.Context, admit func(context.Context) error,
) (desired.State, error) {
	if err := r.identify(ctx); err != nil {
		return desired.State{}, err
	}
	problems := r.readSettings()
	if err := r.find(ctx); err != nil {
		return desired.State{}, err
	}
	if err := r.rejectFatal(problems); err != nil {
		return desired.State{}, err
	}
	if err := admit(ctx); err != nil {
		return desired.State{}, err
	}
	return r.desire(ctx)
}

func (r *reconciler) identify(ctx context.Context) error {
	uid := r.deletedCluster
	if uid == "" {
		var err error
		if uid, err = r.config.ClusterUID(ctx); err != nil {
			return err
		}
	}
	r.identity = identity(r.cluster, uid, r.service)
	return nil
}

func (r *reconciler) readSettings() []settings.Problem {
	var problems []settings.Problem
	r.settings, problems = settings.Of(r.service, r.config.Defaults)
	list := make([]desired.Notice, 0, len(problems))
	for _, problem := range append(slices.Clone(problems), settings.Unknown(r.service)...) {
		list = append(list, (&refusal{events.InvalidAnnotation, problem.String()}).notice())
	}
	r.tell(aboutSettings, list...)
	return problems
}

// rejectFatal rejects settings that cannot be served. A setting that only counts at creation does
// not stop the updates of a load balancer that exists; but it must not be recreated with it.
func (r *reconciler) rejectFatal(problems []settings.Problem) error {
	for _, problem := range settings.Fatal(problems) {
		if r.found.balancer == nil || !problem.AtCreation {
			return &refusal{events.InvalidAnnotation, problem.String()}
		}
		r.settings.Recreate = false
	}
	return nil
}

// desire decides what the load balancer should be.
func (r *reconciler) desire(ctx context.Context) (desired.State, error) {
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
		Features: r.features(),

		Guest:         r.found.role == plan.Guest,
		HasFloatingIP: r.hasFloatingIP(),
	}
	if r.found.balancer != nil {
		input.LoadBalancerName = r.found.balancer.Name
	}
	var notes []desired.Notice
	var err error
	input.Places, notes, err = desired.Resolve(ctx, r.config.Neutron, input, r.found.balancer)
	var impossible *desired.ImpossibleError
	switch {
	case errors.Is(err, desired.ErrNoNode):
		return desired.State{}, r.wait(r.lastChange(), "%v", err)
	case errors.As(err, &impossible):
		return desired.State{},
			r.refuse(aboutPlaces, &refusal{events.Unsupported, impossible.Message})
	case err != nil:
		return desired.State{}, err
	}
	r.tell(aboutPlaces, notes...)
	want, notes, unsupported := desired.Build(input)
	if unsupported != nil {
		refused := &refusal{events.Unsupported, unsupported.Error()}
		r.tell(aboutDesired, append(notes, refused.notice())...)
		return desired.State{}, refused
	}
	r.tell(aboutDesired, notes...)
	return want, nil
}

func (r *reconciler) features() desired.Features {
	provider := r.settings.Provider
	if r.found.balancer != nil {
		provider = r.found.balancer.Provider
	}
	return desired.FeaturesOf(provider, r.found.apiMinor, r.settings.Serial)
}

func (r *reconciler) checkCertificate(ctx context.Context) error {
	if r.settings.TLSContainer == "" || !r.settings.CheckCertificates {
		return nil
	}
	err := r.config.Neutron.CheckCertificate(ctx, r.settings.TLSContainer)
	if errors.Is(err, neutron.ErrNoCertificate) {
		return r.refuse(aboutPlaces, &refusal{events.CertificateNotFound, err.Error()})
	}
	return err
}
