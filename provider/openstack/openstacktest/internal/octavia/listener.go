package octavia

import (
	"cmp"
	"encoding/json"
	"net/http"
	"slices"

	"github.com/google/uuid"

	"github.com/fxccm/fxccm/provider/openstack/openstacktest/internal/api"
	"github.com/fxccm/fxccm/provider/openstack/openstacktest/internal/resource"
)

// parentID is the ID of the parent of a new resource; "" for none.
func parentID(given body, name string) (id string) {
	_ = json.Unmarshal(given[name], &id)
	return resource.WithHyphens(id)
}

// mandatoryParent finds the parent that a new resource must name.
func (r *request) mandatoryParent(k kind, name string) (target, error) {
	id := parentID(r.given, name)
	switch {
	case !present(r.given, name):
		return target{}, badInput(name, "None", "Mandatory field missing.")
	case uuid.Validate(id) != nil:
		return target{}, badInput(name, resource.Text(r.given[name]), "Value should be UUID format")
	}
	return r.find(k, id)
}

// present reports whether the body sets an attribute to another value than null.
func present(given body, name string) bool {
	raw, has := given[name]
	return has && string(raw) != "null"
}

func createListener(r *request) (answer, error) {
	s := r.octavia
	l, err := readNew(s.types.listener, r.given, r.kind.argument, "loadbalancer_id", "project_id",
		"tenant_id", "default_pool", "l7policies")
	if err != nil {
		return answer{}, err
	}
	parent, err := r.mandatoryParent(s.kinds.loadBalancer, "loadbalancer_id")
	if err != nil {
		return answer{}, err
	}
	t := parent.tree
	if err := cmp.Or(
		s.admitMore(t.ProjectID, QuotaListener, 1),
		admitDefaultPool(t, l),
		t.mutable(),
		s.admitListenerOf(t, l, t.Listeners),
	); err != nil {
		return answer{}, err
	}
	s.add(t, &l.OctaviaResource)
	t.Listeners = append(t.Listeners, *l)
	s.startWork(t, StatusPendingUpdate)
	return r.created(target{tree: t, listener: last(t.Listeners)}), nil
}

// add creates a resource below a load balancer.
func (s *Service) add(t *tree, row *OctaviaResource) {
	row.ID = s.NewID()
	row.ProjectID, row.OperatingStatus = t.ProjectID, statusOffline
	t.set(row, StatusPendingCreate, s.Clock.Now())
}

// admitDefaultPool requires a pool of the same load balancer with a protocol that fits.
func admitDefaultPool(t *tree, l *Listener) error {
	if l.DefaultPoolID == "" {
		return nil
	}
	p := t.pool(l.DefaultPoolID)
	if p == nil {
		return notFound("Pool", l.DefaultPoolID)
	}
	return admitProtocols(l.Protocol, p.Protocol)
}

// admitListenerOf completes and checks a new listener.
func (s *Service) admitListenerOf(t *tree, l *Listener, others []Listener) error {
	if l.Protocol == protocolTerminated && len(l.TLSVersions) == 0 {
		// The default of api_settings.default_listener_tls_versions.
		l.TLSVersions = []string{"TLSv1.2", "TLSv1.3"}
	}
	return cmp.Or(
		admitHeaders(l),
		admitListener(l, "%s protocol listener does not support TLS."),
		s.admitCertificates(l),
		admitPort(l, others),
		s.admitCIDRs(t, l.AllowedCIDRs),
	)
}

// admitCertificates looks for all certificates in Barbican (BaseController._validate_tls_refs).
func (s *Service) admitCertificates(l *Listener) error {
	refs := slices.Clone(l.SNIContainerRefs)
	if l.DefaultTLSContainerRef != "" {
		refs = append(refs, l.DefaultTLSContainerRef)
	}
	bad := slices.DeleteFunc(refs, s.holds)
	if len(bad) > 0 {
		return api.Refuse(http.StatusBadRequest, "Could not retrieve certificate: %s",
			pythonList(bad))
	}
	return nil
}

func updateListener(r *request) (answer, error) {
	s, t, l := r.octavia, r.tree, r.listener
	return update(r, s.types.listener, l, func(changed *Listener) error {
		var err error
		if changed.DefaultPoolID != l.DefaultPoolID {
			err = admitDefaultPool(t, changed)
		}
		return cmp.Or(
			admitListener(changed,
				"%s protocol listener does not support TLS or header insertion."),
			admitHeaders(changed),
			s.admitCIDRs(t, changed.AllowedCIDRs),
			err,
			s.admitCertificates(changed),
			t.mutable(),
		)
	})
}
