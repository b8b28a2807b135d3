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

// configOf returns the content of /configz. A configuration contains paths of files with secrets,
// but no secrets. A password in the API server's address is the only exception.
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
		return "(withheld: it is no valid URL, and has a user)"
	}
	return u.Redacted()
}
