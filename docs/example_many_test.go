package docs_test

import (
	"context"
	"fmt"
	"sync"

	"github.com/go-logr/logr"
	"k8s.io/client-go/rest"

	"github.com/fxccm/fxccm/ccm"
	"github.com/fxccm/fxccm/provider/fake"
)

// docs: begin fleet

// fleet runs a Manager for each cluster that is added, until that is removed.
type fleet struct {
	params    func(cluster string) ccm.Params // with the cluster as Params.Name
	undrained func(cluster string, err error) // what follows a Manager that could not be ended

	mu      sync.Mutex
	members map[string]member
}

type member struct {
	*ccm.Manager
	stop context.CancelFunc
}

func (f *fleet) add(cluster string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if _, ok := f.members[cluster]; ok {
		return fmt.Errorf("cluster %s has a Manager already", cluster)
	}
	manager, err := ccm.New(f.params(cluster))
	if err != nil {
		return fmt.Errorf("cluster %s: %w", cluster, err)
	}
	ctx, stop := context.WithCancel(context.Background())
	f.members[cluster] = member{manager, stop}
	go func() {
		if err := manager.Run(ctx); err != nil {
			f.undrained(cluster, err) // the others are not concerned
		}
	}()
	return nil
}

// remove returns when the Manager has ended, or undrained is told.
func (f *fleet) remove(cluster string) {
	f.mu.Lock()
	m, ok := f.members[cluster]
	delete(f.members, cluster)
	f.mu.Unlock()
	if ok {
		m.stop()
		<-m.Done()
	}
}

// docs: end

func Example_fleet() {
	leads := make(chan string)
	log := logr.Discard()
	f := &fleet{
		params: func(cluster string) ccm.Params {
			return ccm.Params{
				Name:      cluster,
				Config:    onlyAnnounces(),
				Providers: []ccm.Provider{fake.New().CCMProvider()},
				Controllers: []ccm.Controller{announces(func(*ccm.Term, error) {
					leads <- cluster
				}, nothing)},
				RESTConfig: &rest.Config{Host: "https://" + cluster + ".internal:6443"},
				Elector:    ccm.AlwaysLead(),
				Logger:     &log,
			}
		},
		undrained: func(cluster string, err error) { fmt.Println(cluster, err) },
		members:   map[string]member{},
	}
	for i := range 50 {
		if err := f.add(fmt.Sprintf("cluster-%d", i)); err != nil {
			fmt.Println(err)
			return
		}
	}
	fmt.Println(f.add("cluster-7"))
	all := map[string]bool{}
	for range 50 {
		all[<-leads] = true
	}
	var removing sync.WaitGroup
	for cluster := range all {
		removing.Go(func() { f.remove(cluster) })
	}
	removing.Wait()
	fmt.Println("led:", len(all), "left:", len(f.members))
	// Output:
	// cluster cluster-7 has a Manager already
	// led: 50 left: 0
}
