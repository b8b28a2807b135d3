package cloudconf

import "log/slog"

// Secret is a text that is never printed: not by fmt, not by JSON or YAML, not by a logger. Convert it to a string to use it.
type Secret string

// redacted stands in the place of a secret.
const redacted = "[redacted]"

// String implements fmt.Stringer. It tells only whether there is one.
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
