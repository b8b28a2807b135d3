// Package neutron reads and writes floating IPs, security groups, node ports, subnets and external
// networks. It also checks certificates in Barbican.
//
// Concurrent calls share their requests: 200 Services that are reconciled together cost about as
// many requests as one.
package neutron

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/extensions/attributestags"
	"k8s.io/utils/clock"

	"github.com/fxccm/fxccm/provider/kit/batch"
	"github.com/fxccm/fxccm/provider/openstack/internal/capability"
	"github.com/fxccm/fxccm/provider/openstack/internal/failure"
	"github.com/fxccm/fxccm/provider/openstack/internal/pages"
	"github.com/fxccm/fxccm/provider/openstack/internal/sharing"
)

// These are the times for which subnets, addresses and certificates are cached: only operators
// change them. Absence is not cached.
const (
	// subnetAge is for fields of a subnet that rarely or never change, such as its CIDR, and for
	// the addresses of servers.
	subnetAge = 10 * time.Minute
	// networkAge is for lists of networks and subnets, with names and tags.
	networkAge = 10 * time.Minute
	// groupNamesAge is for the names of groups that this process does not create.
	groupNamesAge = time.Hour
	// certificateAge is for the existence of a certificate.
	certificateAge = 10 * time.Minute
	// tagsAge is how long Neutron gets no tags after it has refused or dropped some.
	tagsAge = 10 * time.Minute
)

// Config is what [New] needs.
type Config struct {
	// Client returns the client of Neutron. It is called for each request.
	Client func(context.Context) (*gophercloud.ServiceClient, error)
	// KeyManager returns the client of Barbican. It may be nil.
	KeyManager func(context.Context) (*gophercloud.ServiceClient, error)
	// Project returns the id of the project that the client is for.
	Project func(context.Context) (string, error)
	// Share shares lists of the project with other clusters. It may be nil.
	Share sharing.Read
	// Clock measures the age of answers. Nil: the real clock.
	Clock  clock.PassiveClock
	Logger logr.Logger
}

// API is a Neutron client. It is safe for concurrent use. Callers share the results, and must not
// change them. [API.Close] ends it.
type API struct {
	config     Config
	extensions *capability.Fact[capability.NetworkExtensions]

	groups       *sharing.Lookup[*SecurityGroup]
	groupNames   *sharing.Lookup[map[string]bool]
	serverPorts  *sharing.Lookup[[]NodePort]
	groupPorts   *sharing.Lookup[[]NodePort]
	addresses    *sharing.Lookup[[]Address]
	subnets      *sharing.Lookup[Subnet]
	networks     *sharing.Lookup[[]Subnet]
	external     *sharing.Lookup[externalNetworks]
	routers      *sharing.Lookup[[]router]
	certificates *sharing.Lookup[certificate]
	groupEdits   *batch.Batches[*groupEdit]
	// untagged is until when Neutron gets no tags; nil: it has kept all so far.
	untagged atomic.Pointer[time.Time]
	// closing ends the batches.
	closing []func()
}

// New makes no request.
func New(config Config) *API {
	if config.Clock == nil {
		config.Clock = clock.RealClock{}
	}
	a := &API{config: config}
	a.extensions = capability.Network(config.Client,
		capability.Options{Clock: config.Clock, Share: config.Share})
	if config.Share == nil {
		own := sharing.NewReads(config.Clock, ErrClosed)
		a.config.Share, a.closing = own.Read, append(a.closing, own.Close)
	}
	a.groups = newLookup(a, 0, a.readSecurityGroups)
	a.groupNames = newLookup(a, groupNamesAge, a.readGroupNames)
	a.serverPorts = newLookup(a, 0, a.readServerPorts)
	a.groupPorts = newLookup(a, 0, a.readGroupPorts)
	a.addresses = newLookup(a, subnetAge, a.readAddresses)
	a.subnets = newLookup(a, subnetAge, a.readSubnets)
	a.networks = newLookup(a, networkAge, a.readNetworks)
	a.external = newLookup(a, networkAge, a.readExternalNetworks)
	a.routers = newLookup(a, networkAge, a.readRouters)
	a.certificates = newLookup(a, certificateAge, a.readCertificates)
	a.certificates.Keeps = func(c certificate) bool { return c.err == nil }
	a.groupEdits = batch.New(ErrClosed, a.editGroups)
	a.closing = append(a.closing, a.groupEdits.Close)
	return a
}

func newLookup[T any](
	a *API, age time.Duration, read func(context.Context, []string) (map[string]T, error),
) *sharing.Lookup[T] {
	l := sharing.NewLookup(ErrClosed, a.config.Clock, age, read)
	a.closing = append(a.closing, l.Close)
	return l
}

// Close cancels calls in flight, and waits for their end.
func (a *API) Close() {
	for _, end := range a.closing {
		end()
	}
}

// request sends one request. The error begins with the name of the operation.
func (a *API) request(
	ctx context.Context, doing string, send func(*gophercloud.ServiceClient) error,
) error {
	client, err := a.config.Client(ctx)
	if err == nil {
		err = send(client)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", doing, explain(err))
	}
	return nil
}

// remove is a request that succeeds if the object does not exist.
func (a *API) remove(
	ctx context.Context, doing string, send func(*gophercloud.ServiceClient) error,
) error {
	err := a.request(ctx, doing, send)
	if errors.Is(err, ErrNotFound) {
		return nil
	}
	return err
}

// item is a listed resource.
type item interface{ identifier() string }

// list reads all pages of a list, sorted by ID. Neutron adds the primary key to each sort, but does
// not promise it. path and collection are the names in the URL and in the body.
//
// Its errors are not classified: a 404 means that the marker was deleted meanwhile.
func list[T item](
	ctx context.Context, a *API, path, collection string, query url.Values,
) ([]T, error) {
	all, err := pages.All(ctx, collection, query, id[T], pages.From(a.config.Client, path))
	return sorted(path, all, err)
}

// listBy lists the resources with one of the values of an attribute.
func listBy[T item](
	ctx context.Context, a *API, path, collection, attribute string, values []string,
	query url.Values,
) ([]T, error) {
	all, err := pages.AllBy(ctx, collection, attribute, values, query, id[T],
		pages.From(a.config.Client, path))
	return sorted(path, all, err)
}

func id[T item](found *T) string { return (*found).identifier() }

func sorted[T item](path string, all []T, err error) ([]T, error) {
	if err != nil {
		return nil, fmt.Errorf("list %s: %w", path, err)
	}
	slices.SortFunc(all, func(a, b T) int { return cmp.Compare(a.identifier(), b.identifier()) })
	return all, nil
}

// extract reads the resource from a response. A response without an ID is not Neutron's.
func extract[T item](result gophercloud.Result, member string) (T, error) {
	var body map[string]T
	if err := result.ExtractInto(&body); err != nil {
		return body[member], err
	}
	if body[member].identifier() == "" {
		return body[member], failure.BodyError("Neutron")
	}
	return body[member], nil
}

// extensionTags adds tags to resources, since Rocky (Networking API reference,
// "standard-attr-tag").
const extensionTags = "standard-attr-tag"

// serviceMark begins the tag of an object that belongs to a Service.
const serviceMark = "fxccm-service="

// replaceTags replaces the tags with one request. A Neutron that does not keep tags, or fails to,
// gets none for tagsAge, so that Services are served without marks: descriptions and names mark the
// objects then. A write without the mark of a Service must succeed, because it gives the object up.
// Only after a failure does replaceTags check the extension.
func (a *API) replaceTags(ctx context.Context, collection, id string, tags []string) error {
	tags = once(tags)
	marks := slices.ContainsFunc(tags,
		func(tag string) bool { return strings.HasPrefix(tag, serviceMark) })
	if marks && a.isUntagged() {
		return nil
	}
	var kept []string
	err := a.request(ctx, fmt.Sprintf("tag %s %s", collection, id),
		func(client *gophercloud.ServiceClient) (err error) {
			if len(tags) == 0 {
				return attributestags.DeleteAll(ctx, client, collection, id).ExtractErr()
			}
			kept, err = attributestags.ReplaceAll(ctx, client, collection, id,
				attributestags.ReplaceAllOpts{Tags: tags}).Extract()
			return err
		})
	isLost := func(tag string) bool { return !slices.Contains(kept, tag) }
	switch {
	case err == nil && !slices.ContainsFunc(tags, isLost):
		return nil
	case err == nil && marks:
		a.leaveUntagged("Neutron has accepted tags and not kept them")
		return nil
	case err == nil:
		return fmt.Errorf("tag %s %s: Neutron has not kept the tags", collection, id)
	case ctx.Err() != nil || isKind(err, "TagResourceNotFound"):
		return err
	}
	if errors.Is(err, ErrNotFound) {
		has, unknown := a.extensions.Get(ctx)
		if unknown == nil && !has[extensionTags] {
			a.leaveUntagged("Neutron has no tags extension")
			return nil
		}
		err = errors.Join(err, unknown)
	}
	if !marks {
		return err
	}
	a.leaveUntagged(err.Error())
	return nil
}

// leaveUntagged warns only the first time.
func (a *API) leaveUntagged(why string) {
	until := a.config.Clock.Now().Add(tagsAge)
	if a.untagged.Swap(&until) == nil {
		a.config.Logger.Info("Floating IPs and security groups are not tagged; their "+
			"descriptions and names mark them", "cause", why, "nextAttempt", until)
	}
}

func (a *API) isUntagged() bool {
	until := a.untagged.Load()
	return until != nil && a.config.Clock.Now().Before(*until)
}

// shownTags replaces no tags by nil while Neutron gets none, so that no plan has steps for them.
func (a *API) shownTags(tags []string) []string {
	if len(tags) == 0 && a.isUntagged() {
		return nil
	}
	return tags
}

// once removes duplicates, which Neutron refuses.
func once(tags []string) []string {
	var kept []string
	for _, tag := range tags {
		if !slices.Contains(kept, tag) {
			kept = append(kept, tag)
		}
	}
	return kept
}

// Callers act on these errors. Neutron's own text follows in the error.
var (
	// ErrNotFound: the object does not exist, or the project may not see it.
	ErrNotFound = errors.New("not found")
	// ErrNoAddress: the subnet or network has no free address. Another subnet may have one.
	ErrNoAddress = errors.New("no address is left")
	// ErrNoCertificate: the reference names no certificate.
	ErrNoCertificate = errors.New("no container or secret")
	// ErrClosed is returned by requests after [API.Close].
	ErrClosed = errors.New("the Neutron client is closed")
)

// explain wraps an error of Neutron in the error that callers act on. Neutron's proxies count, too:
// a missing object and a missing extension are told apart by those who need it.
func explain(err error) error {
	var known error
	switch f := failure.Of(err); {
	case f == nil:
	case f.Status == http.StatusNotFound:
		known = ErrNotFound
	case f.IsNoAddress():
		known = ErrNoAddress
	}
	if known != nil {
		return fmt.Errorf("%w: %w", known, err)
	}
	return err
}

// isKind reports whether an error is Neutron's and of that type.
func isKind(err error, kind string) bool {
	f := failure.Of(err)
	return f != nil && f.Type == kind
}

// isStale reports whether Neutron refused a write because its revision is no longer the newest.
func isStale(err error) bool {
	return gophercloud.ResponseCodeIs(err, http.StatusPreconditionFailed)
}

// isRefusal reports whether Neutron refused a request because of its content: it was not carried
// out, and a retry does not help.
func isRefusal(err error) bool {
	var code gophercloud.ErrUnexpectedResponseCode
	if !errors.As(err, &code) {
		return false
	}
	switch code.Actual {
	case http.StatusBadRequest, http.StatusForbidden, http.StatusNotFound, http.StatusConflict:
		return true
	}
	return false
}
