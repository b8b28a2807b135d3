package openstacktest

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
)

// microversion is a version of an API, such as 2.47.
type microversion struct{ major, minor int }

func (v microversion) String() string { return fmt.Sprintf("%d.%d", v.major, v.minor) }

// atLeast compares with 2.minor.
func (v microversion) atLeast(minor int) bool { return v.minor >= minor }

// The headers that name a microversion of Nova's. The second one is from before there was one for all services.
const (
	microversionHeader     = "Openstack-Api-Version"
	novaMicroversionHeader = "X-Openstack-Nova-Api-Version"
)

// requestedMicroversion is as the client wrote it; "" for none.
func requestedMicroversion(r *http.Request) string {
	for _, value := range r.Header.Values(microversionHeader) {
		for one := range strings.SplitSeq(value, ",") {
			if service, version, found := strings.Cut(strings.TrimSpace(one), " "); found && service == ServiceCompute {
				return strings.TrimSpace(version)
			}
		}
	}
	return r.Header.Get(novaMicroversionHeader)
}

// negotiate finds the microversion for a request, or refuses it. Only Nova has any here.
func (s *Cloud) negotiate(service string, r *http.Request) (microversion, *answer) {
	lowest, highest := microversion{2, 1}, microversion{2, s.settings.computeMinor}
	requested := requestedMicroversion(r)
	switch {
	case service != ServiceCompute || requested == "":
		return lowest, nil
	case requested == "latest":
		return highest, nil
	}
	version, ok := parseMicroversion(requested)
	if !ok {
		refusal := failure(service, http.StatusBadRequest,
			"API Version String "+requested+" is of invalid format. Must be of format MajorNum.MinorNum.")
		return microversion{}, &refusal
	}
	if version.major != 2 || version.minor < lowest.minor || version.minor > highest.minor {
		// The headers name the version that there is none of.
		refusal := s.withMicroversion(service, version, failure(service, http.StatusNotAcceptable, fmt.Sprintf(
			"Version %s is not supported by the API. Minimum is %s and maximum is %s.", version, lowest, highest)))
		return microversion{}, &refusal
	}
	return version, nil
}

func parseMicroversion(text string) (microversion, bool) {
	major, minor, found := strings.Cut(text, ".")
	if !found {
		return microversion{}, false
	}
	ma, err1 := strconv.ParseUint(major, 10, 16)
	mi, err2 := strconv.ParseUint(minor, 10, 16)
	return microversion{int(ma), int(mi)}, err1 == nil && err2 == nil
}

// withMicroversion says in the answer's header which microversion it is of.
func (s *Cloud) withMicroversion(service string, v microversion, a answer) answer {
	if service != ServiceCompute {
		return a
	}
	a.header = a.header.Clone()
	if a.header == nil {
		a.header = http.Header{}
	}
	a.header.Set(microversionHeader, ServiceCompute+" "+v.String())
	a.header.Set(novaMicroversionHeader, v.String())
	a.header.Add("Vary", "OpenStack-API-Version, X-OpenStack-Nova-API-Version")
	return a
}
