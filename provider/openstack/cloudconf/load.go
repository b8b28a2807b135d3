package cloudconf

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/fxccm/fxccm/internal/configfile"
)

// Loaded is a configuration that was read from files.
type Loaded struct {
	Config Config
	// Warnings are the problems for which it was not refused.
	Warnings []Problem
	// Files are all files that were read, and the certificate and key files that the configuration
	// names. The login or the connections may change when one of them changes.
	Files []string
}

// Load reads the cloud.conf at path, as [Read] does. The file must be a regular file or a pipe, and
// have at most 1 MiB.
func Load(path string, o Options) (Loaded, error) {
	content, err := configfile.Read(path)
	if err != nil {
		return Loaded{}, fmt.Errorf("read the cloud's configuration: %w", err)
	}
	o.Path = path
	loaded, err := Read(content, o)
	if err == nil {
		loaded.Files = append([]string{path}, loaded.Files...)
	}
	return loaded, err
}

// Read parses the text of a cloud.conf, fills it from clouds.yaml if use-clouds is set, and
// validates the result. The error is a [Problems] with all reasons. With an error, Loaded has only
// the warnings.
func Read(content []byte, o Options) (Loaded, error) {
	d := parse(content, o)
	d.takeEnvironment(o)
	d.limitTenant(o)
	if d.config.Global.UseClouds {
		d.takeClouds(o, &d.config.Global, header("Global", ""))
	}
	for name, region := range d.config.Regions {
		if region.Global.UseClouds {
			d.takeClouds(o, &region.Global, header("Global", name))
			d.config.Regions[name] = region
		}
	}
	d.validate()
	byLine(d.problems)
	warnings, err := classify(d.problems, o.Strict)
	if err != nil {
		return Loaded{Warnings: warnings}, err
	}
	for _, name := range d.config.RegionNames() {
		region, _ := d.config.In(name)
		d.files = append(d.files, region.Global.files()...)
	}
	var files []string
	for _, file := range d.files {
		if !slices.Contains(files, file) {
			files = append(files, file)
		}
	}
	return Loaded{Config: d.config, Warnings: warnings, Files: files}, nil
}

func (d *document) takeEnvironment(o Options) {
	if _, given := d.origins[origin{header("Instances", ""), "regional"}]; !given {
		d.config.Instances.Regional = o.environment("OS_CCM_REGIONAL") == "true"
	}
	const steps = "OCCM_WAIT_LB_ACTIVE_STEPS"
	if o.environment(steps) != "" {
		d.problems = append(d.problems, Problem{
			severity: asWarning, Section: "the environment",
			Key: steps, Text: "has no effect: the provider waits for load balancers without a " +
				"limit",
		})
	}
}

// complete sets OCCM's defaults where an empty value stands for them.
func (d *document) complete() {
	m, defaults := &d.config.Metadata, Default().Metadata
	m.SearchOrder = cmp.Or(m.SearchOrder, defaults.SearchOrder)
	m.RequestTimeout = cmp.Or(m.RequestTimeout, defaults.RequestTimeout)
}

// validate adds the problems of Validate, with their lines. A value that could not be parsed is not
// reported as missing.
func (d *document) validate() {
	unread, brokenLine := map[string]bool{}, false
	for _, p := range d.problems {
		if p.severity != asError {
			continue
		}
		unread[p.Section] = true
		brokenLine = brokenLine || p.Section == ""
		if strings.HasPrefix(p.Section, "clouds") {
			unread[header("Global", "")] = true
			for name := range d.config.Regions {
				unread[header("Global", name)] = true
			}
		}
	}
	if global := header("Global", ""); !d.hasGlobal && !brokenLine {
		unread[global] = true
		text := "is missing; write auth-url and the credentials in it"
		if d.isEmpty {
			text = "is missing: the file is empty"
		}
		d.problems = append(d.problems, Problem{severity: asError, Section: global, Text: text})
	}
	for _, p := range problemsIn(d.config) {
		position, given := d.origins[origin{p.Section, p.Key}]
		if !given && (brokenLine || unread[p.Section]) {
			continue
		}
		if d.isCutAway(p) {
			continue
		}
		p.File, p.Line = position.file, position.line
		d.problems = append(d.problems, d.asOfClouds(p))
	}
}

// isCutAway reports whether a secret is missing because a comment begins in front of it. The
// problem of that secret then refuses the configuration.
func (d *document) isCutAway(missing Problem) bool {
	cloud, chosen := d.clouds[missing.Section]
	for i := range d.problems {
		p := &d.problems[i]
		isThere := missing.Section == p.Section || chosen && p.File != "" &&
			(p.Section == cloud.section || strings.HasPrefix(p.Section, cloud.section+"."))
		if p.isCutAway && missing.severity == asError && isThere &&
			(missing.Key == "" || missing.Key == p.Key) {
			p.severity = asError
			return true
		}
	}
	return false
}

// files are the files that the client reads.
func (g Global) files() []string {
	var files []string
	for _, file := range []string{g.CAFile, g.CertFile, g.KeyFile} {
		if file != "" {
			files = append(files, file)
		}
	}
	return files
}
