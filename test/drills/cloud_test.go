//go:build linux

package drills_test

import (
	"bytes"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/fxccm/fxccm/internal/netfault"
	"github.com/fxccm/fxccm/provider/openstack/openstacktest"
	"github.com/fxccm/fxccm/test/internal/replica"
)

// startOpenStack runs the program with the OpenStack provider. link is its network to the cloud.
func (w *world) startOpenStack(
	cloud *openstacktest.Cloud, subnet, name string,
) (m *member, link *netfault.Proxy) {
	w.t.Helper()
	link, err := netfault.Listen(strings.TrimPrefix(cloud.URL(), "http://"))
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { _ = link.Close() })
	through := func(address string) string {
		return "http://" + link.Addr() + strings.TrimPrefix(address, cloud.URL())
	}
	login := cloud.Credentials()
	conf := fmt.Sprintf(`[Global]
auth-url = %s
region = %s
application-credential-id = %s
application-credential-secret = %s
compute-endpoint-override = %s
network-endpoint-override = %s
load-balancer-endpoint-override = %s
[LoadBalancer]
subnet-id = %s
internal-lb = true
`, through(login.AuthURL), login.Region, login.ApplicationCredentialID,
		login.ApplicationCredentialSecret, through("/compute/v2.1"), through("/networking"),
		through("/load-balancer"), subnet)
	file := filepath.Join(w.dir, name+".conf")
	if err := os.WriteFile(file, []byte(conf), 0o600); err != nil {
		w.t.Fatal(err)
	}
	m = w.start(name, programs.ccm, "--cloud-provider=openstack", "--cloud-config="+file,
		"--controllers=service-lb-controller", "--user-agent="+name+"/drill")
	w.treat(w.identify)
	return m, link
}

// identify answers the request for the UID of the cluster, which is not in the member's part.
func (w *world) identify(rw http.ResponseWriter, r *http.Request) bool {
	if r.URL.Path != "/api/v1/namespaces/kube-system" {
		return false
	}
	rw.Header().Set("Content-Type", "application/json")
	_, _ = fmt.Fprintf(rw, `{"kind":"Namespace","apiVersion":"v1","metadata":{`+
		`"name":"kube-system","uid":%q}}`, w.name)
	return true
}

// isCloudWrite reports whether an HTTP/1.1 request begins with the data that may change the cloud.
// A login does not count.
func isCloudWrite(data []byte) bool {
	method, rest, _ := bytes.Cut(data, []byte(" "))
	switch string(method) {
	case http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete:
		return !bytes.HasPrefix(rest, []byte("/identity/"))
	}
	return false
}

// The network to OpenStack is interrupted when the leader has sent a write that has not arrived.
// The leader's term ends, another replica leads and does the work, and the network works again.
func TestCloudInterrupted_PendingWriteOfTheOldTerm_NeverArrives(t *testing.T) {
	t.Parallel()
	lane(t)
	w := newWorld(t, planes.shared.started(t), "cloud-cut")
	cloud := openstacktest.NewCloud()
	t.Cleanup(cloud.Close)
	subnet := cloud.AddSubnet(openstacktest.Subnet{
		NetworkID: cloud.AddNetwork(openstacktest.Network{Name: "nodes"}), CIDR: "10.0.0.0/16",
	})
	old, link := w.startOpenStack(cloud, subnet, w.name+"-a")
	w.awaitLeader()
	w.addService()
	w.awaitServed()
	next, _ := w.startOpenStack(cloud, subnet, w.name+"-b")

	cut := make(chan time.Time, 1)
	cutOnce := sync.OnceFunc(func() {
		if err := link.Set(netfault.Stall()); err != nil {
			t.Error(err)
		}
		cut <- time.Now()
	})
	link.OnSend(func(data []byte) {
		if isCloudWrite(data) {
			cutOnce()
		}
	})
	w.addService()
	var since time.Time
	select {
	case since = <-cut:
	case <-time.After(patience):
		t.Fatal("the leader does not write to the cloud")
	}
	if err := old.endpoint.Set(netfault.BlackHole()); err != nil {
		t.Fatal(err)
	}
	if leader := w.awaitAnother(old); leader != next {
		t.Fatalf("%s leads, want %s", leader.Name, next.Name)
	}
	w.addService()
	w.awaitServed()
	old.AwaitEntry(t, 1, replica.TermDrained)

	for _, network := range []*netfault.Proxy{link, old.endpoint.Proxy} {
		if err := network.Set(netfault.Pass()); err != nil {
			t.Fatal(err)
		}
	}
	await(t, "the connections of the old term have ended",
		func() bool { return link.Connections() == 0 })
	// The network works: the replica serves again.
	next.Signal(t, syscall.SIGTERM)
	if leader := w.awaitAnother(next); leader != old {
		t.Fatalf("%s leads, want %s", leader.Name, old.Name)
	}
	w.addService()
	w.awaitServed()

	again := old.AwaitEntry(t, 2, replica.TermBegins).At
	for _, call := range cloud.Calls() {
		if old.isOf(call.UserAgent) && call.Method != http.MethodGet &&
			call.Time.After(since) && call.Time.Before(again) {
			t.Errorf("a write of the old term arrived %s after it was interrupted: %s %s",
				call.Time.Sub(since), call.Method, call.Path)
		}
	}
	if lbs := cloud.LoadBalancers(); len(lbs) != len(w.services) {
		t.Errorf("%d load balancers of %d Services exist", len(lbs), len(w.services))
	}
	if !slices.ContainsFunc(cloud.Calls(), func(call openstacktest.Call) bool {
		return old.isOf(call.UserAgent) && call.Time.After(again)
	}) {
		t.Errorf("%s has not called the cloud in its second term", old.Name)
	}
	w.wantNothingLate()
}
