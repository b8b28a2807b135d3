package ccm_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/client-go/rest"

	"github.com/fxccm/fxccm/ccm"
	"github.com/fxccm/fxccm/ccm/election"
)

func TestWarnings_OfTheSetup_AreInTheStatusAndLoggedByEachRun(t *testing.T) {
	const (
		metrics = "metrics are not registered: Params has no Registerer"
		alone   = "leader election is off: a second replica would act on the same cluster " +
			"at the same time"
		insecure = "the certificate of the API server is not verified: " +
			"the client configuration is insecure, and whoever answers receives the credentials"
	)
	for name, test := range map[string]struct {
		change func(*ccm.Params)
		want   []string
	}{
		"nothing is wired": {func(p *ccm.Params) {
			p.RESTConfig = &rest.Config{
				Host: p.RESTConfig.Host, TLSClientConfig: rest.TLSClientConfig{Insecure: true},
			}
		}, []string{alone, metrics, insecure}},
		"all is wired": {func(p *ccm.Params) {
			p.Registerer, p.Elector = prometheus.NewRegistry(), &election.Alone{}
		}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p, lines := standaloneParams("mine"), slogJSON()
				p.Logger, p.Controllers = &lines.Logger, []ccm.Controller{idle("mine")}
				test.change(&p)
				m, stop := start(t, p)
				synctest.Wait()
				slices.Sort(test.want)
				if got := m.Status().Warnings; !slices.Equal(got, test.want) {
					t.Errorf("the status has the warnings %q, want %q", got, test.want)
				}
				if err := stop(); err != nil {
					t.Error(err)
				}
				ctx, cancel := context.WithCancel(t.Context())
				cancel()
				if err := m.Run(ctx); err != nil {
					t.Error(err)
				}
				var logged []string
				for _, line := range lines.read(t) {
					if text, ok := line["warning"].(string); ok {
						logged = append(logged, text)
					}
				}
				want := slices.Sorted(slices.Values(slices.Repeat(test.want, 2)))
				if got := slices.Sorted(slices.Values(logged)); !slices.Equal(got, want) {
					t.Errorf("two runs have logged %q, want %q", logged, want)
				}
			})
		})
	}
}

func TestLog_SlogJSON_DurationsAreTextsWithAUnit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, lines := standaloneParams("flaky"), slogJSON()
		controller, _ := flaky("flaky", 2, func() error { return errors.New("out of order") })
		p.Logger, p.Controllers = &lines.Logger, []ccm.Controller{controller}
		_, stop := start(t, p)
		time.Sleep(time.Minute)
		if err := stop(); err != nil {
			t.Error(err)
		}
		durations := 0
		for _, line := range lines.read(t) {
			value, ok := line["retryIn"]
			if !ok {
				continue
			}
			durations++
			text, _ := value.(string)
			if d, err := time.ParseDuration(text); err != nil || d <= 0 {
				t.Errorf("retryIn is %v, want a duration as a text: %v", value, line)
			}
		}
		if durations != 2 {
			t.Errorf("%d lines have retryIn, want 2", durations)
		}
	})
}

// jsonLines is a logger on slog's JSON handler. They are read when the Manager has stopped.
type jsonLines struct {
	logr.Logger
	written *bytes.Buffer
}

func slogJSON() jsonLines {
	var out bytes.Buffer
	handler := slog.NewJSONHandler(&out, &slog.HandlerOptions{Level: slog.Level(-10)})
	return jsonLines{logr.FromSlogHandler(handler), &out}
}

func (l jsonLines) read(t *testing.T) (lines []map[string]any) {
	t.Helper()
	for text := range strings.Lines(l.written.String()) {
		var line map[string]any
		if err := json.Unmarshal([]byte(text), &line); err != nil {
			t.Fatal(err)
		}
		lines = append(lines, line)
	}
	return lines
}
