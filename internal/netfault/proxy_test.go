package netfault_test

import (
	"context"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"github.com/fxccm/fxccm/ccm/ccmtest"
	"github.com/fxccm/fxccm/internal/netfault"
	"github.com/fxccm/fxccm/internal/waittest"
)

// moment is long enough for data to arrive on the loopback interface.
const moment = 300 * time.Millisecond

// echo starts a server that returns all data, and a proxy in front of it.
func echo(t *testing.T) *netfault.Proxy {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var serving sync.WaitGroup
	serving.Go(func() {
		for {
			c, err := listener.Accept()
			if err != nil {
				return
			}
			serving.Go(func() {
				_, _ = io.Copy(c, c)
				_ = c.Close()
			})
		}
	})
	proxy, err := netfault.Listen(listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := proxy.Close(); err != nil {
			t.Error(err)
		}
		_ = listener.Close()
		serving.Wait()
	})
	return proxy
}

func set(t *testing.T, proxy *netfault.Proxy, f netfault.Fault) {
	t.Helper()
	if err := proxy.Set(f); err != nil {
		t.Fatal(err)
	}
}

// A line is a client's connection.
type line struct {
	t *testing.T
	net.Conn
}

func dial(t *testing.T, proxy *netfault.Proxy) line {
	t.Helper()
	c, err := net.Dial("tcp", proxy.Addr())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return line{t, c}
}

func (l line) send(text string) {
	l.t.Helper()
	if _, err := l.Write([]byte(text)); err != nil {
		l.t.Fatal(err)
	}
}

// receive waits for n bytes.
func (l line) receive(n int, within time.Duration) (string, error) {
	if err := l.SetReadDeadline(time.Now().Add(within)); err != nil {
		return "", err
	}
	buffer := make([]byte, n)
	n, err := io.ReadFull(l, buffer)
	return string(buffer[:n]), err
}

func (l line) wantEcho(text string) {
	l.t.Helper()
	l.send(text)
	if got, err := l.receive(len(text), ccmtest.WaitLimit); got != text {
		l.t.Fatalf("received %q (%v), want %q", got, err, text)
	}
}

func (l line) wantSilence() {
	l.t.Helper()
	if got, err := l.receive(1, moment); !errors.Is(err, context.DeadlineExceeded) &&
		!isTimeout(err) {
		l.t.Fatalf("received %q (%v), want no data and an open connection", got, err)
	}
}

func isTimeout(err error) bool {
	timeout, ok := errors.AsType[net.Error](err)
	return ok && timeout.Timeout()
}

func (l line) wantReset() {
	l.t.Helper()
	if got, err := l.receive(1, ccmtest.WaitLimit); !errors.Is(err, syscall.ECONNRESET) {
		l.t.Fatalf("received %q (%v), want a reset", got, err)
	}
}

// wantResetOf expects a new connection to be reset. The reset may come before Dial has returned.
func wantResetOf(t *testing.T, proxy *netfault.Proxy) {
	t.Helper()
	c, err := net.Dial("tcp", proxy.Addr())
	if errors.Is(err, syscall.ECONNRESET) {
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	line{t, c}.wantReset()
}

func TestPass_CarriesBothWaysAndTheEnd(t *testing.T) {
	proxy := echo(t)
	l := dial(t, proxy)
	l.wantEcho("hello")
	if err := l.Conn.(*net.TCPConn).CloseWrite(); err != nil {
		t.Fatal(err)
	}
	if got, err := l.receive(1, ccmtest.WaitLimit); !errors.Is(err, io.EOF) {
		t.Errorf("received %q (%v) after the end, want the end", got, err)
	}
	waittest.Until(t, "the connection is no longer counted",
		func() bool { return proxy.Connections() == 0 })
}

func TestBlackHole_OpenAndNewConnections_HangUntilTheyAreReset(t *testing.T) {
	proxy := echo(t)
	before, idle := dial(t, proxy), dial(t, proxy)
	before.wantEcho("hello")
	idle.wantEcho("hello")
	set(t, proxy, netfault.BlackHole())
	during := dial(t, proxy)
	for _, l := range []line{before, during} {
		l.send("lost")
		l.wantSilence()
	}
	if n := proxy.Connections(); n != 3 {
		t.Errorf("%d connections are open, want 3", n)
	}
	set(t, proxy, netfault.Pass())
	before.wantReset()
	during.wantReset()
	idle.wantEcho("it has lost nothing")
	dial(t, proxy).wantEcho("again")
}

func TestStall_DataSentMeanwhile_ArrivesAfterTheFault(t *testing.T) {
	proxy := echo(t)
	before := dial(t, proxy)
	before.wantEcho("hello")
	set(t, proxy, netfault.Stall())
	during := dial(t, proxy)
	for _, l := range []line{before, during} {
		l.send("late")
		l.wantSilence()
	}
	set(t, proxy, netfault.Pass())
	for _, l := range []line{before, during} {
		if got, err := l.receive(4, ccmtest.WaitLimit); got != "late" {
			t.Errorf("received %q (%v), want the sent data", got, err)
		}
	}
}

func TestOnSend_SetsAFault_AppliesToTheData(t *testing.T) {
	proxy := echo(t)
	client := dial(t, proxy)
	client.wantEcho("hello")
	proxy.OnSend(func(data []byte) {
		if string(data) == "late" {
			_ = proxy.Set(netfault.Stall())
		}
	})
	client.wantEcho("early")
	client.send("late")
	client.wantSilence()
	set(t, proxy, netfault.Pass())
	if got, err := client.receive(4, ccmtest.WaitLimit); got != "late" {
		t.Errorf("received %q (%v), want the sent data", got, err)
	}
}

func TestReset_EndsOpenAndNewConnections(t *testing.T) {
	proxy := echo(t)
	before := dial(t, proxy)
	before.wantEcho("hello")
	set(t, proxy, netfault.Reset())
	before.wantReset()
	wantResetOf(t, proxy)
	set(t, proxy, netfault.Pass())
	dial(t, proxy).wantEcho("again")
}

func TestRefuse_ClosesAndReopensThePort(t *testing.T) {
	proxy := echo(t)
	before := dial(t, proxy)
	before.wantEcho("hello")
	for range 3 {
		set(t, proxy, netfault.Refuse())
		if c, err := net.Dial("tcp", proxy.Addr()); err == nil {
			_ = c.Close()
			t.Error("a connection was accepted, want a refusal")
		}
		set(t, proxy, netfault.Pass())
		dial(t, proxy).wantEcho("again")
	}
	before.wantReset()
}

func TestDelay_EachWayTakesLonger(t *testing.T) {
	proxy := echo(t)
	l := dial(t, proxy)
	l.wantEcho("hello")
	const delay = time.Second
	set(t, proxy, netfault.Delay(delay))
	begun := time.Now()
	// If chunks were delayed one after the other, these would take longer than the limit.
	const chunks = int(2 * ccmtest.WaitLimit / delay)
	for range chunks {
		l.send("1")
		time.Sleep(delay / 100)
	}
	if got, err := l.receive(chunks, ccmtest.WaitLimit); got != strings.Repeat("1", chunks) {
		t.Fatalf("received %q (%v)", got, err)
	}
	if took := time.Since(begun); took < 2*delay {
		t.Errorf("the chunks took %s there and back, want more than %s", took, 2*delay)
	}
}

func TestStatus_OnAProxyThatReadsNoRequests_IsAnError(t *testing.T) {
	proxy := echo(t)
	for _, f := range []netfault.Fault{
		netfault.Status(http.StatusTooManyRequests, time.Second),
		netfault.Slow(time.Second),
	} {
		if err := proxy.Set(f); err == nil {
			t.Errorf("Set(%s) succeeds", f)
		}
	}
	dial(t, proxy).wantEcho("hello")
}

func TestClose_InEachFault_LeavesNothing(t *testing.T) {
	for _, f := range []netfault.Fault{
		netfault.Pass(), netfault.Delay(time.Hour), netfault.BlackHole(), netfault.Stall(),
		netfault.Reset(), netfault.Refuse(),
		netfault.WrongCertificate(),
	} {
		proxy := echo(t)
		l := dial(t, proxy)
		l.wantEcho("hello")
		set(t, proxy, f)
		_, _ = l.Write([]byte("x")) // the fault may have ended the connection
		if c, err := net.Dial("tcp", proxy.Addr()); err == nil {
			defer func() { _ = c.Close() }()
		}
		for range 2 {
			if err := proxy.Close(); err != nil {
				t.Errorf("%s: %v", f, err)
			}
		}
		if err := proxy.Set(netfault.Pass()); err == nil {
			t.Errorf("%s: Set after Close succeeds", f)
		}
	}
}

// web starts a server that answers with the path of the request, and a proxy that reads requests in
// front of it.
func web(t *testing.T) (*netfault.Proxy, *http.Client) {
	t.Helper()
	proxy, err := netfault.ListenHTTP(
		http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.WriteString(w, r.URL.Path)
		}))
	if err != nil {
		t.Fatal(err)
	}
	client := clientOf(t, proxy.RESTConfig())
	t.Cleanup(func() {
		if err := proxy.Close(); err != nil {
			t.Error(err)
		}
	})
	return proxy, client
}

func clientOf(t *testing.T, cfg *rest.Config) *http.Client {
	t.Helper()
	secrets, err := rest.TLSConfigFor(cfg)
	if err != nil {
		t.Fatal(err)
	}
	transport := &http.Transport{
		TLSClientConfig: secrets, ForceAttemptHTTP2: true,
		DialContext: cfg.Dial,
	}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport, Timeout: ccmtest.WaitLimit}
}

// ask returns the answer's code, its header Retry-After, and its text.
func ask(t *testing.T, client *http.Client, url string) (int, string, string) {
	t.Helper()
	resp, err := client.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, resp.Header.Get("Retry-After"), string(body)
}

func TestStatus_AnswersInPlaceOfTheServer(t *testing.T) {
	proxy, client := web(t)
	url := proxy.RESTConfig().Host + "/path"
	if code, _, body := ask(t, client, url); code != http.StatusOK || body != "/path" {
		t.Errorf("answered with %d %q", code, body)
	}
	set(t, proxy, netfault.Status(http.StatusTooManyRequests, 1500*time.Millisecond))
	if code, after, _ := ask(t, client, url); code != http.StatusTooManyRequests || after != "2" {
		t.Errorf("answered with %d, Retry-After %q, want 429 and 2", code, after)
	}
	set(t, proxy, netfault.Status(http.StatusInternalServerError, 0))
	if code, after, _ := ask(t, client, url); code != http.StatusInternalServerError ||
		after != "" {
		t.Errorf("answered with %d, Retry-After %q, want 500 and none", code, after)
	}
	set(t, proxy, netfault.Pass())
	if code, _, _ := ask(t, client, url); code != http.StatusOK {
		t.Errorf("answered with %d, want 200 again", code)
	}
}

func TestSlow_DelaysRequestsAndDropsThoseThatAreCanceled(t *testing.T) {
	var reached sync.Map
	proxy, err := netfault.ListenHTTP(
		http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			reached.Store(r.URL.Path, true)
		}))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = proxy.Close() }()
	client := clientOf(t, proxy.RESTConfig())
	set(t, proxy, netfault.Slow(moment))
	ctx, cancel := context.WithTimeout(t.Context(), moment/3)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost,
		proxy.RESTConfig().Host+"/canceled", nil)
	if err != nil {
		t.Fatal(err)
	}
	if resp, err := client.Do(req); err == nil {
		_ = resp.Body.Close()
		t.Error("the request was answered before the delay")
	}
	begun := time.Now()
	ask(t, client, proxy.RESTConfig().Host+"/patient")
	if took := time.Since(begun); took < moment {
		t.Errorf("it took %s, want at least %s", took, moment)
	}
	if _, did := reached.Load("/canceled"); did {
		t.Error("a request that was canceled has reached the server")
	}
	if _, did := reached.Load("/patient"); !did {
		t.Error("a request has not reached the server")
	}
}

func TestWrongCertificate_ClientsDoNotTrustIt(t *testing.T) {
	proxy, client := web(t)
	url := proxy.RESTConfig().Host + "/path"
	ask(t, client, url)
	set(t, proxy, netfault.WrongCertificate())
	waittest.Until(t, "the client sees the certificate", func() error {
		resp, err := client.Get(url)
		if err == nil {
			_ = resp.Body.Close()
			t.Fatal("the client has got an answer")
		}
		if _, ok := errors.AsType[x509.UnknownAuthorityError](err); !ok {
			return err // the previous connection was reset
		}
		return nil
	})
	set(t, proxy, netfault.Pass())
	ask(t, client, url)
}

func TestNames_UnknownAndKnownAgain_ResolveAccordingly(t *testing.T) {
	names, err := netfault.ListenNames()
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		for range 2 {
			if err := names.Close(); err != nil {
				t.Error(err)
			}
		}
	}()
	proxy := echo(t)
	_, port, err := net.SplitHostPort(proxy.Addr())
	if err != nil {
		t.Fatal(err)
	}
	dial := netfault.DialThrough(names.Addr())
	resolve := func(host string) error {
		ctx, cancel := context.WithTimeout(t.Context(), moment)
		defer cancel()
		c, err := dial(ctx, "tcp", net.JoinHostPort(host, port))
		if err == nil {
			_ = c.Close()
		}
		return err
	}
	if err := resolve(netfault.Host); err != nil {
		t.Errorf("dialing the known name: %v", err)
	}
	if err := resolve("other.netfault.test"); !isNotFound(err) {
		t.Errorf("dialing another name: %v, want an unknown name", err)
	}
	names.Set(netfault.Unknown)
	if err := resolve(netfault.Host); !isNotFound(err) {
		t.Errorf("dialing the name that is no longer known: %v, want an unknown name", err)
	}
	names.Set(netfault.Known)
	if err := resolve(netfault.Host); err != nil {
		t.Errorf("dialing the name that is known again: %v", err)
	}
}

func isNotFound(err error) bool {
	dns, ok := errors.AsType[*net.DNSError](err)
	return ok && dns.IsNotFound
}
