//go:build linux

package packets_test

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"math/big"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/fxccm/fxccm/ccm/ccmtest"
	"github.com/fxccm/fxccm/provider/openstack/cloudconf"
	"github.com/fxccm/fxccm/test/internal/project"
)

// What an amphora does for a client beyond forwarding, by the annotation that asks for it.
func TestAmphora_TellsTheClientsAddress_ToTheNodes(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "node-1", "node-2")
	c.balancer = amphora
	client := c.addClients("client")[0]
	c.begin(internal)
	for _, by := range []struct{ name, annotation, value string }{
		{"v1", "proxy-protocol", "v1"},
		{"v2", "proxy-protocol", "v2"},
		{"http", "x-forwarded-for", "true"},
	} {
		_, target := c.expose(by.name,
			ccmtest.ServiceAnnotation(annotation+by.annotation, by.value))
		c.waitAnswers("the nodes answer", client, target, "node-1", "node-2")
		a, err := client.get(target)
		switch {
		case err != nil:
			t.Errorf("%s: %v", by.name, err)
		case by.name == "http" && (a.ForwardedFor != client.address || a.Proxy != ""),
			by.name != "http" && (a.Client != client.address || a.Proxy != by.name):
			t.Errorf("with %s the client %s is told as %+v", by.annotation, client.address, a)
		}
	}
	c.note("the nodes were told the client's own address by the PROXY protocol, version 1 and 2, " +
		"and by the header X-Forwarded-For")
}

// The other timeouts of each Service are those by default, which are longer.
func TestAmphora_WithTimeouts_ConnectionsEndAfterThem(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "node-1", "node-2")
	c.balancer = amphora
	client := c.addClients("client")[0]
	// fxccm does not repair what the test takes away from the nodes.
	rule := c.admitNodePorts()
	c.begin(func(cfg *cloudconf.Config) {
		internal(cfg)
		cfg.LoadBalancer.ManageSecurityGroups = false
	})
	// wantEnd returns after how many seconds the open connection ends.
	wantEnd := func(what string, timeout, limit time.Duration) float64 {
		t.Helper()
		lasts := client.waitForTheEnd(t)
		if lasts < timeout*2/3 || lasts >= limit {
			t.Errorf("with %s of %s a connection ended after %s", what, timeout, lasts)
		}
		return lasts.Seconds()
	}

	// After an answer, neither side sends.
	const timeout, byDefault = 3 * time.Second, 50 * time.Second
	silent := map[string]float64{}
	for _, side := range []string{"client", "member"} {
		_, target := c.expose(side,
			ccmtest.ServiceAnnotation(annotation+"timeout-"+side+"-data", "3000"))
		c.waitAnswers("the nodes answer", client, target, "node-1", "node-2")
		if a := client.open(t, target); !slices.Contains([]string{"node-1", "node-2"}, a.Machine) {
			t.Fatalf("%+v answers", a)
		}
		silent[side] = wantEnd("timeout-"+side+"-data", timeout, byDefault)
	}

	// HAProxy tries it four times, which takes almost 20 s with the default of 5 s.
	const toConnect, beforeDefault = time.Second, 15 * time.Second
	_, target := c.expose("unreachable",
		ccmtest.ServiceAnnotation(annotation+"timeout-member-connect", "1000"))
	c.waitAnswers("the nodes answer", client, target, "node-1", "node-2")
	c.User().Delete(project.Network, "/security-group-rules/"+rule)
	c.waitAnswers("no packet reaches a node", client, target, "")
	client.dial(t, target)
	connect := wantEnd("timeout-member-connect", toConnect, beforeDefault)
	c.note("with timeout-client-data and with timeout-member-data of %s, a silent connection ended "+
		"after %.1f and %.1f s; with timeout-member-connect of %s, one to nodes that do not answer "+
		"ended after %.1f s", timeout, silent["client"], silent["member"], toConnect, connect)
}

// The certificate is a secret of Barbican, as `openssl pkcs12` makes it.
func TestAmphora_TerminatesTLS_WithTheCertificateOfBarbican(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "node-1", "node-2")
	c.balancer = amphora
	client := c.addClients("client")[0]
	first, firstPrint := c.addCertificate("first")
	second, secondPrint := c.addCertificate("second")
	c.begin(internal)
	const ref = annotation + "default-tls-container-ref"
	_, target := c.expose("web", ccmtest.ServiceAnnotation(ref, first))
	target = "https://" + target
	waitFor := func(fingerprint string) {
		t.Helper()
		c.Wait("the certificate is "+fingerprint, func() error {
			a, err := client.get(target)
			if err == nil && a.Certificate != fingerprint {
				err = fmt.Errorf("it is %+v", a)
			}
			return err
		})
	}
	waitFor(firstPrint)
	if by, _ := answers(client, target, tries); len(by) != 2 || by[""] > 0 {
		t.Errorf("of %d connections %v were answered, want all, by both nodes", tries, by)
	}
	c.changeService("web", ccmtest.ServiceAnnotation(ref, second))
	waitFor(secondPrint)
	c.note("of %d TLS connections all were answered, with the certificate that is in Barbican; "+
		"after a change of the annotation the other one was served", tries)
}

// Octavia's health manager notices it after heartbeat_timeout, 60 s, and makes another amphora.
func TestAmphora_Dies_AnotherAnswersAtTheSameAddress(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "node-1", "node-2")
	c.balancer = amphora
	client := c.addClients("client")[0]
	c.begin(internal)
	_, target := c.expose("web")
	c.waitAnswers("the nodes answer", client, target, "node-1", "node-2")
	lb := project.ID(c.Inventory().Of("load balancer")[0])
	of := func() string {
		t.Helper()
		all := c.Admin().List(project.LoadBalancer, "/octavia/amphorae?loadbalancer_id="+lb,
			"amphorae")
		if len(all) != 1 {
			return fmt.Sprint(all)
		}
		return project.Text(all[0], "compute_id")
	}
	first, mark := of(), c.Wire.Mark()
	c.kill("amphora-" + first)
	began := time.Now()
	c.waitAnswers("no one answers", client, target, "")
	c.waitAnswers("the nodes answer again", client, target, "node-1", "node-2")
	took := time.Since(began)
	if now := of(); now == first {
		t.Errorf("the amphora is still %s", now)
	}
	if changes := c.Wire.Since(mark, project.Call.Changes); len(changes) > 0 {
		t.Errorf("fxccm has changed something in the cloud: %v", changes)
	}
	c.note("an amphora was killed: another one, by Octavia, answered at the same address %.0f s "+
		"later; fxccm changed nothing", took.Seconds())
}

// kill ends a process of the lab and its children at once.
func (c *cluster) kill(name string) {
	c.t.Helper()
	file := filepath.Join(os.Getenv(project.LabVariable), "run", name+".pid")
	text, err := os.ReadFile(file)
	if err != nil {
		c.t.Fatal(err)
	}
	before, _, _ := strings.Cut(string(text), " ")
	pid, err := strconv.Atoi(before)
	if err != nil || pid < 2 {
		c.t.Fatalf("%s has %q", file, text)
	}
	if err := syscall.Kill(-pid, syscall.SIGKILL); err != nil {
		c.t.Fatal(err)
	}
}

// addCertificate adds a certificate to Barbican, and returns its reference and its fingerprint.
func (c *cluster) addCertificate(name string) (ref, digest string) {
	c.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		c.t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, DNSNames: []string{name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
	}
	certificate, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		c.t.Fatal(err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		c.t.Fatal(err)
	}
	var text bytes.Buffer
	for _, block := range []pem.Block{
		{Type: "PRIVATE KEY", Bytes: secret}, {Type: "CERTIFICATE", Bytes: certificate},
	} {
		if err := pem.Encode(&text, &block); err != nil {
			c.t.Fatal(err)
		}
	}
	pack := exec.Command("openssl", "pkcs12", "-export", "-passout", "pass:")
	pack.Stdin = &text
	packed, err := pack.Output()
	if err != nil {
		c.t.Fatalf("openssl pkcs12: %v", err)
	}
	answer := c.User().Must(http.MethodPost, project.KeyManager, "/v1/secrets", project.Object{
		"name": name, "payload": base64.StdEncoding.EncodeToString(packed),
		"payload_content_type":     "application/octet-stream",
		"payload_content_encoding": "base64",
	})
	return project.Text(answer.Object(), "secret_ref"), fingerprint(certificate)
}
