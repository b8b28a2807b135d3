package fleet

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/client-go/rest"
)

// kubeconfigWith is a kubeconfig with further lines in its cluster, user and context.
func kubeconfigWith(cluster, user, more string) string {
	return `apiVersion: v1
kind: Config
current-context: c
preferences: {}
clusters:
- name: c
  cluster:
    server: https://c.example.com:6443
    ` + cluster + `
users:
- name: u
  user:
    client-key-data: a2V5
    ` + user + `
contexts:
- name: c
  context: {cluster: c, user: u, namespace: x}
` + more
}

func TestParseKubeconfig_FieldThatActs_IsRefusedByItsName(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(file, []byte("content-of-the-file"), 0o600); err != nil {
		t.Fatal(err)
	}
	ran := filepath.Join(t.TempDir(), "ran")
	const user = "users[0].user."
	for want, data := range map[string]string{
		user + "exec": kubeconfigWith("",
			`exec: {apiVersion: client.authentication.k8s.io/v1, command: touch, args: ["`+ran+
				`"], interactiveMode: Never}`, ""),
		user + "auth-provider":      kubeconfigWith("", "auth-provider: {name: secret}", ""),
		user + "tokenFile":          kubeconfigWith("", "tokenFile: "+file, ""),
		user + "client-certificate": kubeconfigWith("", "client-certificate: "+file, ""),
		user + "client-key ":        kubeconfigWith("", "client-key: "+file, ""),
		user + "username":           kubeconfigWith("", "username: secret", ""),
		user + "password":           kubeconfigWith("", "password: secret", ""),
		user + "as ":                kubeconfigWith("", "as: secret", ""),
		user + "as-uid":             kubeconfigWith("", "as-uid: secret", ""),
		user + "as-groups":          kubeconfigWith("", "as-groups: [secret]", ""),
		user + "as-user-extra":      kubeconfigWith("", "as-user-extra: {secret: [secret]}", ""),
		"users[0].user has an unknown field in line 14": kubeconfigWith("", "secret: x", ""),
		"users[0].user.token is repeated": kubeconfigWith("",
			"token: secret\n    token: other", ""),
		"users[0].user.token is not a string": kubeconfigWith("", "token: {secret: secret}", ""),
		"clusters[0].cluster.certificate-authority ": kubeconfigWith(
			"certificate-authority: "+file, "", ""),
		"clusters[0].cluster.proxy-url is not a valid URL": kubeconfigWith(
			`proxy-url: "http://u:secret@[::1/x"`, "", ""),
		"clusters[0].cluster.proxy-url has another scheme": kubeconfigWith(
			"proxy-url: file://secret", "", ""),
		"certificate-authority-data is not base64": kubeconfigWith(
			"certificate-authority-data: secret!", "", ""),
		"users[1].user.exec": strings.Replace(kubeconfigWith("", "", ""), "contexts:",
			"- name: other\n  user: {exec: {command: secret}}\ncontexts:", 1),
		"the file has an unknown field": kubeconfigWith("", "", "secret: x"),
		"one document":                  kubeconfigWith("", "", "---\nkind: Config"),
		"one document of valid YAML":    "secret: [",
		"more than": kubeconfigWith("", "",
			"#"+strings.Repeat("x", maxKubeconfig)),
		"clusters[0].cluster is not an object": strings.NewReplacer(
			"preferences: {}", "preferences: &a {server: https://secret}",
			"cluster:\n    server: https://c.example.com:6443", "cluster: *a").Replace(
			kubeconfigWith("", "", "")),
		"current-context names no context": strings.Replace(kubeconfigWith("", "", ""),
			"current-context: c", "current-context: secret", 1),
		"users[0].user.token has more than": kubeconfigWith("",
			"token: "+strings.Repeat("x", maxToken+1), ""),
	} {
		t.Run(want, func(t *testing.T) {
			config, err := parseKubeconfig([]byte(data))
			if err == nil || !strings.Contains(err.Error()+" ", want) || config != nil {
				t.Fatalf("configuration %v, error %v", config, err)
			}
			for _, leak := range []string{"secret", "content-of-the-file", file} {
				if strings.Contains(err.Error(), leak) {
					t.Errorf("the error has a text of the kubeconfig: %v", err)
				}
			}
		})
	}
	if _, err := os.Stat(ran); err == nil {
		t.Error("the program of the kubeconfig was run")
	}
}

func TestParseKubeconfig_MergeKey_IsRefused(t *testing.T) {
	data := kubeconfigWith("", "<<: {exec: {command: secret}}", "")
	if _, err := parseKubeconfig([]byte(data)); err == nil ||
		!strings.Contains(err.Error(), "unknown field") {
		t.Errorf("the error is %v", err)
	}
}

func TestParseKubeconfig_InlineCredentials_AreRead(t *testing.T) {
	config, err := parseKubeconfig([]byte(kubeconfigWith(
		"certificate-authority-data: Y2E=\n    tls-server-name: name\n"+
			"    disable-compression: true\n    extensions: [{name: x, extension: {y: z}}]",
		"token: token\n    client-certificate-data: Y2VydA==", "")))
	if err != nil {
		t.Fatal(err)
	}
	got := fmt.Sprint(config.Host, config.BearerToken, string(config.CAData),
		string(config.CertData), string(config.KeyData), config.ServerName,
		config.DisableCompression)
	if want := fmt.Sprint("https://c.example.com:6443", "token", "ca", "cert", "key", "name",
		true); got != want {
		t.Errorf("the configuration is %s", got)
	}
}

// An alias in an ignored field must not be expanded.
func TestParseKubeconfig_AliasBomb_IsNotExpanded(t *testing.T) {
	var bomb strings.Builder
	bomb.WriteString("extensions:\n- &a0 [x, x, x, x, x, x, x, x, x, x]\n")
	for i := range 30 {
		fmt.Fprintf(&bomb, "- &a%d [%s*a%d]\n", i+1, strings.Repeat(fmt.Sprintf("*a%d, ", i), 9), i)
	}
	data := []byte(kubeconfigWith("", "", bomb.String()))
	allocated := testing.Benchmark(func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := parseKubeconfig(data); err != nil {
				b.Fatal(err)
			}
		}
	}).AllocedBytesPerOp()
	if allocated > 1<<20 {
		t.Errorf("%d bytes were allocated", allocated)
	}
}

func TestTrustedKubeconfig_AddressesAreInvalid_ErrorHasNoPassword(t *testing.T) {
	for _, cluster := range []string{
		`proxy-url: "http://u:secret@[::1/x"`, `proxy-url: "ftp://u:secret@x"`,
		`proxy-url: "http://u:secret@x:port"`,
	} {
		_, err := parseTrustedKubeconfig([]byte(kubeconfigWith(cluster, "", "")))
		if err == nil || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: the error is %v", cluster, err)
		}
	}
	for _, host := range []string{"https://u:secret@[::1/x", "https://u:secret@x:port"} {
		_, _, err := newAccess(&rest.Config{Host: host})
		if err == nil || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: the error is %v", host, err)
		}
	}
}

func FuzzParseKubeconfig(f *testing.F) {
	f.Add([]byte(kubeconfigWith("certificate-authority-data: Y2E=", "token: t", "")))
	f.Add([]byte(kubeconfigWith("proxy-url: http://u:p@proxy", "tokenFile: /etc/hostname", "")))
	f.Add([]byte(kubeconfigWith("insecure-skip-tls-verify: true", "exec: {command: x}", "")))
	f.Add([]byte(kubeconfigWith("server: https://twice", "<<: *a", "extensions: &a [*a]")))
	f.Add([]byte(`{"clusters":[{"name":"","cluster":{"server":"x"}}],"contexts":[{}]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		config, err := parseKubeconfig(data)
		if (config == nil) == (err == nil) {
			t.Fatalf("configuration %v, error %v", config, err)
		}
		if config == nil {
			return
		}
		if config.ExecProvider != nil || config.AuthProvider != nil || config.Username != "" ||
			config.BearerTokenFile+config.CAFile+config.CertFile+config.KeyFile != "" ||
			config.Impersonate.UserName != "" || config.Password != "" {
			t.Fatalf("a field acts: %#v", config)
		}
		rules := &AccessRules{}
		if rules.check(config) == nil && (config.Insecure || config.Proxy != nil ||
			!strings.HasPrefix(strings.ToLower(config.Host), "https:") &&
				!config.Insecure && config.CAData == nil && config.CertData == nil) {
			t.Fatalf("the rules accept %#v", config)
		}
	})
}
