package endpoints

import (
	"net/http"
	"time"

	"github.com/munnerz/goautoneg"

	"github.com/fxccm/fxccm/ccm"
)

// status is the content of /statusz: [ccm.Status] as JSON, with the error of the election as a
// text.
type status struct {
	ccm.Status
	// Election replaces Status.Election.
	Election election `json:"election"`

	// name and cluster title the page.
	name, cluster string
}

type election struct {
	ccm.ElectionStatus
	// Error is ElectionStatus.Err.
	Error string `json:"error,omitempty"`
}

func statusOf(m *ccm.Manager) status {
	s := status{Status: m.Status(), name: m.Name(), cluster: m.Config().ClusterName}
	s.Election.ElectionStatus = s.Status.Election
	if err := s.Status.Election.Err; err != nil {
		s.Election.Error = err.Error()
	}
	return s
}

// Statusz is the handler of /statusz alone. Browsers, which accept HTML, receive a page. All other
// clients receive the [ccm.Status] as JSON.
func Statusz(m *ccm.Manager) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Vary", "Accept")
		accepted := goautoneg.Negotiate(r.Header.Get("Accept"),
			[]string{"application/json", "text/html"})
		if accepted == "text/html" {
			writePage(w, r, time.Now(), []status{statusOf(m)})
			return
		}
		writeJSON(w, statusOf(m))
	})
}
