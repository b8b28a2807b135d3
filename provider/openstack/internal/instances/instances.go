package instances

import (
	"context"
	"errors"
	"net"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"github.com/gophercloud/gophercloud/v2"
	"golang.org/x/sync/semaphore"
	"k8s.io/client-go/tools/record"
	"k8s.io/utils/clock"

	v1 "k8s.io/api/core/v1"

	"github.com/fxccm/fxccm/internal/members"
	"github.com/fxccm/fxccm/provider/internal/kit/absence"
	"github.com/fxccm/fxccm/provider/kit/batch"
	"github.com/fxccm/fxccm/provider/openstack/cloudconf"
	"github.com/fxccm/fxccm/provider/openstack/internal/sharing"
	"github.com/fxccm/fxccm/provider/openstack/internal/trouble"
)

// ErrClosed is returned after [Instances.Close].
var ErrClosed = errors.New("the instance lookups are closed")

// Config has the dependencies of [New]. All fields are required unless they say otherwise.
type Config struct {
	// Compute and Network return the clients of Nova and Neutron. They are called for each request
	// and must cache the client, because building one may need a request.
	Compute, Network func(context.Context) (*gophercloud.ServiceClient, error)
	// Project is the ID of the project that owns the nodes' ports.
	Project func(context.Context) (string, error)
	// Share shares lists of the project with other clusters. It may be nil. RefreshAge limits the
	// age of lists for the periodic refresh of addresses, if it is more than
	// Options.MetadataMaxAge.
	Share      sharing.Read
	RefreshAge time.Duration

	Options    cloudconf.Instances
	Networking cloudconf.Networking
	// Region is the region label of nodes, and part of provider IDs if Options.Regional is set.
	Region string

	Clock  clock.PassiveClock
	Logger logr.Logger
	// Recorder writes events on nodes. It may be nil.
	Recorder record.EventRecorder
	Observer Observer
	// Trouble receives reports of the mass deletion guard. It may be nil.
	Trouble *trouble.Report
}

// Observer measures lookups. It must be safe for concurrent use and must not block.
type Observer interface {
	// AbsentInstances sets the number of known nodes without an instance, confirmed or not.
	AbsentInstances(count int)
	// AbsenceRefused counts a response "absent" that the mass deletion guard withheld.
	AbsenceRefused()
	// Lookup counts a response from the cache, a list, or a direct request, by the Source
	// constants.
	Lookup(source string)
}

// Sources of responses.
const (
	SourceCache  = "cache"
	SourceList   = "list"
	SourceDirect = "direct"
)

// Instances looks up the instances of nodes. It is safe for concurrent use. The caller must
// [Instances.Close] it.
type Instances struct {
	config  Config
	lookups *lookups
	types   *instanceTypes

	// mu is locked before the lock of lookups.
	mu    sync.Mutex
	nodes nodes
	guard *absence.Guard
	// seen are the requested instances, by key; matched are the servers found by nodes' names.
	seen, matched map[string]seenInstance
	// told are the last answers about servers, by the keys of the nodes and of the IDs.
	told  map[string]toldServer
	swept time.Time
	// results are those of the last lookups for new nodes, and of failed ones for others, by name.
	results map[string]lookupResult
	// episode is set while the mass deletion guard is active.
	episode *episode
}

// New sends no request.
func New(c Config) *Instances {
	c.RefreshAge = max(c.RefreshAge, c.Options.MetadataMaxAge)
	i := &Instances{
		config: c, seen: map[string]seenInstance{}, matched: map[string]seenInstance{},
		told:    map[string]toldServer{},
		results: map[string]lookupResult{},
	}
	i.guard = absence.New(absence.Limits{
		Confirmation: c.Options.AbsenceConfirmation,
		Number:       c.Options.VanishedNumber, Share: c.Options.VanishedShare,
	}, i.knownInstances, i.counted)
	for _, cidr := range c.Networking.AddressSortOrder {
		if _, _, err := net.ParseCIDR(cidr); err != nil {
			c.Logger.Info("Ignoring an invalid CIDR in address-sort-order", "item", cidr)
		}
	}
	api := &nova{client: c.Compute, clock: c.Clock}
	i.lookups = &lookups{
		nova: api, neutron: &neutron{client: c.Network}, project: c.Project, share: c.Share,
		clock: c.Clock, logger: c.Logger, observe: c.Observer.Lookup, upcoming: i.upcoming,
		statusAge: c.Options.StatusMaxAge, networkAge: c.Options.MetadataMaxAge,
		keep:   2 * max(c.Options.StatusMaxAge, c.RefreshAge, c.Options.AbsenceConfirmation),
		demand: demand{}, memory: newMemory(),
	}
	if c.Share != nil {
		i.lookups.own = i.ownServers
	}
	i.lookups.batches = batch.New(ErrClosed, i.lookups.answer)
	i.types = &instanceTypes{
		nova: api, clock: c.Clock, retry: c.Options.MetadataMaxAge,
		asking: semaphore.NewWeighted(1), known: map[flavor]knownType{},
	}
	return i
}

// Close cancels all lookups and waits for their end. Later calls return [ErrClosed].
func (i *Instances) Close() { i.lookups.batches.Close() }

// upcoming returns the number of nodes that the node controllers will look up.
func (i *Instances) upcoming(p purpose) int {
	count := 0
	all, _ := i.currentNodes().list()
	for _, node := range all {
		if isRequested(node, p) {
			count++
		}
	}
	return count
}

// ownServers selects the servers that nodes of the cluster may have. Nil: the nodes are unknown.
func (i *Instances) ownServers() func(*server) bool {
	all, known := i.currentNodes().list()
	if !known {
		return nil
	}
	own := map[string]bool{}
	for _, node := range all {
		// The region of a provider ID does not matter here.
		s, _ := i.subjectOf(node)
		for _, key := range []string{
			nameKey(s.name), idKey(s.id), idKey(s.systemUUID), idKey(s.nameAsID()),
		} {
			own[key] = true
		}
	}
	return func(s *server) bool { return own[idKey(s.ID)] || own[nameKey(s.Name)] }
}

// isRequested reports whether the node controllers look up the node.
func isRequested(node *v1.Node, p purpose) bool {
	switch p {
	case status:
		condition := readyCondition(node)
		return condition == nil || condition.Status != v1.ConditionTrue
	case initialize:
		return members.IsNew(node)
	}
	return p == refresh && !members.IsNew(node)
}
