package process

import (
	"encoding/gob"
	"fmt"
	"io"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	cloudprovider "k8s.io/cloud-provider"

	"github.com/fxccm/fxccm/ccm"
	"github.com/fxccm/fxccm/internal/wireerror"
)

// protocol changes with the messages: host and child may be different programs.
const protocol = 4

// variable is set in the environment of a child.
const variable = "FXCCM_PROVIDER_PROCESS"

// kind is the kind of a message.
type kind int

const (
	// These messages go to the child; it answers the first five.
	build kind = iota + 1
	initialize
	serves
	call
	report
	cancel
	expiry
	stop
	// These messages come from the child.
	answer
	trouble
)

// message is one message between host and child.
type message struct {
	ID     uint64
	Kind   kind
	Method string
	Env    *environment
	// Time is the deadline of a call, or the expiry of leadership. Zero: none.
	Time    time.Time
	Args    arguments
	Results results
	Err     *wireerror.Error
	// Panic is the text of a provider's panic during the call.
	Panic *string
	// Subject is the subject of a trouble, whose cause is Err.
	Subject string
}

// environment describes a term to its child.
type environment struct {
	Protocol          int
	Provider          string
	Config            ccm.Config
	Identity, Manager string
	Term              uint64
	Server, Token     string
	// Verbosity is the verbosity of the host's logger.
	Verbosity int
	// NoInformers is set if the API server of the cluster is gone.
	NoInformers bool
}

// arguments of all methods.
type arguments struct {
	Cluster, Name, ID string
	Data              []byte
	Service, Volume   []byte
	Nodes             [][]byte
	Route             cloudprovider.Route
}

// results of all methods.
type results struct {
	Text      string
	Yes       bool
	Addresses []v1.NodeAddress
	Metadata  *cloudprovider.InstanceMetadata
	Zone      cloudprovider.Zone
	Status    *v1.LoadBalancerStatus
	Routes    []cloudprovider.Route
	Names     []string
	Labels    map[string]string
	// LoadBalancers and WaitingNodes are for a report.
	LoadBalancers []ccm.LoadBalancerStatus
	WaitingNodes  []ccm.NodeStatus
}

// object is a Kubernetes object in its protobuf form: encoding/gob would lose the private fields of
// quantities.
type object interface{ Marshal() ([]byte, error) }

func encode(o object) ([]byte, error) {
	data, err := o.Marshal()
	if err != nil {
		return nil, fmt.Errorf("encode %T: %w", o, err)
	}
	return data, nil
}

func encodeNodes(nodes []*v1.Node) ([][]byte, error) {
	all := make([][]byte, 0, len(nodes))
	for _, node := range nodes {
		data, err := encode(node)
		if err != nil {
			return nil, err
		}
		all = append(all, data)
	}
	return all, nil
}

// decode reads an object.
func decode[T any, P interface {
	*T
	Unmarshal([]byte) error
}](data []byte) (P, error) {
	into := P(new(T))
	if err := into.Unmarshal(data); err != nil {
		return nil, fmt.Errorf("decode %T: %w", into, err)
	}
	return into, nil
}

func decodeNodes(all [][]byte) ([]*v1.Node, error) {
	nodes := make([]*v1.Node, 0, len(all))
	for _, data := range all {
		node, err := decode[v1.Node](data)
		if err != nil {
			return nil, err
		}
		nodes = append(nodes, node)
	}
	return nodes, nil
}

// link is one end of the socket. Messages are received by one goroutine.
type link struct {
	decoder *gob.Decoder

	mu      sync.Mutex
	encoder *gob.Encoder
}

func newLink(conn io.ReadWriter) *link {
	return &link{decoder: gob.NewDecoder(conn), encoder: gob.NewEncoder(conn)}
}

func (l *link) send(m message) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.encoder.Encode(m)
}

func (l *link) receive() (m message, err error) {
	err = l.decoder.Decode(&m)
	return m, err
}
