package fxhook

import (
	"fmt"
	"reflect"
	"sync"

	"go.uber.org/fx"
)

// stopped is fx's word for an app that has not started, or that no call of Start or Stop is going
// to roll back or stop any more.
const stopped = "stopped"

// state returns fx's word for the state of the app, such as "started". Fx has no function for it:
// apart from its event logger, which belongs to the app, only a field of the lifecycle tells that a
// start has failed. state reads this field under its lock. It returns "" for a lifecycle that it
// does not know: one that the app has decorated, or that of another version of fx.
func state(lifecycle fx.Lifecycle) string {
	app := fieldOf(reflect.ValueOf(lifecycle), "Lifecycle")
	lock, value := fieldOf(app, "mu"), fieldOf(app, "state")
	if !lock.IsValid() || lock.Type() != reflect.TypeFor[sync.Mutex]() ||
		!value.IsValid() || !value.CanInt() {
		return ""
	}
	mu := (*sync.Mutex)(lock.Addr().UnsafePointer())
	mu.Lock()
	number := value.Int()
	mu.Unlock()
	named := reflect.New(value.Type()).Elem()
	named.SetInt(number)
	word, ok := named.Interface().(fmt.Stringer)
	if !ok {
		return ""
	}
	return word.String()
}

// fieldOf returns a field of the struct that a pointer points to, or the zero Value.
func fieldOf(pointer reflect.Value, name string) reflect.Value {
	if pointer.Kind() != reflect.Pointer || pointer.Elem().Kind() != reflect.Struct {
		return reflect.Value{}
	}
	return pointer.Elem().FieldByName(name)
}
