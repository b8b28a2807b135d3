package cloudconf

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// wantNoLeak fails if the secret is in what the parser says about the file. Of the configuration,
// only the options that are secret hide their value.
func wantNoLeak(t *testing.T, content, secret string, isSecretOption bool) {
	t.Helper()
	var o Options
	for _, strict := range []bool{false, true} {
		o.Strict = strict
		loaded, readErr := Read([]byte(content), o)
		parsed, warnings, parseErr := Parse([]byte(content), o)
		out := fmt.Sprintf("%v %v %+v %+v", readErr, parseErr, loaded.Warnings, warnings)
		if isSecretOption {
			out += fmt.Sprintf("%+v %#v %+v %#v", loaded, loaded, parsed, parsed)
		}
		if strings.Contains(out, secret) {
			at := strings.Index(out, secret)
			t.Errorf("strict %t: %s comes out: %s\nof\n%.600s", o.Strict, secret,
				out[max(0, at-150):min(len(out), at+100)], content)
		}
	}
}

// broken returns a file that contains a line in several ways that a broken template has.
func broken(line string) []string {
	key, value, _ := strings.Cut(line, " = ")
	return []string{
		line, key + " = \"" + value, key + " = " + value + "\"", key + " " + value,
		key + ": " + value, value + " = " + key, value, "[" + value + "]", "[" + value,
		"[Global \"x\"\n" + line, line + "\\", line + "\n" + line, key + " =\n" + value,
		key + " = \"" + value + "\\q\"", "\xff" + line, key + " = \"\"\"" + value + "\"\"\"",
	}
}

func TestRead_SecretInEachOption_DoesNotComeOut(t *testing.T) {
	t.Parallel()
	base := "[Global]\nauth-url = https://keystone.example:5000\nuser-id = u\ntenant-id = t\n"
	n := 0
	for _, s := range table(&Config{}) {
		name := s.name
		if s.named {
			name += ` "class"`
		}
		for _, o := range s.options {
			n++
			secret := fmt.Sprintf("S3cr3t%dxQ", n)
			value := secret
			if !o.secret { // the userinfo of a URL is secret in each option
				value = "https://user:" + secret + "@keystone.example:5000"
			}
			for i, text := range broken(o.key + " = " + value) {
				if !o.secret && i > 0 {
					break
				}
				wantNoLeak(t, base+"["+name+"]\n"+text+"\n", secret, o.secret && i == 0)
			}
			for _, url := range []string{
				"https://user:" + secret + "@[::1/x", "https://user:" + secret + "@x:port",
				"user:" + secret + "@x", "ftp://user:" + secret + "@x", "https://" + secret + "@x",
				"https://x/%zz?token=" + secret,
			} {
				if strings.HasSuffix(o.key, "url") {
					wantNoLeak(t, base+"["+name+"]\n"+o.key+" = "+url+"\n", secret, false)
				}
			}
		}
	}
}

func TestRead_SecretInEachKeyOfCloudsYAML_DoesNotComeOut(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	at := regexp.MustCompile(`^auth\.`)
	var secretKeys []string
	for _, o := range global(&Global{}).options {
		if o.secret && o.clouds != "" {
			secretKeys = append(secretKeys, o.clouds)
		}
	}
	if len(secretKeys) == 0 {
		t.Fatal("no option is secret")
	}
	for n, key := range cloudsKeys() {
		secret := fmt.Sprintf("S3cr3t%dxQ", n)
		value := secret
		if !slices.Contains(secretKeys, key) {
			value = "https://user:" + secret + "@keystone.example:5000"
		}
		indent, name := "    ", key
		if at.MatchString(key) {
			indent, name = "      ", at.ReplaceAllString(key, "")
		}
		for i, line := range []string{
			name + ": " + value, name + ": {" + secret + ": " + secret + "}",
			name + ": [" + secret + "]", name + ": \"" + secret, name + ": *" + secret,
			name + ": !!int " + secret, name + ": &" + secret + " [*" + secret + "]",
			secret + ": x", secret, name + ": @" + secret, "\t" + name + ": " + secret,
			"? {" + secret + ": x}\n" + indent + ": y",
		} {
			head := "clouds:\n  a:\n"
			if at.MatchString(key) {
				head += "    auth:\n"
			}
			for _, file := range []string{"clouds.yaml", "secure.yaml"} {
				for other, text := range map[string]string{
					"clouds.yaml": "clouds:\n  a:\n    auth: {auth_url: 'https://k.example'}\n",
					"secure.yaml": "clouds: {}\n",
				} {
					if other == file {
						text = head + indent + line + "\n"
					}
					if err := os.WriteFile(filepath.Join(dir, other), []byte(text),
						0o600); err != nil {
						t.Fatal(err)
					}
				}
				conf := "[Global]\nuse-clouds = true\ncloud = a\nclouds-file = " +
					filepath.Join(dir, "clouds.yaml") + "\n"
				isSecretOption := i == 0 && slices.Contains(secretKeys, key)
				t.Run(key+" "+line, func(t *testing.T) {
					wantNoLeak(t, conf, secret, isSecretOption)
				})
			}
		}
	}
}
