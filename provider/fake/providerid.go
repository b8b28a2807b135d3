package fake

import (
	"fmt"
	"strings"
)

// A ProviderID identifies an instance across clouds. Its text is
//
//	<provider>://<region>/<name>
//
// such as fake://region-1/node-7. The provider is the cloud's ProviderName; region and name
// consist of letters, digits, '.', '_' and '-'.
type ProviderID struct {
	Provider, Region, Name string
}

// String is the text form, as in a node's spec.providerID.
func (id ProviderID) String() string { return id.Provider + "://" + id.Region + "/" + id.Name }

// parseProviderID reads the text form. The error quotes the text.
func parseProviderID(text string) (ProviderID, error) {
	provider, rest, ok := strings.Cut(text, "://")
	region, name, slash := strings.Cut(rest, "/")
	if !ok || !slash || !isWord(provider) || !isWord(region) || !isWord(name) {
		return ProviderID{}, fmt.Errorf(
			"provider ID %q is not of the form <provider>://<region>/<name>", text)
	}
	return ProviderID{Provider: provider, Region: region, Name: name}, nil
}

func isWord(s string) bool {
	for _, r := range s {
		switch {
		case 'a' <= r && r <= 'z', 'A' <= r && r <= 'Z', '0' <= r &&
			r <= '9', r == '.', r == '_', r == '-':
		default:
			return false
		}
	}
	return s != ""
}
