package main

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"

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

// newLabCloud ends the attempt if it cannot be made.
func newLabCloud(a *attempt, b *bench) *labCloud {
	n := b.settings.labNodes + 1
	b.progress.say(fmt.Sprintf("lab: making a project with %d servers in %s", n, labFolder()))
	c := &labCloud{Project: project.New(a)}
	for len(c.servers) < n {
		var names []string
		for i := len(c.servers); i < min(len(c.servers)+serversAtOnce, n); i++ {
			names = append(names, fmt.Sprintf("node-%04d", i))
		}
		c.servers = append(c.servers, c.AddServers(names)...)
		b.progress.update(fmt.Sprintf("lab: %d of %d servers are there", len(c.servers), n))
	}
	return c
}

// writeConfig writes a cloud.conf into a folder.
func (c *labCloud) writeConfig(dir string) (path string, _ error) {
	path = filepath.Join(dir, "lab.conf")
	global := c.Config().Global
	text := fmt.Sprintf(
		"[Global]\nauth-url = %s\nregion = %s\nusername = %s\npassword = %s\ndomain-name = %s\ntenant-name = %s\n"+
			"[LoadBalancer]\nsubnet-id = %s\nfloating-network-id = %s\ndrift-period = 0\n",
		global.AuthURL, global.Region, global.Username, string(global.Password), global.DomainName,
		global.TenantName,
		c.Subnets[4], c.Public)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		return "", fmt.Errorf("write the configuration of the cloud: %w", err)
	}
	return path, nil
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
func (c *labCloud) giveAccessAddresses(ctx context.Context, n int) (map[string]string, error) {
	access, api := map[string]string{}, c.User().API()
	indexes := make([]int, n)
	for i := range n {
		indexes[i], access[c.servers[i].Name] = i, accessAddress(i)
	}
	return access, inParallel(ctx, indexes, func(ctx context.Context, i int) error {
		body := project.Object{"server": project.Object{"accessIPv4": accessAddress(i)}}
		answer, err := api.Do(ctx, http.MethodPut, project.Compute, "/servers/"+c.servers[i].ID,
			body)
		if err == nil && answer.Status != http.StatusOK {
			err = fmt.Errorf("%s", answer)
		}
		return err
	})
}

// poolsPath is a request that only the benchmark sends.
const poolsPath = "/lbaas/pools?fields=members&fields=id"

// poolSizes are how many members each pool has. To Octavia this is no small question, so it is
// asked only when it is quiet.
func (c *labCloud) poolSizes(ctx context.Context) (sizes []int, _ error) {
	answer, err := c.User().API().Do(ctx, http.MethodGet, project.LoadBalancer, poolsPath, nil)
	if err != nil {
		return nil, err
	}
	if answer.Status != http.StatusOK {
		return nil, fmt.Errorf("%s", answer)
	}
	for _, pool := range objects(answer, "pools") {
		members, _ := pool["members"].([]any)
		sizes = append(sizes, len(members))
	}
	return sizes, nil
}

// checkPools is an error unless there are so many pools, each with so many members.
func (c *labCloud) checkPools(ctx context.Context, pools, members int) error {
	sizes, err := c.poolSizes(ctx)
	if err != nil {
		return fmt.Errorf("look at the pools: %w", err)
	}
	if len(sizes) != pools {
		return fmt.Errorf("there are %d pools instead of %d", len(sizes), pools)
	}
	for _, size := range sizes {
		if size != members {
			return fmt.Errorf("a pool has %d members instead of %d", size, members)
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
