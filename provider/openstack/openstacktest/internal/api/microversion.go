package api

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
)

// Microversion is a version of an API, such as 2.47.
type Microversion struct{ Major, Minor int }

func (v Microversion) String() string { return fmt.Sprintf("%d.%d", v.Major, v.Minor) }

// AtLeast reports whether the version is 2.minor or newer.
func (v Microversion) AtLeast(minor int) bool { return v.Minor >= minor }

// The headers that name a Microversion of Nova. The second one is older than the common header of
// all services.
const (
	microversionHeader     = "Openstack-Api-Version"
	novaMicroversionHeader = "X-Openstack-Nova-Api-Version"
)

// RequestedMicroversion is the text of the client's header; "" for none.
func RequestedMicroversion(r *http.Request) string {
	for _, value := range r.Header.Values(microversionHeader) {
		for one := range strings.SplitSeq(value, ",") {
			if service, version, found := strings.Cut(strings.TrimSpace(one), " "); found &&
				service == ServiceCompute {
				return strings.TrimSpace(version)
			}
		}
	}
	return r.Header.Get(novaMicroversionHeader)
}

// Negotiate returns the Microversion of the answer to a request, or refuses the request. Only Nova
// has microversions here.
func Negotiate(service string, r *http.Request, newest int) (Microversion, error) {
	lowest, highest := Microversion{2, 1}, Microversion{2, newest}
	requested := RequestedMicroversion(r)
	switch {
	case service != ServiceCompute || requested == "":
		return lowest, nil
	case requested == "latest":
		return highest, nil
	}
	version, ok := parseMicroversion(requested)
	if !ok {
		return Microversion{}, Refuse(http.StatusBadRequest,
			"API Version String %s is of invalid format. Must be of format MajorNum.MinorNum.",
			requested)
	}
	if version.Major != 2 || version.Minor < lowest.Minor || version.Minor > highest.Minor {
		return version, Refuse(http.StatusNotAcceptable,
			"Version %s is not supported by the API. Minimum is %s and maximum is %s.", version,
			lowest, highest)
	}
	return version, nil
}

func parseMicroversion(text string) (Microversion, bool) {
	major, minor, found := strings.Cut(text, ".")
	if !found {
		return Microversion{}, false
	}
	ma, err1 := strconv.ParseUint(major, 10, 16)
	mi, err2 := strconv.ParseUint(minor, 10, 16)
	return Microversion{int(ma), int(mi)}, err1 == nil && err2 == nil
}

// WithMicroversion sets the answer's headers to its Microversion, if it has one.
func WithMicroversion(service string, v Microversion, a Answer) Answer {
	if service != ServiceCompute || v == (Microversion{}) {
		return a
	}
	a.Header = a.Header.Clone()
	if a.Header == nil {
		a.Header = http.Header{}
	}
	a.Header.Set(microversionHeader, ServiceCompute+" "+v.String())
	a.Header.Set(novaMicroversionHeader, v.String())
	a.Header.Add("Vary", "OpenStack-API-Version, X-OpenStack-Nova-API-Version")
	return a
}
