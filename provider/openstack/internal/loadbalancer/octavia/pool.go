package octavia

import (
	"context"
	"fmt"
	"net/url"

	"k8s.io/utils/ptr"
)

// shownPool is a pool as Octavia shows it, without the IDs of its members, which may be larger than
// the rest.
type shownPool struct {
	below
	Algorithm   string `json:"lb_algorithm"`
	Persistence *struct {
		Type string `json:"type"`
	} `json:"session_persistence"`
	MonitorID string `json:"healthmonitor_id"`
}

// value lacks the members and the monitor.
func (s *shownPool) value() Pool {
	p := Pool{
		ID: s.ID, Name: s.Name, Tags: orNil(s.Tags), Protocol: s.Protocol,
		Algorithm: s.Algorithm, Status: s.Status,
	}
	if s.Persistence != nil {
		p.Persistence = s.Persistence.Type
	}
	return p
}

// shownMember is a member as Octavia shows it.
type shownMember struct {
	Member
	Weight *int `json:"weight"`
}

func (s *shownMember) value() Member {
	s.Member.Weight = ptr.Deref(s.Weight, 1)
	return s.Member
}

// members reads all fields of a pool's members.
func (a *API) members(ctx context.Context, poolID string) ([]Member, error) {
	path, query := "pools/"+url.PathEscape(poolID)+"/members",
		url.Values{"fields": fieldsOf[shownMember]()}
	shown, err := list(ctx, a, path, "members", query, func(s *shownMember) string { return s.ID })
	if err != nil {
		return nil, fmt.Errorf("list members of pool %s: %w", poolID, err)
	}
	var members []Member
	for i := range shown {
		if shown[i].Address == "" || shown[i].Port == 0 {
			return nil,
				fmt.Errorf("list members of pool %s: %w: %s has no address or no port", poolID,
					errNoAnswer, shown[i].ID)
		}
		members = append(members, shown[i].value())
	}
	return members, nil
}
