package ccmtest

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/yaml"
)

// kind reads objects of one kind from the API server.
type kind[T any] struct {
	name string
	list func(ctx context.Context, opts metav1.ListOptions) (items []T, resourceVersion string,
		err error)
	watch func(ctx context.Context, opts metav1.ListOptions) (watch.Interface, error)
}

// errAbsent is what is seen of an object that does not exist.
var errAbsent = errors.New("it does not exist")

// waitFor watches one object until cond returns nil for it; cond gets nil when there is no such
// object. what completes the sentence "timed out waiting until …".
func waitFor[T any](t testing.TB, k kind[T], name, what string, cond func(*T) error) *T {
	t.Helper()
	ctx, cancel := limited(t)
	defer cancel()
	seen := &sight[T]{cond: cond}
	for ctx.Err() == nil {
		holds, err := k.follow(ctx, name, seen)
		if holds {
			return seen.object
		}
		if err != nil && ctx.Err() == nil {
			seen.trouble = err
		}
		// The API server may be down, or has ended the watch.
		select {
		case <-time.After(pollInterval):
		case <-ctx.Done():
		}
	}
	t.Fatalf("timed out waiting until %s; last seen: %s", what, seen)
	return nil
}

// follow lists and watches the object until the condition holds, the watch ends, or ctx does.
func (k kind[T]) follow(ctx context.Context, name string, seen *sight[T]) (holds bool, err error) {
	opts := metav1.ListOptions{FieldSelector: fields.OneTermEqualSelector("metadata.name",
		name).String()}
	items, version, err := k.list(ctx, opts)
	if err != nil {
		return false, fmt.Errorf("read %s %s: %w", k.name, name, err)
	}
	var object *T
	if len(items) > 0 {
		object = &items[0]
	}
	if seen.look(object) {
		return true, nil
	}
	opts.ResourceVersion = version
	events, err := k.watch(ctx, opts)
	if err != nil {
		return false, fmt.Errorf("watch %s %s: %w", k.name, name, err)
	}
	defer events.Stop()
	for {
		select {
		case event, ok := <-events.ResultChan():
			if !ok {
				return false, nil
			}
			switch event.Type {
			case watch.Added, watch.Modified:
				object, _ = any(event.Object).(*T)
			case watch.Deleted:
				object = nil
			default:
				return false, nil
			}
			if seen.look(object) {
				return true, nil
			}
		case <-ctx.Done():
			return false, ctx.Err()
		}
	}
}

// sight is what was last seen of an object, and what it lacks.
type sight[T any] struct {
	cond func(*T) error

	object *T
	lacks  error
	// trouble is why it cannot be seen at the moment.
	trouble error
}

// look tells whether the condition holds.
func (s *sight[T]) look(object *T) bool {
	s.object, s.trouble = object, nil
	s.lacks = s.cond(object)
	return s.lacks == nil
}

func (s *sight[T]) String() string {
	text := "nothing"
	if s.lacks != nil {
		text = s.lacks.Error()
	}
	if s.object != nil {
		text += "\n" + describe(s.object)
	}
	if s.trouble != nil {
		text += "\nand then: " + s.trouble.Error()
	}
	return text
}

// describe writes an object without what no reader wants.
func describe(object any) string {
	if accessor, ok := object.(metav1.Object); ok {
		accessor.SetManagedFields(nil)
	}
	text, err := yaml.Marshal(object)
	if err != nil {
		return err.Error()
	}
	return string(text)
}
