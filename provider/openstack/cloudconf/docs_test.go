package cloudconf

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/fxccm/fxccm/internal/pagetest"
)

// `go generate ./provider/openstack/cloudconf` writes the page.
func TestCloudConfPage_IsUpToDate(t *testing.T) {
	pagetest.Check(t, "../../../docs/reference/cloud-conf.md", page())
}

// The example on the page has no problems.
func TestCloudConfPage_ExampleIsValid(t *testing.T) {
	for _, text := range []string{example, regionsExample} {
		loaded, err := Read([]byte(text), Options{Strict: true})
		if err != nil || len(loaded.Warnings) > 0 {
			t.Errorf("the example has problems: %v\n%s", err, told(loaded.Warnings))
		}
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

The OpenStack provider reads the file of openstack-cloud-controller-manager (OCCM): keys, meanings and defaults
are those of OCCM, except for [the differences](#differences-from-occm). A host can also fill in a ` + "`cloudconf.Config`" + ` instead.

` + "```ini\n" + example + "```\n")
	p.WriteString(syntax)
	defaults := Default()
	for _, s := range table(&defaults) {
		title := s.name
		if s.named {
			title += ` "name"`
		}
		fmt.Fprintf(&p, "\n## [%s]\n\n%s", title, s.meaning)
		if s.own {
			p.WriteString(" This section exists only in fxccm; OCCM ignores it.")
		}
		p.WriteString("\n\n| key | type | default | |\n|---|---|---|---|\n")
		for _, o := range s.options {
			fmt.Fprintf(&p, "| `%s` | %s | %s | %s |\n", o.key, o.typ,
				defaultCell(o), meaningCell(o))
		}
	}
	p.WriteString(regionsSection)
	p.WriteString(cloudsSection())
	p.WriteString(rest)
	return p.String()
}

const regionsSection = `
## Regions

One file can have several regions, or several projects of one region:

` + "```ini\n" + regionsExample + "```" + `

* The sections without a name are the default region. Its name is its ` + "`region`" + `, which must be set.
* ` + "`[Global \"name\"]`" + ` adds a region. If it does not set ` + "`region`" + `, the region in OpenStack has this name, too.
  It takes all other options from ` + "`[Global]`" + `, unless it has a login of its own: then it takes ` + "`auth-url`" + `, ` + "`os-endpoint-type`" + ` and the TLS options.
  With another ` + "`auth-url`" + ` it must have its own login. With ` + "`use-clouds`, `clouds-file` or `cloud`" + ` it takes nothing.
* ` + "`[Networking \"name\"]`, `[LoadBalancer \"name\"]` and `[Route \"name\"]`" + ` take nothing: an option that they leave out has its default, because IDs differ between regions.
* ` + "`[LoadBalancerClass]`" + ` belongs to the default region. The other sections apply to each region by itself: each has its own rate limit and its own mass deletion guard.
* Provider IDs name the region, as with ` + "`regional = true`" + `.

OCCM has no such sections. [Run in several regions](../how-to/run-in-several-regions.md) says what they do.
`

const regionsExample = `[Global]
auth-url = https://keystone.example:5000/v3
application-credential-id = 4f1c8a0de4c24b4c8b3cbb1f0f6a1f3e
application-credential-secret = "..."
region = RegionOne

[LoadBalancer]
floating-network-id = 2cb9b4d4-8a27-4a22-8b5a-5b7a2a6a7e11

[Global "RegionTwo"]

[LoadBalancer "RegionTwo"]
floating-network-id = 7f1a1f2e-3a5d-4f3c-9c5e-1d2b3c4d5e6f

[Global "shop"]
region = RegionOne
application-credential-id = 8a27b5f1cbb1f0f6a1f3e4f1c8a0de4c
application-credential-secret = "..."
`

const syntax = `
## Syntax

The format is that of [gcfg](https://pkg.go.dev/gopkg.in/gcfg.v1), the parser of OCCM.

* Names of sections and keys are case-insensitive, and use ` + "`-`" + ` instead of ` + "`_`" + `.
* ` + "`#`" + ` and ` + "`;`" + ` start a comment, even in a value, unless they are in quotes: ` + "`password = a#b`" + ` is the password ` + "`a`" + `.
  Without a blank before the ` + "`#` or `;`" + `, or at the beginning of the value without a blank after it, it is a mistake. With one, it is a warning if the value is secret.
  Other quotes around a value (` + "`'...'`" + `) are a part of it, which is a mistake. So are double quotes
  around a part of a secret, which are left out. A placeholder such as ` + "`${NAME}`" + ` is taken literally, with a warning.
* In quotes, ` + "`\\\\`" + `, ` + "`\\\"`" + `, ` + "`\\n`" + ` and ` + "`\\t`" + ` are escapes. Outside of quotes, ` + "`\\`" + ` is an error, except at the end of a line: the value then continues in the next line.
* True is ` + "`true`, `yes`, `on` or `1`" + `, or the key alone; false is ` + "`false`, `no`, `off` or `0`" + `. ` + "`tls-insecure`" + ` accepts only ` + "`true`" + `.
* A duration is written as ` + "`5s`" + ` or ` + "`1m30s`" + `. A number alone is seconds.
* Repeating a key overrides it, which is a mistake if the values differ. Repeatable keys append; written without ` + "`=`" + `, they clear the list.

fxccm reports all problems at once, with file and line. A report never quotes a value. A file of another kind, such as a manifest, clouds.yaml,
an openrc file, JSON or base64 text, and keys without a section above them, are one problem.

In **strict mode** fxccm refuses probable mistakes: unknown keys and sections, and values that OCCM accepts and fails with later.
Otherwise they are warnings, and fxccm accepts what OCCM accepts, with the same meaning.
`

func cloudsSection() string {
	var s strings.Builder
	s.WriteString(`
## clouds.yaml

With ` + "`use-clouds = true`" + `, options that cloud.conf leaves empty are read from
[clouds.yaml](https://docs.openstack.org/openstacksdk/latest/user/config/configuration.html), key by key. The file is the one that
` + "`clouds-file`" + ` names, or the first ` + "`clouds.yaml` or `clouds.yml`" + ` in the working directory, ` + "`~/.config/openstack` and `/etc/openstack`" + `.
` + "`secure.yaml`" + ` is searched next to it and then in these directories, and takes precedence. ` + "`clouds-public.yaml`" + ` is searched in the same way if the cloud has a ` + "`profile`" + `, and has the lowest precedence.

| clouds.yaml | cloud.conf |
|---|---|
`)
	for _, o := range global(&Global{}).options {
		if o.clouds == "" {
			continue
		}
		fmt.Fprintf(&s, "| `%s` | `%s`%s |\n", o.clouds, o.key,
			map[string]string{"verify": ", reversed", "endpoint_type": ""}[o.clouds])
	}
	s.WriteString(`
` + "`interface`" + ` is an alternative to ` + "`endpoint_type`" + `, and ` + "`auth.default_domain`" + ` applies where no domain is named. In ` + "`regions`" + `, the values of the
selected region override those of the cloud; a single region is selected by default. ` + "`insecure: true`" + ` sets ` + "`tls-insecure`" + `, whatever ` + "`verify`" + ` says.
` + "`compute_endpoint`" + ` is an alternative to ` + "`compute_endpoint_override`" + `, and so on. ` + "`identity_endpoint_override`" + ` has no effect: as in openstacksdk, logins use ` + "`auth.auth_url`" + `.
` + "`cacert`, `cert`, `key`, `verify` and `insecure`" + ` count only beside ` + "`auth`" + `. Keys of other programs have no effect.
Keys for the endpoint of one service, such as ` + "`compute_interface`" + ` and ` + "`load_balancer_region_name`" + `, have no effect either, and cause a warning: all services have
the interface and the region of the cloud.
As in openstacksdk, the keys of ` + "`auth`" + ` may also be beside it; the ones inside take precedence. A path in ` + "`verify`" + ` is a ` + "`cacert`" + `. ` + "`auth_plugin`" + ` is ` + "`auth_type`" + `.
A ` + "`profile`" + ` that clouds-public.yaml does not contain has no effect if ` + "`auth_url`" + ` is set, and is refused otherwise: fxccm has no built-in profiles.
`)
	return s.String()
}

const rest = `
## Environment

The library does not read the environment by itself. A host can supply a function that does (` + "`cloudconf.Options.Environment`" + `).
fxccm then supports these variables of OCCM:

| variable | |
|---|---|
| ` + "`OS_CCM_REGIONAL`" + ` | ` + "`true`" + ` sets ` + "`regional = true`" + `, if the file does not set it. |
| ` + "`OCCM_WAIT_LB_ACTIVE_STEPS`" + ` | Has no effect, and fxccm logs a warning: it waits for load balancers without a limit. |
| ` + "`OS_CLIENT_CONFIG_FILE`" + ` | Sets ` + "`clouds-file`" + `, if the file does not set it. |
| ` + "`OS_CLOUD`" + ` | Sets ` + "`cloud`" + `, if the file does not set it. |

## Differences from OCCM

* Unknown keys and sections are warnings, or errors in strict mode. OCCM ignores them.
* A login that cannot work, or a ` + "`search-order`, `lb-version` or `os-endpoint-type`" + ` that is invalid, is refused when the file is read, with the reason.
* A duration may be a number alone, in seconds. OCCM refuses it.
* The long form of ` + "`os-endpoint-type`, `publicURL`" + ` and so on, is accepted.
* A domain is set by ID or by name. The user's own keys precede the general ones: with ` + "`user-domain-id` and `domain-name`" + `, the user's domain is ` + "`user-domain-id`" + `.
  If both ID and name of an object are set, the ID counts. OCCM refuses some of these.
* From clouds.yaml, ` + "`verify`, `insecure`, `auth.trust_id`, `auth.default_domain`, `regions`" + ` and the addresses of services are supported, too.
* secure.yaml and clouds-public.yaml are searched next to clouds.yaml first, and secure.yaml counts even if no cloud is named.
* If the file that ` + "`clouds-file`" + ` names does not exist, the default directories are searched, with a warning. In strict mode this is an error.
`

func defaultCell(o option) string {
	values := slices.DeleteFunc(slices.Clone(o.write()), func(v string) bool { return v == "" })
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
