package stub

import (
	"net/http"

	"github.com/huaweicloud/huaweicloud-sdk-go-v3/services/elb/v3/model"
)

// Groups returns the IP address groups, sorted by ID.
func (c *Cloud) Groups() []model.IpGroup { return sorted(c, c.groups) }

func (c *Cloud) routeGroups(mux *http.ServeMux) {
	const base = "/v3/{project}/elb/ipgroups"
	mux.HandleFunc("GET "+base, func(w http.ResponseWriter, r *http.Request) {
		items, next := page(r, c.groups, pageSize, func(id string, g *model.IpGroup) bool {
			return matches(r, "id", id) && matches(r, "description", g.Description)
		})
		replySDK(w, map[string]any{"ipgroups": items, "page_info": info(len(items), next)})
	})
	mux.HandleFunc("POST "+base, func(w http.ResponseWriter, r *http.Request) {
		var body model.CreateIpGroupRequestBody
		if !decode(w, r, &body) {
			return
		}
		g := &model.IpGroup{
			Id: c.id(), Name: *body.Ipgroup.Name, Description: *body.Ipgroup.Description,
			ProjectId: ProjectID, Listeners: []model.ListenerRef{},
		}
		for _, ip := range body.Ipgroup.IpList {
			g.IpList = append(g.IpList, model.IpInfo{Ip: ip.Ip})
		}
		if len(g.IpList) > 300 {
			refuse(w, 400, "ELB.8902", "ip_list is too long")
			return
		}
		c.groups[g.Id] = g
		replySDK(w, map[string]any{"ipgroup": g})
	})
	mux.HandleFunc("PUT "+base+"/{id}", func(w http.ResponseWriter, r *http.Request) {
		g, ok := find(w, c.groups, r.PathValue("id"))
		var body model.UpdateIpGroupRequestBody
		if !ok || !decode(w, r, &body) {
			return
		}
		g.IpList = nil
		for _, ip := range *body.Ipgroup.IpList {
			g.IpList = append(g.IpList, model.IpInfo{Ip: ip.Ip})
		}
		replySDK(w, map[string]any{"ipgroup": g})
	})
	mux.HandleFunc("DELETE "+base+"/{id}", func(w http.ResponseWriter, r *http.Request) {
		g, ok := find(w, c.groups, r.PathValue("id"))
		if !ok {
			return
		}
		for _, l := range c.listeners {
			if l.Ipgroup != nil && l.Ipgroup.IpgroupId == g.Id {
				refuse(w, 409, "ELB.8907", "the IP address group is in use by a listener")
				return
			}
		}
		delete(c.groups, g.Id)
		w.WriteHeader(http.StatusNoContent)
	})
}

// setGroup changes the group of a listener. It replies and returns false if that is invalid.
func (c *Cloud) setGroup(
	w http.ResponseWriter, l *model.Listener, o *model.UpdateListenerIpGroupOption,
) bool {
	if l.Ipgroup == nil {
		l.Ipgroup = &model.ListenerIpGroup{}
	}
	if o.IpgroupId != nil {
		if _, ok := find(w, c.groups, *o.IpgroupId); !ok {
			return false
		}
		l.Ipgroup.IpgroupId = *o.IpgroupId
	}
	if l.Ipgroup.IpgroupId == "" {
		refuse(w, 400, "ELB.8902", "ipgroup_id is required")
		return false
	}
	if o.Type != nil {
		l.Ipgroup.Type = o.Type.Value()
	}
	if o.EnableIpgroup != nil {
		l.Ipgroup.EnableIpgroup = *o.EnableIpgroup
	}
	return true
}
