package termprocess_test

import (
	"context"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/client-go/rest"
	cloudprovider "k8s.io/cloud-provider"

	"github.com/fxccm/fxccm/ccm"
	"github.com/fxccm/fxccm/hosting/internal/termprocess"
	"github.com/fxccm/fxccm/internal/kubeproxy"
	"github.com/fxccm/fxccm/internal/waittest"
)

// noServer has the address of an API server that does not exist.
type noServer struct {
	cloudprovider.ControllerClientBuilder
}

func (noServer) Config(string) (*rest.Config, error) {
	return &rest.Config{Host: "http://127.0.0.1:1"}, nil
}

func TestSupervise_LeadershipLostAfterTheConnectionHasEnded_KillsTheProcessAtOnce(t *testing.T) {
	lost, broken := make(chan struct{}), make(chan struct{})
	p, err := termprocess.Start(ccm.ProviderEnv{
		Logger: logr.Discard(), Clients: noServer{},
		Fail: func(err error) { t.Errorf("the term failed after it was lost: %v", err) },
		Leadership: ccm.Leadership{
			Lost: lost, Begin: func(string) (func(), error) { return func() {}, nil },
		},
	}, termprocess.Spec{
		Name: "process of the test", Path: "/bin/sleep", Args: []string{"1000"},
		Files: func(*kubeproxy.Proxy) ([]*os.File, error) { return nil, nil },
	})
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		p.Supervise(termprocess.Supervision{
			Context: context.Background(), Broken: broken, BrokenTimeout: time.Hour,
		})
	}()
	broken <- struct{}{} // Supervise has received it
	close(lost)
	select {
	case <-ended:
	case <-time.After(waittest.Limit):
		p.Kill(nil)
		t.Fatal("the process lives after the loss of leadership")
	}
	if got := p.Err().Error(); !strings.Contains(got, "ended: signal: killed") {
		t.Errorf("the process ended with %q", got)
	}
}
