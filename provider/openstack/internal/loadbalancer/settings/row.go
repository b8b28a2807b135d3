package settings

import (
	"cmp"
	"slices"

	v1 "k8s.io/api/core/v1"

	"github.com/fxccm/fxccm/provider/openstack/cloudconf"
)

// A row of the table is about one annotation, or one field of a Service's spec. A plain [entry] is
// only documented; its value is read elsewhere.
type row interface {
	about() entry
	read(*reader)
}

// entry holds the texts of the reference page.
type entry struct {
	name    string
	meaning string
	// empty is the meaning of an empty value. "": the same as no annotation.
	empty string
	// option of [LoadBalancer] is the default, or ""; of a class, too, if ofClass.
	option  string
	ofClass bool
	later   later
	// own: OCCM does not have this annotation.
	own bool

	// The kind sets these fields.
	typ, limits string
	fatal       bool
	// preset shows the default.
	preset string
}

func (e entry) about() entry { return e }
func (e entry) read(*reader) {}

// later describes whether a change takes effect while the Service has a load balancer.
type later string

const (
	atOnce        later = "yes"
	listenersAnew later = "yes, listeners and pools are recreated"
	firstOrLast   later = "yes; from none to one or back, listeners and pools are recreated"
	poolsAnew     later = "yes, pools are recreated"
	membersAnew   later = "yes, members are recreated"
	newFloatingIP later = "with a new floating IP"
	newBalancer   later = "with a new load balancer"
	atDetaching   later = "yes, it counts when the floating IP is not wanted any more"
	never         later = "no"
	notRead       later = ""
)

// A setting is an annotation whose value is a T, bound to a field of Settings.
type setting[T any] struct {
	entry
	kind  kind[T]
	field *T
}

// annotation returns a setting whose default is the zero value.
func annotation[T any](
	name string, kind kind[T], field *T, later later, meaning string,
) setting[T] {
	e := entry{name: name, later: later, meaning: meaning}
	e.typ, e.limits, e.fatal = kind.typ, kind.limits, kind.fatal
	var none T
	return setting[T]{e, kind, field}.otherwise(none)
}

// otherwise sets the default.
func (s setting[T]) otherwise(value T) setting[T] {
	if s.kind.normal != nil {
		value = s.kind.normal(value)
	}
	*s.field, s.preset = value, s.kind.show(value)
	return s
}

// from sets the option of cloud.conf that is the default, and its value.
func (s setting[T]) from(option string, value T) setting[T] {
	s.option = option
	return s.otherwise(value)
}

func (s setting[T]) orClass() setting[T] {
	s.ofClass = true
	return s
}

func (s setting[T]) ifEmpty(meaning string) setting[T] {
	s.empty = meaning
	return s
}

func (s setting[T]) isOwn() setting[T] {
	s.own = true
	return s
}

// A kind defines the values that an annotation can have.
type kind[T any] struct {
	typ, limits string
	// fatal: the default instead of a wrong value would be unsafe or pointless.
	fatal bool
	// parse returns why the value cannot be used, as a clause as in [Problem]; "" if it can.
	parse func(written string, of *v1.Service) (value T, why string)
	show  func(T) string
	// normal, if not nil, normalizes values that were not parsed.
	normal func(T) T
}

func (s setting[T]) read(r *reader) {
	written, ok := r.written(s.name)
	if !ok || written == "" && s.empty == "" {
		return
	}
	value, why := s.kind.parse(written, r.service)
	if why == "" {
		*s.field = value
		return
	}
	r.problem(s.name, written, why, s.fatal)
	r.problems[len(r.problems)-1].AtCreation = s.later == newBalancer
}

// reader reads one Service.
type reader struct {
	service *v1.Service
	// conf is cloud.conf's section, with the options of the class that the Service names.
	conf    cloudconf.LoadBalancer
	classes map[string]cloudconf.LoadBalancerClass

	settings Settings
	problems []Problem
}

func (r *reader) written(annotation string) (string, bool) {
	value, ok := r.service.Annotations[annotation]
	return value, ok
}

func (r *reader) says(annotation string) string { return r.service.Annotations[annotation] }

func (r *reader) problem(name, value, why string, fatal bool) {
	r.problems = append(r.problems,
		Problem{Annotation: name, Value: shown(value), Why: why, Fatal: fatal})
}

// inOrder sorts the problems in the order of the table.
func (r *reader) inOrder(table []row) []Problem {
	position := map[string]int{}
	for i, row := range table {
		position[row.about().name] = i
	}
	slices.SortStableFunc(r.problems, func(a, b Problem) int {
		return cmp.Compare(position[a.Annotation], position[b.Annotation])
	})
	return r.problems
}
