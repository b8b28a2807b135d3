package cloudconf

import (
	"crypto/x509"
	"errors"
	"net"
	"net/url"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/google/uuid"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/fxccm/fxccm/provider/openstack/internal/namepattern"
)

// keystoneURL is what no request can be made without. What is wrong with it is not quoted: a URL may hold a password.
func keystoneURL() rule[string] {
	return rule[string]{typ: "URL", judge: func(value string) *finding {
		if value == "" {
			return nil // told with the login
		}
		u, err := url.Parse(value)
		switch {
		case err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https":
			return wrong("must be an http or https URL")
		case u.User != nil:
			return mistake("must not hold a user and a password")
		case u.RawQuery != "" || u.Fragment != "":
			return mistake("must not have a query or a fragment")
		}
		return nil
	}}
}

// uuidRule is for the IDs of Neutron and Octavia, which are UUIDs with hyphens.
func uuidRule() rule[string] {
	return rule[string]{typ: "UUID", judge: func(value string) *finding {
		if value == "" || isUUID(value) {
			return nil
		}
		return mistake("must be a UUID")
	}}
}

func isUUID(value string) bool {
	id, err := uuid.Parse(value)
	return err == nil && len(value) == len(id.String())
}

// identifier is for ids of Keystone, which may be UUIDs with or without hyphens, "default", and with a directory behind it 64
// hexadecimal digits. They become parts of URLs.
func identifier() rule[string] {
	return rule[string]{typ: "id", judge: func(value string) *finding {
		if strings.ContainsFunc(value, func(c rune) bool { return c == '/' || unicode.IsSpace(c) }) {
			return mistake(`must be an id, without blanks and "/"`)
		}
		return nil
	}}
}

func pem() rule[string] {
	return rule[string]{typ: "PEM", judge: func(value string) *finding {
		if value != "" && !x509.NewCertPool().AppendCertsFromPEM([]byte(value)) {
			return wrong("must hold a certificate as PEM")
		}
		return nil
	}}
}

func cidrs() rule[[]string] {
	return rule[[]string]{judge: func(values []string) *finding {
		for _, value := range values {
			if _, _, err := net.ParseCIDR(value); err != nil {
				return mistake("must be CIDRs with commas between them; what is none is skipped")
			}
		}
		return nil
	}}
}

func noneEmpty() rule[[]string] {
	return rule[[]string]{judge: func(values []string) *finding {
		if slices.Contains(values, "") {
			return mistake("must not be empty; no network has such a name")
		}
		return nil
	}}
}

// subnetPattern is for floating-subnet: a name with wildcards or, after "~", a regular expression; "!" before both negates.
func subnetPattern() rule[string] {
	return rule[string]{judge: func(value string) *finding {
		switch err := namepattern.Check(value); {
		case errors.Is(err, namepattern.ErrTooLarge):
			return mistake("must take less memory: " + namepattern.ErrTooLarge.Error())
		case err != nil && strings.HasPrefix(strings.TrimPrefix(value, "!"), "~"):
			return mistake(`must be a regular expression after "~"`)
		}
		return nil
	}}
}

// labels is for node-selector: key=value or key, with commas between them.
func labels() rule[string] {
	return rule[string]{judge: func(value string) *finding {
		for _, term := range elements(value) {
			key, wanted, _ := strings.Cut(term, "=")
			if len(validation.IsQualifiedName(strings.TrimSpace(key))) > 0 || len(validation.IsValidLabelValue(strings.TrimSpace(wanted))) > 0 {
				return mistake("must be labels, as key=value or key, with commas between them; no node has such a label")
			}
		}
		return nil
	}}
}

func domain() rule[string] {
	return rule[string]{typ: "domain name", judge: func(value string) *finding {
		if value != "" && len(validation.IsDNS1123Subdomain(value)) > 0 {
			return mistake("must be a domain name")
		}
		return nil
	}}
}

// wholeSeconds is for what Octavia takes in seconds.
func wholeSeconds() rule[time.Duration] {
	return rule[time.Duration]{says: "Whole seconds, at least 1s", judge: func(value time.Duration) *finding {
		if value < time.Second || value%time.Second != 0 {
			return mistake("must be whole seconds, at least 1s")
		}
		return nil
	}}
}

// searchOrder is refused by OCCM, too, although nothing depends on it.
func searchOrder() rule[string] {
	return rule[string]{says: "One or both of configDrive and metadataService, with a comma between them", judge: func(value string) *finding {
		all := elements(value)
		for _, source := range all {
			if source != "configDrive" && source != "metadataService" {
				all = nil
			}
		}
		if len(all) < 1 || len(all) > 2 {
			return wrong("must be one or both of configDrive and metadataService, with a comma between them")
		}
		return nil
	}}
}
