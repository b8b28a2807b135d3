package docs_test

import (
	"context"
	"fmt"
	"time"

	"github.com/go-logr/logr"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clientset "k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"

	"github.com/fxccm/fxccm/ccm"
	"github.com/fxccm/fxccm/ccm/election"
	"github.com/fxccm/fxccm/provider/fake"
)

func Example_election() {
	client := clientset.NewClientset()
	hostLock := &resourcelock.LeaseLock{
		LeaseMeta:  metav1.ObjectMeta{Namespace: "kube-system", Name: "my-control-plane"},
		Client:     client.CoordinationV1(),
		LockConfig: resourcelock.ResourceLockConfig{Identity: "replica-1"},
	}
	log := logr.Discard()
	managing, stopManager := context.WithCancel(context.Background())
	ours := announces(func(*ccm.Term, error) { stopManager() }, nothing) // ends the example

	// docs: begin lend
	elector := election.NewHost()
	// lease duration and renew deadline of the host's election
	lock := elector.Watch(hostLock, 15*time.Second, 10*time.Second)
	// docs: end
	manager, err := ccm.New(ccm.Params{
		Elector:     elector,
		Config:      onlyAnnounces(),
		Providers:   []ccm.Provider{fake.New().CCMProvider()},
		Controllers: []ccm.Controller{ours},
		RESTConfig:  hostRESTConfig(),
		Logger:      &log,
	})
	if err != nil {
		fmt.Println(err)
		return
	}

	electing, stopElection := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		// docs: begin elect
		leaderelection.RunOrDie(electing, leaderelection.LeaderElectionConfig{
			Lock:            lock, // the result of Watch
			LeaseDuration:   15 * time.Second,
			RenewDeadline:   10 * time.Second,
			RetryPeriod:     2 * time.Second,
			ReleaseOnCancel: true, // waits while a call of the Manager may act
			Callbacks: leaderelection.LeaderCallbacks{
				OnStartedLeading: func(leading context.Context) {
					// Other parts of the host that need leadership start here, too.
					if err := elector.Lead(leading, election.Grant{}); err != nil {
						log.Error(err,
							"The cloud controller manager did not end with the host's leadership")
					}
				},
				OnStoppedLeading: func() {}, // the process continues
			},
		})
		// docs: end
	}()
	ran := make(chan error, 1)
	go func() { ran <- manager.Run(managing) }()
	<-managing.Done()
	// docs: begin stop
	stopManager()
	<-manager.Done() // its calls have ended, or the drain timeout has passed
	stopElection()   // releases the lease
	// docs: end
	<-ended
	fmt.Println(<-ran, manager.Status().Term)
	lease, err := client.CoordinationV1().Leases("kube-system").Get(context.Background(),
		"my-control-plane", metav1.GetOptions{})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Printf("the lease is held by %q\n", *lease.Spec.HolderIdentity)
	// Output:
	// <nil> 1
	// the lease is held by ""
}

// docs: begin runnable

// leading makes the elector a Runnable of controller-runtime's manager that needs leader election.
type leading struct{ *election.Host }

func (l leading) Start(ctx context.Context) error { return l.Lead(ctx, election.Grant{}) }
func (leading) NeedLeaderElection() bool          { return true }

// docs: end

// These are copies of the interfaces in controller-runtime's package manager.
var (
	_ interface{ Start(context.Context) error } = leading{}
	_ interface{ NeedLeaderElection() bool }    = leading{}
)

// session is an election without a lease, whose end is known in advance.
type session struct{ ends time.Time }

func (s session) validUntil() time.Time  { return s.ends.Add(-time.Second) }
func (s session) leaseExpiry() time.Time { return s.ends }

func Example_grant() {
	elector, session := election.NewHost(), session{ends: time.Now().Add(time.Hour)}
	ctx, lost := context.WithCancel(context.Background())
	lost()
	// docs: begin grant
	err := elector.Lead(ctx, election.Grant{
		ValidUntil:  session.validUntil,  // the last moment at which a call may be sent
		LeaseExpiry: session.leaseExpiry, // the first moment at which another may lead
	})
	// docs: end
	fmt.Println(err)
	// Output: <nil>
}
