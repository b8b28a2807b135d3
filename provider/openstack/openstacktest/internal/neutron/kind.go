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

// caller is who asks Neutron.
type caller struct {
	project string
	admin   bool
	// neutron is Neutron itself, for which some rules are not.
	neutron bool
	// only is the condition of the request: extension revision-if-match.
	only condition
}

// condition holds a write of one resource to a revision of it; the zero value holds none.
type condition struct {
	id       string
	revision int
}

// neutronItself is the caller of what Neutron does by itself, and of the methods of [Cloud].
func neutronItself() caller { return caller{admin: true, neutron: true} }

// kind is a kind of Neutron's resources: its attributes, its rules and its objects.
type kind[T any] struct {
	network *Service
	// member and collection are the names in bodies, path that in addresses, operation that in
	// [Call]: by default the member's.
	member, collection, path, operation string
	// extension is the alias of the extension that serves it. Empty: the core.
	extension string
	// missing is the error for an unknown id.
	missing func(id string) error
	fields  resource.Fields[T]
	// policies tell whether the caller may give an attribute, by the default policy. Without one,
	// each caller that may write the resource may.
	policies map[string]func(caller, *T) bool
	columns  [4]int

	// visible tells whether a caller sees one of another project. Nil: no.
	visible func(caller, *T) bool
	// expect makes what the API makes when it is first asked for.
	expect func(caller)
	// kept: no request deletes one.
	kept bool
	// prepare gives a new one the defaults that follow from its required attributes.
	prepare func(*T)
	// admit completes and checks one before it is created (old is nil) or changed. It must not
	// change anything else.
	admit func(c caller, old, row *T) error
	// settled follows a change (old is nil for a creation): what other resources have to do with
	// it.
	settled func(c caller, old, row *T)
	// held checks whether one may be deleted; dismiss deletes what goes with it.
	held    func(c caller, row *T) error
	dismiss func(row *T)
	// index keeps lookups up to date. One of the two is nil at creation and deletion.
	index func(old, row *T)

	rows map[string]*T
	// order is all ids, sorted: the API's order, since Neutron ends each sort with the primary key.
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

// all are the resources in the order of their ids.
func (k *kind[T]) all() []*T {
	rows := make([]*T, 0, len(k.order))
	for _, id := range k.order {
		rows = append(rows, k.rows[id])
	}
	return rows
}

func (k *kind[T]) find(id string) (*T, error) {
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

// findFor finds what the caller sees: of all else, the API says that it does not exist.
func (k *kind[T]) findFor(c caller, id string) (*T, error) {
	row, err := k.find(id)
	if err != nil {
		return nil, err
	}
	if !k.sees(c, row) {
		return nil, k.missing(id)
	}
	return row, nil
}

// enabled are the attributes that the cloud's extensions give.
func (k *kind[T]) enabled() resource.Fields[T] {
	return k.fields.On(func(f resource.Field[T]) bool { return k.network.has(f.Feature) })
}

// visibleTo are the attributes that the caller is shown, or those of them that it asks for.
func (k *kind[T]) visibleTo(c caller, names []string) resource.Fields[T] {
	return k.fields.On(func(f resource.Field[T]) bool {
		return k.network.has(f.Feature) && (c.admin || !f.AdminOnly) &&
			(len(names) == 0 || slices.Contains(names, f.Name))
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

// change applies a change to a resource: all of it or, if it is refused, nothing. Its revision
// grows if it differs afterwards.
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

// touch counts a change.
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

// operations are those that each kind has.
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

// action is an operation on one resource that is not one of the five.
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

// serve is an operation of this kind: without the kind's extension there is nothing at the address.
func (k *kind[T]) serve(verb, pattern string, handle func(*request) (answer, error)) operation {
	return operation{
		Service: api.ServiceNetwork, Name: k.operation + "_" + verb, Pattern: pattern,
		Handle: neutronHandler(func(r *request) (answer, error) {
			if !k.network.has(k.extension) {
				return answer{}, noSuchPath()
			}
			if k.expect != nil {
				k.expect(callerOf(r))
			}
			return handle(r)
		}),
	}
}

func (k *kind[T]) list(r *request) (answer, error) {
	c := callerOf(r)
	rows := slices.DeleteFunc(k.all(), func(row *T) bool { return !k.sees(c, row) })
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

// create creates one.
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

// findToWrite finds the resource of a request that changes it. The caller holds the request's
// condition then.
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

// conditionOf is the revision that a request names. Without the extension, Neutron ignores the
// header.
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

// checkCondition is called when all else has been found right: Neutron looks at the revision when
// it writes to its database.
func (k *kind[T]) checkCondition(c caller, row *T) error {
	current := k.standard(row).RevisionNumber
	if c.only.id != k.id(row) || c.only.revision == current {
		return nil
	}
	failed := neutronBadRequest("RevisionNumberConstraintFailed",
		"Constrained to %d, but current revision is %d", c.only.revision, current)
	failed.(*neutronError).status = http.StatusPreconditionFailed
	return failed
}

// body is the attributes that a request gives.
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

// fill takes the attributes that a request gives. The verb is create or update.
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

// fillRequired takes the required attributes, as far as they can be.
func (k *kind[T]) fillRequired(row *T, given map[string]json.RawMessage) {
	for _, f := range k.enabled() {
		if raw, found := given[f.Name]; found && f.Required {
			_ = f.Set(row, raw)
		}
	}
}

// projectOf is the project that a request names for what it creates: only administrators name
// another than their own.
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
