package keystone

import (
	"fmt"
	"strings"
)

// setting is a key of a configuration file with its value.
type setting struct{ key, value string }

// CloudConf is a complete cloud.conf for a cloud controller manager: the section Global, after
// which a caller may append others. method is the way to log in:
//
//   - "password", with the names of a user and a project,
//   - "token", an existing token, which cannot be renewed,
//   - "application-credential", with its ID and secret,
//   - "trust", with the password of its trustee.
//
// It panics for another.
func (c Credentials) CloudConf(method string) string {
	settings := []setting{{"auth-url", c.AuthURL}, {"region", c.Region}}
	switch method {
	case "password":
		settings = append(settings, setting{"username", c.Username},
			setting{"password", c.Password},
			setting{"domain-name", c.DomainName}, setting{"tenant-name", c.ProjectName})
	case "token":
		settings = append(settings, setting{"token", c.Token})
	case "application-credential":
		settings = append(settings, setting{"application-credential-id", c.ApplicationCredentialID},
			setting{"application-credential-secret", c.ApplicationCredentialSecret})
	case "trust":
		settings = append(settings, setting{"trust-id", c.TrustID}, setting{"user-id", c.TrusteeID},
			setting{"password", c.TrusteePassword})
	default:
		unknownMethod(method)
	}
	if c.CertificatePEM != "" {
		settings = append(settings, setting{"cafilecontents", c.CertificatePEM})
	}
	var text strings.Builder
	text.WriteString("[Global]\n")
	for _, s := range settings {
		fmt.Fprintf(&text, "%s = %s\n", s.key, quoteConf(s.value))
	}
	return text.String()
}

// quoteConf quotes a value with the escapes of gcfg.
func quoteConf(value string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`, "\t", `\t`).Replace(value) +
		`"`
}

// unknownMethod panics, because an unknown method is a mistake in the source of a test.
func unknownMethod(method string) {
	panic(fmt.Sprintf("openstacktest: there is no configuration for the method %q", method))
}
