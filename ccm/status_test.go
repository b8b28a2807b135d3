package ccm_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fxccm/fxccm/ccm"
	"github.com/fxccm/fxccm/ccm/election"
	"github.com/fxccm/fxccm/ccm/status"
)

func TestStatus_Terms_AreTheLastTenWithTheirCourse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		elector := election.NewHost()
		release := make(chan struct{})
		p := standaloneParams("slow")
		p.Elector = elector
		p.Config.DrainTimeout = metav1.Duration{Duration: 3 * time.Second}
		p.Controllers = []ccm.Controller{stubborn("slow", release)}
		m, stop := start(t, p)
		// Each term leads for a minute, and its controller ends a second later.
		lead := func() status.Term {
			t.Helper()
			led, lose := context.WithCancel(t.Context())
			lent := make(chan error, 1)
			go func() { lent <- elector.Lead(led, election.Grant{}) }()
			time.Sleep(time.Minute)
			leading := m.Status().Terms[0]
			if leading.Opened.IsZero() || !leading.DrainBegan.IsZero() || leading.End != "" {
				t.Errorf("the leading term is %+v", leading)
			}
			lose()
			time.Sleep(time.Second)
			return m.Status().Terms[0]
		}
		for range 11 {
			if draining := lead(); draining.End != "" ||
				!strings.Contains(draining.Reason, "leadership lost") {
				t.Errorf("the draining term is %+v", draining)
			}
			release <- struct{}{}
			time.Sleep(time.Minute)
		}
		terms := m.Status().Terms
		if len(terms) != 10 || terms[0].Number != 11 || terms[9].Number != 2 {
			t.Fatalf("the terms are %+v", terms)
		}
		last := terms[0]
		if led := last.DrainBegan.Sub(last.Began); led != time.Minute || last.End != "lost" ||
			last.Ended.Sub(last.DrainBegan) != time.Second {
			t.Errorf("the last term is %+v", last)
		}

		lead()
		time.Sleep(3 * time.Second)
		if stuck := m.Status().Terms[0]; stuck.End != "drain_timeout" ||
			!strings.Contains(stuck.Reason, "leadership lost") ||
			!strings.Contains(stuck.Reason, "controller slow") {
			t.Errorf("a term that exceeded its drain timeout is %+v", stuck)
		}
		release <- struct{}{}
		time.Sleep(time.Minute)
		if err := stop(); err != nil {
			t.Error(err)
		}
	})
}
