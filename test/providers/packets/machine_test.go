//go:build linux

package packets_test

import (
	"bufio"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/rpc"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/fxccm/fxccm/internal/childprocess"
)

// machineVariable makes the test's binary a machine of this name.
const machineVariable = "FXCCM_PACKETS_MACHINE"

// answerTimeout limits a request from connecting to the answer. A packet that a security group
// drops is not answered at all.
const answerTimeout = 3 * time.Second

// A machine is a process in a network namespace of its own: the operating system of a server, or of
// a client.
type machine struct {
	name string
	pid  int
	// address and address6 are those of its port. Without IPv6, address6 is empty.
	address, address6 string
	rpc               *rpc.Client
}

// startMachine starts a machine, which ends with the test. It has no network yet.
func startMachine(t *testing.T, name string) *machine {
	t.Helper()
	cmd := exec.Command("unshare", "--net", os.Args[0])
	cmd.Env = append(os.Environ(), machineVariable+"="+name)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	if err := childprocess.Begin(cmd, func(err error) { ended <- err }); err != nil {
		t.Fatal(err)
	}
	m := &machine{name: name, pid: cmd.Process.Pid, rpc: rpc.NewClient(&pipes{out, in})}
	t.Cleanup(func() {
		_ = m.rpc.Close()
		select {
		case <-ended:
		case <-time.After(10 * time.Second):
			t.Errorf("machine %s does not end", name)
			_ = cmd.Process.Kill()
		}
	})
	// When it answers it is in its namespace.
	m.call(t, "Listen", []int32{})
	return m
}

func (m *machine) call(t *testing.T, method string, args any) {
	t.Helper()
	if err := m.rpc.Call("Machine."+method, args, &struct{}{}); err != nil {
		t.Fatalf("machine %s: %s: %v", m.name, method, err)
	}
}

// listen makes the machine answer at TCP ports, and at no others.
func (m *machine) listen(t *testing.T, ports ...int32) {
	t.Helper()
	m.call(t, "Listen", append([]int32{}, ports...))
}

// listenUDP makes the machine answer datagrams at UDP ports, and at no others.
func (m *machine) listenUDP(t *testing.T, ports ...int32) {
	t.Helper()
	m.call(t, "ListenUDP", append([]int32{}, ports...))
}

// forward makes the machine forward what comes to a TCP port to an address with a port, in place of
// an answer of its own.
func (m *machine) forward(t *testing.T, port int32, to string) {
	t.Helper()
	m.call(t, "Forward", Forwarding{Port: port, To: to})
}

// losePods makes the machine answer at /healthz like kube-proxy on a node without a pod of the
// Service.
func (m *machine) losePods(t *testing.T) {
	t.Helper()
	m.call(t, "LosePods", struct{}{})
}

// ip runs the program ip in the machine's network namespace.
func (m *machine) ip(t *testing.T, args ...string) {
	t.Helper()
	inside := []string{fmt.Sprintf("--net=/proc/%d/ns/net", m.pid), "ip"}
	text, err := exec.Command("nsenter", append(inside, args...)...).CombinedOutput()
	if err != nil {
		t.Fatalf("machine %s: ip %q: %v\n%s", m.name, args, err, text)
	}
}

// An Answer is what a client was told.
type Answer struct {
	// Machine answered, and Client is whose address it saw. Proxy is the version of the PROXY
	// protocol by which it was told; "" for none.
	Machine, Client, Proxy string
	// ForwardedFor is the header X-Forwarded-For that reached the machine.
	ForwardedFor string
	// Certificate is the fingerprint of the server's certificate; "" without TLS.
	Certificate string
}

// get opens a new connection to an address with a port. An error means no answer.
func (m *machine) get(target string) (a Answer, err error) {
	err = m.rpc.Call("Machine.Get", target, &a)
	return a, err
}

// ask sends a datagram from a new port. An error means no answer.
func (m *machine) ask(target string) (a Answer, err error) {
	err = m.rpc.Call("Machine.Ask", target, &a)
	return a, err
}

// dial opens a connection that stays open, in place of the previous one.
func (m *machine) dial(t *testing.T, target string) {
	t.Helper()
	m.call(t, "Dial", target)
}

// open is dial, and sends a request on the connection.
func (m *machine) open(t *testing.T, target string) (a Answer) {
	t.Helper()
	m.dial(t, target)
	a, err := m.again()
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// again sends another request on the open connection.
func (m *machine) again() (a Answer, err error) {
	err = m.rpc.Call("Machine.Again", struct{}{}, &a)
	return a, err
}

// waitForTheEnd returns how long it took until the open connection was closed by the other side.
func (m *machine) waitForTheEnd(t *testing.T) (took time.Duration) {
	t.Helper()
	if err := m.rpc.Call("Machine.WaitForTheEnd", struct{}{}, &took); err != nil {
		t.Fatal(err)
	}
	return took
}

// load sends 20 requests a second, each by a new connection, until finish is called.
func (m *machine) load(t *testing.T, target string) (finish func() Report) {
	t.Helper()
	m.call(t, "Load", target)
	return func() (r Report) {
		t.Helper()
		if err := m.rpc.Call("Machine.Unload", struct{}{}, &r); err != nil {
			t.Fatal(err)
		}
		return r
	}
}

// A Report is the result of the requests of a load.
type Report struct {
	Sent, Failed int
	// Errors are the first failures, with their times.
	Errors []string
	By     map[string]int
}

// pipes are the two ends of a child's standard streams.
type pipes struct {
	io.ReadCloser
	in io.WriteCloser
}

// Write implements io.Writer.
func (p *pipes) Write(b []byte) (int, error) { return p.in.Write(b) }

// Close implements io.Closer.
func (p *pipes) Close() error { return errors.Join(p.in.Close(), p.ReadCloser.Close()) }

// serveMachine is the program of a machine. It ends with its standard input.
func serveMachine(name string) error {
	server := rpc.NewServer()
	if err := server.RegisterName("Machine", &Machine{
		name: name, servers: map[int32]io.Closer{},
	}); err != nil {
		return err
	}
	server.ServeConn(&pipes{os.Stdin, os.Stdout})
	return nil
}

// Machine has the methods of a machine that the test calls.
type Machine struct {
	name string
	// lacksPods makes the answer at /healthz one of status 503.
	lacksPods atomic.Bool

	mu sync.Mutex
	// servers answer or forward at TCP ports.
	servers map[int32]io.Closer
	sockets []net.PacketConn
	// conn is the open connection of a client.
	conn net.Conn
	// unload ends the load.
	unload func() Report
}

// Load is called by [machine.load].
func (m *Machine) Load(target string, _ *struct{}) error {
	stop, ended := make(chan struct{}), make(chan struct{})
	report := Report{By: map[string]int{}}
	var open sync.WaitGroup
	var mu sync.Mutex
	one := func() {
		began := time.Now()
		var a Answer
		err := m.Get(target, &a)
		mu.Lock()
		defer mu.Unlock()
		report.Sent++
		if err == nil {
			report.By[a.Machine]++
			return
		}
		report.Failed++
		if len(report.Errors) < 10 {
			report.Errors = append(report.Errors,
				fmt.Sprintf("%s %v", began.Format("15:04:05.000"), err))
		}
	}
	go func() {
		defer close(ended)
		tick := time.NewTicker(time.Second / 20)
		defer tick.Stop()
		for {
			select {
			case <-stop:
				open.Wait()
				return
			case <-tick.C:
				open.Go(one)
			}
		}
	}()
	m.unload = func() Report {
		close(stop)
		<-ended
		return report
	}
	return nil
}

// Unload is called by the end of [machine.load].
func (m *Machine) Unload(_ struct{}, r *Report) error {
	*r = m.unload()
	return nil
}

// Listen is called by [machine.listen].
func (m *Machine) Listen(ports []int32, _ *struct{}) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	for port, server := range m.servers {
		if !slices.Contains(ports, port) {
			_ = server.Close()
			delete(m.servers, port)
		}
	}
	for _, port := range ports {
		if m.servers[port] != nil {
			continue
		}
		listener, err := net.Listen("tcp", fmt.Sprintf(":%d", port))
		if err != nil {
			return err
		}
		server := &http.Server{
			Handler: m, ReadHeaderTimeout: answerTimeout,
			ConnContext: func(ctx context.Context, conn net.Conn) context.Context {
				return context.WithValue(ctx, theConn{}, conn)
			},
		}
		m.servers[port] = server
		go func() { _ = server.Serve(proxied{listener}) }()
	}
	return nil
}

// A Forwarding is the argument of [Machine.Forward].
type Forwarding struct {
	Port int32
	To   string
}

// Forward is called by [machine.forward].
func (m *Machine) Forward(f Forwarding, _ *struct{}) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if server := m.servers[f.Port]; server != nil {
		_ = server.Close()
	}
	listener, err := net.Listen("tcp", fmt.Sprintf(":%d", f.Port))
	if err != nil {
		return err
	}
	m.servers[f.Port] = listener
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go forward(conn, f.To)
		}
	}()
	return nil
}

// forward forwards a connection until one of its sides ends. The pod gets the address of the client
// that the node saw by the PROXY protocol.
func forward(client net.Conn, to string) {
	defer func() { _ = client.Close() }()
	pod, err := net.DialTimeout("tcp", to, answerTimeout)
	if err != nil {
		return
	}
	defer func() { _ = pod.Close() }()
	from, fromPort, _ := net.SplitHostPort(client.RemoteAddr().String())
	at, atPort, _ := net.SplitHostPort(client.LocalAddr().String())
	if _, err := fmt.Fprintf(pod, "PROXY TCP4 %s %s %s %s\r\n", from, at, fromPort,
		atPort); err != nil {
		return
	}
	ended := make(chan struct{}, 2)
	pipe := func(to, from net.Conn) {
		_, _ = io.Copy(to, from)
		ended <- struct{}{}
	}
	go pipe(pod, client)
	go pipe(client, pod)
	<-ended
}

// LosePods is called by [machine.losePods].
func (m *Machine) LosePods(_ struct{}, _ *struct{}) error {
	m.lacksPods.Store(true)
	return nil
}

// ListenUDP is called by [machine.listenUDP].
func (m *Machine) ListenUDP(ports []int32, _ *struct{}) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, socket := range m.sockets {
		_ = socket.Close()
	}
	m.sockets = nil
	for _, port := range ports {
		socket, err := net.ListenPacket("udp", fmt.Sprintf(":%d", port))
		if err != nil {
			return err
		}
		m.sockets = append(m.sockets, socket)
		go func() {
			buffer := make([]byte, 1)
			for {
				_, from, err := socket.ReadFrom(buffer)
				if err != nil {
					return
				}
				client, _, _ := net.SplitHostPort(from.String())
				text, _ := json.Marshal(Answer{Machine: m.name, Client: client})
				_, _ = socket.WriteTo(text, from)
			}
		}()
	}
	return nil
}

// Dial is called by [machine.dial].
func (m *Machine) Dial(target string, _ *struct{}) (err error) {
	if m.conn != nil {
		_ = m.conn.Close()
	}
	m.conn, err = net.DialTimeout("tcp", target, answerTimeout)
	return err
}

// Again is called by [machine.again].
func (m *Machine) Again(_ struct{}, a *Answer) error {
	if err := m.conn.SetDeadline(time.Now().Add(answerTimeout)); err != nil {
		return err
	}
	if _, err := io.WriteString(m.conn, "GET / HTTP/1.1\r\nHost: web\r\n\r\n"); err != nil {
		return err
	}
	response, err := http.ReadResponse(bufio.NewReader(m.conn), nil)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }()
	return json.NewDecoder(response.Body).Decode(a)
}

// WaitForTheEnd is called by [machine.waitForTheEnd].
func (m *Machine) WaitForTheEnd(_ struct{}, took *time.Duration) error {
	began := time.Now()
	if err := m.conn.SetDeadline(began.Add(2 * time.Minute)); err != nil {
		return err
	}
	if _, err := m.conn.Read(make([]byte, 1)); !errors.Is(err, io.EOF) &&
		!errors.Is(err, syscall.ECONNRESET) {
		return fmt.Errorf("the connection does not end: %v", err)
	}
	*took = time.Since(began)
	return nil
}

// Ask is called by [machine.ask].
func (m *Machine) Ask(target string, a *Answer) error {
	conn, err := net.Dial("udp", target)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	if err := conn.SetDeadline(time.Now().Add(answerTimeout)); err != nil {
		return err
	}
	if _, err := conn.Write([]byte("?")); err != nil {
		return err
	}
	return json.NewDecoder(conn).Decode(a)
}

// ServeHTTP implements http.Handler.
func (m *Machine) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	client, _, _ := net.SplitHostPort(r.RemoteAddr)
	conn, _ := r.Context().Value(theConn{}).(*proxiedConn)
	if r.URL.Path == "/healthz" && m.lacksPods.Load() {
		w.WriteHeader(http.StatusServiceUnavailable)
	}
	_ = json.NewEncoder(w).Encode(Answer{
		Machine: m.name, Client: client, Proxy: conn.version,
		ForwardedFor: r.Header.Get("X-Forwarded-For"),
	})
}

// Get is called by [machine.get].
func (m *Machine) Get(target string, a *Answer) error {
	ctx, cancel := context.WithTimeout(context.Background(), answerTimeout)
	defer cancel()
	if !strings.Contains(target, "://") {
		target = "http://" + target
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, target, nil)
	if err != nil {
		return err
	}
	response, err := (&http.Transport{
		DisableKeepAlives: true,
		// The test compares the certificate.
		TLSClientConfig: &tls.Config{InsecureSkipVerify: true},
	}).RoundTrip(request)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }()
	if err := json.NewDecoder(response.Body).Decode(a); err != nil {
		return err
	}
	if response.TLS != nil {
		a.Certificate = fingerprint(response.TLS.PeerCertificates[0].Raw)
	}
	return nil
}

func fingerprint(certificate []byte) string { return fmt.Sprintf("%x", sha256.Sum256(certificate)) }
