package octavia

import (
	"fmt"
	"slices"

	"k8s.io/utils/ptr"
)

// reference is the ID of another resource in a response.
type reference struct {
	ID string `json:"id"`
}

// below holds the common fields of listeners and pools.
type below struct {
	ID            string      `json:"id"`
	Name          string      `json:"name"`
	Tags          []string    `json:"tags"`
	Protocol      string      `json:"protocol"`
	LoadBalancers []reference `json:"loadbalancers"`
	Status        Status      `json:"provisioning_status"`
}

func (b *below) common() *below { return b }

// check returns an error if a field is missing that Octavia always shows.
func (b *below) check() error {
	if len(b.LoadBalancers) == 0 || b.Protocol == "" || b.Status == "" {
		return fmt.Errorf("%w: %s has no load balancer, no protocol, or no status", errNoAnswer,
			b.ID)
	}
	return nil
}

// isOf reports whether the listener or pool belongs to a load balancer.
func (b *below) isOf(id string) bool { return slices.Contains(b.LoadBalancers, reference{id}) }

// shownListener is a listener as Octavia shows it. A nil field is not supported by the cloud.
type shownListener struct {
	below
	Port            int               `json:"protocol_port"`
	PoolID          string            `json:"default_pool_id"`
	ConnectionLimit *int              `json:"connection_limit"`
	ClientData      *int              `json:"timeout_client_data"`
	MemberConnect   *int              `json:"timeout_member_connect"`
	MemberData      *int              `json:"timeout_member_data"`
	TCPInspect      *int              `json:"timeout_tcp_inspect"`
	InsertHeaders   map[string]string `json:"insert_headers"`
	AllowedCIDRs    []string          `json:"allowed_cidrs"`
	TLSContainer    string            `json:"default_tls_container_ref"`
}

func (s *shownListener) value() Listener {
	l := Listener{
		ID: s.ID, Name: s.Name, Tags: orNil(s.Tags), Protocol: s.Protocol,
		Port: s.Port, PoolID: s.PoolID,
		// -1 is the API's default.
		ConnectionLimit: ptr.Deref(s.ConnectionLimit, -1),
		AllowedCIDRs:    slices.Sorted(slices.Values(s.AllowedCIDRs)), TLSContainer: s.TLSContainer,
		Status: s.Status,
	}
	if len(s.InsertHeaders) > 0 {
		l.InsertHeaders = s.InsertHeaders
	}
	if s.ClientData != nil || s.MemberConnect != nil || s.MemberData != nil || s.TCPInspect != nil {
		l.Timeouts = &Timeouts{
			ClientData: ptr.Deref(s.ClientData, 0), MemberConnect: ptr.Deref(s.MemberConnect, 0),
			MemberData: ptr.Deref(s.MemberData, 0), TCPInspect: ptr.Deref(s.TCPInspect, 0),
		}
	}
	return l
}
