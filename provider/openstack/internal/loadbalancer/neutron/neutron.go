// Package neutron reads and writes floating IPs, security groups, node ports, subnets and external
// networks. It also checks certificates in Barbican.
//
// Concurrent calls share their requests: 200 Services that are reconciled together cost about as
// many requests as one.
package neutron

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	"github.com/gophercloud/gophercloud/v2"
	"k8s.io/utils/clock"

	"github.com/fxccm/fxccm/provider/kit/batch"
	"github.com/fxccm/fxccm/provider/openstack/internal/capability"
	"github.com/fxccm/fxccm/provider/openstack/internal/sharing"
)

// These are the times for which subnets, addresses and certificates are cached: only operators
// change them. Absence is not cached.
const (
	// subnetAge is for immutable fields of a subnet, such as its CIDR, and for the addresses of
	// servers.
	subnetAge = 10 * time.Minute
	// networkAge is for lists of networks and subnets, with names and tags.
	networkAge = 10 * time.Minute
	// groupNamesAge is for the names of groups that this process does not create.
	groupNamesAge = time.Hour
	// certificateAge is for the existence of a certificate.
	certificateAge = 10 * time.Minute
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

	floatingIPs *batch.Batches[*floatingIPCall]
	// lastFloatingIPs is the last list; nil before the first.
	lastFloatingIPs atomic.Pointer[floatingIPList]
	groups          *lookup[*SecurityGroup]
	groupNames      *lookup[map[string]bool]
	serverPorts     *lookup[[]NodePort]
	groupPorts      *lookup[[]NodePort]
	addresses       *lookup[[]Address]
	subnets         *lookup[Subnet]
	networks        *lookup[[]Subnet]
	external        *lookup[string]
	certificates    *lookup[certificate]
	groupEdits      *batch.Batches[*groupEdit]
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
	a.floatingIPs = batch.New(ErrClosed, a.answerFloatingIPs)
	a.groups = newLookup(a, 0, a.readSecurityGroups)
	a.groupNames = newLookup(a, groupNamesAge, a.readGroupNames)
	a.serverPorts = newLookup(a, 0, a.readServerPorts)
	a.groupPorts = newLookup(a, 0, a.readGroupPorts)
	a.addresses = newLookup(a, subnetAge, a.readAddresses)
	a.subnets = newLookup(a, subnetAge, a.readSubnets)
	a.networks = newLookup(a, networkAge, a.readNetworks)
	a.external = newLookup(a, networkAge, a.readExternalNetwork)
	a.certificates = newLookup(a, certificateAge, a.readCertificates)
	a.certificates.keeps = func(c certificate) bool { return c.err == nil }
	a.groupEdits = batch.New(ErrClosed, a.editGroups)
	a.closing = append(a.closing, a.floatingIPs.Close, a.groupEdits.Close)
	return a
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
