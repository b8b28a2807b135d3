package instances

import (
	"fmt"
	"strings"
)

// ProviderName is the name of the provider, and the scheme of its provider IDs.
const ProviderName = "openstack"

const scheme = ProviderName + "://"

// A ProviderID names the server of a node, in spec.providerID. Its text is openstack:///<id>, or openstack://<region>/<id>.
type ProviderID struct {
	// Region is empty if it is not told.
	Region string
	// ID is the server's.
	ID string
}

// String is the text.
func (p ProviderID) String() string { return scheme + p.path() }

// path is the text without the scheme: what cloudprovider.Instances calls an instance ID.
func (p ProviderID) path() string { return p.Region + "/" + p.ID }

// ParseProviderID reads the text. The scheme may be missing, as it was in old clusters
// (https://github.com/kubernetes/kubernetes/issues/85731): /<id> and <region>/<id>, and <id> alone if it is a UUID.
func ParseProviderID(text string) (ProviderID, error) {
	if id, ok := parseUUID(text); ok {
		return ProviderID{ID: id}, nil
	}
	rest := text
	if strings.Contains(text, "://") {
		var own bool
		if rest, own = strings.CutPrefix(text, scheme); !own {
			return ProviderID{}, malformedProviderID(text)
		}
	}
	region, id, found := strings.Cut(rest, "/")
	if !found || id == "" || strings.Contains(id, "/") {
		return ProviderID{}, malformedProviderID(text)
	}
	if uuid, ok := parseUUID(id); ok {
		id = uuid
	}
	return ProviderID{Region: region, ID: id}, nil
}

func malformedProviderID(text string) error {
	return fmt.Errorf("provider ID %q is neither of the form %s<region>/<id> nor %s/<id>", text, scheme, scheme)
}

// parseUUID reads a UUID in its usual form, 8-4-4-4-12, as ids of servers are. They are compared as texts, so all are in
// lower case; Nova's are, but some firmware tells a machine's in upper case.
func parseUUID(text string) (string, bool) {
	if len(text) != 36 {
		return "", false
	}
	for i, c := range []byte(text) {
		switch i {
		case 8, 13, 18, 23:
			if c != '-' {
				return "", false
			}
		default:
			if !isHex(c) {
				return "", false
			}
		}
	}
	return strings.ToLower(text), true
}

func isHex(c byte) bool {
	return '0' <= c && c <= '9' || 'a' <= c && c <= 'f' || 'A' <= c && c <= 'F'
}
