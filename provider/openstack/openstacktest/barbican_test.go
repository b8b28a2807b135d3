package openstacktest

import (
	"fmt"
	"net/http"
	"path"
	"strings"
	"testing"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack"
	"github.com/gophercloud/gophercloud/v2/openstack/keymanager/v1/containers"
	"github.com/gophercloud/gophercloud/v2/openstack/keymanager/v1/secrets"
)

func keyManagerOf(t *testing.T, s *Cloud) *gophercloud.ServiceClient {
	t.Helper()
	client, err := openstack.NewKeyManagerV1(login(t, s, byPassword(s.Credentials())), inRegion(s))
	if err != nil {
		t.Fatal(err)
	}
	return client
}

func TestSecretsAndContainers_AreMadeAndDeleted(t *testing.T) {
	s := start(t)
	client := keyManagerOf(t, s)
	secret := must(
		secrets.Create(patiently(t), client,
			secrets.CreateOpts{
				Name: "key", Payload: "top secret", SecretType: "private",
				PayloadContentType: "text/plain",
			}).Extract())(t)
	got := must(secrets.Get(patiently(t), client, path.Base(secret.SecretRef)).Extract())(t)
	if got.Name != "key" || got.SecretType != "private" || got.Status != "ACTIVE" ||
		got.ContentTypes["default"] != "text/plain" {
		t.Errorf("the secret is %+v", got)
	}
	made := must(containers.Create(patiently(t), client, containers.CreateOpts{
		Name: "pair", Type: "generic",
		SecretRefs: []containers.SecretRef{{Name: "private_key", SecretRef: secret.SecretRef}},
	}).Extract())(t)
	container := must(containers.Get(patiently(t), client, path.Base(made.ContainerRef)).Extract())(
		t)
	if container.Name != "pair" || len(container.SecretRefs) != 1 ||
		container.SecretRefs[0].SecretRef != secret.SecretRef {
		t.Errorf("the container is %+v", container)
	}
	if err := containers.Delete(patiently(t), client,
		path.Base(made.ContainerRef)).ExtractErr(); err != nil {
		t.Error(err)
	}
	if err := secrets.Delete(patiently(t), client,
		path.Base(secret.SecretRef)).ExtractErr(); err != nil {
		t.Error(err)
	}
	for _, call := range s.Calls() {
		if strings.Contains(call.Body, "top secret") {
			t.Errorf("a secret is recorded: %+v", call)
		}
	}
}

func TestSecretsAndContainers_ThatAreNotThere(t *testing.T) {
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
	if answer := ask(t, s, "POST", "/key-manager/v1/containers",
		`{"type": "x"}`); answer.status != http.StatusBadRequest {
		t.Errorf("an unknown type: status %d: %s", answer.status, answer.body)
	}
}

func TestSecrets_Pages_AreFollowedToTheEnd(t *testing.T) {
	s := start(t)
	for i := range 25 {
		s.AddSecret(Secret{Name: fmt.Sprint(i)})
	}
	pages := must(secrets.List(keyManagerOf(t, s), secrets.ListOpts{}).AllPages(patiently(t)))(t)
	if got := must(secrets.ExtractSecrets(pages))(t); len(got) != 25 {
		t.Errorf("%d secrets, want 25", len(got))
	}
}
