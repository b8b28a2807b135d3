package stub

import (
	"net/http"
	"strings"

	"github.com/huaweicloud/huaweicloud-sdk-go-v3/core/utils"
	"github.com/huaweicloud/huaweicloud-sdk-go-v3/services/ecs/v2/model"
)

// maxServerIDs is the number of IDs that one list may name.
const maxServerIDs = 100

// AddServer adds an ECS instance. With a public address it has an EIP.
func (c *Cloud) AddServer(id, private, public string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	kinds := model.GetServerAddressOSEXTIPStypeEnum()
	isPrimary := true
	addresses := []model.ServerAddress{{
		Version: "4", Addr: private, Primary: &isPrimary, OSEXTIPStype: &kinds.FIXED,
	}}
	if public != "" {
		addresses = append(addresses, model.ServerAddress{
			Version: "4", Addr: public, OSEXTIPStype: &kinds.FLOATING,
		})
	}
	c.servers[id] = model.ServerDetail{
		Id: id, Name: "ecs-" + id[:8], Status: "ACTIVE", TenantId: ProjectID,
		Addresses:               map[string][]model.ServerAddress{VPC: addresses},
		Flavor:                  &model.ServerFlavor{Id: "s6.large.2", Name: "s6.large.2"},
		OSEXTAZavailabilityZone: Zone,
	}
}

// SetServerStatus changes the status of an instance.
func (c *Cloud) SetServerStatus(id, status string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	server := c.servers[id]
	server.Status = status
	c.servers[id] = server
}

// RemoveServer deletes an instance.
func (c *Cloud) RemoveServer(id string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.servers, id)
}

func (c *Cloud) routeServers(mux *http.ServeMux) {
	mux.HandleFunc("GET /v1/{project}/cloudservers/detail",
		func(w http.ResponseWriter, r *http.Request) {
			ids := strings.Split(r.URL.Query().Get("server_id"), ",")
			if len(ids) > maxServerIDs || ids[0] == "" {
				refuseECS(w, http.StatusBadRequest, "Ecs.0005", "invalid server_id")
				return
			}
			servers := make([]any, len(ids))
			for at, id := range ids {
				// The API returns an entry with nulls for an ID that it does not know.
				servers[at] = map[string]any{
					"id": id, "status": nil, "name": nil, "addresses": nil, "flavor": nil,
					"fault": map[string]any{"message": "Instance could not be found.", "code": 404},
				}
				if server, ok := c.servers[id]; ok {
					servers[at] = server
				}
			}
			replySDK(w, map[string]any{"count": len(servers), "servers": servers})
		})
	mux.HandleFunc("GET /v1/{project}/cloudservers/{id}",
		func(w http.ResponseWriter, r *http.Request) {
			server, ok := c.servers[r.PathValue("id")]
			if !ok {
				refuseECS(w, http.StatusNotFound, "Ecs.0114", "Instance could not be found.")
				return
			}
			replySDK(w, map[string]any{"server": server})
		})
}

// replySDK encodes the SDK's types, whose enumerations need the SDK's encoder.
func replySDK(w http.ResponseWriter, body any) {
	text, err := utils.Marshal(body)
	if err != nil {
		refuse(w, http.StatusInternalServerError, "Stub.0001", err.Error())
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(text)
}

// refuseECS writes an error in the form of ECS.
func refuseECS(w http.ResponseWriter, status int, code, message string) {
	reply(w, status, map[string]any{"error": map[string]any{"code": code, "message": message}})
}
