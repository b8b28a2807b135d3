package nodes

import (
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	cloudprovider "k8s.io/cloud-provider"
	"k8s.io/cloud-provider/api"
	"k8s.io/cloud-provider/node/helpers"
)

// A refusal is an error that lasts until a person changes something.
type refusal struct{ error }

func refusef(format string, args ...any) error { return refusal{fmt.Errorf(format, args...)} }

// Unwrap returns the cause.
func (r refusal) Unwrap() error { return r.error }

var (
	errNoProviderID = refusef("the cloud provider returned no provider ID, and the node has none")
	errNoAddress    = errors.New(
		"the cloud reports no address of the instance yet, and the kubelet has a --node-ip")
)

// A change is what has to be written to a node. A zero field is not written.
type change struct {
	providerID string
	labels     map[string]string
	// taint removes the taint of nodes that are not initialized.
	taint     bool
	addresses []v1.NodeAddress
	// abandoned removes the conditions of a route controller that no longer runs.
	abandoned bool
	// notes say which labels were left out, and which values were changed, and how.
	notes []string
}

func (c change) isEmpty() bool {
	return c.providerID == "" && len(c.labels) == 0 && !c.taint && c.addresses == nil &&
		!c.abandoned
}

func isUninitialized(t v1.Taint) bool { return t.Key == api.TaintExternalCloudProvider }

// isNoRoute reports whether a route controller has written a condition, because a node lacks a
// route. Network plugins write other reasons.
func isNoRoute(c v1.NodeCondition) bool {
	return c.Type == v1.NodeNetworkUnavailable && c.Status == v1.ConditionTrue &&
		c.Reason == "NoRouteCreated"
}

// hasAbandonedCondition reports whether a node has had such a condition since before a time. A
// later one shows that a route controller is running elsewhere.
func hasAbandonedCondition(node *v1.Node, before time.Time) bool {
	return slices.ContainsFunc(node.Status.Conditions, func(c v1.NodeCondition) bool {
		return isNoRoute(c) && c.LastTransitionTime.Time.Before(before)
	})
}

// initialization returns the change that initializes a node. The node gets its provider ID before
// it loses the taint: nothing writes the provider ID later.
func initialization(
	node *v1.Node, found *cloudprovider.InstanceMetadata, needsProviderID bool,
) (change, error) {
	if node.Spec.ProviderID == "" && found.ProviderID == "" && needsProviderID {
		return change{}, errNoProviderID
	}
	if _, has := node.Annotations[api.AnnotationAlphaProvidedIPAddr]; has &&
		len(found.NodeAddresses) == 0 {
		return change{}, errNoAddress
	}
	addresses, err := addressesOf(node, found.NodeAddresses)
	if err != nil {
		return change{}, err
	}
	c := change{taint: true, addresses: addresses}
	if node.Spec.ProviderID == "" {
		c.providerID = found.ProviderID
	}
	c.setLabels(node, found, false)
	return c, nil
}

// refresh returns the change of an initialized node, also beside an error about its addresses. Its
// labels change only if they have to follow the instance.
func refresh(
	node *v1.Node, found *cloudprovider.InstanceMetadata, updateLabels bool,
) (change, error) {
	addresses, err := addressesOf(node, found.NodeAddresses)
	c := change{addresses: addresses}
	if updateLabels {
		c.setLabels(node, found, true)
	}
	return c, err
}

// addressesOf returns the addresses that a node has to have, or nil if it has them, or the cloud
// reports none. The hostname is the kubelet's if the cloud reports none. With --node-ip of the
// kubelet, its addresses come first.
func addressesOf(node *v1.Node, reported []v1.NodeAddress) ([]v1.NodeAddress, error) {
	isHostname := func(a v1.NodeAddress) bool { return a.Type == v1.NodeHostName }
	wanted, provided := node.Annotations[api.AnnotationAlphaProvidedIPAddr]
	if len(reported) == 0 {
		return nil, nil
	}
	addresses := withoutRepetitions(reported)
	if provided {
		var err error
		if addresses, err = helpers.GetNodeAddressesFromNodeIP(wanted, addresses); err != nil {
			return nil, refusef("the kubelet's --node-ip %s is not an address of the instance: %w",
				wanted, err)
		}
	}
	if !slices.ContainsFunc(addresses, isHostname) {
		for _, a := range node.Status.Addresses {
			if isHostname(a) {
				addresses = append(addresses, a)
			}
		}
	}
	if slices.Equal(byType(addresses), byType(node.Status.Addresses)) {
		return nil, nil
	}
	return addresses, nil
}

// byType sorts addresses by their types. Within a type the first address is preferred, but the
// order of the types has no meaning, and may differ with each response of a cloud.
func byType(all []v1.NodeAddress) []v1.NodeAddress {
	return slices.SortedStableFunc(slices.Values(all), func(a, b v1.NodeAddress) int {
		return strings.Compare(string(a.Type), string(b.Type))
	})
}

// withoutRepetitions keeps the first of the addresses that are equal in type and value, because the
// API server refuses a status that repeats one. The API server compares texts, so it accepts two
// spellings of one IP address. One address may have several types.
func withoutRepetitions(all []v1.NodeAddress) (kept []v1.NodeAddress) {
	has := map[v1.NodeAddress]bool{}
	for _, each := range all {
		value := each
		if ip, err := netip.ParseAddr(each.Address); err == nil {
			value.Address = ip.Unmap().String()
		}
		if !has[value] {
			has[value] = true
			kept = append(kept, each)
		}
	}
	return kept
}

func hasIP(node *v1.Node) bool {
	return slices.ContainsFunc(node.Status.Addresses, func(a v1.NodeAddress) bool {
		return a.Type == v1.NodeInternalIP || a.Type == v1.NodeExternalIP
	})
}

// pairs are the labels with an older name. The older one is authoritative, as in upstream.
var pairs = [][2]string{
	{v1.LabelInstanceType, v1.LabelInstanceTypeStable},
	{v1.LabelFailureDomainBetaZone, v1.LabelTopologyZone},
	{v1.LabelFailureDomainBetaRegion, v1.LabelTopologyRegion},
}

// stable returns the labels that a node lacks although it has their older names.
func stable(node *v1.Node) change {
	c := change{labels: map[string]string{}}
	for _, pair := range pairs {
		if value, has := node.Labels[pair[0]]; has {
			c.label(node, pair[1], value)
		}
	}
	return c
}

// isOfKubernetes reports whether a provider must not set a label, as in upstream.
func isOfKubernetes(key string) bool {
	domain, _, _ := strings.Cut(key, "/")
	return strings.HasSuffix("."+domain, ".kubernetes.io") ||
		strings.HasSuffix("."+domain, ".k8s.io")
}

// setLabels adds the labels that differ from those of the instance. An additional label that the
// node has already is changed only if labels have to follow the instance.
func (c *change) setLabels(node *v1.Node, found *cloudprovider.InstanceMetadata, follow bool) {
	c.labels = map[string]string{}
	for i, value := range []string{found.InstanceType, found.Zone, found.Region} {
		if value = c.valid(pairs[i][1], value); value != "" {
			c.label(node, pairs[i][0], value)
			c.label(node, pairs[i][1], value)
		}
	}
	for _, key := range slices.Sorted(maps.Keys(found.AdditionalLabels)) {
		_, has := node.Labels[key]
		switch problems := validation.IsQualifiedName(key); {
		case isOfKubernetes(key) || has && !follow:
		case len(problems) > 0:
			c.notes = append(c.notes, fmt.Sprintf(
				"label %q is left out, because its key is invalid: %s", key,
				strings.Join(problems, "; ")))
		default:
			c.label(node, key, c.valid(key, found.AdditionalLabels[key]))
		}
	}
}

func (c *change) label(node *v1.Node, key, value string) {
	if now, has := node.Labels[key]; !has || now != value {
		c.labels[key] = value
	}
}

// valid returns a valid label value, and notes a change.
func (c *change) valid(key, value string) string {
	fit := labelValue(value)
	if fit != value {
		c.notes = append(c.notes, fmt.Sprintf(
			"label %s is %q, because %q is not a valid label value", key, fit, value))
	}
	return fit
}

// labelValue makes a text a valid label value: each run of other characters becomes a dash, the
// value has at most 63 characters, and no dash, underscore or dot at its ends. A valid value is
// unchanged.
func labelValue(text string) string {
	if len(validation.IsValidLabelValue(text)) == 0 {
		return text
	}
	const punctuation = "-_."
	value := strings.Trim(strings.Join(strings.FieldsFunc(text, isInvalid), "-"), punctuation)
	if len(value) > validation.LabelValueMaxLength {
		value = value[:validation.LabelValueMaxLength]
	}
	return strings.TrimRight(value, punctuation)
}

// isInvalid reports whether no label value has a character.
func isInvalid(c rune) bool {
	return (c < '0' || c > '9') && (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') &&
		!strings.ContainsRune("-_.", c)
}
