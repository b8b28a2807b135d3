package openstacktest

import (
	"net/http"
	"strings"
	"testing"
)

func TestSecretsAndContainers_Unknown_AreNotFound(t *testing.T) {
	s := start(t)
	ask(t, s, "GET", "/key-manager/v1/containers/x", "").is(http.StatusNotFound,
		`{"code": 404, "title": "Not Found", "description": "Not Found. Sorry but your container is in another castle."}`)
	ask(t, s, "GET", "/key-manager/v1/secrets/x", "").is(http.StatusNotFound,
		`{"code": 404, "title": "Not Found", "description": "Secret not found."}`)
	ref := s.AddContainer(Container{Name: "c"})
	stranger := s.AddProject(Project{Name: "other"}).Token
	if answer := send(t, s, "GET", strings.TrimPrefix(ref, s.URL()), "", "X-Auth-Token",
		stranger); answer.status != http.StatusForbidden {
		t.Errorf("another project: status %d: %s", answer.status, answer.body)
	}
}
