package endpoints

import (
	"net/url"
	"strings"

	"github.com/fxccm/fxccm/ccm"
	"github.com/fxccm/fxccm/ccm/serving/servingconfig"
)

// configName is the key of the configuration in /configz. Upstream shows all components of a
// process on one page, from a global registry that could hold only one Manager. Here each Manager
// has its own page of the same shape.
const configName = "fxccm.dev"

// configuration is the value of configName.
type configuration struct {
	ccm.Config
	Serving *servingconfig.Config `json:"serving,omitempty"`
}

// configOf returns the content of /configz. A configuration holds paths of files with secrets, but
// no secrets, except for a password that a user may have written into the API server's address.
func configOf(m *ccm.Manager, serving *servingconfig.Config) map[string]configuration {
	cfg := m.Config()
	cfg.ClientConnection.Master = withoutPassword(cfg.ClientConnection.Master)
	return map[string]configuration{configName: {cfg, serving}}
}

func withoutPassword(address string) string {
	if !strings.Contains(address, "@") {
		return address
	}
	u, err := url.Parse(address)
	if err != nil {
		return "(withheld: has a user, but is not a URL)"
	}
	return u.Redacted()
}
