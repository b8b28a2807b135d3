package openstack_test

import (
	"errors"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/fxccm/fxccm/test/internal/project"
)

// Another client keeps the load balancer busy.
func TestLoadBalancer_BusyWithOthersChanges_IsServedInTheEnd(t *testing.T) {
	t.Parallel()
	s := begin(t, 2, nil)
	s.create("web", ports("80/TCP", "443/TCP"))
	s.serve("web")
	id := s.id("web")
	user := s.User().API()
	// One change after the other, until the Service is as it should be and for five at least.
	done, over := make(chan struct{}), make(chan error, 1)
	go func() {
		for n := 1; ; {
			answer, err := user.Do(t.Context(), http.MethodPut, project.LoadBalancer,
				"/lbaas/loadbalancers/"+id, project.Object{
					"loadbalancer": project.Object{"description": fmt.Sprint("change ", n)},
				})
			switch {
			case err != nil:
				over <- err
				return
			case answer.Status == http.StatusOK:
				n++
			case answer.Status != http.StatusConflict:
				over <- errors.New(answer.String())
				return
			}
			select {
			case <-done:
				if n > 5 {
					over <- nil
					return
				}
			default:
			}
			// Octavia has others to serve.
			time.Sleep(100 * time.Millisecond)
		}
	}()
	s.change("web", ports("80/TCP", "8443/TCP"), annotated("connection-limit", "9"))
	s.serve("web")
	s.editNode("node-2", nil)
	s.update("web")
	close(done)
	if err := <-over; err != nil {
		t.Fatal(err)
	}
	s.WaitBalancer(id)
	s.serve("web")
	v := s.view("web")
	if got := fmt.Sprint(v.portNames()); got != "[80/TCP 8443/TCP]" {
		t.Errorf("the ports are %s", got)
	}
	s.wantMembers("web", v, s.servers[0])
	s.quietAfterRestart()
	s.end()
}
