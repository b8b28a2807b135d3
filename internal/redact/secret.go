// Package redact has a text that is never printed, for the configurations of providers.
package redact

import "log/slog"

// Secret is a text that fmt, JSON, YAML and loggers never print. Convert it to a string to use it.
type Secret string

// redacted replaces a secret in output.
const redacted = "[redacted]"

// String implements fmt.Stringer. It shows only whether the secret is set.
func (s Secret) String() string {
	if s == "" {
		return ""
	}
	return redacted
}

// GoString implements fmt.GoStringer.
func (s Secret) GoString() string { return `"` + s.String() + `"` }

// MarshalText implements encoding.TextMarshaler, for JSON and YAML.
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// MarshalLog implements logr.Marshaler.
func (s Secret) MarshalLog() any { return s.String() }

// LogValue implements slog.LogValuer.
func (s Secret) LogValue() slog.Value { return slog.StringValue(s.String()) }
