package main

import (
	"encoding/base64"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fxccm/fxccm/ccm/ccmtest"
	"github.com/fxccm/fxccm/ccm/ccmtest/controlplane"
	"github.com/fxccm/fxccm/provider/openstack/openstacktest"
)

// secretMark is in each secret of these tests, whose number says where it was.
const secretMark = "S3cr3tQ"

// secrets makes secrets.
type secrets struct{ of []string }

func (s *secrets) next(place string) string {
	s.of = append(s.of, place)
	return fmt.Sprintf("%s%03dx", secretMark, len(s.of)-1)
}

// wantNone fails for each secret in a text.
func (s *secrets) wantNone(t *testing.T, where, text string) {
	t.Helper()
	if len(text) == 0 {
		t.Errorf("%s is empty", where)
	}
	for n, place := range s.of {
		secret := fmt.Sprintf("%s%03dx", secretMark, n)
		for _, form := range []string{
			secret, base64.StdEncoding.EncodeToString([]byte(secret))[:12],
		} {
			if at := strings.Index(text, form); at >= 0 {
				t.Errorf("%s has the secret of %s: %s", where, place,
					text[max(0, at-200):min(len(text), at+100)])
			}
		}
	}
}

// wantNoneIn fails for each secret in what a process has written and serves, and ends it.
func (s *secrets) wantNoneIn(t *testing.T, w *world, p *process) {
	t.Helper()
	for _, path := range []string{"/statusz", "/metrics", "/configz", "/readyz?verbose"} {
		for _, accept := range []string{"*/*", "text/html"} {
			_, body, err := p.getAs(accept, path, w.cp.RESTConfig())
			if err != nil {
				t.Fatal(err)
			}
			s.wantNone(t, path+" as "+accept, body)
		}
	}
	events, err := w.client.CoreV1().Events("").List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	s.wantNone(t, "the events", fmt.Sprintf("events: %+v", events.Items))
	p.Kill()
	s.wantNone(t, "the log", p.Output.String())
}

// addCluster adds a cluster to the directory of a fleet.
func addCluster(t *testing.T, dir, name, kubeconfig, cloudConf string) {
	t.Helper()
	if err := os.Mkdir(filepath.Join(dir, name), 0o700); err != nil {
		t.Fatal(err)
	}
	for file, text := range map[string]string{"kubeconfig": kubeconfig, "cloud.conf": cloudConf} {
		if err := os.WriteFile(filepath.Join(dir, name, file), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// kubeconfigWith is a kubeconfig with a line in its cluster, user or context.
func kubeconfigWith(kind, line string) string {
	lines := map[string]string{
		"cluster": "server: https://192.0.2.1:6443", "user": "token: t",
		"context": "cluster: c, user: c",
	}
	key, _, _ := strings.Cut(line, ":")
	if !strings.HasPrefix(lines[kind], key+":") {
		line = lines[kind] + ", " + line
	}
	lines[kind] = line
	out := "apiVersion: v1\nkind: Config\ncurrent-context: c\n"
	for _, kind := range []string{"cluster", "user", "context"} {
		out += fmt.Sprintf("%ss: [{name: c, %s: {%s}}]\n", kind, kind, lines[kind])
	}
	return out
}

// One secret is in each field of a kubeconfig and in each option of a cloud.conf, and the test
// reads everything that a fleet shows.
func TestFleet_SecretsInEveryField_DoNotComeOut(t *testing.T) {
	for _, isTrusted := range []bool{false, true} {
		t.Run(fmt.Sprintf("trusted %t", isTrusted), func(t *testing.T) {
			w, dir, all := newWorld(t), t.TempDir(), &secrets{}
			sim := openstacktest.NewCloud()
			t.Cleanup(sim.Close)
			count := 0
			add := func(kubeconfig, cloudConf string) {
				count++
				addCluster(t, dir, fmt.Sprintf("c%03d", count), kubeconfig, cloudConf)
			}
			good := sim.CloudConf("password")
			// The operator's names of hosts, files and users are no secrets.
			names := regexp.MustCompile(`^(server|tls-server-name|tokenFile|as|as-.*|namespace|` +
				`certificate-authority|client-certificate|client-key|cluster|user)$`)
			for kind, fields := range map[string][]string{
				"cluster": {
					"server", "tls-server-name", "certificate-authority", "proxy-url",
					"certificate-authority-data", "insecure-skip-tls-verify", "extensions",
				},
				"user": {
					"token", "tokenFile", "client-certificate", "client-certificate-data",
					"client-key", "client-key-data", "username", "password", "as", "as-uid",
					"as-groups", "as-user-extra", "auth-provider", "exec", "extensions",
				},
				"context": {"cluster", "user", "namespace", "extensions"},
			} {
				for _, field := range fields {
					for _, format := range []string{
						"%s", "[%s]", "{%[1]s: %[1]s}", "'https://u:%s@192.0.2.1:1'",
						"'https://192.0.2.1:%s'", "\"%s", "&a %s",
					} {
						if isTrusted && names.MatchString(field) &&
							(field != "server" || !strings.Contains(format, "@")) {
							continue
						}
						secret := all.next(field + ": " + format)
						if strings.HasSuffix(field, "-data") {
							secret = base64.StdEncoding.EncodeToString([]byte(secret))
						}
						add(kubeconfigWith(kind, field+": "+fmt.Sprintf(format, secret)), good)
					}
				}
			}
			kubeconfig, err := os.ReadFile(w.adminNamed(t, "workload.conf"))
			if err != nil {
				t.Fatal(err)
			}
			for _, method := range []string{
				"user-id = u\ntenant-id = t\npassword = %s",
				"trust-id = t\ntrustee-id = t\ntrustee-password = %s",
				"application-credential-id = a\napplication-credential-secret = %s",
				"token = %s",
				"user-id = u\ntenant-id = t\npassword = p\nca-file = %s",
				"user-id = u\ntenant-id = t\npassword = p\nbroken %s",
				"user-id = u\ntenant-id = t\npassword = p\n%s",
				"user-id = u\ntenant-id = t\npassword = p\n[%s",
			} {
				for _, address := range []string{
					sim.AuthURL(), "http://u:%s@" + strings.TrimPrefix(sim.AuthURL(), "http://"),
					"http://u:%s@127.0.0.1:1/v3",
				} {
					conf := "[Global]\nauth-url = " + address + "\n" + method + "\n"
					for strings.Contains(conf, "%s") {
						conf = strings.Replace(conf, "%s", all.next("cloud.conf: "+conf), 1)
					}
					add(string(kubeconfig), conf)
				}
			}
			args := []string{
				"--kubeconfig=" + w.adminNamed(t, "management.conf"), "--clusters=directory",
				"--clusters-directory=" + dir, "--namespace=default",
				"--cloud-provider=openstack", "--v=10",
			}
			if isTrusted {
				args = append(args, "--clusters-trusted")
			}
			p := launchCommand(t, []string{"fleet"}, args...)
			p.awaitAnswer("/livez", http.StatusOK)
			server := fmt.Sprintf("--server=https://127.0.0.1:%d", p.port)
			admin := w.adminNamed(t, "admin.conf")
			p.eventually("each cluster has a state", func() (string, bool) {
				_, out, errs := runSubcommand("fleet", "status", "--kubeconfig="+admin, server,
					"--insecure-skip-tls-verify", "--namespace=default")
				return out + errs, strings.Contains(out, fmt.Sprintf("Clusters: %d:", count)) &&
					!strings.Contains(out, "waiting") && !strings.Contains(out, "starting")
			})
			for _, command := range [][]string{
				{"fleet", "status", "--namespace=default"},
				{"fleet", "status", "--namespace=default", "--output=json"},
			} {
				_, out, errs := runSubcommand(append(command, "--kubeconfig="+admin, server,
					"--insecure-skip-tls-verify")...)
				all.wantNone(t, strings.Join(command, " "), out+errs)
			}
			all.wantNoneIn(t, w, p)
		})
	}
}

// The program alone may read its secrets from clouds.yaml and secure.yaml. The tests of cloudconf
// have files that cannot be read.
func TestProgram_SecretsInCloudsYAML_DoNotComeOut(t *testing.T) {
	const user = "username: u, user_domain_name: d, "
	const project = "project_name: p, project_domain_name: d"
	for name, auth := range map[string]struct{ clouds, secure string }{
		"password": {user + project, "password: %s"},
		"token":    {project, "token: %s"},
		"application credential": {
			"application_credential_id: a", "application_credential_secret: %s",
		},
		"password in the URL": {user + project + ", password: p", "auth_url: 'http://u:%s@HOST'"},
		"unknown key":         {user + project + ", password: p", "%s: x"},
	} {
		t.Run(name, func(t *testing.T) {
			w, all := newWorld(t), &secrets{}
			sim := openstacktest.NewCloud()
			t.Cleanup(sim.Close)
			ccmtest.CreateNode(t, w.client, ccmtest.TaintedNode("node-1"))
			secure := strings.ReplaceAll(fmt.Sprintf(auth.secure, all.next("secure.yaml: "+name)),
				"HOST", strings.TrimPrefix(sim.AuthURL(), "http://"))
			clouds := writeFile(t, "clouds.yaml", "clouds: {a: {auth: {auth_url: '"+sim.AuthURL()+
				"', "+auth.clouds+"}}}\n")
			if err := os.WriteFile(filepath.Join(filepath.Dir(clouds), "secure.yaml"),
				[]byte("clouds: {a: {auth: {"+secure+"}}}\n"), 0o600); err != nil {
				t.Fatal(err)
			}
			config := w.cp.RESTConfig()
			// The certificate has precedence.
			config.BearerToken = all.next("token of the kubeconfig")
			kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
			if err := controlplane.WriteKubeconfig(kubeconfig, config); err != nil {
				t.Fatal(err)
			}
			p := w.launch(t, "--kubeconfig="+kubeconfig, "--cloud-provider=openstack", "--v=10",
				"--cloud-config-strict=false", "--cloud-config="+writeFile(t, "cloud.conf",
					"[Global]\nuse-clouds = true\ncloud = a\nclouds-file = "+clouds+"\n"))
			p.eventually("the login has failed", func() (string, bool) {
				_, body, err := p.get("/statusz", w.cp.RESTConfig())
				return fmt.Sprint(body, err), strings.Contains(body, "Keystone: 4")
			})
			all.wantNoneIn(t, w, p)
		})
	}
}
