package process

import (
	"bytes"
	"encoding/binary"
	"encoding/gob"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	cloudprovider "k8s.io/cloud-provider"

	"github.com/fxccm/fxccm/ccm"
	"github.com/fxccm/fxccm/ccm/status"
	"github.com/fxccm/fxccm/internal/wireerror"
)

// protocol changes with the messages: host and child may be different programs.
const protocol = 7

const (
	// maxFromChild limits a message of the child in bytes. The host decodes one at a time. The
	// status of 5,000 load balancers has about 1.5 MB.
	maxFromChild = 2 << 20
	// maxListed limits the elements of a list of structs in a message of the child.
	maxListed = 20_000
	// maxFromHost limits a message of the host, which the child trusts: the nodes of a cluster.
	maxFromHost = 1 << 30
)

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
	Owner             string
	RequireOwnerMark  bool
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
	Nodes, Endpoints  [][]byte
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
	Routes    list[cloudprovider.Route]
	Names     []string
	Labels    map[string]string
	// LoadBalancers and WaitingNodes are for a report.
	LoadBalancers list[status.LoadBalancer]
	WaitingNodes  list[status.Node]
}

// list is a list of structs in its JSON form. As a slice, a message of empty elements would occupy
// a thousand times its size before the host could count them.
type list[T any] []T

// GobEncode implements gob.GobEncoder.
func (l list[T]) GobEncode() ([]byte, error) { return json.Marshal([]T(l)) }

// GobDecode implements gob.GobDecoder.
func (l *list[T]) GobDecode(data []byte) error {
	decoder := json.NewDecoder(bytes.NewReader(data))
	if _, err := decoder.Token(); err != nil {
		return fmt.Errorf("decode a list: %w", err)
	}
	for decoder.More() {
		if len(*l) == maxListed {
			return fmt.Errorf("list has more than %d elements", maxListed)
		}
		var element T
		if err := decoder.Decode(&element); err != nil {
			return fmt.Errorf("decode a list: %w", err)
		}
		*l = append(*l, element)
	}
	return nil
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

func encodeAll[T object](objects []T) ([][]byte, error) {
	all := make([][]byte, 0, len(objects))
	for _, o := range objects {
		data, err := encode(o)
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

func decodeAll[T any, P interface {
	*T
	Unmarshal([]byte) error
}](all [][]byte) ([]P, error) {
	objects := make([]P, 0, len(all))
	for _, data := range all {
		o, err := decode[T, P](data)
		if err != nil {
			return nil, err
		}
		objects = append(objects, o)
	}
	return objects, nil
}

// errTooLarge refuses a message before a part of it is sent.
var errTooLarge = errors.New("message is too large")

// link is one end of the socket. Messages are received by one goroutine. A message is preceded by
// its length, and has an encoder of its own: the types that a stream of encoding/gob has defined
// stay in memory.
type link struct {
	conn                 io.ReadWriter
	maxSent, maxReceived int
	mu                   sync.Mutex
}

func newLink(conn io.ReadWriter, maxSent, maxReceived int) *link {
	return &link{conn: conn, maxSent: maxSent, maxReceived: maxReceived}
}

// send returns errTooLarge for a message that the other end would refuse. After any other error the
// connection cannot be used.
func (l *link) send(m message) error {
	var frame bytes.Buffer
	frame.Write(make([]byte, frameHeader))
	if err := gob.NewEncoder(&frame).Encode(m); err != nil {
		return err
	}
	size := frame.Len() - frameHeader
	if size > l.maxSent {
		return fmt.Errorf("%w: %d bytes, want %d at most", errTooLarge, size, l.maxSent)
	}
	binary.BigEndian.PutUint32(frame.Bytes(), uint32(size))
	l.mu.Lock()
	defer l.mu.Unlock()
	_, err := l.conn.Write(frame.Bytes())
	return err
}

// frameHeader is the size of a length.
const frameHeader = 4

func (l *link) receive() (m message, err error) {
	var header [frameHeader]byte
	if _, err := io.ReadFull(l.conn, header[:]); err != nil {
		return message{}, err
	}
	size := binary.BigEndian.Uint32(header[:])
	if int64(size) > int64(l.maxReceived) {
		return message{}, fmt.Errorf("%w: %d bytes, want %d at most", errTooLarge, size,
			l.maxReceived)
	}
	// The buffer grows with what has arrived: a length alone occupies no memory.
	var frame bytes.Buffer
	if _, err := io.CopyN(&frame, l.conn, int64(size)); err != nil {
		return message{}, io.ErrUnexpectedEOF
	}
	err = gob.NewDecoder(&frame).Decode(&m)
	if err == nil && frame.Len() > 0 {
		err = errors.New("message has more than one value")
	}
	return m, err
}
