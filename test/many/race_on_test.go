//go:build race

package many_test

// balancers tells whether the service controller runs. Upstream's writes in its service workers, without a lock, what its node worker
// reads (k8s.io/cloud-provider v0.37, controllers/service: cachedService.state), which the race detector finds when a Manager begins
// with nodes and Services there. So the tests run with the detector, and without it with that controller.
const balancers = false
