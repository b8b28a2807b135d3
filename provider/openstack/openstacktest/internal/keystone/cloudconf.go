package keystone

import (
	"fmt"
	"strings"
)

// AuthMethod is a way to log in.
type AuthMethod string

const (
	// PasswordAuth is a user with a password, by names, and a project.
	PasswordAuth AuthMethod = "password"
	// TokenAuth is an existing token. It cannot be renewed.
	TokenAuth AuthMethod = "token"
	// ApplicationCredentialAuth is an application credential, by ID.
	ApplicationCredentialAuth AuthMethod = "application-credential"
	// TrustAuth is a trust, and the trustee with a password.
	TrustAuth AuthMethod = "trust"
)

// setting is a key of a configuration file with its value.
type setting struct{ key, value string }

// CloudConf is a complete cloud.conf for a cloud controller manager: the section Global, after
// which a caller may append others. It panics for an unknown method.
func (c Credentials) CloudConf(method AuthMethod) string {
	settings := []setting{{"auth-url", c.AuthURL}, {"region", c.Region}}
	switch method {
	case PasswordAuth:
		settings = append(settings, setting{"username", c.Username},
			setting{"password", c.Password},
			setting{"domain-name", c.DomainName}, setting{"tenant-name", c.ProjectName})
	case TokenAuth:
		settings = append(settings, setting{"token", c.Token})
	case ApplicationCredentialAuth:
		settings = append(settings, setting{"application-credential-id", c.ApplicationCredentialID},
			setting{"application-credential-secret", c.ApplicationCredentialSecret})
	case TrustAuth:
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
func unknownMethod(method AuthMethod) {
	panic(fmt.Sprintf("openstacktest: there is no configuration for the method %q", method))
}
