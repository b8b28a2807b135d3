package batch_test

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/fxccm/fxccm/provider/kit/batch"
)

// Calls that are made at about the same time share one request to the cloud.
func ExampleNew() {
	type question struct{ server, status string }
	errClosed := errors.New("the client is closed")
	servers := batch.New(errClosed, func(_ context.Context, questions []*question) {
		for _, q := range questions { // a provider sends one list of all servers
			q.status = "ACTIVE"
		}
	})
	questions := []*question{{server: "a"}, {server: "b"}}
	var asking sync.WaitGroup
	for _, q := range questions {
		asking.Go(func() {
			if err := servers.Ask(context.Background(), q); err != nil {
				fmt.Println(err)
			}
		})
	}
	asking.Wait()
	for _, q := range questions {
		fmt.Println(q.server, q.status)
	}
	servers.Close()
	fmt.Println(servers.Ask(context.Background(), &question{server: "c"}))
	// Output:
	// a ACTIVE
	// b ACTIVE
	// the client is closed
}
