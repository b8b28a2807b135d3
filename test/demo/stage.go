package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/kubernetes"

	"github.com/fxccm/fxccm/ccm/ccmtest/controlplane"
	"github.com/fxccm/fxccm/deploy"
	"github.com/fxccm/fxccm/internal/freeport"
	"github.com/fxccm/fxccm/internal/waittest"
	"github.com/fxccm/fxccm/test/internal/attempt"
)

// A story has the steps of a demo. A check also runs the ending.
type story struct{ preparation, chapters, ending []step }

// A step changes something and waits for the expected result.
type step struct {
	name string
	// limit is generous: the machine may be busy.
	limit time.Duration
	// do returns the observed result.
	do func(*attempt.T) (seen string)
}

// stage has the common parts of all demos: a folder, a control plane and processes.
type stage struct {
	dir string
	all []*replica

	// These fields are not changed after the first steps.
	controlPlane *controlplane.ControlPlane
	client       kubernetes.Interface
	// closers stop everything beside the processes.
	closers []func() error
}

func newStage(t *attempt.T) stage {
	dir, err := os.MkdirTemp("", "fxccm-demo-")
	t.Check(err)
	return stage{dir: dir}
}

// executable is the absolute path in a flag.
func executable(t *attempt.T, flag, path string) string {
	path, err := filepath.Abs(path)
	if err == nil {
		_, err = os.Stat(path)
	}
	if err != nil {
		t.Fatalf("--%s: %w", flag, err)
	}
	return path
}

func (s *stage) processes() []*replica   { return s.all }
func (s *stage) folder() string          { return s.dir }
func (s *stage) file(name string) string { return filepath.Join(s.dir, name) }

// add adds a process with a readiness check at a path of a free port. It does not start the
// process.
func (s *stage) add(
	t *attempt.T, name, binary, scheme, readyPath string, args func(port int) []string,
) *replica {
	port, err := freeport.Choose()
	t.Check(err)
	s.closers = append(s.closers, port.Close)
	r := &replica{
		name: name, binary: binary, port: port.Number, log: s.file(name + ".log"),
		args: args(port.Number), readyURL: scheme + "://" + port.Address() + readyPath,
	}
	s.all = append(s.all, r)
	return r
}

// startControlPlane starts etcd and kube-apiserver.
func (s *stage) startControlPlane(t *attempt.T) {
	var err error
	s.controlPlane, err = controlplane.Start(t.Context(),
		controlplane.Options{LogDir: s.file("control-plane")})
	t.Check(err)
	s.closers = append(s.closers, func() error { return s.controlPlane.Stop(context.Background()) })
	admin := s.controlPlane.RESTConfig()
	s.client, err = kubernetes.NewForConfig(admin)
	t.Check(err)
	t.Check(controlplane.WriteKubeconfig(s.file("admin.kubeconfig"), admin))
}

// allow applies rules, and writes the kubeconfig of the account that has them.
func (s *stage) allow(
	t *attempt.T, rules []*unstructured.Unstructured, namespace, account, kubeconfig string,
) {
	t.Check(deploy.Create(t.Context(), s.controlPlane.RESTConfig(), metav1.CreateOptions{},
		rules...))
	identity, err := s.controlPlane.ServiceAccountConfig(namespace, account)
	t.Check(err)
	t.Check(controlplane.WriteKubeconfig(s.file(kubeconfig), identity))
}

// requestsOf counts the requests of an account. It fails without requests, or if one was forbidden.
func (s *stage) requestsOf(t *attempt.T, namespace, account string) int {
	user := controlplane.ByUser(controlplane.ServiceAccountUser(namespace, account))
	all, err := s.controlPlane.Audit().All(user)
	t.Check(err)
	if len(all) == 0 {
		t.Fatalf("the audit log has no request of %s: the processes had another identity", account)
	}
	denied, err := s.controlPlane.Audit().All(user, controlplane.Denied())
	t.Check(err)
	if len(denied) > 0 {
		record := denied[0]
		t.Fatalf("%d requests of %s were forbidden by its rules, such as: %s %s %s", len(denied),
			account, record.Verb, record.ResourcePath(), record.Name)
	}
	return len(all)
}

// start starts processes.
func (s *stage) start(t *attempt.T, processes ...*replica) {
	for _, r := range processes {
		t.Check(r.start())
	}
}

// stopProcesses stops running processes together, so that none takes over. An exit code other than
// 0 is an error.
func stopProcesses(processes ...*replica) error {
	errs := make([]error, len(processes))
	var stopped sync.WaitGroup
	for i, r := range processes {
		if r.pid() == 0 {
			continue
		}
		stopped.Go(func() {
			code, err := r.stop()
			errs[i] = errors.Join(err, expect("the exit code of "+r.name, code, 0))
		})
	}
	stopped.Wait()
	return errors.Join(errs...)
}

// stop stops everything that was started, and removes the folder unless its logs are kept. It can
// be called again.
func (s *stage) stop(keepLogs bool) error {
	errs := []error{stopProcesses(s.all...)}
	for _, closer := range slices.Backward(s.closers) {
		errs = append(errs, closer())
	}
	s.closers = nil
	if !keepLogs {
		errs = append(errs, os.RemoveAll(s.dir))
	}
	return errors.Join(errs...)
}

// end is the last step of a check.
func (s *stage) end(t *attempt.T) string {
	pids := []int{s.controlPlane.APIServerPID(), s.controlPlane.EtcdPID()}
	t.Check(s.stop(false))
	for _, pid := range pids {
		if process, err := os.FindProcess(pid); err == nil &&
			process.Signal(syscall.Signal(0)) == nil {
			t.Fatalf("process %d of the control plane still runs", pid)
		}
	}
	if _, err := os.Stat(s.dir); !errors.Is(err, fs.ErrNotExist) {
		t.Fatalf("the folder %s still exists", s.dir)
	}
	return "the control plane has ended, and its folder is removed"
}

// until waits until cond returns nil. If the context or a process ends first, the step fails with
// that cause and cond's last error.
func (s *stage) until(t *attempt.T, cond func() error) {
	last := waittest.Poll(t.Context(), func() error {
		err := cond()
		if err != nil {
			for _, r := range s.all {
				t.Check(r.trouble())
			}
		}
		return err
	})
	if last != nil {
		t.Fatalf("%w; last seen: %w", context.Cause(t.Context()), last)
	}
}

// sleep waits, or returns the cause of ctx if that ends first.
func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func expect[V comparable](what string, got, want V) error {
	if got != want {
		return fmt.Errorf("%s is %v, want %v", what, got, want)
	}
	return nil
}

func expectNot[V comparable](what string, got, not V) error {
	if got == not {
		return fmt.Errorf("%s is %v", what, got)
	}
	return nil
}
