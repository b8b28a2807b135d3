package openstacktest

import (
	"net/http"
	"testing"
)

func TestQuota_OfOneProject_IsAnAdministratorsToChange(t *testing.T) {
	s := start(t)
	at := newSite(s)
	admin := s.AddProject(Project{Name: "admin", Admin: true})
	path := "quotas/" + s.Credentials().ProjectID
	body := `{"port":{"network_id":"` + at.internal + `"}}`
	askNeutron(t, s, http.MethodPut, path, `{"quota":{"port":0}}`).refuses(403,
		"PolicyNotAuthorized", "rule:update_quota is disallowed by policy")
	as(t, s, admin, http.MethodPut, path, `{"quota":{"port":0}}`).succeeds(200, "quota")
	if quota := askNeutron(t, s, http.MethodGet, path, "").succeeds(200,
		"quota"); quota["port"] != 0.0 || quota["subnet"] != -1.0 {
		t.Errorf("quotas %v", quota)
	}
	askNeutron(t, s, http.MethodPost, "ports", body).refuses(409, "OverQuota",
		"Quota exceeded for resources: ['port'].")
	askNeutron(t, s, http.MethodGet, "quotas/"+admin.ProjectID, "").refuses(403,
		"PolicyNotAuthorized", "rule:get_quota")
	askNeutron(t, s, http.MethodDelete, path, "").refuses(403, "PolicyNotAuthorized",
		"rule:delete_quota")
	as(t, s, admin, http.MethodDelete, path, "").succeeds(204, "")
	askNeutron(t, s, http.MethodPost, "ports", body).succeeds(201, "port")
}
