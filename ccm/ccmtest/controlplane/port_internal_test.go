package controlplane

import (
	"errors"
	"net"
	"testing"

	"github.com/fxccm/fxccm/internal/freeport"
)

func TestOnFreePort_PortIsTaken_TriesAnother(t *testing.T) {
	t.Parallel()
	var port freeport.Port
	tried := map[int]bool{}
	err := onFreePort(&port, func() error {
		tried[port.Number] = true
		if len(tried) < 3 {
			return errPortTaken
		}
		return nil
	})
	if err != nil || len(tried) != 3 || !tried[port.Number] {
		t.Errorf("after two ports in use: %v, port %d, tried %v", err, port.Number, tried)
	}

	starts := 0
	if err := onFreePort(&port, func() error { starts++; return errPortTaken }); !errors.Is(err,
		errPortTaken) || starts != bindAttempts {
		t.Errorf("if every port is in use: %v after %d attempts, want the error after %d", err,
			starts, bindAttempts)
	}
	starts = 0
	other := errors.New("other")
	if err := onFreePort(&port, func() error { starts++; return other }); !errors.Is(err, other) ||
		starts != 1 {
		t.Errorf("if the start fails for another reason: %v after %d attempts, want one attempt",
			err, starts)
	}
}

// The retry depends on the texts of the servers' logs.
func TestServers_WhenTheirPortIsTaken_AreRecognized(t *testing.T) {
	t.Parallel()
	c, err := prepare(Options{DisableAudit: true})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := c.discard(); err != nil {
			t.Error(err)
		}
	}()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	taken := l.Addr().(*net.TCPAddr).Port

	if _, err := c.audit.All(); err == nil {
		t.Error("a disabled audit log was read")
	}
	c.etcdPort.Number = taken
	if err := c.startEtcd(t.Context()); !errors.Is(err, errPortTaken) {
		t.Errorf("etcd on a port in use: %v", err)
	}
	if err := onFreePort(&c.etcdPort,
		func() error { return c.startEtcd(t.Context()) }); err != nil {
		t.Fatal(err)
	}
	c.apiPort.Number = taken
	if err := c.startAPIServer(t.Context()); !errors.Is(err, errPortTaken) {
		t.Errorf("kube-apiserver on a port in use: %v", err)
	}
}
