package cloudconf

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// secrets are lines that a broken template or a copied secret leaves in a file.
var secrets = []string{
	"hunter2", "correcthorse", "c2VjcmV0LXZhbHVlLW9mLWEta2V5Cg==", "s3cr3t=value", "Tr0ub4dor-3",
	"gAAAAABkXyZaBcDeFgHiJkLmNoPqRsTuVwXyZ012345", "MIIEvQIBADANBgkqhkiG9w0BAQEFAASC=x",
	"dGhpc2lzYXNlY3JldA = y", "[aGVsbG9Xb3JsZEZvb0Jhcg]", "[s3cr3t-section]",
}

func TestParse_SecretInALineOfItsOwn_IsNotQuoted(t *testing.T) {
	t.Parallel()
	for _, line := range secrets {
		for _, header := range []string{
			"", "[Global]\n", "[LoadBalancer]\n", "[Global \"east\"]\n",
		} {
			_, warnings, err := Parse([]byte(header+line+"\n"), Options{})
			_, strict, refused := Parse([]byte(header+line+"\n"), Options{Strict: true})
			text := ""
			for _, p := range append(warnings, strict...) {
				text += p.String()
			}
			for _, each := range []error{err, refused} {
				if each != nil {
					text += each.Error()
				}
			}
			name := strings.Trim(strings.FieldsFunc(line, func(c rune) bool {
				return c == '=' || c == ' '
			})[0], "[]")
			if strings.Contains(text, name) {
				t.Errorf("%q below %q is quoted: %s", line, header, text)
			}
			if text == "" {
				t.Errorf("%q below %q has no problem", line, header)
			}
		}
	}
}

func TestRead_SecretIsAKeyOfCloudsYAML_IsNotQuoted(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "clouds.yaml")
	for _, key := range []string{"hunter2", "c2VjcmV0LXZhbHVl", "s3cr3t-value"} {
		text := "clouds:\n  a:\n    auth:\n      auth_url: https://keystone.example:5000\n" +
			"      " + key + ": x\n      " + key + ": y\n    " + key + ": x\n"
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		conf := "[Global]\nuse-clouds = true\nclouds-file = " + file + "\n"
		_, err := Read([]byte(conf), Options{Strict: true})
		if err == nil || strings.Contains(err.Error(), key) {
			t.Errorf("with the key %s the error is %v", key, err)
		}
	}
}

func TestParse_HugeFile_HasAShortError(t *testing.T) {
	t.Parallel()
	for name, content := range map[string]string{
		"keys":       "[Global]\n" + strings.Repeat("unknown = x\n", 1<<20/12),
		"short keys": "[Global]\n" + strings.Repeat("a\n", 1<<19),
		"sections":   strings.Repeat("[unknown]\n", 1<<20/10),
		"one key":    "[Global]\n" + strings.Repeat("a", 1<<20) + " = x\n",
		"one name":   "[LoadBalancerClass \"" + strings.Repeat("a", 1<<20) + "\"]\nunknown = x\n",
		"one region": "[Global \"" + strings.Repeat("a", 1<<20) + "\"]\nunknown = x\n",
		"wrong":      strings.Repeat("!\n", 1<<19),
	} {
		t.Run(name, func(t *testing.T) {
			_, _, err := Parse([]byte(content), Options{Strict: true})
			if err == nil || len(err.Error()) > 16<<10 {
				t.Errorf("the error has %d bytes", len(err.Error()))
			}
			_, warnings, err := Parse([]byte(content), Options{})
			size := 0
			for _, p := range warnings {
				size += len(p.String())
			}
			if err != nil {
				size += len(err.Error())
			}
			if size > 16<<10 || len(warnings) > maxShown+1 {
				t.Errorf("%d warnings have %d bytes", len(warnings), size)
			}
		})
	}
}

func TestParse_NoFiles_RefusesEachOptionThatReadsOne(t *testing.T) {
	t.Parallel()
	for _, line := range []string{
		"ca-file = /etc/ssl/ca.pem", "cert-file = /var/run/secrets/token",
		"key-file = /var/run/secrets/token", "clouds-file = /etc/shadow", "use-clouds = true",
		"use-clouds",
	} {
		key, _, _ := strings.Cut(line, " ")
		for _, section := range []string{"[Global]", "[Global \"east\"]"} {
			content := []byte("[Global]\nauth-url = https://keystone.example:5000\nregion = west\n" +
				section + "\n" + line + "\n")
			_, _, err := Parse(content, Options{NoFiles: true})
			if err == nil || !strings.Contains(err.Error(), key) {
				t.Errorf("%s in %s: the error is %v", line, section, err)
			}
			if _, err := Read(content, Options{NoFiles: true}); err == nil ||
				!strings.Contains(err.Error(), key+" in") {
				t.Errorf("%s in %s: Read's error is %v", line, section, err)
			}
			if _, _, err := Parse(content, Options{}); err != nil {
				t.Errorf("without the option, %s is refused: %v", line, err)
			}
		}
	}
}

func TestParse_NoFilesAndManyRegionsOrClasses_IsRefusedInOneSentence(t *testing.T) {
	t.Parallel()
	for header, test := range map[string]struct {
		most int
		want string
	}{
		"[Global %q]\n": {maxRegions, "region"}, "[LoadBalancer %q]\n": {maxRegions, "region"},
		"[LoadBalancerClass %q]\n": {maxClasses, "class"},
	} {
		content := func(n int) []byte {
			var text strings.Builder
			for i := range n {
				fmt.Fprintf(&text, header, fmt.Sprintf("name-%d", i))
			}
			return []byte(login + text.String() + text.String())
		}
		if _, _, err := Parse(content(test.most), Options{NoFiles: true}); err != nil {
			t.Errorf("%d of %s: %v", test.most, header, err)
		}
		if _, _, err := Parse(content(1000), Options{}); err != nil {
			t.Errorf("1000 of %s in the operator's configuration: %v", header, err)
		}
		for _, n := range []int{test.most + 1, 1000, 20_000} {
			_, _, err := Parse(content(n), Options{NoFiles: true, Strict: true})
			_, readError := Read(content(n), Options{NoFiles: true, Strict: true})
			for _, err := range []error{err, readError} {
				if err == nil || len(err.Error()) > 200 || strings.Contains(err.Error(), "\n") ||
					!strings.Contains(err.Error(), test.want) {
					t.Errorf("%d of %s: the error is %.1000v", n, header, err)
				}
			}
		}
	}
}

// Other tenants may wait for the end of a response.
func TestParse_NoFilesAndTimesThatOccupyTheMachine_AreRefused(t *testing.T) {
	t.Parallel()
	for line, isRefused := range map[string]bool{
		"[Metadata]\nrequest-timeout = 8760h": true, "[Metadata]\nrequest-timeout = 301": true,
		"[Metadata]\nrequest-timeout = -1s":                             true,
		"[Metadata]\nrequest-timeout = 5m":                              false,
		"[Metadata]\nrequest-timeout = 0":                               false, // the default
		"[LoadBalancer]\ndrift-period = 1ns":                            true,
		"[Global \"east\"]\n[LoadBalancer \"east\"]\ndrift-period = 9s": true,
		"[LoadBalancer]\ndrift-period = 10s":                            false,
		"[LoadBalancer]\ndrift-period = 0":                              false,
	} {
		content := []byte(login + "region = west\n" + line + "\n")
		key, _, _ := strings.Cut(line[strings.LastIndex(line, "\n")+1:], " ")
		config, _, err := Parse(content, Options{NoFiles: true})
		_, readError := Read(content, Options{NoFiles: true})
		for _, err := range []error{err, readError} {
			if isRefused != (err != nil) || isRefused && !strings.Contains(err.Error(), key+" in") {
				t.Errorf("%s: the error is %v", line, err)
			}
		}
		if timeout := config.Metadata.RequestTimeout; !isRefused &&
			(timeout <= 0 || timeout > longestTimeout) {
			t.Errorf("%s: the timeout is %s", line, timeout)
		}
		if _, _, err := Parse(content, Options{}); err != nil {
			t.Errorf("%s in the operator's configuration: %v", line, err)
		}
	}
}
