package endpoints

import (
	"net/url"
	"strings"

	"github.com/fxccm/fxccm/ccm"
)

// configName is the key of the configuration in /configz. Upstream has one page for all components of a process, by name, out of a
// registry that is the process's: of two Managers only one could be in it. Here each Manager has its own page of the same shape.
const configName = "fxccm.dev"

// configOf is what /configz shows. A Config holds paths of files with secrets, and no secrets, but for a password that somebody may
// have written into the API server's address.
func configOf(m *ccm.Manager) map[string]ccm.Config {
	cfg := m.Config()
	cfg.ClientConnection.Master = withoutPassword(cfg.ClientConnection.Master)
	return map[string]ccm.Config{configName: cfg}
}

func withoutPassword(address string) string {
	if !strings.Contains(address, "@") {
		return address
	}
	u, err := url.Parse(address)
	if err != nil {
		return "(withheld: it has a user, and is not a URL)"
	}
	return u.Redacted()
}
