package endpoints

import (
	"net/http"
	"time"

	"github.com/fxccm/fxccm/ccm"
	"github.com/fxccm/fxccm/ccm/election"
	"github.com/fxccm/fxccm/ccm/status"
	"github.com/fxccm/fxccm/internal/webpage"
)

// statusz is the content of /statusz: a [status.Manager] as JSON, with the error of the election as
// a text.
type statusz struct {
	status.Manager
	// Election replaces Manager.Election.
	Election electionStatus `json:"election"`

	// name and cluster title the page.
	name, cluster string
}

type electionStatus struct {
	election.Status
	// Error is Err of the Status.
	Error string `json:"error,omitempty"`
}

func statusOf(m *ccm.Manager) statusz {
	s := statusz{Manager: m.Status(), name: m.Name(), cluster: m.Config().ClusterName}
	s.Election.Status = s.Manager.Election
	if err := s.Manager.Election.Err; err != nil {
		s.Election.Error = err.Error()
	}
	return s
}

// Statusz is the handler of /statusz alone. Browsers, which accept HTML, receive a page. All other
// clients receive the [status.Manager] as JSON.
func Statusz(m *ccm.Manager) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Vary", "Accept")
		if webpage.IsPreferred(r.Header.Get("Accept")) {
			writePage(w, r, time.Now(), []statusz{statusOf(m)})
			return
		}
		writeJSON(w, statusOf(m))
	})
}
