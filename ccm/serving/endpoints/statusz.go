package endpoints

import "github.com/fxccm/fxccm/ccm"

// status is the content of /statusz: [ccm.Status] as JSON, with the error of the election as a
// text.
type status struct {
	ccm.Status
	// Election takes the place of Status.Election.
	Election election `json:"election"`
}

type election struct {
	ccm.ElectionStatus
	// Error is ElectionStatus.Err.
	Error string `json:"error,omitempty"`
}

func statusOf(m *ccm.Manager) status {
	s := status{Status: m.Status()}
	s.Election.ElectionStatus = s.Status.Election
	if err := s.Status.Election.Err; err != nil {
		s.Election.Error = err.Error()
	}
	return s
}
