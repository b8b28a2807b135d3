package endpoints

import (
	"fmt"
	"net/http"
	"strings"

	"go.uber.org/fx"

	"github.com/fxccm/fxccm/ccm"
	"github.com/fxccm/fxccm/internal/rescue"
)

// Mount puts the endpoints of a Manager of an fx app on the app's *http.ServeMux, below prefix:
// "/ccm" results in /ccm/healthz, "" in /healthz. ccm.Named("") is the Manager of [ccm.Module]. An
// invalid prefix, or one in use, is an error of fx.New.
func Mount(of ccm.NamedModule, prefix string, opts ...Option) fx.Option {
	return fx.Invoke(fx.Annotate(
		func(mux *http.ServeMux, m *ccm.Manager) error { return mount(mux, m, prefix, opts) },
		fx.ParamTags("", of.Tag())))
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
