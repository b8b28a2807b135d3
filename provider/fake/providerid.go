package fake

import (
	"fmt"
	"strings"
)

// providerID identifies an instance across clouds: <provider>://<region>/<name>, such as
// fake://region-1/node-7. All three consist of letters, digits, '.', '_' and '-'.
type providerID struct{ provider, region, name string }

func (id providerID) String() string { return id.provider + "://" + id.region + "/" + id.name }

// parseProviderID parses the text form. The error quotes the text.
func parseProviderID(text string) (providerID, error) {
	provider, rest, ok := strings.Cut(text, "://")
	region, name, slash := strings.Cut(rest, "/")
	if !ok || !slash || !isWord(provider) || !isWord(region) || !isWord(name) {
		return providerID{}, fmt.Errorf(
			"provider ID %q is not of the form <provider>://<region>/<name>", text)
	}
	return providerID{provider, region, name}, nil
}

func isWord(s string) bool {
	const word = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-"
	return s != "" && strings.Trim(s, word) == ""
}
