package client

import (
	"cmp"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gophercloud/gophercloud/v2/openstack/identity/v3/tokens"

	"github.com/fxccm/fxccm/internal/printable"
	"github.com/fxccm/fxccm/provider/openstack/internal/failure"
)

// identity is a token with its data. It is immutable.
type identity struct {
	token   string
	project string
	expires time.Time
	catalog []tokens.CatalogEntry
}

// endpoint is the address of a service with a trailing /, in the form that gophercloud's
// constructors expect: with the version for Nova, without it for the others.
//
// gophercloud would discover the version with a request for each new client, without a context
// (openstack/client.go, v3auth), and append a second v2.0 to an address that already has one
// (NewNetworkV2). Discovery is not needed: each of these services has had one major version for ten
// years, at a path that is part of its API.
//
// Without a configured region the catalog must have only one. OCCM takes the first one, and finds
// no servers if that is the wrong region.
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
	has := "Keystone's catalog has it in " + quoted(regions)
	missing := &failure.CatalogError{Service: serviceName(service)}
	switch {
	case region == "" && len(regions) > 1:
		missing.Setting = "region"
		missing.Message = "region of cloud.conf is not set, and " + has + "; set it to one of them"
	case address != "":
		return shape(service, address)
	case len(regions) > 0:
		missing.Setting = "region"
		missing.Message = fmt.Sprintf("region of cloud.conf is %q, but %s; correct it", region, has)
	case found:
		missing.Setting = "os-endpoint-type"
		missing.Message = fmt.Sprintf("os-endpoint-type of cloud.conf is %q, and Keystone's "+
			"catalog has no such interface of it; correct it", availability)
	default:
		missing.Message = "it is not in Keystone's catalog; install it, or do without it"
	}
	return "", missing
}

// maxName limits a name of Keystone's catalog in an error, in characters.
const maxName = 255

// quoted lists the first names of regions.
func quoted(regions []string) string {
	const most = 20
	names := make([]string, 0, most+1)
	for _, region := range regions[:min(len(regions), most)] {
		names = append(names, strconv.Quote(printable.Text(region, maxName)))
	}
	if len(regions) > most {
		names = append(names, "...")
	}
	if len(names) == 1 {
		return "region " + names[0]
	}
	return "the regions " + strings.Join(names, ", ")
}

func shape(service, address string) (string, error) {
	u, err := url.Parse(address)
	if err != nil || u.Host == "" {
		// The address may have a password.
		return "", fmt.Errorf("the address of service %s is not a valid URL with a host", service)
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
