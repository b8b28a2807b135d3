package client

import (
	"cmp"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/gophercloud/gophercloud/v2/openstack/identity/v3/tokens"
)

// ErrNoService is wrapped by the error of a client of a service that Keystone's catalog does not have, in this region and for
// this interface. The catalog is looked at again after each login.
var ErrNoService = errors.New("not in Keystone's catalog")

// ErrNoRegion is wrapped by the error of a client of a service that is there in several regions, of which none is configured.
var ErrNoRegion = errors.New("no region is configured")

// identity is what Keystone issued. It does not change.
type identity struct {
	token   string
	project string
	expires time.Time
	catalog []tokens.CatalogEntry
}

// endpoint is the address of a service, with / at its end, in the form that gophercloud's constructors take: of Nova with the
// version, of the others without.
//
// gophercloud finds the version out with a request, each time that a client is made, under no context
// (openstack/client.go, v3auth), and puts a second v2.0 behind one that the catalog has (NewNetworkV2). There is nothing to find out:
// each of these services has had one major version for ten years, at a path that is part of its API.
//
// Without a region there must be one only: OCCM takes the first that comes, and finds none of the nodes' servers if it is another one.
func (i *identity) endpoint(service, availability, region string) (string, error) {
	var regions []string
	address, found := "", false
	for _, entry := range i.catalog {
		if entry.Type != service {
			continue
		}
		for _, e := range entry.Endpoints {
			if e.Interface != availability {
				continue
			}
			regions = append(regions, cmp.Or(e.RegionID, e.Region))
			if address == "" && (region == "" || e.Region == region || e.RegionID == region) {
				address = e.URL
			}
		}
		found = true
	}
	slices.Sort(regions)
	regions = slices.Compact(regions)
	switch {
	case region == "" && len(regions) > 1:
		return "", fmt.Errorf("service %s has the regions %q: %w", service, regions, ErrNoRegion)
	case address != "":
		return shape(service, address)
	case len(regions) > 0:
		return "", fmt.Errorf("service %s in region %q: %w: it has the regions %q", service, region, ErrNoService, regions)
	case found:
		return "", fmt.Errorf("service %s: its %s interface is %w", service, availability, ErrNoService)
	}
	return "", fmt.Errorf("service %s: %w", service, ErrNoService)
}

func shape(service, address string) (string, error) {
	u, err := url.Parse(address)
	if err != nil || u.Host == "" {
		return "", fmt.Errorf("the address of service %s in Keystone's catalog is none: %q", service, address)
	}
	segments := split(u.Path)
	versioned := slices.IndexFunc(segments, isVersion) >= 0
	switch {
	case service == serviceCompute && !versioned:
		segments = append(segments, "v2.1")
	case service != serviceCompute && len(segments) > 0 && isVersion(segments[len(segments)-1]):
		segments = segments[:len(segments)-1]
	}
	u.RawQuery, u.Fragment, u.RawPath = "", "", ""
	u.Path = strings.TrimSuffix("/"+strings.Join(segments, "/"), "/") + "/"
	return u.String(), nil
}

// availability is the interface as the catalog names it. OCCM hands on what is written; publicURL is the old way to write it.
func availability(endpointType string) (string, error) {
	switch name := strings.TrimSuffix(strings.ToLower(endpointType), "url"); name {
	case "":
		return "public", nil
	case "public", "internal", "admin":
		return name, nil
	}
	return "", fmt.Errorf("os-endpoint-type %q is none of public, internal, admin", endpointType)
}
