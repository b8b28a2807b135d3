package octavia

import (
	"context"
	"fmt"
	"net/url"
	"slices"
)

// shownPool is a pool as Octavia shows it: without its members.
type shownPool struct {
	below
	Algorithm   string `json:"lb_algorithm"`
	Persistence *struct {
		Type string `json:"type"`
	} `json:"session_persistence"`
	MonitorID string `json:"healthmonitor_id"`
}

// poolFields leave out the ids of the members, of which there may be more than of all else.
func poolFields() []string {
	return belowFields("lb_algorithm", "session_persistence", "healthmonitor_id")
}

// value lacks the members and the monitor. It shares no memory with s.
func (s *shownPool) value() Pool {
	p := Pool{
		ID: s.ID, Name: s.Name, Tags: slices.Clone(orNil(s.Tags)), Protocol: s.Protocol,
		Algorithm: s.Algorithm, Status: s.Status,
	}
	if s.Persistence != nil {
		p.Persistence = s.Persistence.Type
	}
	return p
}

// shownMember is a member as Octavia shows it.
type shownMember struct {
	ID          string `json:"id"`
	Name        string `json:"name"`
	Address     string `json:"address"`
	Port        int    `json:"protocol_port"`
	SubnetID    string `json:"subnet_id"`
	Weight      *int   `json:"weight"`
	MonitorPort int    `json:"monitor_port"`
	Backup      bool   `json:"backup"`
	Status      Status `json:"provisioning_status"`
}

func memberFields() []string {
	return []string{
		"id", "name", "address", "protocol_port", "subnet_id", "weight", "monitor_port", "backup",
		"provisioning_status",
	}
}

func (s *shownMember) value() Member {
	return Member{
		ID: s.ID, Name: s.Name, Address: s.Address, Port: s.Port, SubnetID: s.SubnetID,
		Weight:      or(s.Weight, 1),
		MonitorPort: s.MonitorPort, Backup: s.Backup, Status: s.Status,
	}
}

// members reads all that there is of a pool's members.
func (a *API) members(ctx context.Context, poolID string) ([]Member, error) {
	path, query := "pools/"+url.PathEscape(poolID)+"/members", url.Values{"fields": memberFields()}
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
