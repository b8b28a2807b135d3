package stub

import (
	"net/http"
	"strconv"

	"github.com/huaweicloud/huaweicloud-sdk-go-v3/services/eip/v2/model"
	elbmodel "github.com/huaweicloud/huaweicloud-sdk-go-v3/services/elb/v3/model"
)

// AddPublicIP adds an EIP of someone else, and returns its ID.
func (c *Cloud) AddPublicIP(address string) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return *c.newPublicIP(address, "theirs").Id
}

// SetPublicIPAddress gives an EIP its address.
func (c *Cloud) SetPublicIPAddress(id, address string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.publicIPs[id].PublicIpAddress = &address
}

// PublicIPs returns the EIPs, sorted by ID.
func (c *Cloud) PublicIPs() []model.PublicipShowResp { return sorted(c, c.publicIPs) }

func (c *Cloud) newPublicIP(address, alias string) *model.PublicipShowResp {
	id, down := c.id(), model.GetPublicipShowRespStatusEnum().DOWN
	ip := &model.PublicipShowResp{
		Id: &id, PublicIpAddress: &address, Alias: &alias, Status: &down,
	}
	c.publicIPs[id] = ip
	return ip
}

// refuseVPC writes an error in the form of the VPC service, to which EIPs belong.
func refuseVPC(w http.ResponseWriter, status int, code, message string) {
	reply(w, status, map[string]any{"code": code, "message": message})
}

func (c *Cloud) routePublicIPs(mux *http.ServeMux) {
	const base = "/v1/{project}/publicips"
	mux.HandleFunc("GET "+base, func(w http.ResponseWriter, r *http.Request) {
		limit, err := strconv.Atoi(r.URL.Query().Get("limit"))
		if err != nil {
			refuseVPC(w, 400, "VPC.0002", "invalid limit")
			return
		}
		items, _ := page(r, c.publicIPs, limit, func(id string, _ *model.PublicipShowResp) bool {
			return matches(r, "id", id)
		})
		replySDK(w, map[string]any{"publicips": items})
	})
	mux.HandleFunc("POST "+base, func(w http.ResponseWriter, r *http.Request) {
		var body model.CreatePublicipRequestBody
		if !decode(w, r, &body) {
			return
		}
		c.count++
		ip := c.newPublicIP(c.address("198.18"), *body.Publicip.Alias)
		ip.BandwidthSize = body.Bandwidth.Size
		replySDK(w, map[string]any{"publicip": map[string]any{
			"id": ip.Id, "public_ip_address": ip.PublicIpAddress, "status": "PENDING_CREATE",
			"alias": ip.Alias,
		}})
	})
	mux.HandleFunc("GET "+base+"/{id}", func(w http.ResponseWriter, r *http.Request) {
		ip, ok := c.publicIPs[r.PathValue("id")]
		if !ok {
			refuseVPC(w, 404, "VPC.0504", "floating IP could not be found")
			return
		}
		replySDK(w, map[string]any{"publicip": ip})
	})
	mux.HandleFunc("PUT "+base+"/{id}", func(w http.ResponseWriter, r *http.Request) {
		ip, ok := c.publicIPs[r.PathValue("id")]
		var body model.UpdatePublicipsRequestBody
		if !ok {
			refuseVPC(w, 404, "VPC.0504", "floating IP could not be found")
			return
		}
		if !decode(w, r, &body) {
			return
		}
		c.bind(ip, body.Publicip.PortId)
		replySDK(w, map[string]any{"publicip": map[string]any{"id": ip.Id}})
	})
	mux.HandleFunc("DELETE "+base+"/{id}", func(w http.ResponseWriter, r *http.Request) {
		ip, ok := c.publicIPs[r.PathValue("id")]
		switch {
		case !ok:
			refuseVPC(w, 404, "VPC.0504", "floating IP could not be found")
		case ip.PortId != nil:
			refuseVPC(w, 409, "VPC.0517", "the floating IP is bound")
		default:
			delete(c.publicIPs, *ip.Id)
			w.WriteHeader(http.StatusNoContent)
		}
	})
}

// bind binds an EIP to the port of a load balancer, or unbinds it.
func (c *Cloud) bind(ip *model.PublicipShowResp, port *string) {
	states := model.GetPublicipShowRespStatusEnum()
	ip.PortId, ip.Status = nil, &states.DOWN
	for _, b := range c.balancers {
		kept := []elbmodel.PublicIpInfo{}
		for _, bound := range b.Publicips {
			if bound.PublicipId != *ip.Id {
				kept = append(kept, bound)
			}
		}
		if port != nil && b.VipPortId == *port {
			kept = append(kept, elbmodel.PublicIpInfo{
				PublicipId: *ip.Id, PublicipAddress: *ip.PublicIpAddress, IpVersion: 4,
			})
			ip.PortId, ip.Status = port, &states.ELB
		}
		b.Publicips = kept
	}
}
