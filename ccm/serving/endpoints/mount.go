package endpoints

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"

	"go.uber.org/fx"

	"github.com/fxccm/fxccm/ccm"
	"github.com/fxccm/fxccm/internal/rescue"
)

// Mount puts the endpoints of the Managers of an fx app on the app's *http.ServeMux. With the
// prefix "/ccm" the Manager without a name has /ccm/healthz, and the Manager "east" has
// /ccm/east/healthz. The prefix may be empty. An invalid prefix, or one in use, is an error of
// fx.New.
func Mount(prefix string, opts ...Option) fx.Option {
	return fx.Invoke(func(mux *http.ServeMux, managers ccm.Managers) error {
		for _, name := range slices.Sorted(maps.Keys(managers)) {
			at := prefix
			if name != "" {
				at += "/" + name
			}
			if err := mount(mux, managers[name], at, opts); err != nil {
				return err
			}
		}
		return nil
	})
}

func mount(mux *http.ServeMux, m *ccm.Manager, prefix string, opts []Option) error {
	valid := strings.HasPrefix(prefix, "/") && !strings.HasSuffix(prefix, "/") &&
		!strings.ContainsAny(prefix, "{} ")
	if prefix != "" && !valid {
		return fmt.Errorf(
			"mount the endpoints of the cloud controller manager: %q is not a prefix such as /ccm",
			prefix)
	}
	// A mux panics if a pattern is registered twice.
	return rescue.Call(func() error {
		mux.Handle(prefix+"/", http.StripPrefix(prefix, NewHandler(m, opts...)))
		return nil
	}, func(value any) error {
		return fmt.Errorf("mount the endpoints of the cloud controller manager at %q: %v", prefix,
			value)
	})
}
