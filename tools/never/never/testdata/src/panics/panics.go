package panics

import (
	"regexp"

	"k8s.io/client-go/kubernetes"
)

type T[P any] struct{ builder Builder }

type Builder interface{ ClientOrDie(string) any }

func (t *T[P]) Method() {
	panic("x") // want `panic: panic where an error should be returned`
}

func Function(c any) {
	kubernetes.NewForConfigOrDie(c) // want `panic: k8s.io/client-go/kubernetes.NewForConfigOrDie panics or exits`
	regexp.MustCompile("x")         // want `panic: regexp.MustCompile panics or exits`
}

// MustOwn is judged by what it does.
func MustOwn() {}

func Uses() { MustOwn() }

// ConfigOrDie implements an interface.
func (t *T[P]) ConfigOrDie() {}
