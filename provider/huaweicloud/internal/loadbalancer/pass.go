package loadbalancer

import (
	"context"

	eip "github.com/huaweicloud/huaweicloud-sdk-go-v3/services/eip/v2"
	elb "github.com/huaweicloud/huaweicloud-sdk-go-v3/services/elb/v3"
	v1 "k8s.io/api/core/v1"
	cloudprovider "k8s.io/cloud-provider"

	"github.com/fxccm/fxccm/provider/huaweicloud/internal/client"
)

// pass is one reconcile of a Service. After its first error it sends no request; the next pass
// starts again from what it observes.
type pass struct {
	*Balancers
	owner owner
	// elb and eip end with the context of the pass.
	elb *elb.ElbClient
	eip *eip.EipClient
	// namedEIP is the ID of the EIP that the Service names. keepsEIP is annotationKeepEIP.
	namedEIP string
	keepsEIP bool

	observed
	// group is the ID of the IP address group of new listeners. Empty: all sources may connect.
	group string
	// unbound are the IDs of the EIPs that this pass unbound.
	unbound map[string]bool
	err     error
}

// begin sends no request.
func (b *Balancers) begin(ctx context.Context, cluster string, service *v1.Service) (*pass, error) {
	owner, err := newOwner(cluster, cloudprovider.DefaultLoadBalancerName(service), service)
	return &pass{
		Balancers: b, owner: owner, elb: b.config.Client.ELB(ctx), eip: b.config.Client.EIP(ctx),
		namedEIP: annotation(service, annotationEIP),
		keepsEIP: annotation(service, annotationKeepEIP) == "true",
		unbound:  map[string]bool{},
	}, err
}

// change makes a change unless the pass has failed.
func (p *pass) change(what string, request func() error) {
	if p.err != nil {
		return
	}
	if p.err = request(); p.err == nil {
		p.config.Logger.Info("Load balancer changed", "change", what, "owner", p.owner.mark)
	}
}

// send is a change whose response is not needed.
func send[Q, R any](p *pass, what string, method func(*Q) (*R, error), request *Q) {
	p.change(what, func() error {
		_, err := client.Call(what, method, request)
		return err
	})
}

// create is a change that returns an object, or its zero value after an error.
func create[Q, R, T any](p *pass, what string, method func(*Q) (*R, error), request *Q,
	object func(*R) *T,
) (created T) {
	p.change(what, func() (err error) {
		created, err = client.Get(what, method, request, object)
		return err
	})
	return created
}

// remove is a change that ignores that the object does not exist.
func remove[Q, R any](p *pass, what string, method func(*Q) (*R, error), request *Q) {
	p.change(what, func() error {
		_, err := client.Call(what, method, request)
		return unlessGone(err)
	})
}

// unlessGone ignores that an object does not exist.
func unlessGone(err error) error {
	if client.IsNotFound(err) {
		return nil
	}
	return err
}
