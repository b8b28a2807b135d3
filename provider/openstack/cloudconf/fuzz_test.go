package cloudconf

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

func FuzzCloudConf(f *testing.F) {
	full, err := os.ReadFile(filepath.Join("testdata", "full.conf"))
	if err != nil {
		f.Fatal(err)
	}
	for _, content := range []string{
		"", string(full), login, "[Global]\npassword = \"a\\\\\\\"\\n\\t\"\nuse-clouds\n",
		"[LoadBalancerClass \"a\\\"\\\\\"]\nsubnet-id = x \\\n y\n",
		"[Networking]\npublic-network-name = a\npublic-network-name\npublic-network-name =\n",
		"[a\n]\n\xff\x00\ufeff\\", "[Global]\r\nusername = a\\\r\nb\r\n",
		"[Client]\nrequest-rate = 1e-3\n[Instances]\nvanished-share = " +
			"NaN\n[LoadBalancer]\nmonitor-delay = 1\nmonitor-max-retries = 0x1_0\n",
	} {
		f.Add(content)
	}
	f.Fuzz(func(t *testing.T, content string) {
		const secret = "qX7-s3cr3t-Zw9"
		content = "[Global]\npassword = " + secret + "\ntoken = \"" + secret + content
		strict, _, strictError := Parse([]byte(content), Options{Strict: true})
		lax, warnings, err := Parse([]byte(content), Options{})
		if text := told(append(warnings, refused(t, err)...)); strings.Contains(text, secret) &&
			strings.Count(content, secret) == 2 {
			t.Errorf("the output contains a secret: %s", text)
		}
		if strictError == nil && (err != nil || !same(strict, lax)) {
			t.Errorf("strict mode reads %+v, lax mode %+v (%v)", strict, lax, err)
		}
		if err != nil {
			return
		}
		for _, p := range problemsIn(lax) {
			if strings.Contains(p.Text, secret) {
				t.Errorf("a problem contains a secret: %s", p)
			}
		}
		text, err := RenderWithSecrets(lax)
		if err != nil {
			t.Fatalf("the configuration cannot be written: %v", err)
		}
		again, _, err := Parse([]byte(text), Options{})
		if err != nil || !same(again, lax) {
			t.Errorf("the text\n%s\nwas read as %+v (%v), want %+v", text, again, err, lax)
		}
		if without, err := Render(lax); err != nil || strings.Contains(without, secret) &&
			strings.Count(content, secret) == 2 {
			t.Errorf("without secrets it was written as\n%s(%v)", without, err)
		}
	})
}

// same treats NaN as equal to itself, and an empty list as nil: a file cannot express the
// difference.
func same(a, b Config) bool {
	for _, c := range []*Config{&a, &b} {
		for _, number := range []*float64{&c.Client.RequestRate, &c.Instances.VanishedShare} {
			if *number != *number {
				*number = -1
			}
		}
	}
	return reflect.DeepEqual(a, b)
}

func FuzzCloudsYAML(f *testing.F) {
	for _, content := range []string{
		"", aCloud, "clouds: &c\n  <<: *c\n  prod: &p {<<: [*p, *c], auth: *p}\n",
		"clouds: {prod: {regions: [a, {name: b, values: {verify: no}}]}}",
		"clouds:\n  prod:\n    profile: prod\n    auth: [x]\n", "a: *hunter2",
		"clouds: [{prod: 1}]", "? [a]\n: b\n", "clouds: {? {a: b} : c}", "---\n---\n",
		"%YAML 1.1\n---\n!!binary x",
	} {
		f.Add(content)
	}
	f.Fuzz(func(t *testing.T, content string) {
		const secret = "qX7-s3cr3t-Zw9"
		file, problem := parseClouds("clouds.yaml",
			[]byte("clouds: {other: {auth: {password: "+secret+"}}}\n"+content))
		again, second := parseClouds("clouds.yaml", []byte(content))
		for _, p := range []*Problem{problem, second} {
			if p != nil && strings.Contains(p.String(), secret) {
				t.Errorf("a problem contains a secret: %s", p)
			}
		}
		for _, parsed := range []*cloudsFile{file, again} {
			if parsed == nil {
				continue
			}
			for _, group := range []string{"clouds", "public-clouds"} {
				for _, name := range parsed.names(group) {
					take(t, parsed, parsed.entry(group, name))
				}
			}
		}
	})
}

// take does the same as takeClouds, from the content of a file to a Config.
func take(t *testing.T, file *cloudsFile, entry cloudEntry) {
	document := parse([]byte("[Global]\nuse-clouds\n"), Options{})
	c := cloudsReader{
		document: document, options: Options{CloudsDirs: []string{}},
		global: &document.config.Global, section: header("Global", ""),
	}
	merged := entry.over(entry)
	merged.profile()
	c.take(c.inRegion(merged))
	c.validate()
	for _, p := range c.problems {
		if p.Line < 0 || p.File != "" && p.File != file.path {
			t.Errorf("a problem has no position: %+v", p)
		}
	}
	for _, p := range c.problems {
		if password := string(c.config.Global.Password); len(password) > 12 &&
			strings.Contains(p.Text, password) {
			t.Errorf("a problem contains a secret: %s", p)
		}
	}
}
