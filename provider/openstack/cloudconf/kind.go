package cloudconf

import (
	"encoding/base64"
	"regexp"
	"strings"
	"unicode/utf8"
)

// fileKind is the kind of a file that operators mount in place of another.
type fileKind string

const (
	kindUnknown    fileKind = ""
	kindCloudConf  fileKind = "a cloud.conf"
	kindCloudYAML  fileKind = "a clouds.yaml"
	kindManifest   fileKind = "a Kubernetes manifest"
	kindKubeconfig fileKind = "a kubeconfig"
	kindYAML       fileKind = "YAML"
	kindJSON       fileKind = "JSON"
	kindOpenRC     fileKind = "an openrc file of a shell"
	kindBase64     fileKind = "base64 text"
	kindPEM        fileKind = "PEM, a certificate or a key"
	kindUTF16      fileKind = "UTF-16 text"
)

// advice says how to get a cloud.conf from another file.
func (k fileKind) advice() string {
	switch k {
	case kindCloudYAML:
		return "; write a cloud.conf with use-clouds and clouds-file in [Global]"
	case kindManifest:
		return "; apply it, and mount the value of its key cloud.conf"
	case kindKubeconfig:
		return "; give it as --kubeconfig"
	case kindOpenRC:
		return "; write OS_AUTH_URL as auth-url in [Global], and so on"
	case kindBase64:
		return "; decode it"
	case kindUTF16:
		return "; save it as UTF-8"
	}
	return ""
}

// kindOf guesses the kind of a file that cannot be read, and returns the line that shows it.
func kindOf(content string) (kind fileKind, line int) {
	if strings.HasPrefix(content, "\xff\xfe") || strings.HasPrefix(content, "\xfe\xff") {
		return kindUTF16, 1
	}
	lines := strings.Split(content, "\n")
	first := ""
	for ; line < len(lines) && first == ""; line++ {
		first = strings.TrimSpace(lines[line])
		if strings.HasPrefix(first, "#") || strings.HasPrefix(first, ";") {
			first = ""
		}
	}
	matches := func(pattern, text string) bool {
		found, _ := regexp.MatchString(pattern, text) // the patterns are valid
		return found
	}
	switch {
	case strings.HasPrefix(first, "["):
		return kindCloudConf, line
	case strings.HasPrefix(first, "{") && !strings.HasPrefix(first, "{{"):
		return kindJSON, line
	case strings.HasPrefix(first, "-----BEGIN "):
		return kindPEM, line
	case matches(`^(---|["']?[\w.-]+["']?:(\s|$))`, first):
		if matches(`(?m)^["']?clouds["']?:`, content) {
			return kindCloudYAML, line
		}
		if matches(`(?m)^kind:\s*["']?Config["']?\s*$`, content) ||
			matches(`(?m)^current-context:`, content) {
			return kindKubeconfig, line
		}
		if matches(`(?m)^apiVersion:`, content) && matches(`(?m)^kind:`, content) {
			return kindManifest, line
		}
		return kindYAML, line
	case matches(`(?m)^\s*(export\s+|set\s+|\$env:)?OS_[A-Z_]+\s*=`, content):
		return kindOpenRC, line
	case isBase64(content):
		return kindBase64, line
	}
	return kindUnknown, line
}

// isBase64 reports whether the content is the base64 of several lines of text.
func isBase64(content string) bool {
	decoded, err := base64.StdEncoding.DecodeString(strings.TrimSpace(content))
	return err == nil && utf8.Valid(decoded) && strings.Contains(string(decoded), "\n")
}
