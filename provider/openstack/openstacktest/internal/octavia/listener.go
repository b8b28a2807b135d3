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
func parentID(given map[string]json.RawMessage, name string) (id string) {
	_ = json.Unmarshal(given[name], &id)
	return resource.WithHyphens(id)
}

// mandatoryParent is the ID of the parent that a new resource must name.
func mandatoryParent(given map[string]json.RawMessage, name string) (id string, err error) {
	id = parentID(given, name)
	switch {
	case !present(given, name):
		return "", badInput(name, "None", "Mandatory field missing.")
	case uuid.Validate(id) != nil:
		return "", badInput(name, resource.Text(given[name]), "Value should be UUID format")
	}
	return id, nil
}

// present reports whether the body sets an attribute to another value than null.
func present(given map[string]json.RawMessage, name string) bool {
	raw, has := given[name]
	return has && string(raw) != "null"
}

func createListener(r *request) (answer, error) {
	s, l := r.octavia, &Listener{}
	s.types.listener.Complete(l)
	if err := s.types.listener.Read(l, r.given, true, wsme("listener_.listener"), "loadbalancer_id",
		"project_id", "tenant_id", "default_pool", "l7policies"); err != nil {
		return answer{}, err
	}
	id, err := mandatoryParent(r.given, "loadbalancer_id")
	if err != nil {
		return answer{}, err
	}
	parent, err := r.find(s.loadBalancers(), id)
	if err != nil {
		return answer{}, err
	}
	t := parent.tree
	if err := cmp.Or(
		s.admitMore(t.ProjectID, QuotaListener, "Listener", 1),
		admitDefaultPool(t, l),
		t.mutable(),
		s.admitListenerOf(t, l, t.listeners),
	); err != nil {
		return answer{}, err
	}
	s.add(t, &l.OctaviaResource)
	t.listeners = append(t.listeners, l)
	s.startWork(t, StatusPendingUpdate)
	return api.Created(object{"listener": s.showListener(t, l)}), nil
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
func (s *Service) admitListenerOf(t *tree, l *Listener, others []*Listener) error {
	return cmp.Or(
		admitHeaders(l),
		admitListener(l, "%s protocol listener does not support TLS."),
		s.admitCertificates(l),
		admitPort(l, others),
		s.admitCIDRs(t, l.AllowedCIDRs),
		driverOf(t.Provider).admitListener(l),
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
		return refuse(http.StatusBadRequest, "Could not retrieve certificate: %s", pythonList(bad))
	}
	return nil
}

func updateListener(r *request) (answer, error) {
	s, t, l := r.octavia, r.tree, r.listener
	changed := *l
	if err := s.types.listener.Read(&changed, r.given, false,
		wsme("listener_.listener")); err != nil {
		return answer{}, err
	}
	var err error
	if changed.DefaultPoolID != l.DefaultPoolID {
		err = admitDefaultPool(t, &changed)
	}
	if err := cmp.Or(
		admitListener(&changed, "%s protocol listener does not support TLS or header insertion."),
		admitHeaders(&changed),
		s.admitCIDRs(t, changed.AllowedCIDRs),
		err,
		s.admitCertificates(&changed),
		t.mutable(),
		driverOf(t.Provider).admitListener(&changed),
	); err != nil {
		return answer{}, err
	}
	*l = changed
	s.work(t, nil, &l.OctaviaResource, StatusPendingUpdate)
	return api.OK(object{"listener": s.showListener(t, l)}), nil
}
