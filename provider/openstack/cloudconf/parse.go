package cloudconf

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/fxccm/fxccm/internal/configfile"
	"github.com/fxccm/fxccm/internal/nearest"
)

// Options control how a configuration is read.
type Options struct {
	// Strict refuses probable mistakes: options that OCCM does not know, and values with which OCCM
	// fails later or behaves unexpectedly. Otherwise fxccm accepts everything that OCCM accepts,
	// with the same meaning, and returns warnings.
	Strict bool
	// Path is the file name in messages.
	Path string
	// Environment returns a variable, or "" if it is not set. Set it to os.Getenv to support the
	// variables that OCCM reads. Nil is an empty environment. The variables are:
	//
	//	OS_CCM_REGIONAL              "true" sets regional, if the file does not
	//	OCCM_WAIT_LB_ACTIVE_STEPS    has no effect; it causes a warning
	//	OS_CLIENT_CONFIG_FILE        sets clouds-file, if the file does not
	//	OS_CLOUD                     sets cloud, if the file does not and use-clouds is set
	Environment func(string) string
	// CloudsDirs are searched for clouds.yaml, secure.yaml and clouds-public.yaml. Nil: the working
	// directory, ~/.config/openstack and /etc/openstack.
	CloudsDirs []string
	// ReadFile reads clouds.yaml, secure.yaml and clouds-public.yaml. An error that is
	// [fs.ErrNotExist] means that there is no such file; any other error refuses the configuration.
	// Nil: the files of this machine, each of at most 1 MiB. Set it for a configuration whose files
	// are not on this machine.
	ReadFile func(path string) ([]byte, error)
	// NoFiles is for a configuration of a tenant. It refuses the options that read files of this
	// machine: ca-file, cert-file, key-file, clouds-file and use-clouds. It also refuses what would
	// occupy the machine: more than 16 regions besides the default one, or 256 classes, a
	// request-timeout above 5 minutes, and a drift-period between 0 and 10 seconds.
	NoFiles bool
}

func (o Options) environment(name string) string {
	if o.Environment == nil {
		return ""
	}
	return o.Environment(name)
}

func (o Options) readFile(path string) ([]byte, error) {
	if o.ReadFile == nil {
		return configfile.Read(path)
	}
	return o.ReadFile(path)
}

// Parse reads the text of a cloud.conf over [Default]. It reads no other file and no variable, and
// checks only the types of values: see [Read] and [Validate]. The error is a [Problems] with all
// reasons.
func Parse(content []byte, o Options) (config Config, warnings []Problem, err error) {
	d := parse(content, o)
	d.limitTenant(o)
	warnings, err = classify(d.problems, o.Strict)
	if err != nil {
		return Config{}, warnings, err
	}
	return d.config, warnings, nil
}

// limitTenant adds the problems of a configuration whose author must not reach the files of this
// machine, nor occupy it.
func (d *document) limitTenant(o Options) {
	if !o.NoFiles {
		return
	}
	d.refuseFiles()
	d.limitTimes()
	byLine(d.problems)
}

// refuseFiles adds a problem for each option that names a file. A file of this machine does not
// belong to the author of the configuration, and its content could be seen by the server that they
// choose.
func (d *document) refuseFiles() {
	refuse := func(g *Global, section string) {
		for _, option := range []struct {
			key   string
			isSet bool
		}{
			{"ca-file", g.CAFile != ""},
			{"cert-file", g.CertFile != ""},
			{"key-file", g.KeyFile != ""},
			{"clouds-file", g.CloudsFile != ""},
			{"use-clouds", g.UseClouds},
		} {
			if !option.isSet {
				continue
			}
			at := d.origins[origin{section, option.key}]
			text := "is not allowed here, because it reads a file of the machine that fxccm runs on"
			if option.key == "ca-file" {
				text += "; set cafilecontents instead"
			}
			d.problems = append(d.problems, Problem{
				severity: asError, File: at.file, Line: at.line, Section: section, Key: option.key,
				Text: text,
			})
		}
		// The configuration is refused, and so nothing may be read before that.
		g.CAFile, g.CertFile, g.KeyFile, g.CloudsFile, g.UseClouds = "", "", "", "", false
	}
	refuse(&d.config.Global, header("Global", ""))
	for name, region := range d.config.Regions {
		refuse(&region.Global, header("Global", name))
		d.config.Regions[name] = region
	}
}

// A tenant's configuration may have this request-timeout at most, because other tenants may wait
// for the end of a response. It may have this drift-period at least.
const longestTimeout, shortestPeriod = 5 * time.Minute, 10 * time.Second

// limitTimes adds the problems of times that a tenant must not set.
func (d *document) limitTimes() {
	refuse := func(section, key, text string) {
		at := d.origins[origin{section, key}]
		d.problems = append(d.problems, Problem{
			severity: asError, File: at.file, Line: at.line, Section: section, Key: key, Text: text,
		})
	}
	if t := d.config.Metadata.RequestTimeout; t <= 0 || t > longestTimeout {
		refuse(header("Metadata", ""), "request-timeout",
			"must be positive and at most "+short(longestTimeout)+" here")
	}
	check := func(l LoadBalancer, region string) {
		if l.DriftPeriod != 0 && l.DriftPeriod < shortestPeriod {
			refuse(header("LoadBalancer", region), "drift-period",
				"must be 0, or at least "+short(shortestPeriod)+" here")
		}
	}
	check(d.config.LoadBalancer, "")
	for name, region := range d.config.Regions {
		check(region.LoadBalancer, name)
	}
}

// document is a configuration with the origin of each option.
type document struct {
	config   Config
	origins  map[origin]position
	problems []Problem
	files    []string
	// path is that of the cloud.conf.
	path string
	// clouds are the clouds that fill the sections [Global].
	clouds map[string]chosenCloud

	// isEmpty: the file has only comments. hasGlobal: it has a section [Global].
	isEmpty, hasGlobal bool
}

// origin is an option in a section, as Problems name them.
type origin struct{ section, key string }

type position struct {
	file string
	line int
}

func parse(content []byte, o Options) *document {
	statements, problems := scan(string(content))
	if kind, line := kindOf(string(content)); len(problems) > 0 && kind != kindUnknown &&
		kind != kindCloudConf {
		statements = nil
		problems = []Problem{{
			severity: asError, Line: line,
			Text: "is " + string(kind) + ", not a cloud.conf" + kind.advice(),
		}}
	}
	d := &document{
		config: Default(), origins: map[origin]position{}, problems: problems,
		path: o.Path, clouds: map[string]chosenCloud{}, isEmpty: len(statements) == 0,
	}
	r := reader{
		document: d, classes: map[string]*LoadBalancerClass{}, table: table(&d.config),
		regions: map[string]*Region{}, headers: map[origin]int{},
	}
	for _, s := range statements {
		if s.header {
			r.header(s)
		} else {
			r.assign(s)
		}
		if text := r.excess(); o.NoFiles && text != "" {
			// Further sections would only take time. Without a section, the problem also means that
			// other options may be given but unread.
			r.problems = append(r.problems, Problem{severity: asError, Line: s.line, Text: text})
			r.regions, r.classes = nil, nil
			break
		}
	}
	for name, class := range r.classes {
		if r.config.LoadBalancerClasses == nil {
			r.config.LoadBalancerClasses = map[string]LoadBalancerClass{}
		}
		r.config.LoadBalancerClasses[name] = *class
	}
	r.takeRegions()
	r.complete()
	for i := range r.problems {
		r.problems[i].File = o.Path
	}
	for at, p := range r.origins {
		r.origins[at] = position{o.Path, p.line}
	}
	byLine(r.problems)
	return r.document
}

// reader applies statements to the options of the table.
type reader struct {
	*document
	table   []section
	classes map[string]*LoadBalancerClass
	regions map[string]*Region
	// headers are the lines of the sections of regions.
	headers map[origin]int

	// section is the section of the last header. Nil: statements are skipped, because the header is
	// already reported.
	section *section
	shown   string
}

// A tenant's configuration may have these numbers of further regions and of classes. A region has
// clients, a login and caches of its own.
const maxRegions, maxClasses = 16, 256

// excess says of what a tenant's configuration has too many; "" of nothing.
func (r *reader) excess() string {
	const text = "begins one %s more than the %d that are allowed here"
	switch {
	case len(r.regions) > maxRegions:
		return fmt.Sprintf(text, "region", maxRegions)
	case len(r.classes) > maxClasses:
		return fmt.Sprintf(text, "load balancer class", maxClasses)
	}
	return ""
}

func (r *reader) problem(line int, key string, f finding) {
	r.problems = append(r.problems, Problem{
		severity: f.severity, Line: line, Section: r.shown,
		Key: key, Text: f.text,
	})
}

func (r *reader) header(s statement) {
	r.section, r.shown = nil, header(s.section, s.name)
	if s.section == "" {
		return
	}
	for i := range r.table {
		if strings.EqualFold(r.table[i].name, s.section) {
			r.section = &r.table[i]
		}
	}
	if r.section == nil {
		r.unknownSection(s)
		return
	}
	r.shown = header(r.section.name, s.name)
	r.hasGlobal = r.hasGlobal || r.shown == header("Global", "")
	switch {
	case r.section.named:
		if s.name == "" {
			r.problem(s.line, "", *mistake(fmt.Sprintf(`needs a name: [%s "name"]`,
				r.section.name)))
		}
		if r.classes[s.name] == nil {
			r.classes[s.name] = &LoadBalancerClass{}
		}
		class := loadBalancerClass(r.classes[s.name])
		r.section = &class
	case s.name != "" && r.section.regional:
		r.section = r.inRegion(s)
	case s.name != "":
		r.problem(s.line, "",
			*mistake(fmt.Sprintf("has no name; the section is ignored, write [%s]",
				r.section.name)))
		r.section = nil
		return
	}
}

func (r *reader) assign(s statement) {
	if r.section == nil {
		return
	}
	for _, o := range r.section.options {
		if !strings.EqualFold(o.key, s.key) {
			continue
		}
		at := origin{r.shown, o.key}
		first, isRepeated := r.origins[at]
		before := o.write()
		r.origins[at] = position{line: s.line}
		f := o.read(s.value, s.bare)
		if isRepeated && !o.repeatable && !slices.Equal(o.write(), before) {
			r.problem(s.line, o.key, *mistake(fmt.Sprintf(
				"occurs twice, also in line %d, with another value; the last one counts",
				first.line)))
		}
		if f != nil {
			r.problem(s.line, o.key, *f)
			if f.severity == asError {
				delete(r.origins, at)
			}
		} else if f = s.surprises(o); f != nil {
			r.problem(s.line, o.key, *f)
			r.problems[len(r.problems)-1].isCutAway = o.secret && s.value == "" && s.isCommented
		}
		return
	}
	r.unknownKey(s)
}

// surprises returns why the value of an option is probably not the one that was meant.
func (s statement) surprises(o option) *finding {
	switch {
	case s.surprise != "":
		return mistake(s.surprise)
	case o.noEffect != "" && s.value != "" && o.isValid():
		return &finding{asWarning, "has no effect, and can be removed: " + o.noEffect}
	case o.secret && s.isPartlyQuoted:
		return mistake(`is partly in double quotes, which are left out; put the whole value in ` +
			`double quotes, and write a " of the value as \"`)
	case o.secret && s.isCommented:
		return &finding{asWarning, "ends at # or ;, which begin a comment; put the whole value " +
			"in double quotes if they are a part of it"}
	case hasPlaceholder(s.value):
		return &finding{asWarning, isLiteral}
	}
	return nil
}

// isLiteral is about a value with a placeholder.
const isLiteral = "has a placeholder such as ${NAME}, which is taken literally: variables and " +
	"templates are not replaced in this file"

// hasPlaceholder finds those of shells, envsubst and templates.
func hasPlaceholder(value string) bool {
	const placeholder = `\$\{\w+\}|\$\(\w+\)|^\$[A-Z_]\w*$|\{\{.*\}\}`
	found, _ := regexp.MatchString(placeholder, value) // the pattern is valid
	return found
}

func (r *reader) unknownSection(s statement) {
	p := Problem{
		severity: asMistake, Line: s.line, Section: r.shown, Unknown: true, isHeader: true,
	}
	if !isName(s.section) {
		p.Section = ""
	}
	if len(r.problems) > maxShown {
		r.problems = append(r.problems, p) // it is only counted
		return
	}
	if whose := ofOtherTools(s.section); whose != "" {
		p.severity, p.Unknown, p.Text = asWarning, false, whose
	} else if near := nearest.Name(s.section, sectionNames(r.table)); near != "" {
		p.Section, p.Text = r.shown, fmt.Sprintf("did you mean [%s]?", near)
	}
	r.problems = append(r.problems, p)
}

func sectionNames(table []section) []string {
	var names []string
	for _, s := range table {
		names = append(names, s.name)
	}
	return names
}

// ofOtherTools is about sections that other programs read from the same file, and sections that
// OCCM dropped.
func ofOtherTools(section string) string {
	switch strings.ToLower(section) {
	case "blockstorage":
		return "has no effect: OCCM dropped it in 2022, and only the Cinder CSI driver reads it"
	case "keymanager":
		return "has no effect: only the Barbican KMS plugin reads it"
	}
	return ""
}

func (r *reader) unknownKey(s statement) {
	p := Problem{severity: asMistake, Line: s.line, Section: r.shown, Unknown: true}
	if len(r.problems) > maxShown {
		r.problems = append(r.problems, p) // it is only counted
		return
	}
	if r.section.name == "LoadBalancer" && strings.EqualFold(s.key, "use-octavia") {
		p.severity, p.Unknown, p.Key, p.Text = asWarning, false, s.key,
			"has no effect: load balancers are always created in Octavia"
	} else {
		p.Text = r.meant(s.key)
		// A line without "=" may be a part of a secret.
		if p.Text != "" || isName(s.key) && !s.bare {
			p.Key = s.key
		}
	}
	r.problems = append(r.problems, p)
}

// meant guesses the key that an unknown key stands for.
func (r *reader) meant(key string) string {
	for _, o := range r.section.options {
		for _, name := range o.elsewhere {
			if strings.EqualFold(name, key) {
				return fmt.Sprintf("it is called %q here", o.key)
			}
		}
	}
	for _, other := range r.table {
		for _, o := range other.options {
			if strings.EqualFold(o.key, key) {
				return fmt.Sprintf("it belongs to [%s]", other.name)
			}
		}
	}
	if near := nearest.Name(key, r.section.keys()); near != "" {
		return didYouMean(near)
	}
	return ""
}
