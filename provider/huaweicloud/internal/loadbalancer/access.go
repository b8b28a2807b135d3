package loadbalancer

import (
	"net/netip"
	"slices"

	"github.com/huaweicloud/huaweicloud-sdk-go-v3/services/elb/v3/model"
	servicehelpers "k8s.io/cloud-provider/service/helpers"
	"k8s.io/utils/ptr"
)

// maxSources is the number of addresses that ELB accepts in an IP address group.
const maxSources = 300

// sources returns the addresses that may connect. Empty: all.
func (p *parser) sources() []string {
	ranges, err := servicehelpers.GetLoadBalancerSourceRanges(p.service)
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

// limitListeners limits existing listeners to the sources. It precedes all other changes, so that a
// later failure does not leave a listener open. A listener cannot be separated from its group, only
// the group can be disabled: the group is deleted with the Service.
func (p *pass) limitListeners(balancer string, sources []string, ports []port) {
	var group model.IpGroup
	if len(p.groups) > 0 {
		group = p.groups[0]
	}
	if len(sources) > 0 {
		p.group = p.applyGroup(group, sources)
	}
	white := model.GetUpdateListenerIpGroupOptionTypeEnum().WHITE
	for _, port := range ports {
		l := p.findListener(balancer, port)
		bound := ptr.Deref(l.Ipgroup, model.ListenerIpGroup{})
		isEnabled := bound.EnableIpgroup && bound.IpgroupId != "" && bound.IpgroupId == group.Id
		switch {
		case l.Id == "":
		case len(sources) > 0 && !(isEnabled && bound.Type == white.Value()):
			p.updateListener("limit listener "+port.String()+" to the source ranges", l.Id,
				&model.UpdateListenerOption{Ipgroup: &model.UpdateListenerIpGroupOption{
					IpgroupId: &p.group, EnableIpgroup: ptr.To(true), Type: &white,
				}})
		case len(sources) == 0 && isEnabled:
			p.updateListener("open listener "+port.String()+" to all sources", l.Id,
				&model.UpdateListenerOption{Ipgroup: &model.UpdateListenerIpGroupOption{
					EnableIpgroup: ptr.To(false),
				}})
		}
	}
}

// applyGroup creates the group of the Service, or changes its addresses, and returns its ID.
func (p *pass) applyGroup(group model.IpGroup, sources []string) (id string) {
	if group.Id == "" {
		option := &model.CreateIpGroupOption{Name: &p.owner.name, Description: &p.owner.mark}
		for _, ip := range sources {
			option.IpList = append(option.IpList, model.CreateIpGroupIpOption{Ip: ip})
		}
		return create(p, "create an IP address group", p.elb.CreateIpGroup,
			&model.CreateIpGroupRequest{Body: &model.CreateIpGroupRequestBody{Ipgroup: option}},
			func(r *model.CreateIpGroupResponse) *model.IpGroup { return r.Ipgroup }).Id
	}
	var current []string
	for _, ip := range group.IpList {
		current = append(current, ip.Ip)
	}
	if !slices.Equal(canonical(current), sources) {
		list := make([]model.UpdateIpGroupIpOption, len(sources))
		for at, ip := range sources {
			list[at].Ip = ip
		}
		send(p, "update the IP address group", p.elb.UpdateIpGroup, &model.UpdateIpGroupRequest{
			IpgroupId: group.Id, Body: &model.UpdateIpGroupRequestBody{
				Ipgroup: &model.UpdateIpGroupOption{IpList: &list},
			},
		})
	}
	return group.Id
}
