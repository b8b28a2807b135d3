package neutron

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/gophercloud/gophercloud/v2"

	"github.com/fxccm/fxccm/provider/openstack/openstacktest"
)

func TestCheckCertificate_ContainersAndSecrets(t *testing.T) {
	s := newSite(t)
	container, secret := s.AddContainer(openstacktest.Container{Name: "c"}),
		s.AddSecret(openstacktest.Secret{Name: "s"})
	for range 3 { // read once, then cached
		for _, ref := range []string{container, secret} {
			if err := s.CheckCertificate(t.Context(), ref); err != nil {
				t.Error(err)
			}
		}
	}
	s.wantCalls(map[string]int{"container_get": 1, "secret_get": 1})
	s.clock.SetTime(s.clock.Now().Add(certificateAge))
	s.must(s.CheckCertificate(t.Context(), container))
	s.wantCalls(map[string]int{"container_get": 2, "secret_get": 1})
}

func TestCheckCertificate_None_IsNotRemembered(t *testing.T) {
	s := newSite(t)
	ref := s.AddSecret(openstacktest.Secret{ID: "here"})
	missing := strings.Replace(ref, "here", "there", 1)
	for _, ref := range []string{missing, strings.Replace(ref, "/secrets/", "/containers/", 1)} {
		err := s.CheckCertificate(t.Context(), ref)
		if !errors.Is(err, ErrNoCertificate) || !strings.Contains(err.Error(), ref) {
			t.Errorf("error %v, want ErrNoCertificate", err)
		}
	}
	s.AddSecret(openstacktest.Secret{ID: "there"})
	if err := s.CheckCertificate(t.Context(), missing); err != nil {
		t.Errorf("the certificate exists now: %v", err)
	}
}

func TestCheckCertificate_KeyManagerFails_DoesNotReportAMissingCertificate(t *testing.T) {
	s := newSite(t)
	foreign := s.AddProject(openstacktest.Project{Name: "other"})
	hidden := s.AddSecret(openstacktest.Secret{ProjectID: foreign.ProjectID})
	good := s.AddSecret(openstacktest.Secret{})
	s.Inject(openstacktest.Fault{Operation: "container_get", Status: 503})
	for _, ref := range []string{hidden, s.AddContainer(openstacktest.Container{})} {
		if err := s.CheckCertificate(t.Context(), ref); err == nil ||
			errors.Is(err, ErrNoCertificate) {
			t.Errorf("error %v, want the key manager's", err)
		}
	}
	answers, err := s.readCertificates(t.Context(), []string{hidden, good})
	if err != nil || answers[hidden].err == nil || answers[good].err != nil {
		t.Errorf("answers %v, error %v: one failure affects another certificate", answers, err)
	}
}

func TestCheckCertificate_HostOfTheReferenceIsNotAsked(t *testing.T) {
	s := newSite(t)
	ref := s.AddSecret(openstacktest.Secret{})
	if err := s.CheckCertificate(t.Context(),
		strings.Replace(ref, s.URL(), "https://elsewhere.invalid", 1)); err != nil {
		t.Error(err)
	}
}

func TestCheckCertificate_NoKeyManager_IsAnError(t *testing.T) {
	a := New(Config{Client: func(context.Context) (*gophercloud.ServiceClient, error) {
		return nil, errors.New("none")
	}})
	defer a.Close()
	if err := a.CheckCertificate(t.Context(), "https://x/v1/secrets/a"); err == nil ||
		errors.Is(err, ErrNoCertificate) {
		t.Errorf("error %v", err)
	}
}

func TestParseCertificateRef_EachReference_IsReadOrRefused(t *testing.T) {
	const id = "6fde3ab6-2ea8-4b9c-8ec8-6c7a5b3d8d1f"
	for ref, want := range map[string]string{
		"https://barbican.example:9311/v1/containers/" + id: "containers " + id,
		"https://barbican.example:9311/v1/secrets/" + id:    "secrets " + id,
		"http://x/v1/secrets/" + id + "/":                   "secrets " + id,
		"secrets/" + id:                                     "secrets " + id,
		"":                                                  "",
		id:                                                  "",
		"https://x/v1/orders/" + id:                         "",
		"https://x/v1/secrets/":                             "",
		"https://x/v1/secrets/../containers":                "",
		"https://x/v1/secrets/a?b=c":                        "",
		"https://x/v1/secrets/a%2Fb":                        "",
	} {
		kind, got, err := parseCertificateRef(ref)
		if text := strings.TrimSpace(kind + " " + got); text != want ||
			(err == nil) != (want != "") {
			t.Errorf("%q: %q, error %v, want %q", ref, text, err, want)
		}
	}
}

func FuzzParseCertificateRef(f *testing.F) {
	f.Add("https://barbican.example:9311/v1/containers/6fde3ab6-2ea8-4b9c-8ec8-6c7a5b3d8d1f")
	f.Add("secrets/a/")
	f.Add("//secrets//")
	f.Fuzz(func(t *testing.T, ref string) {
		kind, id, err := parseCertificateRef(ref)
		if err != nil {
			if !errors.Is(err, ErrNoCertificate) {
				t.Errorf("error %v", err)
			}
			return
		}
		if kind != "containers" && kind != "secrets" || id == "" ||
			strings.ContainsAny(id, "/?#%. \n") {
			t.Errorf("%q became %q %q", ref, kind, id)
		}
	})
}
