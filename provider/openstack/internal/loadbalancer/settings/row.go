package settings

import (
	"cmp"
	"slices"

	v1 "k8s.io/api/core/v1"

	"github.com/fxccm/fxccm/provider/openstack/cloudconf"
)

// A row of the table is about one annotation, or one field of a Service's spec.
type row interface {
	about() entry
	read(*reader)
}

// entry is what the reference page tells.
type entry struct {
	name    string
	meaning string
	// empty is what an empty value means. "": the same as no annotation.
	empty string
	// option of [LoadBalancer] that is the default, or ""; of a class too if ofClass.
	option  string
	ofClass bool
	later   later
	// own: OCCM does not know it.
	own bool

	// These are the kind's.
	typ, limits string
	fatal       bool
	// preset shows the default where cloud.conf says nothing.
	preset string
}

// later tells whether a change takes effect while the Service has a load balancer.
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

// A setting is an annotation whose value is a T.
type setting[T any] struct {
	entry
	kind kind[T]
	at   func(*Settings) *T
	// The default is what cloud.conf says, with the class, or else otherwise.
	conf      func(cloudconf.LoadBalancer) T
	otherwise T
}

// A kind is what values of an annotation can be.
type kind[T any] struct {
	typ, limits string
	// fatal: to take the default for a value that is wrong would be unsafe or make no sense.
	fatal bool
	// parse returns why the value cannot be used, a clause as in [Problem]; "" if it can.
	parse func(written string, of *v1.Service) (value T, why string)
	show  func(T) string
	// normal, if not nil, is for values that were not parsed.
	normal func(T) T
}

func (s setting[T]) about() entry {
	e := s.entry
	e.typ, e.limits, e.fatal = s.kind.typ, s.kind.limits, s.kind.fatal
	e.preset = s.kind.show(s.preset(cloudconf.Default().LoadBalancer))
	return e
}

func (s setting[T]) read(r *reader) {
	value := s.preset(r.conf)
	if written, ok := r.written(s.name); ok && (written != "" || s.empty != "") {
		parsed, why := s.kind.parse(written, r.service)
		if why == "" {
			value = parsed
		} else {
			r.problem(s.name, written, why, s.kind.fatal)
			r.problems[len(r.problems)-1].AtCreation = s.later == newBalancer
		}
	}
	*s.at(&r.settings) = value
}

func (s setting[T]) preset(conf cloudconf.LoadBalancer) T {
	value := s.otherwise
	if s.conf != nil {
		value = s.conf(conf)
	}
	if s.kind.normal != nil {
		value = s.kind.normal(value)
	}
	return value
}

// A special is a row that is read in a way of its own.
type special struct {
	entry
	take func(*reader)
}

func (s special) about() entry { return s.entry }

func (s special) read(r *reader) {
	if s.take != nil {
		s.take(r)
	}
}

// reader reads one Service.
type reader struct {
	service *v1.Service
	// conf is cloud.conf's, with the options of the class that the Service names.
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

// inOrder sorts the problems as the table is.
func (r *reader) inOrder() []Problem {
	position := map[string]int{}
	for i, row := range table() {
		position[row.about().name] = i
	}
	slices.SortStableFunc(r.problems, func(a, b Problem) int {
		return cmp.Compare(position[a.Annotation], position[b.Annotation])
	})
	return r.problems
}
