package client_test

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"strings"
	"sync/atomic"
	"testing"

	ecsmodel "github.com/huaweicloud/huaweicloud-sdk-go-v3/services/ecs/v2/model"
	elbmodel "github.com/huaweicloud/huaweicloud-sdk-go-v3/services/elb/v3/model"
	"k8s.io/utils/clock"

	"github.com/fxccm/fxccm/internal/fence"
	"github.com/fxccm/fxccm/internal/netfault"
	"github.com/fxccm/fxccm/internal/waittest"
	"github.com/fxccm/fxccm/provider/huaweicloud/internal/client"
	"github.com/fxccm/fxccm/provider/huaweicloud/internal/stub"
)

func configOf(cloud *stub.Cloud) client.Config {
	return client.Config{
		ECS: cloud.URL, ELB: cloud.URL, EIP: cloud.URL, ProjectID: stub.ProjectID,
		AccessKeyID: stub.AccessKeyID, AccessKeySecret: stub.AccessKeySecret,
	}
}

func newClient(t *testing.T, config client.Config) *client.Client {
	t.Helper()
	c := client.New(config)
	t.Cleanup(c.Close)
	return c
}

func TestRequest_IsSignedWithQueryAndBody(t *testing.T) {
	cloud := stub.New(t)
	c := newClient(t, configOf(cloud))
	description := []string{"a b&c=d/é+", "second"}
	if _, err := client.Call("list", c.ELB(t.Context()).ListListeners,
		&elbmodel.ListListenersRequest{Description: &description}); err != nil {
		t.Error(err)
	}
	name, port := "übung", int32(80)
	_, err := client.Call("create listener", c.ELB(t.Context()).CreateListener,
		&elbmodel.CreateListenerRequest{Body: &elbmodel.CreateListenerRequestBody{
			Listener: &elbmodel.CreateListenerOption{
				LoadbalancerId: "x", Name: &name, Protocol: "TCP", ProtocolPort: &port,
			},
		}})
	// The stub verifies the signature before it looks for the load balancer.
	if !client.IsNotFound(err) {
		t.Error(err)
	}
}

func TestWrongKey_Error_HasNoSecret(t *testing.T) {
	cloud := stub.New(t)
	config := configOf(cloud)
	config.AccessKeySecret = "wrong-and-secret"
	_, err := client.Call("get ECS instance x", newClient(t, config).ECS(t.Context()).ShowServer,
		&ecsmodel.ShowServerRequest{ServerId: "x"})
	const want = "get ECS instance x: HTTP 401 APIGW.0301: Incorrect IAM authentication " +
		"information: verify aksk signature fail (request stub-request)"
	if err == nil || err.Error() != want {
		t.Errorf("got  %v\nwant %s", err, want)
	}
}

func TestErrorForms_OfTheServices_HaveCodeAndMessage(t *testing.T) {
	cloud := stub.New(t)
	_, err := client.Call("get", newClient(t, configOf(cloud)).ECS(t.Context()).ShowServer,
		&ecsmodel.ShowServerRequest{ServerId: "x"})
	var refusal *client.Error
	if !errors.As(err, &refusal) || refusal.StatusCode != 404 || refusal.ErrorCode != "Ecs.0114" {
		t.Errorf("got %v", err)
	}
}

func TestCallCanceled_ReturnsAtOnce(t *testing.T) {
	cloud := stub.New(t)
	held := cloud.Hold("GET cloudservers")
	ctx, cancel := context.WithCancelCause(t.Context())
	errLost := errors.New("the lease was lost")
	done := make(chan error, 1)
	go func() {
		_, err := client.Call("get", newClient(t, configOf(cloud)).ECS(ctx).ShowServer,
			&ecsmodel.ShowServerRequest{ServerId: "x"})
		done <- err
	}()
	<-held
	cancel(errLost)
	if err := <-done; !errors.Is(err, context.Canceled) || !errors.Is(err, errLost) {
		t.Errorf("got %v", err)
	}
}

// The network fails while a write is on its way, leadership is lost, and the network works again.
func TestCall_TermEndsWhileTheNetworkFails_WriteNeverArrives(t *testing.T) {
	cloud := stub.New(t)
	var open atomic.Int32
	server := httptest.NewUnstartedServer(cloud.Handler)
	server.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		switch state {
		case http.StateNew:
			open.Add(1)
		case http.StateClosed, http.StateHijacked:
			open.Add(-1)
		}
	}
	server.Start()
	t.Cleanup(server.Close)
	network, err := netfault.Listen(server.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = network.Close() })
	config := configOf(cloud)
	config.ELB = "http://" + network.Addr()
	gate := fence.New(nil, clock.RealClock{})
	config.Transport = gate.Transport
	c := newClient(t, config)
	if _, err := client.Call("list", c.ELB(t.Context()).ListListeners,
		&elbmodel.ListListenersRequest{}); err != nil {
		t.Fatal(err)
	}
	if err := network.Set(netfault.Stall()); err != nil {
		t.Fatal(err)
	}
	wrote, done := make(chan struct{}), make(chan error, 1)
	ctx := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{
		WroteRequest: func(httptrace.WroteRequestInfo) { close(wrote) },
	})
	go func() {
		_, err := client.Call("delete", c.ELB(ctx).DeleteLoadBalancer,
			&elbmodel.DeleteLoadBalancerRequest{LoadbalancerId: "x"})
		done <- err
	}()
	<-wrote
	gate.Close(errors.New("lost"))
	if err := <-done; !errors.Is(err, fence.ErrClosed) {
		t.Errorf("got %v, want the reason of the fence", err)
	}
	// A connection that is only closed stays open in the network, which has its last bytes.
	waittest.Until(t, "the connection is reset", func() bool { return network.Connections() == 0 })
	if err := network.Set(netfault.Pass()); err != nil {
		t.Fatal(err)
	}
	waittest.Until(t, "the connection of the cloud ends", func() bool { return open.Load() == 0 })
	if writes := cloud.Writes(); len(writes) > 0 {
		t.Errorf("%q arrived after another process may lead", writes)
	}
}

type refusingTransport struct{ next http.RoundTripper }

func (f refusingTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Method != http.MethodGet {
		return nil, errors.New("the term has ended")
	}
	return f.next.RoundTrip(r)
}

func TestTransport_OfTheTermIsUnderEachCall(t *testing.T) {
	cloud := stub.New(t)
	config := configOf(cloud)
	config.Transport = func(next http.RoundTripper) http.RoundTripper {
		return refusingTransport{next}
	}
	c := newClient(t, config)
	_, err := client.Call("delete", c.ELB(t.Context()).DeleteLoadBalancer,
		&elbmodel.DeleteLoadBalancerRequest{LoadbalancerId: "x"})
	if err == nil || !strings.Contains(err.Error(), "the term has ended") {
		t.Errorf("got %v", err)
	}
	if _, err := client.Call("list", c.ELB(t.Context()).ListPools,
		&elbmodel.ListPoolsRequest{}); err != nil {
		t.Error(err)
	}
	if got := cloud.Writes(); len(got) != 0 {
		t.Errorf("the cloud received %v", got)
	}
}
