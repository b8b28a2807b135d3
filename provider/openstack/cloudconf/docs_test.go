package cloudconf

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// The page is written by `go generate ./provider/openstack/cloudconf`.
func TestCloudConfPage_IsUpToDate(t *testing.T) {
	path := filepath.Join("..", "..", "..", "docs", "reference", "cloud-conf.md")
	want := page()
	if os.Getenv("UPDATE_DOCS") != "" {
		if err := os.WriteFile(path, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != want {
		t.Errorf("%s does not say what the options are; run: go generate ./provider/openstack/cloudconf", path)
	}
}

// The example on the page is right, and the guide to it that what is wrong is told.
func TestCloudConfPage_ExampleIsRight(t *testing.T) {
	loaded, err := Read([]byte(example), Options{Strict: true})
	if err != nil || len(loaded.Warnings) > 0 {
		t.Errorf("the example has problems: %v\n%s", err, told(loaded.Warnings))
	}
}

const example = `[Global]
auth-url = https://keystone.example:5000/v3
application-credential-id = 4f1c8a0de4c24b4c8b3cbb1f0f6a1f3e
application-credential-secret = "quotes keep # and ;"
region = RegionOne

[Networking]
public-network-name = public

[LoadBalancer]
floating-network-id = 2cb9b4d4-8a27-4a22-8b5a-5b7a2a6a7e11
create-monitor = true

[LoadBalancerClass "internal"]
subnet-id = 7f1a1f2e-3a5d-4f3c-9c5e-1d2b3c4d5e6f
`

func page() string {
	var p strings.Builder
	p.WriteString(`# cloud.conf

<!-- Generated from package provider/openstack/cloudconf; change it there and run: go generate ./provider/openstack/cloudconf -->

The OpenStack provider reads the file of openstack-cloud-controller-manager (OCCM): every key of OCCM has its name, its meaning and its
default, but for [the differences](#differences-from-occm). A host can do without files, and fill in a ` + "`cloudconf.Config`" + `.

` + "```ini\n" + example + "```\n")
	p.WriteString(syntax)
	defaults := Default()
	for _, s := range table() {
		title := s.name
		if s.named {
			title += ` "name"`
		}
		fmt.Fprintf(&p, "\n## [%s]\n\n%s", title, s.meaning)
		if s.own {
			p.WriteString(" fxccm's own: OCCM takes no notice of it.")
		}
		p.WriteString("\n\n| key | type | default | |\n|---|---|---|---|\n")
		for _, o := range s.options {
			fmt.Fprintf(&p, "| `%s` | %s | %s | %s |\n", o.key, o.typ, defaultCell(o, place{Config: &defaults, class: &LoadBalancerClass{}}), meaningCell(o))
		}
	}
	p.WriteString(cloudsSection())
	p.WriteString(rest)
	return p.String()
}

const syntax = `
## Syntax

The format is that of [gcfg](https://pkg.go.dev/gopkg.in/gcfg.v1), which OCCM reads it with.

* Names of sections and keys are written in any case, with ` + "`-`" + ` and not with ` + "`_`" + `.
* ` + "`#`" + ` and ` + "`;`" + ` begin a comment, in a value too, unless they are in quotes: ` + "`password = a#b`" + ` is the password ` + "`a`" + `.
* In quotes, ` + "`\\\\`" + `, ` + "`\\\"`" + `, ` + "`\\n`" + ` and ` + "`\\t`" + ` are escapes. Outside of quotes, ` + "`\\`" + ` is an error but at the end of a line, where the value goes on in the next.
* True is written ` + "`true`, `yes`, `on` or `1`" + `, or by the key alone; false is ` + "`false`, `no`, `off` or `0`" + `. Only ` + "`tls-insecure`" + ` differs.
* A duration is written ` + "`5s`" + ` or ` + "`1m30s`" + `. A number alone is seconds.
* A key that is there again replaces what it was; a repeatable one adds to it, and alone, without ` + "`=`" + `, empties it.

All that is wrong is told at once, with file and line, and no value is ever repeated.

In **strict mode** what is most likely a mistake is refused: unknown keys and sections, and values that OCCM takes and fails with later.
Otherwise it is a warning, and whatever OCCM takes is taken with the same meaning.
`

func cloudsSection() string {
	var s strings.Builder
	s.WriteString(`
## clouds.yaml

With ` + "`use-clouds = true`" + `, what cloud.conf leaves open is taken from
[clouds.yaml](https://docs.openstack.org/openstacksdk/latest/user/config/configuration.html), key by key. It is the file that
` + "`clouds-file`" + ` names, or the first ` + "`clouds.yaml` or `clouds.yml`" + ` in the working directory, ` + "`~/.config/openstack` and `/etc/openstack`" + `.
` + "`secure.yaml`" + ` is searched beside it and then there, and beats it. ` + "`clouds-public.yaml`" + ` is searched likewise if the cloud has a ` + "`profile`" + `, and is the weakest.

| clouds.yaml | cloud.conf |
|---|---|
`)
	for _, o := range global().options {
		if o.clouds == "" {
			continue
		}
		fmt.Fprintf(&s, "| `%s` | `%s`%s |\n", o.clouds, o.key, map[string]string{"verify": ", reversed", "endpoint_type": ""}[o.clouds])
	}
	s.WriteString(`
` + "`interface`" + ` stands in for ` + "`endpoint_type`" + `, and ` + "`auth.default_domain`" + ` for domains that are not named. Of ` + "`regions`" + `, the values of the region that is
chosen beat the cloud's; if there is only one, it is chosen. Keys that other programs read from the file have no effect.
`)
	return s.String()
}

const rest = `
## Environment

The library reads no environment variable by itself. A host hands in a function that does (` + "`cloudconf.Options.Environment`" + `); then
what OCCM takes from there is taken:

| variable | |
|---|---|
| ` + "`OS_CCM_REGIONAL`" + ` | ` + "`true`" + ` is ` + "`regional = true`" + `, if the file does not say. |
| ` + "`OCCM_WAIT_LB_ACTIVE_STEPS`" + ` | No effect, which is said: load balancers are waited for without a limit. |
| ` + "`OS_CLIENT_CONFIG_FILE`" + ` | ` + "`clouds-file`" + `, if the file does not say. |
| ` + "`OS_CLOUD`" + ` | ` + "`cloud`" + `, if the file does not say. |

## Differences from OCCM

* Nothing is accepted in silence: unknown keys and sections are warnings, or errors in strict mode.
* A login that cannot work, or a ` + "`search-order`, `lb-version` or `os-endpoint-type`" + ` that is none, is refused when the file is read, with the reason.
* A duration may be a number alone, in seconds. OCCM refuses it.
* The long form of ` + "`os-endpoint-type`, `publicURL`" + ` and so on, is known.
* Each domain of user and project is taken as a pair of id and name: with ` + "`user-domain-id` and `domain-name`" + `, the user's domain is the former.
  Where an id and a name of the same are given, the id counts. OCCM refuses some of these.
* From clouds.yaml, ` + "`verify`, `auth.trust_id`, `auth.default_domain` and `regions`" + ` are taken, too.
* secure.yaml and clouds-public.yaml are searched beside clouds.yaml first, and secure.yaml counts even if no cloud is named.
* If the file that ` + "`clouds-file`" + ` names does not exist, others are searched for with a warning; in strict mode that is an error.
`

func defaultCell(o option, p place) string {
	values := slices.DeleteFunc(slices.Clone(o.write(p)), func(v string) bool { return v == "" })
	if len(values) == 0 {
		return ""
	}
	shown := strings.Join(values, ", ")
	if n, err := strconv.ParseFloat(shown, 64); err == nil {
		shown = strconv.FormatFloat(n, 'g', 3, 64)
	}
	return "`" + shown + "`"
}

func meaningCell(o option) string {
	meaning := o.meaning
	for _, rule := range o.rules {
		if rule.says != "" {
			meaning += " " + rule.says + "."
		}
	}
	return strings.NewReplacer("|", `\|`, "*", `\*`, "<", `\<`).Replace(meaning)
}
