// Package barbican is the simulated Barbican: containers and secrets.
package barbican

import (
	"fmt"
	"net/http"
	"path"
	"slices"
	"time"

	"github.com/fxccm/fxccm/provider/openstack/openstacktest/internal/api"
)

const root = "/key-manager"

// Service is Barbican.
type Service struct {
	*api.State
	secrets    []*secretRow
	containers []*containerRow
}

// New returns an empty Barbican.
func New(state *api.State) *Service { return &Service{State: state} }

type (
	answer = api.Answer
	object = api.Object
)

// row is what the API needs of a container or a secret.
type row interface {
	id() string
	project() string
	view(*Service) object
}

// Operations are the operations of Barbican.
func (s *Service) Operations() []api.Operation {
	op := func(name, method, path string, handle func(*api.Request) answer) api.Operation {
		return api.Operation{
			Service: api.ServiceKeyManager, Name: name, Pattern: method + " " + root + path,
			Open: name == "version_list", Handle: handle,
		}
	}
	return []api.Operation{
		op("version_list", "GET", "/{$}", versions),
		op("version_list", "GET", "", versions),
		op("container_list", "GET", "/v1/containers", s.listContainers),
		op("container_create", "POST", "/v1/containers", s.createContainer),
		op("container_get", "GET", "/v1/containers/{id}", s.get(s.findContainer)),
		op("container_delete", "DELETE", "/v1/containers/{id}", s.deleteContainer),
		op("secret_list", "GET", "/v1/secrets", s.listSecrets),
		op("secret_create", "POST", "/v1/secrets", s.createSecret),
		op("secret_get", "GET", "/v1/secrets/{id}", s.get(s.findSecret)),
		op("secret_delete", "DELETE", "/v1/secrets/{id}", s.deleteSecret),
	}
}

func versions(r *api.Request) answer {
	return answer{Status: http.StatusMultipleChoices, Body: object{"versions": object{
		"values": []object{{
			"id": "v1", "status": "CURRENT",
			"links": []object{{"rel": "self", "href": r.State.URL + root + "/v1/"}},
		}},
	}}}
}

// Holds reports whether a container or a secret has the reference, whose path ends with the ID.
func (s *Service) Holds(ref string) bool {
	id, kind := path.Base(ref), path.Base(path.Dir(ref))
	return kind == "containers" && find(s.containers, id) != nil ||
		kind == "secrets" && find(s.secrets, id) != nil
}

func find[T row](rows []T, id string) row {
	at := slices.IndexFunc(rows, func(r T) bool { return r.id() == id })
	if at < 0 {
		return nil
	}
	return rows[at]
}

func (s *Service) findContainer(r *api.Request) (row, *answer) {
	return permitted(r, find(s.containers, r.PathValue("id")), "Container",
		"Not Found. Sorry but your container is in another castle.")
}

func (s *Service) findSecret(r *api.Request) (row, *answer) {
	return permitted(r, find(s.secrets, r.PathValue("id")), "Secret", "Secret not found.")
}

// permitted refuses rows that do not exist or belong to another project.
func permitted(r *api.Request, found row, kind, missing string) (row, *answer) {
	if found == nil {
		refusal := failure(http.StatusNotFound, missing)
		return nil, &refusal
	}
	if !r.MaySee(found.project()) {
		refusal := failure(http.StatusForbidden, kind+
			" retrieval attempt not allowed - please review your user/project privileges")
		return nil, &refusal
	}
	return found, nil
}

func failure(status int, text string) answer {
	return api.Failure(api.ServiceKeyManager, status, text)
}

func (s *Service) get(find func(*api.Request) (row, *answer)) func(*api.Request) answer {
	return func(r *api.Request) answer {
		found, refusal := find(r)
		if refusal != nil {
			return *refusal
		}
		return api.OK(found.view(s))
	}
}

func (s *Service) deleteContainer(r *api.Request) answer {
	found, refusal := s.findContainer(r)
	if refusal != nil {
		return *refusal
	}
	s.containers = slices.DeleteFunc(s.containers,
		func(c *containerRow) bool { return row(c) == found })
	return api.NoContent()
}

func (s *Service) deleteSecret(r *api.Request) answer {
	found, refusal := s.findSecret(r)
	if refusal != nil {
		return *refusal
	}
	s.secrets = slices.DeleteFunc(s.secrets,
		func(secret *secretRow) bool { return row(secret) == found })
	return api.NoContent()
}

func (s *Service) listContainers(r *api.Request) answer {
	return list(s, r, "containers", s.containers, func(*containerRow) bool { return true })
}

func (s *Service) listSecrets(r *api.Request) answer {
	name := r.Query.Get("name")
	return list(s, r, "secrets", s.secrets, func(secret *secretRow) bool {
		return name == "" || secret.Name == name
	})
}

// list pages by offset and limit. The default limit is 10, the maximum 100.
func list[T row](s *Service, r *api.Request, name string, rows []T, passes func(T) bool) answer {
	limit, offset := number(r.Query.Get("limit"), 10), number(r.Query.Get("offset"), 0)
	limit = min(limit, 100)
	rows = slices.DeleteFunc(slices.Clone(rows), func(row T) bool {
		return !r.MaySee(row.project()) || !passes(row)
	})
	shown := []object{}
	for _, row := range rows[min(offset, len(rows)):min(offset+limit, len(rows))] {
		shown = append(shown, row.view(s))
	}
	body := object{name: shown, "total": len(rows)}
	link := func(offset int) string {
		return fmt.Sprintf("%s%s?limit=%d&offset=%d", s.URL, r.URL.Path, limit, offset)
	}
	if offset+limit < len(rows) {
		body["next"] = link(offset + limit)
	}
	if offset > 0 {
		body["previous"] = link(max(0, offset-limit))
	}
	return api.OK(body)
}

// number parses a natural number; any other text gives the default.
func number(text string, otherwise int) int {
	var n int
	if _, err := fmt.Sscan(text, &n); err != nil || n < 0 {
		return otherwise
	}
	return n
}

func (s *Service) createContainer(r *api.Request) answer {
	var body struct {
		Name       string `json:"name"`
		Type       string `json:"type"`
		SecretRefs []struct {
			Name string `json:"name"`
			Ref  string `json:"secret_ref"`
		} `json:"secret_refs"`
	}
	if err := r.Decode(&body); err != nil {
		return failure(http.StatusBadRequest, err.Error())
	}
	if !slices.Contains([]string{"generic", "certificate", "rsa"}, body.Type) {
		return failure(http.StatusBadRequest,
			"Provided object does not match schema 'Container': 'type' is not valid.")
	}
	c := Container{
		Name: body.Name, Type: body.Type, ProjectID: r.ProjectID(), Secrets: map[string]string{},
	}
	for _, ref := range body.SecretRefs {
		if !s.Holds(ref.Ref) {
			return failure(http.StatusNotFound, "Secret provided for '"+ref.Name+"' doesn't exist.")
		}
		c.Secrets[ref.Name] = ref.Ref
	}
	return api.Created(object{"container_ref": s.addContainer(c)})
}

func (s *Service) createSecret(r *api.Request) answer {
	var body struct {
		Name        string  `json:"name"`
		Type        string  `json:"secret_type"`
		Payload     *string `json:"payload"`
		ContentType string  `json:"payload_content_type"`
	}
	if err := r.Decode(&body); err != nil {
		return failure(http.StatusBadRequest, err.Error())
	}
	secret := Secret{
		Name: body.Name, Type: body.Type, ContentType: body.ContentType, ProjectID: r.ProjectID(),
	}
	if body.Payload != nil {
		secret.Payload = []byte(*body.Payload)
	}
	return api.Created(object{"secret_ref": s.addSecret(secret)})
}

// formatTime formats a time without a zone.
func formatTime(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000000") }
