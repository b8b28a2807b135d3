package serving

import (
	"encoding/pem"
	"slices"
	"strings"
	"testing"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func published(data map[string]string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
		Namespace: clusterTrustNamespace,
		Name:      clusterTrustConfigMap,
	}, Data: data}
}

func aCertificate(t *testing.T) string {
	t.Helper()
	cert, _, err := selfSigned(nil, false)
	if err != nil {
		t.Fatal(err)
	}
	return string(cert)
}

func TestParseTrust_ConfigMapOfKubeAPIServer_IsRead(t *testing.T) {
	ca := aCertificate(t)
	got, err := parseTrust(published(map[string]string{
		"client-ca-file":                     ca + ca,
		"requestheader-client-ca-file":       ca,
		"requestheader-allowed-names":        `["front-proxy-client"]`,
		"requestheader-username-headers":     `["X-Remote-User"]`,
		"requestheader-uid-headers":          `["X-Remote-Uid"]`,
		"requestheader-group-headers":        `["X-Remote-Group"]`,
		"requestheader-extra-headers-prefix": `["X-Remote-Extra-"]`,
	}))
	if err != nil {
		t.Fatal(err)
	}
	p := got.proxy
	if got.clients == nil || len(got.clients.certificates) != 2 || p == nil || p.ca == nil ||
		!slices.Equal(p.allowedNames, []string{"front-proxy-client"}) ||
		!slices.Equal(p.usernameHeaders, []string{"X-Remote-User"}) ||
		!slices.Equal(p.uidHeaders, []string{"X-Remote-Uid"}) ||
		!slices.Equal(p.groupHeaders, []string{"X-Remote-Group"}) ||
		!slices.Equal(p.extraHeaderPrefixes, []string{"X-Remote-Extra-"}) {
		t.Errorf("got %+v, proxy %+v", got, p)
	}
}

func TestParseTrust_EmptyConfigMap_TrustsNoCA(t *testing.T) {
	got, err := parseTrust(
		published(map[string]string{"requestheader-username-headers": `["X-Remote-User"]`}))
	if err != nil || got.clients != nil || got.proxy != nil {
		t.Errorf("got %+v, %v", got, err)
	}
}

func TestParseTrust_InvalidKey_ErrorNamesIt(t *testing.T) {
	ca := aCertificate(t)
	for key, value := range map[string]string{
		"client-ca-file": "none",
		"requestheader-client-ca-file": string(
			pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: []byte("x")})),
		"requestheader-allowed-names": "front-proxy-client",
	} {
		data := map[string]string{"client-ca-file": ca, "requestheader-client-ca-file": ca}
		data[key] = value
		if _, err := parseTrust(published(data)); err == nil ||
			!strings.Contains(err.Error(), key) {
			t.Errorf("%s=%q: %v", key, value, err)
		}
	}
}

// With a proxy's CA but without its allowed names, any client of the CA could claim any user name.
func TestClusterTrust_InvalidChange_PreviousTrustIsKept(t *testing.T) {
	ca := aCertificate(t)
	c := newClusterTrust(nil, logr.Discard())
	if c.missing() == "" {
		t.Error("the ConfigMap was not read, but missing() is empty")
	}
	c.changed(
		published(map[string]string{
			"requestheader-client-ca-file": ca,
			"requestheader-allowed-names":  `["proxy"]`,
		}))
	if c.missing() != "" {
		t.Errorf("the ConfigMap was read, but missing() is %q", c.missing())
	}
	before := c.trusted()
	c.changed(
		published(map[string]string{
			"requestheader-client-ca-file": ca,
			"requestheader-allowed-names":  `proxy`,
		}))
	c.changed(
		&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
			Namespace: clusterTrustNamespace,
			Name:      "another",
		}})
	if after := c.trusted(); after.proxy != before.proxy {
		t.Errorf("trust has changed from %+v to %+v", before.proxy, after.proxy)
	}
}
