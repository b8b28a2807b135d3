package loadbalancer

import (
	"context"
	"fmt"

	eipmodel "github.com/huaweicloud/huaweicloud-sdk-go-v3/services/eip/v2/model"
	elb "github.com/huaweicloud/huaweicloud-sdk-go-v3/services/elb/v3"
	"github.com/huaweicloud/huaweicloud-sdk-go-v3/services/elb/v3/model"
	"k8s.io/utils/ptr"

	"github.com/fxccm/fxccm/provider/huaweicloud/internal/client"
)

// maxMembers is the number of members that one request may add or remove.
const maxMembers = 200

// pass is one reconcile of a Service.
type pass struct {
	*Balancers
	who      owner
	balancer string
	// group is the ID of the IP address group that limits listeners. Empty: no limit.
	group string
	// created are the IDs of pools that this pass created, by name.
	created map[string]string
	// address is that of the EIP that this pass created.
	address string
}

// poolID is the ID of an observed or a created pool.
func (p *pass) poolID(port port, q *pool) string {
	if q != nil {
		return q.Id
	}
	return p.created[port.name]
}

// call is a step of one request to ELB whose response is not needed.
func call[Q, R any](what string, method func(*elb.ElbClient, *Q) (*R, error),
	request func(*pass) *Q,
) step {
	return step{what, func(ctx context.Context, p *pass) error {
		_, err := method(p.client.ELB(ctx), request(p))
		return err
	}}
}

// remove is a call that ignores that the object does not exist.
func remove[Q, R any](what string, method func(*elb.ElbClient, *Q) (*R, error), request *Q) step {
	return step{what, func(ctx context.Context, p *pass) error {
		_, err := method(p.client.ELB(ctx), request)
		return unlessGone(err)
	}}
}

func createPool(port port) step {
	return step{"create pool " + port.name, func(ctx context.Context, p *pass) error {
		option := &model.CreatePoolOption{
			Name: &port.name, Description: &p.who.mark, LoadbalancerId: &p.balancer,
			Protocol: port.poolProtocol, LbAlgorithm: port.algorithm,
		}
		if port.persistence > 0 {
			option.SessionPersistence = &model.CreatePoolSessionPersistenceOption{
				Type:               model.GetCreatePoolSessionPersistenceOptionTypeEnum().SOURCE_IP,
				PersistenceTimeout: &port.persistence,
			}
		}
		r, err := p.client.ELB(ctx).CreatePool(&model.CreatePoolRequest{
			Body: &model.CreatePoolRequestBody{Pool: option},
		})
		if err != nil {
			return err
		}
		if r.Pool == nil {
			return errEmpty
		}
		p.created[port.name] = r.Pool.Id
		return nil
	}}
}

func updatePool(port port, id string) step {
	what := "set the algorithm of pool " + port.name
	return call(what, (*elb.ElbClient).UpdatePool, func(_ *pass) *model.UpdatePoolRequest {
		return &model.UpdatePoolRequest{PoolId: id, Body: &model.UpdatePoolRequestBody{
			Pool: &model.UpdatePoolOption{LbAlgorithm: &port.algorithm},
		}}
	})
}

func deletePool(q pool) step {
	return remove("delete pool "+q.Name, (*elb.ElbClient).DeletePoolCascade,
		&model.DeletePoolCascadeRequest{PoolId: q.Id})
}

func addMembers(port port, q *pool, keys []string) step {
	what := fmt.Sprintf("add %d members to pool %s", len(keys), port.name)
	return call(what,
		(*elb.ElbClient).BatchCreateMembers, func(p *pass) *model.BatchCreateMembersRequest {
			members := make([]model.BatchCreateMembersOption, len(keys))
			for at, key := range keys {
				address, number := splitMember(key)
				members[at] = model.BatchCreateMembersOption{
					Name: ptr.To(port.members[key]), Address: address, ProtocolPort: number,
					SubnetCidrId: ptr.To(p.config.memberSubnet(address)),
				}
			}
			return &model.BatchCreateMembersRequest{
				PoolId: p.poolID(port, q),
				Body:   &model.BatchCreateMembersRequestBody{Members: members},
			}
		})
}

func removeMembers(port port, q *pool, ids []string) step {
	members := make([]model.BatchDeleteMembersOption, len(ids))
	for at := range ids {
		members[at] = model.BatchDeleteMembersOption{Id: &ids[at]}
	}
	return remove(fmt.Sprintf("remove %d members from pool %s", len(ids), port.name),
		(*elb.ElbClient).BatchDeleteMembers, &model.BatchDeleteMembersRequest{
			PoolId: q.Id, Body: &model.BatchDeleteMembersRequestBody{Members: members},
		})
}

func createMonitor(port port, q *pool) step {
	what := "create the health check of " + port.name
	return call(what,
		(*elb.ElbClient).CreateHealthMonitor, func(p *pass) *model.CreateHealthMonitorRequest {
			m := port.monitor
			option := &model.CreateHealthMonitorOption{
				Name: &port.name, PoolId: p.poolID(port, q), Type: m.kind,
				Delay: m.delay, Timeout: m.timeout, MaxRetries: m.maxRetries,
				MonitorPort: unlessZero(m.port), UrlPath: unlessZero(m.path),
			}
			return &model.CreateHealthMonitorRequest{
				Body: &model.CreateHealthMonitorRequestBody{Healthmonitor: option},
			}
		})
}

func deleteMonitor(port port, id string) step {
	return remove("delete the health check of "+port.name, (*elb.ElbClient).DeleteHealthMonitor,
		&model.DeleteHealthMonitorRequest{HealthmonitorId: id})
}

func createListener(port port, q *pool) step {
	what := fmt.Sprintf("create listener %s %d", port.protocol, port.number)
	return call(what, (*elb.ElbClient).CreateListener, func(p *pass) *model.CreateListenerRequest {
		option := &model.CreateListenerOption{
			Name: &port.name, Description: &p.who.mark, LoadbalancerId: p.balancer,
			Protocol: port.protocol, ProtocolPort: &port.number,
			DefaultPoolId:          ptr.To(p.poolID(port, q)),
			DefaultTlsContainerRef: unlessZero(port.certificate),
		}
		if p.group != "" {
			option.Ipgroup = &model.CreateListenerIpGroupOption{
				IpgroupId: p.group, EnableIpgroup: ptr.To(true),
				Type: ptr.To(model.GetCreateListenerIpGroupOptionTypeEnum().WHITE),
			}
		}
		return &model.CreateListenerRequest{
			Body: &model.CreateListenerRequestBody{Listener: option},
		}
	})
}

func updateListener(port port, id string, q *pool) step {
	what := fmt.Sprintf("update listener %s %d", port.protocol, port.number)
	return call(what, (*elb.ElbClient).UpdateListener, func(p *pass) *model.UpdateListenerRequest {
		option := &model.UpdateListenerOption{
			DefaultPoolId:          ptr.To(p.poolID(port, q)),
			DefaultTlsContainerRef: unlessZero(port.certificate),
		}
		return &model.UpdateListenerRequest{
			ListenerId: id, Body: &model.UpdateListenerRequestBody{Listener: option},
		}
	})
}

func deleteListener(l model.Listener) step {
	what := fmt.Sprintf("delete listener %s %d", l.Protocol, l.ProtocolPort)
	// Without force, a listener with a pool or a policy is not deleted.
	return remove(what, (*elb.ElbClient).DeleteListenerForce,
		&model.DeleteListenerForceRequest{ListenerId: l.Id})
}

func deleteBalancer(id string) step {
	return remove("delete load balancer "+id, (*elb.ElbClient).DeleteLoadBalancer,
		&model.DeleteLoadBalancerRequest{LoadbalancerId: id})
}

func createPublicIP(n newPublicIP, port string) step {
	return step{"create an EIP and bind it", func(ctx context.Context, p *pass) error {
		shares := eipmodel.GetCreatePublicipBandwidthOptionShareTypeEnum()
		modes := eipmodel.GetCreatePublicipBandwidthOptionChargeModeEnum()
		bandwidth := &eipmodel.CreatePublicipBandwidthOption{ShareType: shares.WHOLE}
		if n.ShareType == "WHOLE" {
			bandwidth.Id = &n.ShareID
		} else {
			bandwidth.ShareType, bandwidth.ChargeMode = shares.PER, &modes.TRAFFIC
			bandwidth.Name, bandwidth.Size = &p.who.alias, &n.Bandwidth
			if n.ChargeMode == "bandwidth" {
				bandwidth.ChargeMode = &modes.BANDWIDTH
			}
		}
		r, err := p.client.EIP(ctx).CreatePublicip(&eipmodel.CreatePublicipRequest{
			Body: &eipmodel.CreatePublicipRequestBody{
				Bandwidth: bandwidth,
				Publicip:  &eipmodel.CreatePublicipOption{Type: n.Type, Alias: &p.who.alias},
			},
		})
		if err != nil {
			return err
		}
		if r.Publicip == nil || r.Publicip.Id == nil {
			return errEmpty
		}
		p.address = ptr.Deref(r.Publicip.PublicIpAddress, "")
		return setPublicIPPort(ctx, p, *r.Publicip.Id, port)
	}}
}

func bindPublicIP(ip publicIP, port string) step {
	return step{"bind EIP " + ip.address, func(ctx context.Context, p *pass) error {
		return setPublicIPPort(ctx, p, ip.id, port)
	}}
}

func unbindPublicIP(id string) step {
	return step{"unbind EIP " + id, func(ctx context.Context, p *pass) error {
		return unlessGone(setPublicIPPort(ctx, p, id, ""))
	}}
}

// setPublicIPPort binds an EIP to a port, or unbinds it from "".
func setPublicIPPort(ctx context.Context, p *pass, id, port string) error {
	_, err := p.client.EIP(ctx).UpdatePublicip(&eipmodel.UpdatePublicipRequest{
		PublicipId: id, Body: &eipmodel.UpdatePublicipsRequestBody{
			Publicip: &eipmodel.UpdatePublicipOption{PortId: &port},
		},
	})
	return err
}

func deletePublicIP(id string) step {
	return step{"delete EIP " + id, func(ctx context.Context, p *pass) error {
		_, err := p.client.EIP(ctx).DeletePublicip(
			&eipmodel.DeletePublicipRequest{PublicipId: id})
		return unlessGone(err)
	}}
}

// unlessZero returns nil for a value that the request omits.
func unlessZero[T comparable](value T) *T {
	if value == *new(T) {
		return nil
	}
	return &value
}

// unlessGone ignores that an object does not exist.
func unlessGone(err error) error {
	if client.IsNotFound(client.Describe(err, "")) {
		return nil
	}
	return err
}
