package octavia

import (
	"encoding/json"
	"net/http"

	"github.com/fxccm/fxccm/provider/openstack/openstacktest/internal/api"
)

func listListeners(r *request) (answer, error) {
	view, items := viewOf(r), []listItem{}
	for _, t := range visibleTrees(r) {
		for _, l := range t.listeners {
			items = append(items,
				listItem{
					view.listener(t, l),
					map[string]string{"loadbalancer_id": t.ID, "load_balancer_id": t.ID},
				})
		}
	}
	return list(r, "listeners", filterable(listenerFields(), view.minor), items,
		"loadbalancer_id", "load_balancer_id")
}

func getListener(r *request) (answer, error) {
	t, l, err := findListener(r, r.PathValue("id"))
	if err != nil {
		return answer{}, err
	}
	return api.OK(object{"listener": selectFields(viewOf(r).listener(t, l), r.Query["fields"])}),
		nil
}

// parentID is the id of what a new resource is below, or another text; "" for none.
func parentID(given map[string]json.RawMessage, name string) (id string) {
	_ = json.Unmarshal(given[name], &id)
	return id
}

// mandatoryParent is the id of what a new resource must be below. Null passes WSME, and leads
// nowhere.
func mandatoryParent(given map[string]json.RawMessage, name string) (id string, err error) {
	raw, present := given[name]
	if !present {
		return "", badInput(name, "None", "Mandatory field missing.")
	}
	if isJSONNull(raw) {
		return "None", nil
	}
	id = parentID(given, name)
	if why := isUUID(id); why != "" {
		return "", badInput(name, wsmeValue(raw), why)
	}
	return withHyphens(id), nil
}

func createListener(r *request) (answer, error) {
	given, err := bodyOf(r, "listener")
	if err != nil {
		return answer{}, err
	}
	s, view, l := r.octavia, viewOf(r), newListener()
	handled := []string{"loadbalancer_id", "project_id", "tenant_id", "default_pool", "l7policies"}
	if err := listenerFields().read(l, given, true, view.minor, "listener_.listener",
		handled...); err != nil {
		return answer{}, err
	}
	id, err := mandatoryParent(given, "loadbalancer_id")
	if err != nil {
		return answer{}, err
	}
	t, err := findTree(r, id)
	if err != nil {
		return answer{}, err
	}
	if err := s.admitMore(t.ProjectID, QuotaListener, "Listener", 1); err != nil {
		return answer{}, err
	}
	if err := admitDefaultPool(t, l); err != nil {
		return answer{}, err
	}
	if err := t.mutable(); err != nil {
		return answer{}, err
	}
	if err := s.admitListenerOf(t, l, t.listeners); err != nil {
		return answer{}, err
	}
	s.add(t, &l.OctaviaResource)
	t.listeners = append(t.listeners, l)
	s.startWork(t, StatusPendingUpdate)
	return api.Created(object{"listener": view.listener(t, l)}), nil
}

// add makes a resource below a load balancer.
func (s *Service) add(t *tree, resource *OctaviaResource) {
	resource.ID = s.NewID()
	s.born(t, resource)
	t.set(resource, StatusPendingCreate, s.Clock.Now())
}

// admitDefaultPool: the pool is of the same load balancer, and its protocol fits.
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

// admitListenerOf checks a listener that is made beside others.
func (s *Service) admitListenerOf(t *tree, l *Listener, others []*Listener) error {
	fillListener(l)
	// dict_keys() is how Python shows the names of the headers here.
	if err := admitHeaders(l, "dict_keys(%s)"); err != nil {
		return err
	}
	if err := admitListener(l, "%s protocol listener does not support TLS."); err != nil {
		return err
	}
	if err := s.admitCertificates(l); err != nil {
		return err
	}
	if err := admitPort(l, others); err != nil {
		return err
	}
	if err := s.admitCIDRs(t, l.AllowedCIDRs); err != nil {
		return err
	}
	return s.options.provider(t.Provider).admitListener(l)
}

// admitCertificates looks for all certificates in Barbican (BaseController._validate_tls_refs).
func (s *Service) admitCertificates(l *Listener) error {
	refs := append([]string{}, l.SNIContainerRefs...)
	if l.DefaultTLSContainerRef != "" {
		refs = append(refs, l.DefaultTLSContainerRef)
	}
	var bad []string
	for _, ref := range refs {
		if !s.holds(ref) {
			bad = append(bad, ref)
		}
	}
	if len(bad) > 0 {
		return refuse(http.StatusBadRequest, "Could not retrieve certificate: %s",
			pythonList(bad))
	}
	return nil
}

func updateListener(r *request) (answer, error) {
	given, err := bodyOf(r, "listener")
	if err != nil {
		return answer{}, err
	}
	t, l, err := findListener(r, r.PathValue("id"))
	if err != nil {
		return answer{}, err
	}
	s, view, changed := r.octavia, viewOf(r), *l
	if err := listenerFields().read(&changed, given, false, view.minor,
		"listener_.listener"); err != nil {
		return answer{}, err
	}
	if err := s.admitChangedListener(t, l, &changed); err != nil {
		return answer{}, err
	}
	if err := s.admitCertificates(&changed); err != nil {
		return answer{}, err
	}
	if err := t.mutable(); err != nil {
		return answer{}, err
	}
	if err := s.options.provider(t.Provider).admitListener(&changed); err != nil {
		return answer{}, err
	}
	*l = changed
	t.set(&l.OctaviaResource, StatusPendingUpdate, s.Clock.Now())
	s.startWork(t, StatusPendingUpdate)
	return api.OK(object{"listener": view.listener(t, l)}), nil
}

func (s *Service) admitChangedListener(t *tree, old, changed *Listener) error {
	if err := admitListener(changed,
		"%s protocol listener does not support TLS or header insertion."); err != nil {
		return err
	}
	if err := admitHeaders(changed, "%s"); err != nil {
		return err
	}
	if err := s.admitCIDRs(t, changed.AllowedCIDRs); err != nil {
		return err
	}
	if changed.DefaultPoolID == old.DefaultPoolID {
		return nil
	}
	return admitDefaultPool(t, changed)
}

// deleteListener leaves the pool, which may be another listener's too.
func deleteListener(r *request) (answer, error) {
	t, l, err := findListener(r, r.PathValue("id"))
	if err != nil {
		return answer{}, err
	}
	if err := t.mutable(); err != nil {
		return answer{}, err
	}
	t.set(&l.OctaviaResource, StatusPendingDelete, r.octavia.Clock.Now())
	r.octavia.startWork(t, StatusPendingUpdate)
	return api.NoContent(), nil
}
