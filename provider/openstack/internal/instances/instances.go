package instances

import (
	"context"
	"errors"
	"net"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"github.com/gophercloud/gophercloud/v2"
	corev1 "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/record"
	"k8s.io/utils/clock"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/fxccm/fxccm/provider/openstack/cloudconf"
	"github.com/fxccm/fxccm/provider/openstack/internal/batch"
	"github.com/fxccm/fxccm/provider/openstack/internal/trouble"
)

// ErrClosed is returned for what is asked after [Instances.Close].
var ErrClosed = errors.New("the lookups of instances are closed")

// Config is what [New] needs. All must be set but where it is said.
type Config struct {
	// Compute and Network give the clients of Nova and Neutron. They are called for each request, and must keep what they build:
	// to build one may take a request.
	Compute, Network func(context.Context) (*gophercloud.ServiceClient, error)
	// Project is the id of the project that owns the nodes' ports.
	Project func(context.Context) (string, error)

	Options    cloudconf.Instances
	Networking cloudconf.Networking
	// Region is written to the nodes' labels, and to provider IDs if the options say so.
	Region string

	Clock  clock.PassiveClock
	Logger logr.Logger
	// Recorder writes events on nodes. Nil: none.
	Recorder record.EventRecorder
	// Observer measures. Nil: nothing does.
	Observer Observer
	// Trouble receives a report when too many instances are absent. It may be nil.
	Trouble *trouble.Report
}

// Observer is told what is worth measuring. It must be safe for concurrent use, and return at once.
type Observer interface {
	// AbsentInstances is how many known nodes have no instance now, confirmed or not.
	AbsentInstances(count int)
	// AbsenceRefused is called for each answer that an instance is absent that was not given, since too many are.
	AbsenceRefused()
	// Lookup is called for each answer from memory, each list, and each direct request, with one of the Source constants.
	Lookup(source string)
}

// Where answers come from.
const (
	SourceCache  = "cache"
	SourceList   = "list"
	SourceDirect = "direct"
)

// Instances looks up the instances of nodes. It is safe for concurrent use. [Instances.Close] ends it.
type Instances struct {
	options    cloudconf.Instances
	networking cloudconf.Networking
	region     string
	clock      clock.PassiveClock
	logger     logr.Logger
	recorder   record.EventRecorder
	observer   Observer
	trouble    *trouble.Report
	lookups    *lookups
	types      *instanceTypes

	// mu is taken before that of the lookups, where both are.
	mu          sync.Mutex
	nodes       corev1.NodeLister
	nodesSynced func() bool
	absences    *absences
	// seen are the instances that were asked about, by key, and matched the servers that were found by nodes' names.
	seen, matched map[string]seenInstance
	swept         time.Time
	// absent is the last census', and counted when that was.
	absent  int
	counted time.Time
	// episode is nil unless too many instances are absent.
	episode *episode
}

// New makes no request.
func New(c Config) *Instances {
	i := &Instances{
		options: c.Options, networking: c.Networking, region: c.Region,
		clock: c.Clock, logger: c.Logger, recorder: c.Recorder, observer: c.Observer, trouble: c.Trouble,
		absences: newAbsences(c.Options.AbsenceConfirmation),
		seen:     map[string]seenInstance{}, matched: map[string]seenInstance{},
	}
	if i.observer == nil {
		i.observer = nobody{}
	}
	for _, cidr := range c.Networking.AddressSortOrder {
		if _, _, err := net.ParseCIDR(cidr); err != nil {
			c.Logger.Info("Ignoring an item of address-sort-order that is no CIDR", "item", cidr)
		}
	}
	api := &nova{client: c.Compute, clock: c.Clock}
	i.lookups = &lookups{
		nova: api, neutron: &neutron{client: c.Network}, project: c.Project,
		clock: c.Clock, logger: c.Logger, observe: i.observer.Lookup, upcoming: i.upcoming,
		statusAge: c.Options.StatusMaxAge, networkAge: c.Options.MetadataMaxAge,
		keep:   2 * max(c.Options.StatusMaxAge, c.Options.MetadataMaxAge, c.Options.AbsenceConfirmation),
		demand: demand{}, memory: newMemory(),
	}
	i.lookups.batches = batch.New(ErrClosed, i.lookups.answer)
	i.types = &instanceTypes{nova: api, clock: c.Clock, retry: c.Options.MetadataMaxAge, known: map[flavor]knownType{}}
	i.types.batches = batch.New(ErrClosed, i.types.answer)
	return i
}

// SetNodes tells the nodes of the cluster, once synced says so. Without them those that were asked about are taken for all.
func (i *Instances) SetNodes(nodes corev1.NodeLister, synced func() bool) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.nodes, i.nodesSynced = nodes, synced
}

// Close cancels the requests that are under way and waits for their end. What is asked afterwards fails with [ErrClosed].
func (i *Instances) Close() {
	i.lookups.close()
	i.types.batches.Close()
}

// upcoming is of how many nodes upstream will ask for a purpose.
func (i *Instances) upcoming(p purpose) int {
	i.mu.Lock()
	nodes, synced := i.nodes, i.nodesSynced
	i.mu.Unlock()
	if nodes == nil || !synced() {
		return 0
	}
	all, err := nodes.List(labels.Everything())
	if err != nil {
		return 0
	}
	count := 0
	for _, node := range all {
		if isAskedFor(node, p) {
			count++
		}
	}
	return count
}

// isAskedFor is what upstream's node and node lifecycle controllers do.
func isAskedFor(node *v1.Node, p purpose) bool {
	switch p {
	case status:
		condition := readyCondition(node)
		return condition == nil || condition.Status != v1.ConditionTrue
	case initialise:
		return isNew(node)
	}
	return p == refresh && !isNew(node)
}

// nobody observes.
type nobody struct{}

func (nobody) AbsentInstances(int) {}
func (nobody) AbsenceRefused()     {}
func (nobody) Lookup(string)       {}
