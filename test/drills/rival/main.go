// Command rival simulates the other program when a cluster is moved to or from fxccm: a candidate
// for the same lease with client-go's elector, which changes the cloud as fast as it can while it
// leads. It does not exit when it has lost the lease, so its terms are counted, and each calls the
// cloud under its own name.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"

	"github.com/fxccm/fxccm/provider/fake"
)

type settings struct {
	kubeconfig, identity, namespace, name, cloud string
	duration, renew, retry                       time.Duration
	workers                                      int
	pause                                        time.Duration
}

func main() {
	var s settings
	flag.StringVar(&s.kubeconfig, "kubeconfig", "", "")
	flag.StringVar(&s.identity, "leader-elect-identity", "", "")
	flag.StringVar(&s.namespace, "leader-elect-resource-namespace", "", "")
	flag.StringVar(&s.name, "leader-elect-resource-name", "", "")
	flag.DurationVar(&s.duration, "leader-elect-lease-duration", 0, "")
	flag.DurationVar(&s.renew, "leader-elect-renew-deadline", 0, "")
	flag.DurationVar(&s.retry, "leader-elect-retry-period", 0, "")
	flag.StringVar(&s.cloud, "cloud", "", "the address of the fake cloud")
	flag.IntVar(&s.workers, "workers", 0, "how many calls are made at once")
	flag.DurationVar(&s.pause, "pause", 0, "how long a worker waits between two calls")
	flag.Parse()
	if err := run(context.Background(), s); err != nil {
		fmt.Fprintln(os.Stderr, "rival:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, s settings) error {
	config, err := clientcmd.BuildConfigFromFlags("", s.kubeconfig)
	if err != nil {
		return err
	}
	config.Timeout = s.renew / 2
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	cloud, err := fake.Dial(ctx, s.cloud)
	if err != nil {
		return err
	}
	defer cloud.Close()
	for term := uint64(1); ; term++ {
		if err := lead(ctx, s, client, cloud, term); err != nil {
			return err
		}
	}
}

// lead campaigns once, and returns when leadership is lost and no call is in flight.
func lead(
	ctx context.Context, s settings, client kubernetes.Interface, cloud *fake.Client, term uint64,
) error {
	balancers, served := cloud.Provider(
		fake.WithCaller(fake.TermCaller(s.identity, term))).LoadBalancer()
	if !served {
		return errors.New("the cloud has no load balancers")
	}
	var working sync.WaitGroup
	started := make(chan context.Context, 1)
	elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Lock: &resourcelock.LeaseLock{
			LeaseMeta:  metav1.ObjectMeta{Namespace: s.namespace, Name: s.name},
			Client:     client.CoordinationV1(),
			LockConfig: resourcelock.ResourceLockConfig{Identity: s.identity},
		},
		LeaseDuration: s.duration, RenewDeadline: s.renew, RetryPeriod: s.retry,
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(ctx context.Context) { started <- ctx },
			OnStoppedLeading: func() {},
		},
	})
	if err != nil {
		return err
	}
	over := make(chan struct{})
	go func() {
		defer close(over)
		elector.Run(ctx)
	}()
	leading := <-started
	for i := range s.workers {
		service := &v1.Service{ObjectMeta: metav1.ObjectMeta{
			Namespace: s.namespace,
			Name:      fmt.Sprintf("rival-%02d", i), UID: types.UID(fmt.Sprintf("rival-%02d", i)),
		}}
		working.Go(func() {
			for leading.Err() == nil {
				// The cloud's record has the result.
				_, _ = balancers.EnsureLoadBalancer(leading, s.namespace, service, nil)
				select {
				case <-time.After(s.pause):
				case <-leading.Done():
				}
			}
		})
	}
	<-over
	working.Wait()
	return nil
}
