package instances

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"sync"
	"time"

	"github.com/gophercloud/gophercloud/v2"
	"k8s.io/utils/clock"

	"github.com/fxccm/fxccm/provider/openstack/internal/failure"
	"github.com/fxccm/fxccm/provider/openstack/internal/pages"
)

// server has the fields of Nova's "Show Server Details" that are used.
type server struct {
	ID         string `json:"id"`
	Name       string `json:"name"`
	Status     string `json:"status"`
	PowerState int    `json:"OS-EXT-STS:power_state"`
	Zone       string `json:"OS-EXT-AZ:availability_zone"`
	AccessIPv4 string `json:"accessIPv4"`
	AccessIPv6 string `json:"accessIPv6"`
	Flavor     flavor `json:"flavor"`
	// Addresses are by network name.
	Addresses map[string][]address `json:"addresses"`
	Metadata  map[string]string    `json:"metadata"`
}

// flavor is a server's flavor: its name since microversion 2.47, its ID before.
type flavor struct {
	ID           string `json:"id"`
	OriginalName string `json:"original_name"`
}

type address struct {
	Address string `json:"addr"`
	Type    string `json:"OS-EXT-IPS:type"`
}

const (
	addressFixed    = "fixed"
	addressFloating = "floating"
)

// errNoAnswer is a successful response whose body does not follow the API.
const errNoAnswer = failure.BodyError("Nova")

const (
	// embeddedFlavor is the first microversion whose servers contain the name of their flavor.
	// There is no other way to get the name of a flavor that was deleted or belongs to another
	// project.
	embeddedFlavor = "2.47"
	// refusalLife is how long a refused microversion is not used. Nova may be upgraded.
	refusalLife = time.Hour
)

// nova sends requests to Nova. It is safe for concurrent use.
type nova struct {
	client func(context.Context) (*gophercloud.ServiceClient, error)
	clock  clock.PassiveClock

	mu      sync.Mutex
	refused time.Time
}

// get uses the microversion that embeds flavors, if Nova supports it.
func (n *nova) get(ctx context.Context, path string, query url.Values, into any) error {
	if !n.isOld() {
		err := n.getAt(ctx, embeddedFlavor, path, query, into)
		if !gophercloud.ResponseCodeIs(err, http.StatusNotAcceptable) {
			return err
		}
		n.mu.Lock()
		n.refused = n.clock.Now()
		n.mu.Unlock()
	}
	return n.getOld(ctx, path, query, into)
}

func (n *nova) getOld(ctx context.Context, path string, query url.Values, into any) error {
	return n.getAt(ctx, "", path, query, into)
}

func (n *nova) isOld() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return !n.refused.IsZero() && n.clock.Since(n.refused) < refusalLife
}

func (n *nova) getAt(ctx context.Context, microversion, path string,
	query url.Values, into any,
) error {
	client, err := n.client(ctx)
	if err != nil {
		return err
	}
	versioned := *client
	versioned.Microversion = microversion
	return get(ctx, &versioned, path, query, into)
}

// get sends one request. A body that is truncated or not JSON is an error.
func get(ctx context.Context, client *gophercloud.ServiceClient, path string,
	query url.Values, into any,
) error {
	address := client.ServiceURL(path)
	if len(query) > 0 {
		address += "?" + query.Encode()
	}
	_, err := client.Get(ctx, address, into,
		&gophercloud.RequestOpts{OkCodes: []int{http.StatusOK}})
	return err
}

// server returns one server. isNotFound reports whether Nova denied it.
func (n *nova) server(ctx context.Context, id string) (*server, error) {
	s, err := n.showServer(ctx, n.get, id)
	if err != nil {
		return nil, fmt.Errorf("get server %s: %w", id, err)
	}
	return s, nil
}

type getter func(ctx context.Context, path string, query url.Values, into any) error

func (n *nova) showServer(ctx context.Context, get getter, id string) (*server, error) {
	var body struct {
		Server *server `json:"server"`
	}
	if err := get(ctx, "servers/"+url.PathEscape(id), nil, &body); err != nil {
		return nil, err
	}
	if body.Server == nil || !strings.EqualFold(body.Server.ID, id) {
		return nil, errNoAnswer
	}
	return body.Server, nil
}

// servers lists the project's servers, and returns the number of requests.
func (n *nova) servers(ctx context.Context) (all []*server, calls int, err error) {
	all, calls, err = n.listServers(ctx, url.Values{})
	if err != nil {
		return nil, calls, fmt.Errorf("list servers: %w", err)
	}
	return all, calls, nil
}

// serversNamed lists the servers with this name, in any case. The filter is a regular expression,
// which MySQL matches case-insensitively.
func (n *nova) serversNamed(ctx context.Context, name string) ([]*server, error) {
	all, _, err := n.listServers(ctx, url.Values{"name": {"^" + regexp.QuoteMeta(name) + "$"}})
	if err != nil {
		return nil, fmt.Errorf("list servers named %s: %w", name, err)
	}
	return named(all, name), nil
}

func (n *nova) listServers(ctx context.Context, query url.Values) (all []*server,
	calls int, err error,
) {
	all, err = pages.All(ctx, "servers", query, func(s **server) string {
		if *s == nil {
			return ""
		}
		return (*s).ID
	}, func(ctx context.Context, query url.Values) (body map[string]json.RawMessage, err error) {
		calls++
		err = n.get(ctx, "servers/detail", query, &body)
		return body, err
	})
	return all, calls, err
}

// flavorID is the ID of a server's flavor, which only old microversions return.
func (n *nova) flavorID(ctx context.Context, serverID string) (string, error) {
	s, err := n.showServer(ctx, n.getOld, serverID)
	if err != nil {
		return "", fmt.Errorf("get the flavor id of server %s: %w", serverID, err)
	}
	return s.Flavor.ID, nil
}

// flavorName returns the name of a flavor. isNotFound reports whether it does not exist.
func (n *nova) flavorName(ctx context.Context, id string) (string, error) {
	var body struct {
		Flavor *struct {
			Name string `json:"name"`
		} `json:"flavor"`
	}
	err := n.get(ctx, "flavors/"+url.PathEscape(id), nil, &body)
	if err == nil && body.Flavor == nil {
		err = errNoAnswer
	}
	if err != nil {
		return "", fmt.Errorf("get flavor %s: %w", id, err)
	}
	return body.Flavor.Name, nil
}

// isNotFound reports whether Nova itself returned the 404, and not a proxy or another server.
func isNotFound(err error) bool {
	var unexpected gophercloud.ErrUnexpectedResponseCode
	if !errors.As(err, &unexpected) || unexpected.Actual != http.StatusNotFound {
		return false
	}
	var body struct {
		ItemNotFound *struct{} `json:"itemNotFound"`
	}
	return json.Unmarshal(unexpected.Body, &body) == nil && body.ItemNotFound != nil
}
