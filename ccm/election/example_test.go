package election_test

import (
	"context"
	"fmt"
	"time"

	"github.com/go-logr/logr"
	"go.uber.org/fx"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clientset "k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"

	"github.com/fxccm/fxccm/ccm"
	"github.com/fxccm/fxccm/ccm/election"
	"github.com/fxccm/fxccm/provider/fake"
)

// announces returns a controller that prints its term.
func announces(done func()) ccm.Controller {
	return ccm.Controller{
		Name: "announces",
		New: func(_ context.Context, t *ccm.Term) (ccm.Runnable, error) {
			return ccm.RunnableFunc(func(ctx context.Context) error {
				fmt.Println("leads in term", t.Number())
				done()
				<-ctx.Done()
				return nil
			}), nil
		},
	}
}

// A host with its own election lends its leadership, and keeps it until Lead has returned.
func ExampleHost() {
	elector := election.NewHost()
	cfg := ccm.DefaultConfig()
	cfg.Controllers = []string{"announces"}
	log := logr.Discard()
	working := make(chan struct{}, 2)
	m, err := ccm.New(ccm.Params{
		Config:      cfg,
		Providers:   []ccm.Provider{fake.New().CCMProvider()},
		Controllers: []ccm.Controller{announces(func() { working <- struct{}{} })},
		RESTConfig:  &rest.Config{Host: "https://127.0.0.1:6443"},
		Elector:     elector, // with fx: fx.Supply(elector)
		Logger:      &log,
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx, stop := context.WithCancel(context.Background())
	go func() { _ = m.Run(ctx) }()

	for range 2 { // the host is elected, loses, and is elected again
		leading, lose := context.WithCancel(ctx)
		go func() {
			<-working
			lose()
		}()
		fmt.Println("leadership can be released:", elector.Lead(leading, election.Grant{}) == nil)
	}
	stop()
	<-m.Done()
	// Output:
	// leads in term 1
	// leadership can be released: true
	// leads in term 2
	// leadership can be released: true
}

// The Lease of a Manager can be in another cluster than its nodes.
func ExampleNewLease() {
	cfg := ccm.DefaultConfig().LeaderElection
	cfg.ResourceNamespace, cfg.ResourceName = "clusters", "workload-1"
	cfg.Identity = "replica-1"
	elector, err := election.NewLease(election.LeaseParams{
		RESTConfig: &rest.Config{Host: "https://management.example.com:6443"},
		Config:     cfg,
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	m, err := ccm.New(ccm.Params{
		Config:     ccm.DefaultConfig(),
		Providers:  []ccm.Provider{fake.New().CCMProvider()},
		RESTConfig: &rest.Config{Host: "https://workload-1.example.com:6443"},
		Elector:    elector,
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(m.Status().Election.Identity)
	// Output: replica-1
}

// A host with client-go's elector wraps the lock with Watch. A process that was frozen past its
// lease then does not act, and the lease is not released while a term runs. The Manager stops
// first, so that calls in flight can finish.
func ExampleHost_Watch() {
	const leaseDuration, renewDeadline, retryPeriod = 15 * time.Second, 10 * time.Second,
		2 * time.Second
	client := clientset.NewClientset() // a real host calls kubernetes.NewForConfig
	elector := election.NewHost()
	lock := elector.Watch(&resourcelock.LeaseLock{
		LeaseMeta:  metav1.ObjectMeta{Namespace: "kube-system", Name: "my-control-plane"},
		Client:     client.CoordinationV1(),
		LockConfig: resourcelock.ResourceLockConfig{Identity: "replica-1"},
	}, leaseDuration, renewDeadline)

	cfg := ccm.DefaultConfig()
	cfg.Controllers = []string{"announces"}
	log := logr.Discard()
	var stop context.CancelFunc
	m, err := ccm.New(ccm.Params{
		Config:      cfg,
		Providers:   []ccm.Provider{fake.New().CCMProvider()},
		Controllers: []ccm.Controller{announces(func() { stop() })}, // ends the example
		RESTConfig:  &rest.Config{Host: "https://127.0.0.1:6443"},
		Elector:     elector,
		Logger:      &log,
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	manager, stopManager := context.WithCancel(context.Background())
	stop = stopManager
	electing, stopElection := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		leaderelection.RunOrDie(electing, leaderelection.LeaderElectionConfig{
			Lock:          lock,
			LeaseDuration: leaseDuration, RenewDeadline: renewDeadline, RetryPeriod: retryPeriod,
			ReleaseOnCancel: true,
			Callbacks: leaderelection.LeaderCallbacks{
				OnStartedLeading: func(leading context.Context) {
					_ = elector.Lead(leading, election.Grant{})
				},
				OnStoppedLeading: func() {},
			},
		})
	}()

	fmt.Println("the Manager has ended with", m.Run(manager))
	stopElection()
	<-ended
	lease, err := client.CoordinationV1().Leases("kube-system").Get(context.Background(),
		"my-control-plane", metav1.GetOptions{})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Printf("the lease is held by %q\n", *lease.Spec.HolderIdentity)
	// Output:
	// leads in term 1
	// the Manager has ended with <nil>
	// the lease is held by ""
}

// A host without other replicas needs no election.
func ExampleAlone() {
	app := fx.Options(
		ccm.Module,
		fake.Module(fake.New()),
		fx.Supply(ccm.DefaultConfig(), &rest.Config{Host: "https://127.0.0.1:6443"}),
		fx.Supply(&election.Alone{}), // or Config.LeaderElection.LeaderElect = false
	)
	fmt.Println("complete:", fx.ValidateApp(app) == nil)
	// Output: complete: true
}
