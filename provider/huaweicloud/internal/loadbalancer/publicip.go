package loadbalancer

import (
	"cmp"
	"fmt"
	"slices"

	eipmodel "github.com/huaweicloud/huaweicloud-sdk-go-v3/services/eip/v2/model"
	"github.com/huaweicloud/huaweicloud-sdk-go-v3/services/elb/v3/model"
	"k8s.io/utils/ptr"

	"github.com/fxccm/fxccm/provider/huaweicloud/internal/client"
)

// showNamedEIP returns the EIP that the Service names, or a zero one.
func (p *pass) showNamedEIP() (publicIP, error) {
	if p.namedEIP == "" {
		return publicIP{}, nil
	}
	ip, err := client.Get(fmt.Sprintf("annotation %s: get EIP %s", annotationEIP, p.namedEIP),
		p.eip.ShowPublicip, &eipmodel.ShowPublicipRequest{PublicipId: p.namedEIP},
		func(r *eipmodel.ShowPublicipResponse) *eipmodel.PublicipShowResp { return r.Publicip })
	return newPublicIP(ip), err
}

// unbindNamedEIP unbinds the EIP that the Service names from the existing load balancer that the
// Service names. The deletion of a load balancer unbinds its EIPs.
func (p *pass) unbindNamedEIP(balancer string) {
	if p.err != nil || balancer == "" {
		return
	}
	named, err := p.showNamedEIP()
	if err == nil && named.port != "" {
		var adopted model.LoadBalancer
		if adopted, err = p.show(balancer); err == nil && adopted.VipPortId == named.port {
			p.unbindPublicIP(named.id)
		}
	}
	p.err = cmp.Or(p.err, unlessGone(err))
}

// checkPublicIPs refuses an EIP that is in use elsewhere, and an EIP for a load balancer that
// already has one that does not belong to the Service.
func (p *pass) checkPublicIPs(balancer model.LoadBalancer, s settings, named publicIP) error {
	if named.port != "" && named.port != balancer.VipPortId {
		return fmt.Errorf("EIP %s of annotation %s is bound to port %s: unbind it first",
			named.id, annotationEIP, named.port)
	}
	if named.id == "" && s.newEIP == nil {
		return nil
	}
	for _, bound := range balancer.Publicips {
		isMine := slices.ContainsFunc(p.publicIPs,
			func(ip publicIP) bool { return ip.id == bound.PublicipId })
		if !isMine && bound.PublicipId != named.id {
			return fmt.Errorf("load balancer %s already has EIP %s, which does not belong to the "+
				"Service: unbind it, or remove the annotation that asks for another EIP",
				balancer.Id, bound.PublicipAddress)
		}
	}
	return nil
}

// applyPublicIPs binds the EIP that the Service requests, and releases the others that carry its
// mark. It returns the address of the Service: without such an EIP, another EIP of the load
// balancer, or its private address.
func (p *pass) applyPublicIPs(balancer model.LoadBalancer, s settings, named publicIP) string {
	wanted, others, keep := named, p.publicIPs, p.keepsEIP
	switch {
	case s.newEIP == nil:
	case len(p.publicIPs) == 0:
		wanted = p.createPublicIP(*s.newEIP)
	default:
		// A creation whose response was lost may have been repeated.
		wanted, others, keep = p.publicIPs[0], p.publicIPs[1:], false
	}
	p.releasePublicIPs(others, keep)
	if wanted.id != "" {
		if wanted.port != "" && wanted.port != balancer.VipPortId {
			p.unbindPublicIP(wanted.id)
		}
		if wanted.port != balancer.VipPortId {
			send(p, "bind EIP "+wanted.address, p.eip.UpdatePublicip,
				bindingOf(wanted.id, balancer.VipPortId))
		}
		return wanted.address
	}
	for _, bound := range balancer.Publicips {
		if !p.unbound[bound.PublicipId] && bound.IpVersion != 6 {
			return bound.PublicipAddress
		}
	}
	return balancer.VipAddress
}

// releasePublicIPs unbinds EIPs, and deletes them unless they are to be kept.
func (p *pass) releasePublicIPs(ips []publicIP, keep bool) {
	for _, ip := range ips {
		if ip.port != "" {
			p.unbindPublicIP(ip.id)
		}
		if !keep {
			remove(p, "delete EIP "+ip.id, p.eip.DeletePublicip,
				&eipmodel.DeletePublicipRequest{PublicipId: ip.id})
		}
	}
}

// unbindPublicIP unbinds an EIP once in a pass.
func (p *pass) unbindPublicIP(id string) {
	if p.unbound[id] {
		return
	}
	p.unbound[id] = true
	remove(p, "unbind EIP "+id, p.eip.UpdatePublicip, bindingOf(id, ""))
}

// bindingOf binds an EIP to a port, or unbinds it from "".
func bindingOf(id, port string) *eipmodel.UpdatePublicipRequest {
	return &eipmodel.UpdatePublicipRequest{
		PublicipId: id, Body: &eipmodel.UpdatePublicipsRequestBody{
			Publicip: &eipmodel.UpdatePublicipOption{PortId: &port},
		},
	}
}

// createPublicIP returns an EIP that is not bound.
func (p *pass) createPublicIP(n newEIP) publicIP {
	bandwidth := &eipmodel.CreatePublicipBandwidthOption{ShareType: n.ShareType}
	if n.ShareType == shareTypes.WHOLE {
		bandwidth.Id = &n.ShareID
	} else {
		bandwidth.Name, bandwidth.Size = &p.owner.alias, &n.Bandwidth
		bandwidth.ChargeMode = &n.ChargeMode
	}
	return create(p, "create an EIP", p.eip.CreatePublicip, &eipmodel.CreatePublicipRequest{
		Body: &eipmodel.CreatePublicipRequestBody{
			Bandwidth: bandwidth,
			Publicip:  &eipmodel.CreatePublicipOption{Type: n.Type, Alias: &p.owner.alias},
		},
	}, func(r *eipmodel.CreatePublicipResponse) *publicIP {
		if r.Publicip == nil || r.Publicip.Id == nil {
			return nil
		}
		return &publicIP{id: *r.Publicip.Id, address: ptr.Deref(r.Publicip.PublicIpAddress, "")}
	})
}
