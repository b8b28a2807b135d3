package endpoints_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/go-logr/logr"
	"go.uber.org/fx"
	"k8s.io/client-go/rest"

	"github.com/fxccm/fxccm/ccm"
	"github.com/fxccm/fxccm/ccm/serving/endpoints"
)

// A host with an HTTP server serves the CCM's endpoints below a prefix.
func ExampleNewHandler() {
	log := logr.Discard()
	manager, err := ccm.New(ccm.Params{
		Config:     ccm.DefaultConfig(),
		Providers:  []ccm.Provider{ccm.StaticProvider(emptyCloud())},
		RESTConfig: &rest.Config{Host: "https://127.0.0.1:1"},
		Logger:     &log,
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	mux := http.NewServeMux()
	mux.Handle("/ccm/", http.StripPrefix("/ccm", endpoints.NewHandler(manager)))

	answer := httptest.NewRecorder()
	mux.ServeHTTP(answer, httptest.NewRequest(http.MethodGet, "/ccm/readyz?verbose", nil))
	fmt.Print(answer.Code, "\n", answer.Body)
	// Output:
	// 500
	// [-]ccm failed: reason withheld
	// readyz check failed
}

// A host that is more than one Manager, such as a fleet, has checks and a page of its own.
func ExampleNewHandlerOf() {
	handler := endpoints.NewHandlerOf(endpoints.Parts{
		Liveness: []ccm.Check{{
			Name: "queue", Check: func(*http.Request) error { return nil },
		}},
		Statusz: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			fmt.Fprintln(w, "12 clusters")
		}),
	})
	for _, path := range []string{"/livez", "/livez/queue", "/statusz"} {
		answer := httptest.NewRecorder()
		handler.ServeHTTP(answer, httptest.NewRequest(http.MethodGet, path, nil))
		fmt.Println(path, answer.Code, strings.TrimSpace(answer.Body.String()))
	}
	// Output:
	// /livez 200 ok
	// /livez/queue 200 ok
	// /statusz 200 12 clusters
}

// An app with several Managers serves each below its name.
func ExampleMount() {
	paramsOf := func(name string) func() ccm.Params {
		return func() ccm.Params {
			return ccm.Params{
				Name: name, Config: ccm.DefaultConfig(),
				Providers:  []ccm.Provider{ccm.StaticProvider(emptyCloud())},
				RESTConfig: &rest.Config{Host: "https://127.0.0.1:1"},
			}
		}
	}
	mux := http.NewServeMux()
	app := fx.New(fx.NopLogger,
		ccm.Module,
		fx.Provide(ccm.AsParams(paramsOf("east")), ccm.AsParams(paramsOf("west"))),
		fx.Supply(mux),
		endpoints.Mount("/ccm"),
	)
	if err := app.Err(); err != nil {
		fmt.Println(err)
		return
	}
	answer := httptest.NewRecorder()
	mux.ServeHTTP(answer, httptest.NewRequest(http.MethodGet, "/ccm/west/healthz", nil))
	fmt.Println(answer.Code)
	// Output: 200
}
