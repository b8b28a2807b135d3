package cloudconf

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Region is a further region of the cloud, or a further project, with all settings that differ from
// the default region.
type Region struct {
	Global       Global
	Networking   Networking
	LoadBalancer LoadBalancer
	Route        Route
}

// RegionNames returns the names of all regions, the default one first. The name of that is its
// region in Keystone's catalog; it is empty if the configuration names no region.
func (c Config) RegionNames() []string {
	return append([]string{c.Global.Region}, slices.Sorted(maps.Keys(c.Regions))...)
}

// In is the configuration of one region by itself; false if it does not exist. Load balancer
// classes belong to the default region. With several regions, provider IDs name the region.
func (c Config) In(name string) (Config, bool) {
	r, found := c.Regions[name]
	if found {
		c.Global, c.Networking, c.LoadBalancer, c.Route = r.Global, r.Networking, r.LoadBalancer,
			r.Route
		c.LoadBalancerClasses = nil
	} else if name != c.Global.Region {
		return Config{}, false
	}
	c.Instances.Regional = c.Instances.Regional || len(c.Regions) > 0
	c.Regions = nil
	return c, true
}

// sections are the options of a region.
func (r *Region) sections(name string) []section {
	all := []section{
		global(&r.Global), networking(&r.Networking), loadBalancer(&r.LoadBalancer),
		route(&r.Route),
	}
	for i := range all {
		all[i].instance = name
	}
	return all
}

// newRegion has the defaults of a section that is not in the file.
func newRegion() *Region {
	d := Default()
	return &Region{
		Global: d.Global, Networking: d.Networking, LoadBalancer: d.LoadBalancer, Route: d.Route,
	}
}

// inRegion returns a section of a region, and creates the region if needed.
func (r *reader) inRegion(s statement) *section {
	region := r.regions[s.name]
	if region == nil {
		region = newRegion()
		r.regions[s.name] = region
	}
	for _, found := range region.sections(s.name) {
		if found.name == r.section.name {
			r.headers[origin{found.name, s.name}] = s.line
			return &found
		}
	}
	return nil
}

// takeRegions completes the regions: [Global "name"] inherits from [Global].
func (r *reader) takeRegions() {
	for _, name := range slices.Sorted(maps.Keys(r.regions)) {
		region := r.regions[name]
		if _, ok := r.headers[origin{"Global", name}]; !ok {
			for _, s := range region.sections(name) {
				if line, ok := r.headers[origin{s.name, name}]; ok {
					r.problems = append(r.problems, Problem{
						severity: asMistake, Line: line, Section: s.header(),
						Text: "is ignored: its region needs a section " + header("Global", name),
					})
				}
			}
			continue
		}
		r.inherit(name, region)
		if r.config.Regions == nil {
			r.config.Regions = map[string]Region{}
		}
		r.config.Regions[name] = *region
	}
}

// inherit copies options that [Global "name"] omits from [Global]. Credentials are inherited
// together or not at all, and never for another Keystone.
func (r *reader) inherit(name string, region *Region) {
	section := header("Global", name)
	isGiven := func(key string) bool { _, ok := r.origins[origin{section, key}]; return ok }
	own, base := global(&region.Global), global(&r.config.Global)
	ownLogin := slices.ContainsFunc(own.options, func(o option) bool {
		return (isLogin(o.key) || o.key == "auth-url") && isGiven(o.key)
	})
	ownClouds := isGiven("use-clouds") || isGiven("clouds-file") || isGiven("cloud")
	for i, o := range own.options {
		switch {
		case isGiven(o.key) || o.key == "region" || isEndpoint(o.key) || ownClouds ||
			ownLogin && isLogin(o.key):
		default:
			o.read(base.options[i].write()[0], false)
		}
	}
	if !isGiven("region") {
		region.Global.Region = name
	}
}

// isLogin reports whether an option of [Global] belongs to the credentials.
func isLogin(key string) bool {
	switch key {
	case "auth-url", "region", "os-endpoint-type", "ca-file", "cafilecontents", "tls-insecure",
		"cert-file", "key-file":
		return false
	}
	return !isEndpoint(key)
}

// isEndpoint reports whether an option is the address of a service, which has one in each region.
func isEndpoint(key string) bool { return strings.HasSuffix(key, "-endpoint-override") }

// regionProblems returns the problems that concern several regions.
func (c Config) regionProblems() []Problem {
	if len(c.Regions) == 0 {
		return nil
	}
	var problems []Problem
	add := func(severity severity, section, name, key, text string) {
		problems = append(problems, Problem{
			severity: severity, Section: header(section, name), Key: key, Text: text,
		})
	}
	if c.Global.Region == "" {
		add(asError, "Global", "", "region", "is missing; it is the name of the default region")
	}
	logins := map[Global]string{c.Global: ""}
	for _, name := range c.RegionNames()[1:] {
		r := c.Regions[name]
		if name == c.Global.Region || strings.TrimSpace(name) != name || name == "" {
			add(asError, "Global", name, "",
				"needs a name that is not empty and not that of the default region")
		}
		if r.Global.Region == "" {
			add(asError, "Global", name, "region", "is missing")
		}
		if other, taken := logins[r.Global]; taken {
			add(asMistake, "Global", name, "", fmt.Sprintf("is the same region and project as %s",
				header("Global", other)))
		}
		logins[r.Global] = name
		if (r.Route.RouterID == "") != (c.Route.RouterID == "") {
			add(asError, "Route", name, "router-id",
				"must be set for all regions or for none, because each node needs its route")
		}
	}
	return problems
}
