package loadbalancer

import (
	"context"
	"fmt"
	"net/netip"
	"slices"

	elb "github.com/huaweicloud/huaweicloud-sdk-go-v3/services/elb/v3"
	"github.com/huaweicloud/huaweicloud-sdk-go-v3/services/elb/v3/model"
	v1 "k8s.io/api/core/v1"
	servicehelpers "k8s.io/cloud-provider/service/helpers"
	"k8s.io/utils/ptr"

	"github.com/fxccm/fxccm/provider/huaweicloud/internal/client"
)

// maxSources is the number of addresses that ELB accepts in an IP address group.
const maxSources = 300

// allowed is the type of an IP address group whose addresses may connect.
const allowed = "white"

// sources returns the addresses that may connect. Empty: all.
func (p *parser) sources(service *v1.Service) []string {
	ranges, err := servicehelpers.GetLoadBalancerSourceRanges(service)
	switch {
	case err != nil:
		p.problem("%s", err)
		return nil
	case servicehelpers.IsAllowAll(ranges):
		return nil
	case len(ranges) > maxSources:
		p.problem("loadBalancerSourceRanges has %d ranges, and ELB accepts %d", len(ranges),
			maxSources)
	}
	return canonical(ranges.StringSlice())
}

// canonical returns sorted addresses in ELB's form, in which a range of one address has no length.
func canonical(ranges []string) []string {
	for at, text := range ranges {
		if prefix, err := netip.ParsePrefix(text); err == nil {
			ranges[at] = prefix.Masked().String()
			if prefix.IsSingleIP() {
				ranges[at] = prefix.Addr().String()
			}
		}
	}
	slices.Sort(ranges)
	return slices.Compact(ranges)
}

// listGroups returns the IP address groups that carry the mark. Some regions have no such groups.
func (b *Balancers) listGroups(ctx context.Context, mark string) ([]model.IpGroup, error) {
	groups, err := pages("list IP address groups", b.client.ELB(ctx).ListIpGroups,
		func(marker *string) *model.ListIpGroupsRequest {
			return &model.ListIpGroupsRequest{
				Description: &[]string{mark}, Marker: marker, Limit: ptr.To[int32](pageLimit),
			}
		}, func(r *model.ListIpGroupsResponse) (*[]model.IpGroup, *model.PageInfo) {
			return r.Ipgroups, r.PageInfo
		})
	if client.IsNotFound(err) {
		return nil, nil
	}
	return groups, err
}

// planAccess returns the changes that limit existing listeners to the sources. They precede all
// others, so that a later failure does not leave a listener open. A listener cannot be separated
// from its group, only the group can be disabled: the group is deleted with the Service.
func planAccess(balancer string, sources []string, ports []port, o observed) []step {
	var group model.IpGroup
	if len(o.groups) > 0 {
		group = o.groups[0]
	}
	var steps []step
	if len(sources) > 0 {
		steps = append(steps, setGroup(group, sources)...)
	}
	for _, p := range ports {
		l := findListener(o, balancer, p)
		if l == nil {
			continue
		}
		bound := ptr.Deref(l.Ipgroup, model.ListenerIpGroup{})
		isMine := bound.IpgroupId != "" && bound.IpgroupId == group.Id
		isLimited := isMine && bound.EnableIpgroup && bound.Type == allowed
		switch {
		case len(sources) > 0 && !isLimited:
			steps = append(steps, limitListener(p, l.Id, true))
		case len(sources) == 0 && isMine && bound.EnableIpgroup:
			steps = append(steps, limitListener(p, l.Id, false))
		}
	}
	return steps
}

// setGroup creates the group, or changes its addresses.
func setGroup(group model.IpGroup, sources []string) []step {
	if group.Id == "" {
		return []step{createGroup(sources)}
	}
	observed := make([]string, len(group.IpList))
	for at, ip := range group.IpList {
		observed[at] = ip.Ip
	}
	if slices.Equal(canonical(observed), sources) {
		return nil
	}
	list := make([]model.UpdateIpGroupIpOption, len(sources))
	for at, ip := range sources {
		list[at] = model.UpdateIpGroupIpOption{Ip: ip}
	}
	return []step{call("update the IP address group", (*elb.ElbClient).UpdateIpGroup,
		func(*pass) *model.UpdateIpGroupRequest {
			return &model.UpdateIpGroupRequest{
				IpgroupId: group.Id, Body: &model.UpdateIpGroupRequestBody{
					Ipgroup: &model.UpdateIpGroupOption{IpList: &list},
				},
			}
		})}
}

func createGroup(sources []string) step {
	return step{"create an IP address group", func(ctx context.Context, p *pass) error {
		option := &model.CreateIpGroupOption{Name: &p.who.name, Description: &p.who.mark}
		for _, ip := range sources {
			option.IpList = append(option.IpList, model.CreateIpGroupIpOption{Ip: ip})
		}
		r, err := p.client.ELB(ctx).CreateIpGroup(&model.CreateIpGroupRequest{
			Body: &model.CreateIpGroupRequestBody{Ipgroup: option},
		})
		if err == nil && r.Ipgroup == nil {
			err = errEmpty
		}
		if err == nil {
			p.group = r.Ipgroup.Id
		}
		return err
	}}
}

// limitListener enables or disables the group of a listener.
func limitListener(port port, id string, isLimited bool) step {
	what := fmt.Sprintf("limit listener %s %d to the source ranges", port.protocol, port.number)
	if !isLimited {
		what = fmt.Sprintf("open listener %s %d to all sources", port.protocol, port.number)
	}
	return call(what, (*elb.ElbClient).UpdateListener, func(p *pass) *model.UpdateListenerRequest {
		group := &model.UpdateListenerIpGroupOption{EnableIpgroup: &isLimited}
		if isLimited {
			group.IpgroupId = &p.group
			group.Type = ptr.To(model.GetUpdateListenerIpGroupOptionTypeEnum().WHITE)
		}
		return &model.UpdateListenerRequest{ListenerId: id, Body: &model.UpdateListenerRequestBody{
			Listener: &model.UpdateListenerOption{Ipgroup: group},
		}}
	})
}

// deleteGroups deletes groups whose listeners have been deleted.
func deleteGroups(groups []model.IpGroup) []step {
	var steps []step
	for _, g := range groups {
		steps = append(steps, remove("delete IP address group "+g.Id,
			(*elb.ElbClient).DeleteIpGroup, &model.DeleteIpGroupRequest{IpgroupId: g.Id}))
	}
	return steps
}
