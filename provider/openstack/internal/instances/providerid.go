package instances

import (
	"fmt"
	"strings"

	"github.com/google/uuid"

	"github.com/fxccm/fxccm/internal/printable"
)

// ProviderName is the name of the provider and the scheme of its provider IDs.
const ProviderName = "openstack"

const scheme = ProviderName + "://"

// maxPart limits the region and the ID in a provider ID, in bytes, to the name of a region in
// Keystone. Caches and errors keep both, and the API server of a tenant may send megabytes.
// maxShown is how many characters of a text of a Node are in an error.
const maxPart, maxShown = 255, 100

// ProviderID is a node's spec.providerID: openstack:///<id> or openstack://<region>/<id>.
type ProviderID struct {
	// Region may be empty.
	Region string
	// ID is the server ID.
	ID string
}

// String implements fmt.Stringer.
func (p ProviderID) String() string { return scheme + p.Region + "/" + p.ID }

// ParseProviderID parses a provider ID. Old clusters lack the scheme
// (https://github.com/kubernetes/kubernetes/issues/85731): /<id>, <region>/<id>, or <id> alone if
// it is a UUID.
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
	if len(region) > maxPart || len(id) > maxPart {
		return ProviderID{}, fmt.Errorf("provider ID %q has more than %d bytes in a part",
			printable.Text(text, maxShown), maxPart)
	}
	if normalized, ok := parseUUID(id); ok {
		id = normalized
	}
	return ProviderID{Region: region, ID: id}, nil
}

func malformedProviderID(text string) error {
	return fmt.Errorf("provider ID %q must have the form %s<region>/<id> or %s/<id>",
		printable.Text(text, maxShown), scheme, scheme)
}

// parseUUID reads a UUID in the form 8-4-4-4-12 and returns it in lower case: IDs are compared as
// text, Nova's are in lower case, and some firmware reports a machine's ID in upper case.
func parseUUID(text string) (string, bool) {
	id, err := uuid.Parse(text)
	if err != nil || len(text) != len(id.String()) {
		return "", false
	}
	return id.String(), true
}
