// Package instances looks up the ECS instances of nodes.
package instances

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"github.com/google/uuid"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	corev1 "k8s.io/client-go/listers/core/v1"
	cloudprovider "k8s.io/cloud-provider"
	"k8s.io/utils/clock"

	"github.com/fxccm/fxccm/internal/members"
	"github.com/fxccm/fxccm/provider/huaweicloud/internal/client"
	"github.com/fxccm/fxccm/provider/internal/kit/absence"
	"github.com/fxccm/fxccm/provider/kit/batch"
)

const (
	// statusAge is how long a response is reused for the status of a node, and metadataAge for the
	// metadata of a node that is initialized. A denial is never reused.
	statusAge, metadataAge = 3 * time.Second, 30 * time.Second
	// confirmation is the time between the two denials that confirm an absence.
	confirmation = 10 * time.Second
	// While massNumber or more instances are absent, and more than massShare of all, no absence
	// counts.
	massNumber, massShare = 3, 1.0 / 3
)

var errClosed = errors.New("the term has ended")

// Config is the input of [New].
type Config struct {
	Client *client.Client
	Region string
	Clock  clock.PassiveClock
	Logger logr.Logger
	// Nodes are the nodes of the cluster. They are used once NodesSynced returns true.
	Nodes       corev1.NodeLister
	NodesSynced func() bool
	// RemovalTaints are further keys of taints that mark a node for removal.
	RemovalTaints []string
	// Trouble reports a mass absence; see ccm.ProviderEnv.
	Trouble func(subject string, cause error)
}

// Instances implements cloudprovider.InstancesV2. It is safe for concurrent use.
type Instances struct {
	config  Config
	batches *batch.Batches[*question]

	mu      sync.Mutex
	guard   *absence.Guard
	records map[string]record
	// seen are the requested instances. They are used until the nodes are synced.
	seen map[string]bool
	// unlisted are the instances that lists lacked. listed is when all known ones were listed.
	unlisted map[string]bool
	listed   time.Time
}

// record is an instance and the time of the request. A batch adds nodes by the ages of their
// records, and the guard compares them with the times of denials, so that the lookup by keys of the
// provider for OpenStack would not replace them.
type record struct {
	server *server
	at     time.Time
}

// New sends no request.
func New(c Config) *Instances {
	i := &Instances{
		config: c, records: map[string]record{},
		seen: map[string]bool{}, unlisted: map[string]bool{},
	}
	i.guard = absence.New(absence.Limits{
		Confirmation: confirmation, Number: massNumber, Share: massShare,
	}, i.known, i.counted)
	i.batches = batch.New(errClosed, i.answer)
	return i
}

// Close cancels lookups and waits for them.
func (i *Instances) Close() { i.batches.Close() }

// InstanceExists returns false only if the instance certainly does not exist: upstream then deletes
// the node. An error keeps the node.
func (i *Instances) InstanceExists(ctx context.Context, node *v1.Node) (bool, error) {
	_, err := i.locate(ctx, node, statusAge)
	if errors.Is(err, cloudprovider.InstanceNotFound) {
		return false, nil
	}
	return err == nil, err
}

// InstanceShutdown implements cloudprovider.InstancesV2.
func (i *Instances) InstanceShutdown(ctx context.Context, node *v1.Node) (bool, error) {
	found, err := i.locate(ctx, node, statusAge)
	if err != nil {
		return false, err
	}
	return found.isShutDown(), nil
}

// InstanceMetadata implements cloudprovider.InstancesV2.
func (i *Instances) InstanceMetadata(ctx context.Context,
	node *v1.Node,
) (*cloudprovider.InstanceMetadata, error) {
	age := metadataAge
	if members.IsNew(node) {
		age = 0
	}
	found, err := i.locate(ctx, node, age)
	if err != nil {
		return nil, err
	}
	return &cloudprovider.InstanceMetadata{
		ProviderID:    found.id,
		InstanceType:  found.flavor,
		NodeAddresses: found.nodeAddresses(node.Name),
		Zone:          found.zone,
		Region:        i.config.Region,
	}, nil
}

// isID reports whether the value has the form of an instance ID, a UUID with hyphens.
func isID(value string) bool { return len(value) == 36 && uuid.Validate(value) == nil }

// idOf returns the ID of the node's instance: the provider ID, else the name.
func idOf(node *v1.Node) (string, error) {
	switch {
	case isID(node.Spec.ProviderID):
		return node.Spec.ProviderID, nil
	case node.Spec.ProviderID != "":
		return "", fmt.Errorf("node %s: the provider ID %q is not the ID of an ECS instance",
			node.Name, node.Spec.ProviderID)
	case isID(node.Name):
		return node.Name, nil
	}
	return "", fmt.Errorf("node %s has no provider ID, and its name is not the ID of an ECS "+
		"instance: start the kubelet with --provider-id and --hostname-override set to the "+
		"instance ID", node.Name)
}

// locate finds the instance of a node. The error is cloudprovider.InstanceNotFound if it certainly
// does not exist.
func (i *Instances) locate(ctx context.Context, node *v1.Node, age time.Duration) (*server, error) {
	id, err := idOf(node)
	if err != nil {
		return nil, err
	}
	now := i.config.Clock.Now()
	i.mu.Lock()
	i.seen[id] = true
	known, isKnown := i.records[id]
	i.mu.Unlock()
	if isKnown && age > 0 && now.Sub(known.at) < age {
		return known.server, nil
	}
	q := &question{id: id}
	if err := i.batches.Ask(ctx, q); err != nil {
		return nil, err
	}
	if q.err != nil {
		return nil, q.err
	}
	if q.server != nil {
		i.mu.Lock()
		defer i.mu.Unlock()
		delete(i.unlisted, id)
		i.guard.Found(id, i.config.Clock.Now())
		return q.server, nil
	}
	return nil, i.deny(ctx, node, id, q.at)
}

// deny evaluates a denial. It returns cloudprovider.InstanceNotFound if the absence is confirmed.
func (i *Instances) deny(ctx context.Context, node *v1.Node, id string, at time.Time) error {
	i.mu.Lock()
	needsList := i.guard.NeedsList()
	i.mu.Unlock()
	if needsList {
		if err := i.listKnown(ctx, at); err != nil {
			return fmt.Errorf("confirm that instance %s is missing: %w", id, err)
		}
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	now := i.config.Clock.Now()
	if newer, ok := i.records[id]; ok && newer.at.After(at) {
		i.guard.Found(id, now)
		return fmt.Errorf("instance %s: %w", id, absence.ErrUnconfirmed)
	}
	if err := i.guard.Deny(id, at, now, members.IsReady(node)); err != nil {
		return fmt.Errorf("instance %s: %w", id, err)
	}
	i.config.Logger.Info("Instance no longer exists", "node", node.Name, "instance", id)
	return cloudprovider.InstanceNotFound
}

// known returns the instances that the guard counts. It is called with the lock held.
func (i *Instances) known() []absence.Instance {
	leaving := map[string]bool{}
	for _, node := range i.nodes() {
		if id, err := idOf(node); err == nil && absence.IsLeaving(node, i.config.RemovalTaints) {
			leaving[id] = true
		}
	}
	ids := i.knownIDs()
	known := make([]absence.Instance, len(ids))
	for at, id := range ids {
		known[at] = absence.Instance{
			Key: id, IsUnlisted: i.unlisted[id], IsLeaving: leaving[id],
		}
	}
	return known
}

func (i *Instances) knownIDs() []string {
	if !i.config.NodesSynced() {
		return slices.Collect(maps.Keys(i.seen))
	}
	var ids []string
	clear(i.seen)
	for _, node := range i.nodes() {
		if id, err := idOf(node); err == nil {
			ids = append(ids, id)
		}
	}
	return ids
}

// nodes returns none before they are synced.
func (i *Instances) nodes() []*v1.Node {
	if !i.config.NodesSynced() {
		return nil
	}
	nodes, _ := i.config.Nodes.List(labels.Everything()) // an error of a lister means none
	return nodes
}

// counted reports a count. It is called with the lock held.
func (i *Instances) counted(c absence.Count) {
	if !c.HasChanged {
		return
	}
	var cause error
	if c.IsRefused {
		cause = fmt.Errorf("%d of %d instances are missing; no node is deleted unless it is "+
			"marked for removal", c.Absent, c.Known)
	}
	i.config.Logger.Info("Mass deletion guard", "active", c.IsRefused, "absent", c.Absent,
		"known", c.Known)
	i.config.Trouble("instances", cause)
}
