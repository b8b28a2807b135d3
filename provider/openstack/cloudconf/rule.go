package cloudconf

import (
	"crypto/x509"
	"errors"
	"net"
	"net/url"
	"path"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/google/uuid"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/fxccm/fxccm/provider/openstack/internal/namepattern"
)

// keystoneURL also refuses the address of an API that does not exist any more.
func keystoneURL() rule[string] {
	is := httpURL()
	check := is.check
	is.check = func(value string) *finding {
		if f := check(value); f != nil {
			return f
		}
		if u, err := url.Parse(value); err == nil &&
			slices.Contains([]string{"v2", "v2.0"}, path.Base(u.Path)) {
			return wrong("ends with v2.0: OpenStack Queens removed that version of Keystone's " +
				"API; set the URL that ends with v3")
		}
		return nil
	}
	return is
}

// httpURL checks the address of a service. Findings do not quote it, because a URL may contain a
// password.
func httpURL() rule[string] {
	return rule[string]{typ: "URL", check: func(value string) *finding {
		if value == "" {
			return nil
		}
		u, err := url.Parse(value)
		switch {
		case err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https":
			return wrong("must be an http or https URL")
		case u.User != nil:
			return mistake("must not contain a user or a password")
		case u.RawQuery != "" || u.Fragment != "":
			return mistake("must not have a query or a fragment")
		}
		return nil
	}}
}

// uuidRule is for the IDs of Neutron and Octavia, which are UUIDs with hyphens.
func uuidRule() rule[string] {
	return rule[string]{typ: "UUID", check: func(value string) *finding {
		if value == "" || isUUID(value) {
			return nil
		}
		return mistake("must be a UUID")
	}}
}

// These values of allowed-annotations are no lists.
const allAnnotations, noAnnotations = "all", "none"

// Allows reports whether users may set an annotation, without its prefix, that names an object of
// the cloud.
func (l LoadBalancer) Allows(annotation string) bool {
	return l.AllowedAnnotations == "" || l.AllowedAnnotations == allAnnotations ||
		slices.Contains(elements(l.AllowedAnnotations), annotation)
}

// annotationNames is for the annotations, without their prefix, that name objects of the cloud.
func annotationNames() rule[string] {
	known := []string{
		"additional-subnet-id", "address", "availability-zone", "default-tls-container-ref",
		"flavor-id", "floating-ip-id", "floating-ip-tag", "floating-network-id",
		"floating-subnet", "floating-subnet-id", "floating-subnet-tags", "lb-provider",
		"load-balancer-id", "load-balancer-ip", "member-subnet-id", "network-id", "port-id",
		"subnet-id",
	}
	return rule[string]{
		says: "all, none, or some of " + strings.Join(known, ", "),
		check: func(value string) *finding {
			if value == "" || value == allAnnotations || value == noAnnotations {
				return nil
			}
			for _, name := range elements(value) {
				if !slices.Contains(known, name) {
					return wrong("must be all, none, or a list of " + strings.Join(known, ", "))
				}
			}
			return nil
		},
	}
}

func isUUID(value string) bool {
	id, err := uuid.Parse(value)
	return err == nil && len(value) == len(id.String())
}

// identifier is for the IDs of Keystone, which become parts of URLs. They may be UUIDs with or
// without hyphens, "default", and 64 hexadecimal digits if Keystone uses a directory service.
func identifier() rule[string] {
	return rule[string]{typ: "id", check: func(value string) *finding {
		if strings.ContainsFunc(value, func(c rune) bool {
			return c == '/' || unicode.IsSpace(c)
		}) {
			return mistake(`must be an ID without blanks and "/"`)
		}
		return nil
	}}
}

func pem() rule[string] {
	return rule[string]{typ: "PEM", check: func(value string) *finding {
		if value != "" && !x509.NewCertPool().AppendCertsFromPEM([]byte(value)) {
			return wrong("must contain a certificate in PEM format")
		}
		return nil
	}}
}

func cidrs(otherwise *finding) rule[[]string] {
	return rule[[]string]{check: func(values []string) *finding {
		for _, value := range values {
			if _, _, err := net.ParseCIDR(value); err != nil {
				return otherwise
			}
		}
		return nil
	}}
}

func noneEmpty() rule[[]string] {
	return rule[[]string]{check: func(values []string) *finding {
		if slices.Contains(values, "") {
			return mistake("must not be empty, because no network has an empty name")
		}
		return nil
	}}
}

// subnetPattern is for floating-subnet; see package namepattern.
func subnetPattern() rule[string] {
	return rule[string]{check: func(value string) *finding {
		switch err := namepattern.Check(value); {
		case errors.Is(err, namepattern.ErrTooLarge):
			return mistake("needs too much memory: " + namepattern.ErrTooLarge.Error())
		case err != nil && strings.HasPrefix(strings.TrimPrefix(value, "!"), "~"):
			return mistake(`must be a valid regular expression after "~"`)
		}
		return nil
	}}
}

func labels() rule[string] {
	return rule[string]{check: func(value string) *finding {
		for _, term := range elements(value) {
			key, wanted, _ := strings.Cut(term, "=")
			if len(validation.IsQualifiedName(strings.TrimSpace(key))) > 0 ||
				len(validation.IsValidLabelValue(strings.TrimSpace(wanted))) > 0 {
				return mistake("must be comma-separated labels, each as key=value or key; no " +
					"node can have this label")
			}
		}
		return nil
	}}
}

// taintKeys refuses what can be no key, because it would match no taint, and the operator would
// not notice.
func taintKeys() rule[[]string] {
	return rule[[]string]{check: func(values []string) *finding {
		for _, value := range values {
			if len(validation.IsQualifiedName(value)) > 0 {
				return wrong("must be comma-separated keys of taints, such as " +
					"example.com/leaving, without value and effect")
			}
		}
		return nil
	}}
}

func domain() rule[string] {
	return rule[string]{typ: "domain name", check: func(value string) *finding {
		if value != "" && len(validation.IsDNS1123Subdomain(value)) > 0 {
			return mistake("must be a domain name")
		}
		return nil
	}}
}

func shareName() rule[string] {
	return rule[string]{
		says: "At most 63 lower-case letters, digits and hyphens",
		check: func(value string) *finding {
			if value != "" && len(validation.IsDNS1123Label(value)) > 0 {
				return wrong("must be a name of at most 63 lower-case letters, digits and hyphens")
			}
			return nil
		},
	}
}

// wholeSeconds is for times that Octavia takes in seconds.
func wholeSeconds() rule[time.Duration] {
	return rule[time.Duration]{
		says: "Whole seconds, at least 1s",
		check: func(value time.Duration) *finding {
			if value < time.Second || value%time.Second != 0 {
				return mistake("must be whole seconds, at least 1s")
			}
			return nil
		},
	}
}

// searchOrder is checked because OCCM refuses it too, although nothing depends on it.
func searchOrder() rule[string] {
	return rule[string]{
		says: "configDrive, metadataService or both, separated by a comma",
		check: func(value string) *finding {
			all := elements(value)
			for _, source := range all {
				if source != "configDrive" && source != "metadataService" {
					all = nil
				}
			}
			if len(all) < 1 || len(all) > 2 {
				return wrong("must be configDrive, metadataService or both, separated by a comma")
			}
			return nil
		},
	}
}
