package cloudconf

import "github.com/fxccm/fxccm/internal/redact"

// Secret is a text that fmt, JSON, YAML and loggers never print. Convert it to a string to use it.
type Secret = redact.Secret
