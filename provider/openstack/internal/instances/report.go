package instances

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	cloudprovider "k8s.io/cloud-provider"
	"k8s.io/cloud-provider/api"
	"k8s.io/cloud-provider/node/helpers"

	"github.com/fxccm/fxccm/internal/members"
	"github.com/fxccm/fxccm/internal/printable"
	"github.com/fxccm/fxccm/provider/internal/kit/absence"
	"github.com/fxccm/fxccm/provider/openstack/internal/events"
)

// Report is a node that waits for its initialization.
type Report struct {
	Node    string
	Reason  events.Reason
	Message string
	// Since has the time of the registration of the node.
	Since time.Time
}

// Reports returns a report for each node that waits for its initialization. It sends no request,
// and returns nothing before the nodes are known.
func (i *Instances) Reports() []Report {
	i.mu.Lock()
	defer i.mu.Unlock()
	nodes, _ := i.nodes.list()
	var all []Report
	for _, node := range nodes {
		if members.IsNew(node) {
			all = append(all, i.reportOf(node))
		}
	}
	return all
}

// reportOf is called with the lock held.
func (i *Instances) reportOf(node *v1.Node) Report {
	report := Report{
		Node: node.Name, Reason: events.NodeWaiting,
		Message: "the node controller has not looked up the server of the node yet",
		Since:   node.CreationTimestamp.Time,
	}
	last, ok := i.results[node.Name]
	switch {
	case !ok:
	case last.failure == "":
		report.Message = "OpenStack has returned the server; the node controller updates the node"
	default:
		report.Reason, report.Message = last.failure, last.text
	}
	return report
}

// lookupResult is the result of the last lookup for a node. It keeps a short text of an error, in
// which fields of the node and of servers may be.
type lookupResult struct {
	// failure is the cause, and text is for people; both are empty after a success.
	failure events.Reason
	text    string
	at      time.Time
	// failingSince is the time of the first of consecutive failures, told the time of the last
	// event, and reason the reason of that event.
	failingSince, told time.Time
	reason             events.Reason
}

const (
	// lookupEventDelay is how long requests fail before an event is written: a retry follows soon.
	lookupEventDelay = time.Minute
	// eventInterval is the pause between two events of one reason. Upstream's spam filter admits 25
	// events of an object at once, and one in five minutes after that.
	eventInterval = 30 * time.Minute
)

// errNodeIP: the node is not initialized, because its kubelet reports an address that the server
// does not have.
var errNodeIP = errors.New("the kubelet's --node-ip is not an address of the server")

// NoteResult records the result of a lookup that initializes a node.
func (i *Instances) NoteResult(
	ctx context.Context, node *v1.Node, found *cloudprovider.InstanceMetadata, err error,
) {
	if ctx.Err() != nil {
		return
	}
	if wanted, ok := node.Annotations[api.AnnotationAlphaProvidedIPAddr]; ok && err == nil {
		if _, mismatch := helpers.GetNodeAddressesFromNodeIP(wanted,
			found.NodeAddresses); mismatch != nil {
			err = fmt.Errorf("%w: it is %s", errNodeIP, printable.Text(wanted, maxShown))
			if len(i.config.Networking.InternalNetworkNames) > 0 {
				err = fmt.Errorf("%w, or in a network that internal-network-name of cloud.conf "+
					"leaves out", err)
			}
		}
	}
	isNew := members.IsNew(node)
	var replaced string
	if !isNew {
		replaced = i.textOfReplaced(ctx, node, err)
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	result := i.results[node.Name]
	result.failure, result.text, result.at = "", "", i.config.Clock.Now()
	if err != nil {
		result.failure, result.text = nodeReason(err), textOf(err)
	}
	switch {
	case err == nil && !isNew:
		delete(i.results, node.Name)
		return
	case err == nil:
		result.failingSince = time.Time{}
	case isNew:
		i.recordFailure(node, &result)
	case replaced != "":
		i.warn(node, &result, events.ServerReplaced, replaced)
	}
	i.results[node.Name] = result
}

// noteRefusedType writes an event about a new node whose label does not have the name of the
// flavor. Only new nodes have a result without an error.
func (i *Instances) noteRefusedType(node *v1.Node, kind instanceType) {
	i.mu.Lock()
	defer i.mu.Unlock()
	result, ok := i.results[node.Name]
	if !ok || result.failure != "" {
		return
	}
	i.warn(node, &result, events.InvalidLabel, fmt.Sprintf(
		"label %s is %q, the ID of the flavor, because its name %q is not a valid label value",
		v1.LabelInstanceTypeStable, kind.label, kind.refused))
	i.results[node.Name] = result
}

// recordFailure writes an event with the cause and the advice, unless a recent event has the same
// reason.
func (i *Instances) recordFailure(node *v1.Node, result *lookupResult) {
	if result.failingSince.IsZero() {
		result.failingSince = result.at
	}
	isShort := result.at.Sub(result.failingSince) < lookupEventDelay
	if result.failure == events.LookupFailed && isShort {
		return
	}
	i.warn(node, result, result.failure, "The node cannot be initialized: "+result.text)
}

// warn writes an event, unless a recent one has the same reason.
func (i *Instances) warn(
	node *v1.Node, result *lookupResult, reason events.Reason, text string,
) {
	if i.config.Recorder == nil ||
		reason == result.reason && result.at.Sub(result.told) < eventInterval {
		return
	}
	result.reason, result.told = reason, result.at
	i.config.Recorder.Event(node, v1.EventTypeWarning, string(reason), text)
}

// causes are the errors about which Nova has answered.
var causes = []error{
	ErrUnmatched, ErrSeveral, errNodeIP, errNoAddress, absence.ErrUnconfirmed,
	absence.ErrMassDeletion, cloudprovider.InstanceNotFound,
}

// explain returns the error with the text for people. Controllers compare with
// cloudprovider.InstanceNotFound itself.
func explain(err error) error {
	if errors.Is(err, cloudprovider.InstanceNotFound) || nodeReason(err) == events.LookupFailed {
		return events.Explain(err)
	}
	return events.WithText(err, textOf(err))
}

// textOf returns the text about a failed lookup for people, who see it at the node: the service,
// the cause, and what follows or what to do.
func textOf(err error) string {
	reason, text := nodeReason(err), err.Error()
	switch {
	case reason == events.LookupFailed:
		return events.Shorten(text)
	case strings.HasPrefix(text, compute+": "):
		return text // it is explained already
	}
	for _, cause := range causes {
		if i := strings.Index(text, cause.Error()); i >= 0 {
			text = text[i:] // without what was being done
			break
		}
	}
	text = compute + ": " + events.Shorten(text)
	// These errors say themselves what follows.
	if reason == events.SeveralServers || errors.Is(err, absence.ErrUnconfirmed) {
		return text
	}
	advice := strings.TrimSuffix(events.AdviceOf(reason), ".")
	return text + "; " + strings.ToLower(advice[:1]) + advice[1:]
}

// textOfReplaced is not empty if the server of an initialized node is missing and another one would
// be found for the node without its provider ID, which nothing changes.
func (i *Instances) textOfReplaced(ctx context.Context, node *v1.Node, err error) string {
	s, invalid := i.subjectOf(node)
	if invalid != nil || nodeReason(err) != events.ServerNotFound {
		return ""
	}
	other := i.successor(ctx, s)
	if other == nil {
		return ""
	}
	return fmt.Sprintf("Nova: the server of the node's provider ID, %s, does not exist, but server "+
		"%s has the name %s; delete the Node, so that the kubelet registers it again",
		s.id, other.ID, other.Name)
}

// successor returns another server with the name of the node, or with its system UUID and a similar
// name; nil for none. A list of the last eventInterval answers. Without one there are few nodes:
// one request looks for the name, and one for the UUID.
func (i *Instances) successor(ctx context.Context, s subject) *server {
	since := i.config.Clock.Now().Add(-eventInterval)
	list, isRecent := i.lookups.remember(&question{list: true, found: since})
	candidates := list.servers
	if !isRecent {
		for _, q := range []question{{name: s.name}, {id: s.systemUUID}} {
			if q.key() == idKey(s.id) || q.id == "" && q.name == "" {
				continue
			}
			q.purpose, q.found, q.missing = refresh, since, since
			found, err := i.lookups.find(ctx, &q)
			if err != nil {
				return nil
			}
			candidates = append(candidates, found.servers...)
		}
	}
	at := slices.IndexFunc(candidates, func(other *server) bool {
		return other.ID != s.id && other.exists() && (nameKey(other.Name) == nameKey(s.name) ||
			other.ID == s.systemUUID && isDerived(s.name, other))
	})
	if at < 0 {
		return nil
	}
	return candidates[at]
}

// nodeReason names the cause of a failed lookup.
func nodeReason(err error) events.Reason {
	switch {
	case errors.Is(err, ErrUnmatched), errors.Is(err, cloudprovider.InstanceNotFound),
		errors.Is(err, absence.ErrUnconfirmed):
		return events.ServerNotFound
	case errors.Is(err, ErrSeveral):
		return events.SeveralServers
	case errors.Is(err, errNodeIP):
		return events.NodeIPMismatch
	case errors.Is(err, absence.ErrMassDeletion):
		return events.InstancesVanished
	}
	return events.LookupFailed
}
