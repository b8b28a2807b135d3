package registered_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr/funcr"
	cloudprovider "k8s.io/cloud-provider"

	"github.com/fxccm/fxccm/ccm"
	"github.com/fxccm/fxccm/ccm/election"
	"github.com/fxccm/fxccm/hosting/registered"
	"github.com/fxccm/fxccm/internal/waittest"
	"github.com/fxccm/fxccm/provider/fake"
)

// secret is in configuration files, and must not be printed.
const secret = "hunter2"

var registrations atomic.Int64

// register registers a factory under a unique name.
func register(t *testing.T, factory cloudprovider.Factory) (name string) {
	t.Helper()
	name = fmt.Sprintf("%s-%d", t.Name(), registrations.Add(1))
	cloudprovider.RegisterCloudProvider(name, factory)
	return name
}

// build builds the cloud as a term does at its begin.
func build(name, configFile string) (cloudprovider.Interface, error) {
	return registered.Provider(name).New(context.Background(),
		ccm.ProviderEnv{ConfigFile: configFile})
}

// wants fails the test unless the error's text has all of the parts, and not the secret.
func wants(t *testing.T, err error, parts ...string) {
	t.Helper()
	if err == nil {
		t.Fatalf("the error is nil, want one with %q", parts)
	}
	for _, part := range parts {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("the error is %q, want one with %q", err, part)
		}
	}
	if strings.Contains(err.Error(), secret) {
		t.Errorf("the error %q quotes the configuration file", err)
	}
}

func write(t *testing.T, path, content string) string {
	t.Helper()
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// never is a factory that must not be called.
func never(t *testing.T) cloudprovider.Factory {
	return func(io.Reader) (cloudprovider.Interface, error) {
		t.Error("the factory was called")
		return nil, nil
	}
}

func TestProvider_EachTerm_FactoryReadsTheConfigurationFileAgain(t *testing.T) {
	cloud := fake.New().Provider()
	var got []string
	name := register(t, func(config io.Reader) (cloudprovider.Interface, error) {
		content, err := io.ReadAll(config)
		got = append(got, string(content))
		return cloud, err
	})
	path := filepath.Join(t.TempDir(), "cloud.conf")
	p := registered.Provider(name)
	if p.Name != name {
		t.Errorf("the provider's name is %q, want %q, the value of --cloud-provider", p.Name,
			name)
	}
	for term, content := range []string{"region = one", "region = two", ""} {
		write(t, path, content)
		built, err := p.New(t.Context(), ccm.ProviderEnv{ConfigFile: path})
		if err != nil || built != cloud {
			t.Fatalf("New returned %v, %v, want the factory's cloud", built, err)
		}
		if got[term] != content {
			t.Errorf("in term %d the factory read %q, want %q", term+1, got[term], content)
		}
	}
}

func TestProvider_WithoutAConfigurationFile_GivesTheFactoryNil(t *testing.T) {
	name := register(t, func(config io.Reader) (cloudprovider.Interface, error) {
		if config != nil {
			t.Errorf("the factory got %#v, want nil", config)
		}
		return fake.New().Provider(), nil
	})
	if _, err := build(name, ""); err != nil {
		t.Error(err)
	}
}

func TestProvider_WhenTheFactoryFails_SaysOnWhichFile_AndKeepsTheCause(t *testing.T) {
	cause := errors.New("region is missing")
	name := register(t, func(io.Reader) (cloudprovider.Interface, error) { return nil, cause })
	path := write(t, filepath.Join(t.TempDir(), "cloud.conf"), "password = "+secret)
	_, err := build(name, path)
	wants(t, err, path, "region is missing")
	if !errors.Is(err, cause) {
		t.Error("the factory's error is not in the chain")
	}
	_, err = build(name, "")
	wants(t, err, "without a configuration file", "region is missing")
}

func TestProvider_FactoryReturnsNothing_IsAnError(t *testing.T) {
	name := register(t, func(io.Reader) (cloudprovider.Interface, error) { return nil, nil })
	_, err := build(name, "")
	wants(t, err, "neither a cloud nor an error")
}

func TestProvider_WhenTheFactoryPanics_IsAnError_AndOthersCanStillBeBuilt(t *testing.T) {
	panics := register(t,
		func(io.Reader) (cloudprovider.Interface, error) { panic("no such zone") })
	works := register(t, func(io.Reader) (cloudprovider.Interface,
		error,
	) {
		return fake.New().Provider(), nil
	})
	var logged bytes.Buffer
	env := ccm.ProviderEnv{Logger: funcr.New(func(_, args string) { logged.WriteString(args) },
		funcr.Options{})}
	cloud, err := registered.Provider(panics).New(t.Context(), env)
	wants(t, err, "factory panicked: no such zone")
	if cloud != nil {
		t.Errorf("New returned the cloud %v beside the error", cloud)
	}
	if !strings.Contains(logged.String(), "provider_test.go") {
		t.Errorf("the log lacks the stack of the panic: %s", &logged)
	}
	if _, err := build(works, ""); err != nil {
		t.Errorf("after the panic of another factory: %v", err)
	}
}

func TestProvider_UnknownName_ErrorSaysWhatToDo(t *testing.T) {
	for name, want := range map[string]string{
		"":             "needs the name",
		"external":     "give the name of the cloud",
		"unregistered": "import the package",
	} {
		t.Run(name, func(t *testing.T) {
			_, err := build(name, "")
			wants(t, err, want)
		})
	}
}

func TestProvider_WhenTheFileCannotBeRead_NamesIt(t *testing.T) {
	dir := t.TempDir()
	large := filepath.Join(dir, "core")
	write(t, large, secret)
	if err := os.Truncate(large, 1<<30); err != nil {
		t.Fatal(err)
	}
	name := register(t, never(t))
	for path, want := range map[string]string{
		filepath.Join(dir, "missing"): "no such file",
		dir:                           "directory",
		large:                         "larger than 4 MiB",
	} {
		t.Run(filepath.Base(path), func(t *testing.T) {
			_, err := build(name, path)
			wants(t, err, "configuration file", path, want)
		})
	}
}

func TestProvider_WhenItsTermHasEnded_DoesNotCallTheFactory(t *testing.T) {
	name := register(t, never(t))
	ctx, end := context.WithCancelCause(t.Context())
	end(election.ErrLost)
	if _, err := registered.Provider(name).New(ctx, ccm.ProviderEnv{}); !errors.Is(err,
		election.ErrLost) {
		t.Errorf("New returned %v, want the end of the term", err)
	}
}

// A factory that hangs holds the lock of the registry. A later build must not act if its own term
// has ended meanwhile.
func TestProvider_WhenItsTermEndsBehindAFactoryThatHangs_DoesNotCallItsOwn(t *testing.T) {
	entered, release := make(chan struct{}), make(chan struct{})
	hangs := register(t, func(io.Reader) (cloudprovider.Interface, error) {
		close(entered)
		<-release
		return fake.New().Provider(), nil
	})
	waits := register(t, never(t))

	first := inBackground(func() error { _, err := build(hangs, ""); return err })
	<-entered
	ctx, end := context.WithCancelCause(t.Context())
	second := inBackground(func() error {
		_, err := registered.Provider(waits).New(ctx, ccm.ProviderEnv{})
		return err
	})
	end(election.ErrLost)
	close(release)
	if err := receive(t, first); err != nil {
		t.Error(err)
	}
	if err := receive(t, second); !errors.Is(err, election.ErrLost) {
		t.Errorf("New returned %v, want the end of the term", err)
	}
}

func inBackground(f func() error) <-chan error {
	done := make(chan error, 1)
	go func() { done <- f() }()
	return done
}

func receive(t *testing.T, result <-chan error) error {
	t.Helper()
	select {
	case err := <-result:
		return err
	case <-time.After(waittest.Limit):
		t.Fatal("New has not returned")
		return nil
	}
}
