// Command manager runs a Manager with a fake cloud and takes snapshots of the process: before New,
// after New, and after the Manager has stopped. It is a program of its own, so that no other code
// has changed the process before.
//
//	manager KUBECONFIG FILE
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	cloudproviderapi "k8s.io/cloud-provider/api"

	"github.com/fxccm/fxccm/ccm"
	"github.com/fxccm/fxccm/provider/fake"
	"github.com/fxccm/fxccm/test/sideeffects/snapshot"
)

const (
	node  = "node-1"
	limit = time.Minute
)

func main() {
	if err := run(os.Args[1], os.Args[2]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(kubeconfig, file string) error {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	cfg, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return err
	}
	taken := map[string]snapshot.Snapshot{}
	if taken["before"], err = snapshot.Take(); err != nil {
		return err
	}
	cloud := fake.New()
	manager, err := newManager(cfg, cloud)
	if err != nil {
		return err
	}
	if taken["made"], err = snapshot.Take(); err != nil {
		return err
	}
	if err := lead(ctx, manager, cfg, cloud); err != nil {
		return err
	}
	if taken["stopped"], err = settled(ctx); err != nil {
		return err
	}
	data, err := json.Marshal(taken)
	if err != nil {
		return err
	}
	return os.WriteFile(file, data, 0o600)
}

func newManager(cfg *rest.Config, cloud *fake.Cloud) (*ccm.Manager, error) {
	if err := cloud.AddInstances(fake.Instance{Name: node}); err != nil {
		return nil, err
	}
	config := ccm.DefaultConfig()
	config.ClusterCIDR = "10.244.0.0/16"
	config.LeaderElection.Identity = "manager"
	log := logr.Discard()
	return ccm.New(ccm.Params{
		Config: config, Providers: []ccm.Provider{cloud.CCMProvider()},
		RESTConfig: cfg, Logger: &log,
	})
}

// lead runs the Manager until each of its controllers has called the cloud.
func lead(ctx context.Context, manager *ccm.Manager, cfg *rest.Config, cloud *fake.Cloud) error {
	client, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		return err
	}
	running, stop := context.WithCancel(ctx)
	result := make(chan error, 1)
	go func() { result <- manager.Run(running) }()
	worked := work(ctx, client, cloud)
	stop()
	return errors.Join(worked, <-result)
}

// work creates a Node that is not Ready and a Service, and waits until each controller has called
// the cloud.
func work(ctx context.Context, client kubernetes.Interface, cloud *fake.Cloud) error {
	_, err := client.CoreV1().Nodes().Create(ctx, &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: node},
		Spec: corev1.NodeSpec{
			PodCIDR: "10.244.0.0/24", PodCIDRs: []string{"10.244.0.0/24"},
			Taints: []corev1.Taint{{
				Key: cloudproviderapi.TaintExternalCloudProvider, Value: "true",
				Effect: corev1.TaintEffectNoSchedule,
			}},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	_, err = client.CoreV1().Services("default").Create(ctx, &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: "web"},
		Spec: corev1.ServiceSpec{
			Type:  corev1.ServiceTypeLoadBalancer,
			Ports: []corev1.ServicePort{{Port: 80}},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	for _, method := range []fake.Method{
		"InstanceMetadata", "InstanceExists",
		"EnsureLoadBalancer", "CreateRoute",
	} {
		done := func(call fake.Call) bool {
			return call.Method == method && call.Finished && call.Err == ""
		}
		if _, err := cloud.WaitForCall(ctx, done); err != nil {
			return fmt.Errorf("wait for %s: %w", method, err)
		}
	}
	return nil
}

// settled takes a snapshot when the number of goroutines no longer changes, or after 10 seconds.
// Upstream's controllers do not wait for their workers.
func settled(ctx context.Context) (snapshot.Snapshot, error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	last := -1
	for same := 0; same < 5; {
		s, err := snapshot.Take()
		if err != nil {
			return nil, err
		}
		if n := len(s[snapshot.Goroutines]); n != last {
			last, same = n, 0
		}
		same++
		select {
		case <-time.After(100 * time.Millisecond):
		case <-ctx.Done():
			return s, nil
		}
	}
	return snapshot.Take()
}
