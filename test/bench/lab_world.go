package main

import (
	"context"
	"fmt"
	"net/http"

	corev1 "k8s.io/api/core/v1"

	"github.com/fxccm/fxccm/test/internal/project"
)

// serversAtOnce is how many servers are created between two lines of progress.
const serversAtOnce = 8

// labCloud is a project in the lab, with the servers of a cluster's nodes and one more, whose node
// joins later.
type labCloud struct {
	*project.Project
	servers []project.Server
}

// newLabCloud makes a project that lasts as long as the trial.
func newLabCloud(t *trial) *labCloud {
	n := t.labNodes + 1
	t.progress.say(fmt.Sprintf("lab: making a project with %d servers in %s", n, labFolder()))
	c := &labCloud{Project: project.New(t)}
	for len(c.servers) < n {
		var names []string
		for i := len(c.servers); i < min(len(c.servers)+serversAtOnce, n); i++ {
			names = append(names, fmt.Sprintf("node-%04d", i))
		}
		c.servers = append(c.servers, c.AddServers(names)...)
		t.update("%d of %d servers are there", len(c.servers), n)
	}
	return c
}

// config is a cloud.conf.
func (c *labCloud) config() string {
	global := c.Config().Global
	return fmt.Sprintf(
		"[Global]\nauth-url = %s\nregion = %s\nusername = %s\npassword = %s\ndomain-name = %s\ntenant-name = %s\n"+
			"[LoadBalancer]\nsubnet-id = %s\nfloating-network-id = %s\ndrift-period = 0\n",
		global.AuthURL, global.Region, global.Username, string(global.Password), global.DomainName,
		global.TenantName, c.Subnets[4], c.Public)
}

// nodes are those of the servers, as they register.
func (c *labCloud) nodes() (all []*corev1.Node) {
	for _, s := range c.servers {
		all = append(all, newNode(s.Name))
	}
	return all
}

// giveAccessAddresses gives each of the first n servers an address for the outer world, and tells
// which by the server's name.
func (t *labTrial) giveAccessAddresses(n int) map[string]string {
	access, api := map[string]string{}, t.cloud.User().API()
	for i, s := range t.cloud.servers[:n] {
		access[s.Name] = accessAddress(i)
	}
	inParallel(t.trial, t.cloud.servers[:n], func(ctx context.Context, s project.Server) error {
		body := project.Object{"server": project.Object{"accessIPv4": access[s.Name]}}
		answer, err := api.Do(ctx, http.MethodPut, project.Compute, "/servers/"+s.ID, body)
		if err == nil && answer.Status != http.StatusOK {
			err = fmt.Errorf("%s", answer)
		}
		return err
	})
	return access
}

// poolsPath is a request that only the benchmark sends.
const poolsPath = "/lbaas/pools?fields=members&fields=id"

// checkPools is an error unless there are so many pools, each with so many members. To Octavia this
// is no small question, so it is asked only when it is quiet.
func (c *labCloud) checkPools(pools, members int) error {
	all := c.User().List(project.LoadBalancer, poolsPath, "pools")
	if len(all) != pools {
		return fmt.Errorf("there are %d pools instead of %d", len(all), pools)
	}
	for _, pool := range all {
		if has, _ := pool["members"].([]any); len(has) != members {
			return fmt.Errorf("a pool has %d members instead of %d", len(has), members)
		}
	}
	return nil
}

// checkEmpty is an error if anything is left of load balancers.
func (c *labCloud) checkEmpty() error {
	all := c.Inventory()
	for _, kind := range []string{"load balancer", "listener", "pool", "member", "floating IP"} {
		if left := all.Of(kind); len(left) > 0 {
			return fmt.Errorf("a %s is left over: %v", kind, left[0])
		}
	}
	return nil
}
