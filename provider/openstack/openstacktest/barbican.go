package openstacktest

import (
	"fmt"
	"net/http"
	"path"
	"slices"
	"strings"
	"time"
)

const keyManagerPath = "/key-manager"

// keyManager is what Barbican knows, in the order in which it was made.
type keyManager struct {
	secrets    []*secretRow
	containers []*containerRow
}

type secretRow struct {
	Secret
	created time.Time
}

type containerRow struct {
	Container
	created time.Time
}

func (s *Cloud) setUpKeyManager(mux *http.ServeMux) {
	root := keyManagerPath + "/v1"
	op := func(name, pattern string, handle func(*request) answer) operation {
		method, path, _ := strings.Cut(pattern, " ")
		return operation{service: ServiceKeyManager, name: name, pattern: method + " " + root + path, handle: handle}
	}
	s.register(mux,
		operation{service: ServiceKeyManager, name: "version_list", pattern: "GET " + keyManagerPath + "/{$}", open: true, handle: keyManagerVersions},
		operation{service: ServiceKeyManager, name: "version_list", pattern: "GET " + keyManagerPath, open: true, handle: keyManagerVersions},
		op("container_list", "GET /containers", listContainers),
		op("container_create", "POST /containers", createContainer),
		op("container_get", "GET /containers/{id}", getContainer),
		op("container_delete", "DELETE /containers/{id}", deleteContainer),
		op("secret_list", "GET /secrets", listSecrets),
		op("secret_create", "POST /secrets", createSecret),
		op("secret_get", "GET /secrets/{id}", getSecret),
		op("secret_delete", "DELETE /secrets/{id}", deleteSecret),
	)
}

func keyManagerVersions(r *request) answer {
	return answer{status: http.StatusMultipleChoices, body: object{"versions": object{"values": []object{{
		"id": "v1", "status": "CURRENT",
		"links": []object{{"rel": "self", "href": r.server.URL() + keyManagerPath + "/v1/"}},
	}}}}}
}

// holds tells whether there is a container or a secret with the reference: the last part of its path is the id.
func (k *keyManager) holds(ref string) bool {
	id := path.Base(ref)
	return slices.ContainsFunc(k.containers, func(c *containerRow) bool { return c.ID == id && path.Base(path.Dir(ref)) == "containers" }) ||
		slices.ContainsFunc(k.secrets, func(secret *secretRow) bool { return secret.ID == id && path.Base(path.Dir(ref)) == "secrets" })
}

func (k *keyManager) container(r *request) (*containerRow, answer) {
	for _, c := range k.containers {
		if c.ID == r.PathValue("id") {
			if !maySee(r, c.ProjectID) {
				return nil, keyManagerFailure(http.StatusForbidden, "Container retrieval attempt not allowed - please review your user/project privileges")
			}
			return c, answer{}
		}
	}
	return nil, keyManagerFailure(http.StatusNotFound, "Not Found. Sorry but your container is in another castle.")
}

func (k *keyManager) secret(r *request) (*secretRow, answer) {
	for _, secret := range k.secrets {
		if secret.ID == r.PathValue("id") {
			if !maySee(r, secret.ProjectID) {
				return nil, keyManagerFailure(http.StatusForbidden, "Secret retrieval attempt not allowed - please review your user/project privileges")
			}
			return secret, answer{}
		}
	}
	return nil, keyManagerFailure(http.StatusNotFound, "Secret not found.")
}

func maySee(r *request, project string) bool { return r.isAdmin() || project == r.projectID() }

func keyManagerFailure(status int, text string) answer {
	return failure(ServiceKeyManager, status, text)
}

func (s *Cloud) containerRef(id string) string {
	return s.URL() + keyManagerPath + "/v1/containers/" + id
}

func (s *Cloud) secretRef(id string) string { return s.URL() + keyManagerPath + "/v1/secrets/" + id }

// barbicanTime is without a zone.
func barbicanTime(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000000") }

func (s *Cloud) showContainer(c *containerRow) object {
	refs := []object{}
	for _, name := range sortedKeys(c.Secrets) {
		refs = append(refs, object{"name": name, "secret_ref": c.Secrets[name]})
	}
	return object{
		"container_ref": s.containerRef(c.ID), "name": c.Name, "type": c.Type, "status": StatusActive, "secret_refs": refs,
		"consumers": []object{}, "creator_id": nil, "created": barbicanTime(c.created), "updated": barbicanTime(c.created),
	}
}

func (s *Cloud) showSecret(secret *secretRow) object {
	shown := object{
		"secret_ref": s.secretRef(secret.ID), "name": secret.Name, "secret_type": secret.Type, "status": StatusActive,
		"algorithm": nil, "bit_length": nil, "mode": nil, "expiration": nil, "creator_id": nil,
		"created": barbicanTime(secret.created), "updated": barbicanTime(secret.created),
	}
	if secret.Payload != nil {
		shown["content_types"] = object{"default": secret.ContentType}
	}
	return shown
}

func listContainers(r *request) answer {
	var visible []*containerRow
	for _, c := range r.server.keyManager.containers {
		if maySee(r, c.ProjectID) {
			visible = append(visible, c)
		}
	}
	return barbicanList(r, "containers", visible, r.server.showContainer)
}

func listSecrets(r *request) answer {
	var visible []*secretRow
	for _, secret := range r.server.keyManager.secrets {
		name := r.query.Get("name")
		if maySee(r, secret.ProjectID) && (name == "" || secret.Name == name) {
			visible = append(visible, secret)
		}
	}
	return barbicanList(r, "secrets", visible, r.server.showSecret)
}

// barbicanList pages by offset and limit, of which 10 is the default and 100 the most.
func barbicanList[T any](r *request, name string, rows []T, show func(T) object) answer {
	limit, offset := number(r.query.Get("limit"), 10), number(r.query.Get("offset"), 0)
	limit = min(limit, 100)
	shown := []object{}
	for _, row := range rows[min(offset, len(rows)):min(offset+limit, len(rows))] {
		shown = append(shown, show(row))
	}
	body := object{name: shown, "total": len(rows)}
	link := func(offset int) string {
		return fmt.Sprintf("%s%s?limit=%d&offset=%d", r.server.URL(), r.URL.Path, limit, offset)
	}
	if offset+limit < len(rows) {
		body["next"] = link(offset + limit)
	}
	if offset > 0 {
		body["previous"] = link(max(0, offset-limit))
	}
	return ok(body)
}

func number(text string, otherwise int) int {
	var n int
	if _, err := fmt.Sscan(text, &n); err != nil || n < 0 {
		return otherwise
	}
	return n
}

func getContainer(r *request) answer {
	c, refusal := r.server.keyManager.container(r)
	if c == nil {
		return refusal
	}
	return ok(r.server.showContainer(c))
}

func getSecret(r *request) answer {
	secret, refusal := r.server.keyManager.secret(r)
	if secret == nil {
		return refusal
	}
	return ok(r.server.showSecret(secret))
}

func deleteContainer(r *request) answer {
	k := &r.server.keyManager
	c, refusal := k.container(r)
	if c == nil {
		return refusal
	}
	k.containers = slices.DeleteFunc(k.containers, func(other *containerRow) bool { return other == c })
	return noContent()
}

func deleteSecret(r *request) answer {
	k := &r.server.keyManager
	secret, refusal := k.secret(r)
	if secret == nil {
		return refusal
	}
	k.secrets = slices.DeleteFunc(k.secrets, func(other *secretRow) bool { return other == secret })
	return noContent()
}

func createContainer(r *request) answer {
	var body struct {
		Name       string `json:"name"`
		Type       string `json:"type"`
		SecretRefs []struct {
			Name string `json:"name"`
			Ref  string `json:"secret_ref"`
		} `json:"secret_refs"`
	}
	if err := r.decode(&body); err != nil {
		return keyManagerFailure(http.StatusBadRequest, err.Error())
	}
	if !slices.Contains([]string{"generic", "certificate", "rsa"}, body.Type) {
		return keyManagerFailure(http.StatusBadRequest, "Provided object does not match schema 'Container': 'type' is not valid.")
	}
	c := Container{Name: body.Name, Type: body.Type, ProjectID: r.projectID(), Secrets: map[string]string{}}
	for _, ref := range body.SecretRefs {
		if !r.server.keyManager.holds(ref.Ref) {
			return keyManagerFailure(http.StatusNotFound, "Secret provided for '"+ref.Name+"' doesn't exist.")
		}
		c.Secrets[ref.Name] = ref.Ref
	}
	return created(object{"container_ref": r.server.containerRef(r.server.addContainer(c))})
}

func createSecret(r *request) answer {
	var body struct {
		Name        string  `json:"name"`
		Type        string  `json:"secret_type"`
		Payload     *string `json:"payload"`
		ContentType string  `json:"payload_content_type"`
	}
	if err := r.decode(&body); err != nil {
		return keyManagerFailure(http.StatusBadRequest, err.Error())
	}
	secret := Secret{Name: body.Name, Type: body.Type, ContentType: body.ContentType, ProjectID: r.projectID()}
	if body.Payload != nil {
		secret.Payload = []byte(*body.Payload)
	}
	return created(object{"secret_ref": r.server.secretRef(r.server.addSecret(secret))})
}
