package neutron

import (
	"cmp"
	"encoding/json"
	"net/http"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/fxccm/fxccm/provider/openstack/openstacktest/internal/api"
	"github.com/fxccm/fxccm/provider/openstack/openstacktest/internal/resource"
)

// caller is the client of a request to Neutron.
type caller struct {
	project string
	admin   bool
	// neutron is true for Neutron itself, which some rules exempt.
	neutron bool
	// only is the condition of the request: extension revision-if-match.
	only condition
}

// condition allows a write only for one revision of one resource; the zero value always allows it.
type condition struct {
	id       string
	revision int
}

// neutronItself is the caller for Neutron's own actions, and for the methods of [Cloud].
func neutronItself() caller { return caller{admin: true, neutron: true} }

// kind is a kind of Neutron's resources: its attributes, its rules and its objects.
type kind[T any] struct {
	network *Service
	// member and collection are names in bodies, path is the name in addresses, and operation that
	// in [Call]. They default to member.
	member, collection, path, operation string
	// extension is the alias of the extension that serves it. Empty: the core.
	extension string
	// missing is the error for an unknown id.
	missing func(id string) error
	fields  resource.Fields[T]
	// policies report whether the caller may set an attribute, by the default policy. Without a
	// policy, each caller that may write the resource may set it.
	policies map[string]func(caller, *T) bool
	columns  [4]int

	// visible reports whether a caller sees a resource of another project. Nil: no.
	visible func(caller, *T) bool
	// expect creates resources that the API creates at the first request.
	expect func(caller)
	// kept is true if no request deletes a resource of this kind.
	kept bool
	// prepare sets defaults that follow from the required attributes of a new resource.
	prepare func(*T)
	// admit completes and checks a resource before it is created (old is nil) or changed. It must
	// not change other resources.
	admit func(c caller, old, row *T) error
	// settled updates other resources after a change (old is nil for a creation).
	settled func(c caller, old, row *T)
	// held checks whether a resource may be deleted; dismiss deletes dependent resources.
	held    func(c caller, row *T) error
	dismiss func(row *T)
	// index keeps lookups up to date. One of the two is nil at creation and deletion.
	index func(old, row *T)

	rows map[string]*T
	// order is all IDs, sorted: Neutron ends each sort with the primary key.
	order []string
}

// newKind completes a kind with its fields: those of T, and others.
func newKind[T any](n *Service, k kind[T], others ...resource.Field[T]) *kind[T] {
	k.network, k.rows, k.columns = n, map[string]*T{}, columnsOf[T]()
	k.collection, k.operation = k.member+"s", cmp.Or(k.operation, k.member)
	k.path = strings.ReplaceAll(k.collection, "_", "-")
	k.fields = resource.Of(others...)
	return &k
}

func (k *kind[T]) id(row *T) string      { return *k.standard(row).id }
func (k *kind[T]) project(row *T) string { return *k.standard(row).project }

// All, Find and FindVisible are also for the other services. Their callers hold the lock.

// All returns the resources of all projects, sorted by ID.
func (k *kind[T]) All() []*T {
	rows := make([]*T, 0, len(k.order))
	for _, id := range k.order {
		rows = append(rows, k.rows[id])
	}
	return rows
}

// Find finds a resource of any project.
func (k *kind[T]) Find(id string) (*T, error) {
	row, exists := k.rows[id]
	if !exists {
		return nil, k.missing(id)
	}
	return row, nil
}

func (k *kind[T]) owns(c caller, row *T) bool { return c.admin || k.project(row) == c.project }

func (k *kind[T]) sees(c caller, row *T) bool {
	return k.owns(c, row) || (k.visible != nil && k.visible(c, row))
}

// FindVisible finds a resource that the caller sees.
func (k *kind[T]) FindVisible(c api.Caller, id string) (*T, error) {
	return k.findFor(callerFrom(c), id)
}

// findFor finds a resource that the caller sees. For others, the API answers that they do not
// exist.
func (k *kind[T]) findFor(c caller, id string) (*T, error) {
	row, err := k.Find(id)
	if err != nil {
		return nil, err
	}
	if !k.sees(c, row) {
		return nil, k.missing(id)
	}
	return row, nil
}

// enabled are the attributes of the enabled extensions.
func (k *kind[T]) enabled() resource.Fields[T] {
	return k.fields.On(func(f resource.Field[T]) bool { return k.network.has(f.Feature) })
}

// visibleTo are the attributes that the caller may see, or those of them that the request selects.
func (k *kind[T]) visibleTo(c caller, names []string) resource.Fields[T] {
	return k.enabled().Named(names).On(func(f resource.Field[T]) bool {
		return c.admin || !f.AdminOnly
	})
}

func (k *kind[T]) render(c caller, row *T, fields []string) object {
	return k.visibleTo(c, fields).Show(row)
}

// insert creates a resource from row, which it keeps.
func (k *kind[T]) insert(c caller, row *T) error {
	s := k.standard(row)
	if *s.project == "" && !c.admin {
		*s.project = c.project
	}
	if err := k.checkQuota(c, *s.project); err != nil {
		return err
	}
	if *s.id == "" {
		*s.id = k.network.NewID()
	}
	if _, exists := k.rows[*s.id]; exists {
		return neutronConflict("Conflict", "%s %s already exists.", k.member, *s.id)
	}
	now := k.network.Clock.Now()
	s.CreatedAt, s.UpdatedAt, s.RevisionNumber = now, now, 1
	if k.admit != nil {
		if err := k.admit(c, nil, row); err != nil {
			return err
		}
	}
	k.rows[*s.id] = row
	at, _ := slices.BinarySearch(k.order, *s.id)
	k.order = slices.Insert(k.order, at, *s.id)
	k.reindex(nil, row)
	if k.settled != nil {
		k.settled(c, nil, row)
	}
	return nil
}

// change applies a change to a resource, completely or, if it is refused, not at all. The revision
// grows if the resource differs afterwards.
func (k *kind[T]) change(c caller, row *T, apply func(*T) error) error {
	old, changed := *row, *row
	if err := apply(&changed); err != nil {
		return err
	}
	if k.admit != nil {
		if err := k.admit(c, &old, &changed); err != nil {
			return err
		}
	}
	if err := k.checkCondition(c, row); err != nil {
		return err
	}
	if reflect.DeepEqual(old, changed) {
		return nil
	}
	*row = changed
	k.touch(row)
	k.reindex(&old, row)
	if k.settled != nil {
		k.settled(c, &old, row)
	}
	return nil
}

// touch increases the revision.
func (k *kind[T]) touch(row *T) {
	s := k.standard(row)
	s.RevisionNumber++
	s.UpdatedAt = k.network.Clock.Now()
}

func (k *kind[T]) remove(c caller, row *T) error {
	if k.held != nil {
		if err := k.held(c, row); err != nil {
			return err
		}
	}
	if err := k.checkCondition(c, row); err != nil {
		return err
	}
	if k.dismiss != nil {
		k.dismiss(row)
	}
	k.forget(row)
	return nil
}

func (k *kind[T]) forget(row *T) {
	id := k.id(row)
	delete(k.rows, id)
	if at, found := slices.BinarySearch(k.order, id); found {
		k.order = slices.Delete(k.order, at, at+1)
	}
	k.reindex(row, nil)
}

func (k *kind[T]) reindex(old, row *T) {
	if k.index != nil {
		k.index(old, row)
	}
}

func (k *kind[T]) checkQuota(c caller, project string) error {
	limit, limited := k.network.quotas[k.member]
	if !limited || c.neutron {
		return nil
	}
	return overQuota(k.member, k.count(project)+1, limit)
}

func (k *kind[T]) count(project string) int {
	count := 0
	for _, row := range k.rows {
		if k.project(row) == project {
			count++
		}
	}
	return count
}

func overQuota(resource string, wanted, limit int) error {
	if wanted <= limit {
		return nil
	}
	return neutronConflict("OverQuota", "Quota exceeded for resources: ['%s'].", resource)
}

// operations are the operations of each kind.
func (k *kind[T]) operations() []operation {
	collection := networkPath + "/v2.0/" + k.path
	operations := []operation{
		k.serve("list", "GET "+collection, k.list),
		k.serve("create", "POST "+collection, k.create),
		k.serve("get", "GET "+collection+"/{id}", k.get),
		k.serve("update", "PUT "+collection+"/{id}", k.update),
	}
	if !k.kept {
		operations = append(operations,
			k.serve("delete", "DELETE "+collection+"/{id}", k.delete))
	}
	return operations
}

// action is an operation on one resource beside the usual five.
func (k *kind[T]) action(
	verb, name string, handle func(r *request, c caller, row *T) (answer, error),
) operation {
	pattern := "PUT " + networkPath + "/v2.0/" + k.path + "/{id}/" + name
	return k.serve(verb, pattern, func(r *request) (answer, error) {
		c, row, err := k.findToWrite(r)
		if err != nil {
			return answer{}, err
		}
		return handle(r, c, row)
	})
}

// serve adds an operation of this kind. Without the kind's extension, the path does not exist.
func (k *kind[T]) serve(verb, pattern string, handle func(*request) (answer, error)) operation {
	return operation{
		Service: api.ServiceNetwork, Name: k.operation + "_" + verb, Pattern: pattern,
		Handle: func(r *request) (answer, error) {
			if !k.network.has(k.extension) {
				return answer{}, noSuchPath()
			}
			if k.expect != nil {
				k.expect(callerOf(r))
			}
			return handle(r)
		},
	}
}

func (k *kind[T]) list(r *request) (answer, error) {
	c := callerOf(r)
	rows := slices.DeleteFunc(k.All(), func(row *T) bool { return !k.sees(c, row) })
	selected, links, err := k.choose(r, rows)
	if err != nil {
		return answer{}, err
	}
	shown := make([]object, 0, len(selected))
	fields := k.visibleTo(c, r.Query["fields"])
	for _, row := range selected {
		shown = append(shown, fields.Show(row))
	}
	body := object{k.collection: shown}
	if len(links) > 0 {
		body[k.collection+"_links"] = links
	}
	return api.OK(body), nil
}

func (k *kind[T]) get(r *request) (answer, error) {
	c := callerOf(r)
	row, err := k.findFor(c, r.PathValue("id"))
	if err != nil {
		return answer{}, err
	}
	return api.OK(object{k.member: k.render(c, row, r.Query["fields"])}), nil
}

// create creates a resource.
func (k *kind[T]) create(r *request) (answer, error) {
	c := callerOf(r)
	given, err := k.body(r)
	if err != nil {
		return answer{}, err
	}
	row := new(T)
	project, err := projectOf(c, given)
	if err != nil {
		return answer{}, err
	}
	*k.standard(row).project = project
	if k.prepare != nil {
		k.fillRequired(row, given)
		k.prepare(row)
	}
	if err := k.fill(c, row, given, "create"); err != nil {
		return answer{}, err
	}
	if err := k.insert(c, row); err != nil {
		return answer{}, err
	}
	return api.Created(object{k.member: k.render(c, row, nil)}), nil
}

func (k *kind[T]) update(r *request) (answer, error) {
	c, row, err := k.findToWrite(r)
	if err != nil {
		return answer{}, err
	}
	given, err := k.body(r)
	if err != nil {
		return answer{}, err
	}
	err = k.change(c, row,
		func(changed *T) error { return k.fill(c, changed, given, "update") })
	if err != nil {
		return answer{}, err
	}
	return api.OK(object{k.member: k.render(c, row, nil)}), nil
}

func (k *kind[T]) delete(r *request) (answer, error) {
	c, row, err := k.findToWrite(r)
	if err != nil {
		return answer{}, err
	}
	if err := k.remove(c, row); err != nil {
		return answer{}, err
	}
	return api.NoContent(), nil
}

// findToWrite finds the resource that a request changes. The returned caller has the request's
// condition.
func (k *kind[T]) findToWrite(r *request) (caller, *T, error) {
	c := callerOf(r)
	row, err := k.findFor(c, r.PathValue("id"))
	if err != nil {
		return c, nil, err
	}
	if !k.owns(c, row) {
		verb := "update"
		if r.Method == http.MethodDelete {
			verb = "delete"
		}
		return c, nil, neutronForbidden("rule:" + verb + "_" + k.member)
	}
	c.only, err = k.conditionOf(r)
	return c, row, err
}

// conditionOf is the revision in the header of a request. Without the extension, Neutron ignores
// the header.
func (k *kind[T]) conditionOf(r *request) (condition, error) {
	header := r.Header.Get("If-Match")
	text, named := strings.CutPrefix(header, "revision_number=")
	if !named || !k.network.has("revision-if-match") {
		return condition{}, nil
	}
	wanted, err := strconv.Atoi(text)
	if err != nil {
		return condition{},
			neutronBadRequest("BadRequest",
				"Bad if-match request: Revision number etag must be in the format of revision_number=<int>.")
	}
	return condition{r.PathValue("id"), wanted}, nil
}

// checkCondition is called after all other checks, because Neutron compares the revision when it
// writes to its database.
func (k *kind[T]) checkCondition(c caller, row *T) error {
	current := k.standard(row).RevisionNumber
	if c.only.id != k.id(row) || c.only.revision == current {
		return nil
	}
	return refuse(http.StatusPreconditionFailed, "RevisionNumberConstraintFailed",
		"Constrained to %d, but current revision is %d", c.only.revision, current)
}

// body is the attributes in the body of a request.
func (k *kind[T]) body(r *request) (map[string]json.RawMessage, error) {
	var body map[string]map[string]json.RawMessage
	if err := r.Decode(&body); err != nil {
		return nil, err
	}
	if body[k.member] == nil {
		return nil, neutronBadRequest("HTTPBadRequest", "Unable to find '%s' in request body",
			k.member)
	}
	return body[k.member], nil
}

// fill sets the attributes of a request. The verb is create or update.
func (k *kind[T]) fill(c caller, row *T, given map[string]json.RawMessage, verb string) error {
	handled := []string{"project_id", "tenant_id"}
	if verb == "update" {
		handled = nil
	}
	if err := k.enabled().Read(row, given, verb == "create", words{}, handled...); err != nil {
		return err
	}
	for _, name := range api.SortedKeys(given) {
		if allowed := k.policies[name]; allowed != nil && !allowed(c, row) {
			rule := verb + "_" + k.member
			return neutronForbidden("(rule:" + rule + " and rule:" + rule + ":" + name + ")")
		}
	}
	return nil
}

// fillRequired sets the required attributes, and ignores their errors.
func (k *kind[T]) fillRequired(row *T, given map[string]json.RawMessage) {
	for _, f := range k.enabled() {
		if raw, found := given[f.Name]; found && f.Required {
			_ = f.Set(row, raw)
		}
	}
}

// projectOf is the project of a new resource: only administrators may name another than their own.
func projectOf(c caller, given map[string]json.RawMessage) (string, error) {
	for _, name := range []string{"project_id", "tenant_id"} {
		var project string
		raw, found := given[name]
		if !found || json.Unmarshal(raw, &project) != nil || project == "" || project == c.project {
			continue
		}
		if !c.admin {
			return "", neutronBadRequest("HTTPBadRequest",
				"Specifying 'project_id' or 'tenant_id' other than the authenticated project in request requires admin or advsvc privileges")
		}
		return project, nil
	}
	return c.project, nil
}
