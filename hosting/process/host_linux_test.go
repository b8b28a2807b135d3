package process_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http/httptest"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/fxccm/fxccm/ccm"
	"github.com/fxccm/fxccm/ccm/ccmtest"
	"github.com/fxccm/fxccm/hosting/process"
	"github.com/fxccm/fxccm/internal/waittest"
	"github.com/fxccm/fxccm/provider/fake"
)

// hostVariable holds the arguments of the child: the address of a cloud, and a variant. It makes
// the test binary a host without a Manager, whose leadership expires by the clock.
const hostVariable = "FXCCM_TEST_HOST"

// hostWithoutFiles makes a host that cannot open files.
const hostWithoutFiles = "no files"

// grant is how long the leadership of that host lasts without a renewal.
const grant = 20 * time.Second

func runHost(cloud string) error {
	opened := newTerm()
	opened.env.Leadership.ValidUntil = func() time.Time {
		return time.Now().Truncate(grant / 4).Add(grant)
	}
	if cloud == hostWithoutFiles {
		return startWithoutFiles(opened)
	}
	ctx, cancel := context.WithCancelCause(context.Background())
	defer cancel(nil)
	address, variant, hasVariant := strings.Cut(cloud, " ")
	args := []string{address}
	if hasVariant {
		args = append(args, variant)
	}
	got, err := process.Provider(process.Options{Name: "remote", Args: args}).New(ctx, opened.env)
	if err != nil {
		return err
	}
	got.Initialize(nil, nil)
	input := make(chan error, 1)
	go func() {
		_, err := io.Copy(io.Discard, os.Stdin)
		input <- err
	}()
	select {
	case err := <-opened.failed:
		return err
	case err := <-input:
		cancel(ccm.ErrStopped)
		return errors.Join(err, got.(io.Closer).Close())
	}
}

// startWithoutFiles starts a provider while no file can be opened.
func startWithoutFiles(opened *term) error {
	limit := syscall.Rlimit{}
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return err
	}
	limit.Cur = 3
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return err
	}
	_, err := process.Provider(process.Options{Name: "remote", Path: "/bin/true"}).New(
		context.Background(), opened.env)
	return fmt.Errorf("%w; %d processes", err, opened.outside.Load())
}

// host is a running host.
type host struct {
	cmd *exec.Cmd
	// output has the last lines of the host when done is closed.
	output bytes.Buffer
	done   chan struct{}
}

func startHost(t *testing.T, cloud string) *host {
	t.Helper()
	path, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	h := &host{cmd: exec.Command(path), done: make(chan struct{})}
	h.cmd.Env = append(os.Environ(), hostVariable+"="+cloud)
	h.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	h.cmd.Stdout, h.cmd.Stderr = &h.output, &h.output
	input, err := h.cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := h.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(h.done)
		_ = h.cmd.Wait()
	}()
	t.Cleanup(func() {
		_ = input.Close()
		h.signal(t, syscall.SIGKILL)
		<-h.done
	})
	return h
}

func (h *host) signal(t *testing.T, signal syscall.Signal) {
	t.Helper()
	select {
	case <-h.done:
	default:
		if err := h.cmd.Process.Signal(signal); err != nil && !errors.Is(err, os.ErrProcessDone) {
			t.Error(err)
		}
	}
}

// wait returns the output of a host that ends.
func (h *host) wait(t *testing.T) string {
	t.Helper()
	return ccmtest.Eventually(t, "the host ends", func(context.Context) (string, error) {
		select {
		case <-h.done:
			return h.output.String(), nil
		default:
			return "", errors.New("it runs")
		}
	})
}

// isRunning reports whether a process exists and can run: a frozen parent does not collect its dead
// child.
func isRunning(pid int) (bool, error) {
	file, err := os.Open(fmt.Sprintf("/proc/%d/stat", pid))
	if errors.Is(err, os.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer func() { _ = file.Close() }()
	line, err := bufio.NewReader(file).ReadString('\n')
	if errors.Is(err, syscall.ESRCH) {
		return false, nil
	}
	// The name of the program is in parentheses, and the state follows it.
	_, state, _ := strings.Cut(line, ") ")
	return !strings.HasPrefix(state, "Z") && !strings.HasPrefix(state, "X"), err
}

func waitDead(t *testing.T, pid int) {
	t.Helper()
	waittest.Until(t, "process "+strconv.Itoa(pid)+" is dead", func() error {
		running, err := isRunning(pid)
		if running {
			err = errors.New("it runs")
		}
		return err
	})
}

// startHostWithChild returns a host, the process of its provider, and the program that it runs.
func startHostWithChild(t *testing.T) (h *host, child, program int) {
	t.Helper()
	cloud := fake.New()
	server := httptest.NewServer(cloud.Handler())
	t.Cleanup(server.Close)
	h = startHost(t, server.URL+" starts a program")
	call := ccmtest.Eventually(t, "the provider has started a program", ccmtest.Called(cloud,
		fake.CallFilter{Method: "AddSSHKeyToAllInstances"}.Matches))
	if _, err := fmt.Sscanf(call.Object, "started-%d", &program); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = syscall.Kill(program, syscall.SIGKILL) })
	child, err := strconv.Atoi(call.Caller)
	if err != nil {
		t.Fatal(err)
	}
	return h, child, program
}

func TestProvider_HostIsFrozenPastItsLease_ChildEndsByItselfWithItsPrograms(t *testing.T) {
	t.Parallel()
	h, child, program := startHostWithChild(t)
	h.signal(t, syscall.SIGSTOP)
	frozen := time.Now()
	waitDead(t, child)
	// The host has renewed its leadership until it was frozen.
	if lived := time.Since(frozen); lived < grant/2 {
		t.Errorf("the child ended after %s, while the host led", lived)
	}
	waitDead(t, program)
	h.signal(t, syscall.SIGCONT)
	if got := h.wait(t); !strings.Contains(got, "leadership expired without a renewal") {
		t.Errorf("the host ended with %q", got)
	}
}

func TestProvider_HostIsKilled_ChildDies(t *testing.T) {
	t.Parallel()
	h, child, _ := startHostWithChild(t)
	h.signal(t, syscall.SIGKILL)
	h.wait(t)
	waitDead(t, child)
}

// Linux does not end this child with its parent.
func TestMain_ConnectionToTheHostEnds_ChildEnds(t *testing.T) {
	t.Parallel()
	sockets, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	own, theirs := os.NewFile(uintptr(sockets[0]), "host"), os.NewFile(uintptr(sockets[1]), "child")
	path, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	var output bytes.Buffer
	cmd := exec.Command(path)
	cmd.Env = append(os.Environ(), "FXCCM_PROVIDER_PROCESS=1")
	cmd.ExtraFiles = []*os.File{theirs}
	cmd.Stdout, cmd.Stderr = &output, &output
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := errors.Join(cmd.Start(), theirs.Close()); err != nil {
		t.Fatal(err)
	}
	limit := time.AfterFunc(time.Minute, func() { _ = cmd.Process.Kill() })
	defer limit.Stop()
	if err := own.Close(); err != nil {
		t.Error(err)
	}
	ended := cmd.Wait()
	if got := output.String(); ended == nil ||
		!strings.Contains(got, "connection to the parent process ended: EOF") {
		t.Errorf("the child ended with %v and the output %q", ended, got)
	}
}

func TestProvider_HostCannotOpenFiles_IsAnErrorAndLeavesNoProcess(t *testing.T) {
	t.Parallel()
	h := startHost(t, hostWithoutFiles)
	got := h.wait(t)
	if !strings.Contains(got, "too many open files") || !strings.Contains(got, "0 processes") {
		t.Errorf("the host ended with %q", got)
	}
}
