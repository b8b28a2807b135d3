package cloudconf

import (
	"fmt"
	"strings"

	"github.com/fxccm/fxccm/provider/openstack/internal/nearest"
)

// Options tell how a configuration is read.
type Options struct {
	// Strict refuses what is most likely a mistake: what OCCM does not know, and values with which it fails later or does something
	// else than what is written. Otherwise whatever OCCM takes is taken, with the same meaning and with warnings.
	Strict bool
	// Path names the content in messages.
	Path string
	// Environment gives variables by name, empty if there is none: os.Getenv, for a program that wants what OCCM takes from there.
	// Nil is an empty environment. These are asked for:
	//
	//	OS_CCM_REGIONAL              "true" is regional = true, if the file does not say
	//	OCCM_WAIT_LB_ACTIVE_STEPS    has no effect, which is said
	//	OS_CLIENT_CONFIG_FILE        clouds-file, if the file does not say
	//	OS_CLOUD                     cloud, if the file does not say and use-clouds is set
	Environment func(string) string
	// CloudsDirs are searched for clouds.yaml and what belongs to it. Nil is the working directory, ~/.config/openstack and
	// /etc/openstack.
	CloudsDirs []string
}

func (o Options) environment(name string) string {
	if o.Environment == nil {
		return ""
	}
	return o.Environment(name)
}

// Parse reads the text of a cloud.conf over [Default]. It looks into no other file and at no variable, and does not judge values
// beyond their types: see [Read] and [Validate]. An error is a [Problems] and tells all that is wrong, not the first.
func Parse(content []byte, o Options) (config Config, warnings []Problem, err error) {
	d := parse(content, o.Path)
	warnings, err = Classify(d.problems, o.Strict)
	if err != nil {
		return Config{}, warnings, err
	}
	return d.config, warnings, nil
}

// A document is a configuration with what is known of where it came from.
type document struct {
	config   Config
	origins  map[origin]position
	problems []Problem
	files    []string
}

// An origin is an option in a section, as Problems name them.
type origin struct{ section, key string }

type position struct {
	file string
	line int
}

func parse(content []byte, path string) *document {
	statements, problems := scan(string(content))
	r := reader{
		document: &document{config: Default(), origins: map[origin]position{}, problems: problems},
		classes:  map[string]*LoadBalancerClass{},
		table:    table(),
	}
	for _, s := range statements {
		if s.header {
			r.header(s)
		} else {
			r.assign(s)
		}
	}
	for name, class := range r.classes {
		if r.config.LoadBalancerClasses == nil {
			r.config.LoadBalancerClasses = map[string]LoadBalancerClass{}
		}
		r.config.LoadBalancerClasses[name] = *class
	}
	for i := range r.problems {
		r.problems[i].File = path
	}
	for o, p := range r.origins {
		r.origins[o] = position{path, p.line}
	}
	byLine(r.problems)
	return r.document
}

// A reader puts statements where the table says.
type reader struct {
	*document
	table   []section
	classes map[string]*LoadBalancerClass

	// What the last header has opened. Without a section, the statements that follow are skipped: the header has been told.
	section *section
	at      place
	shown   string
}

func (r *reader) problem(line int, key string, f finding) {
	r.problems = append(r.problems, Problem{Severity: f.severity, Line: line, Section: r.shown, Key: key, Text: f.text})
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
	switch {
	case r.section.named:
		if s.name == "" {
			r.problem(s.line, "", *mistake(fmt.Sprintf(`wants a name: [%s "name"]`, r.section.name)))
		}
		if r.classes[s.name] == nil {
			r.classes[s.name] = &LoadBalancerClass{}
		}
	case s.name != "":
		r.problem(s.line, "", *mistake(fmt.Sprintf("takes no name, and is skipped; write [%s]", r.section.name)))
		r.section = nil
		return
	}
	r.at = place{Config: &r.config, class: r.classes[s.name]}
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
		r.origins[at] = position{line: s.line}
		if f := o.read(r.at, s.value, s.bare); f != nil {
			r.problem(s.line, o.key, *f)
			if f.severity == Error {
				delete(r.origins, at)
			}
		}
		return
	}
	r.unknownKey(s)
}

func (r *reader) unknownSection(s statement) {
	p := Problem{Severity: Mistake, Line: s.line, Section: r.shown, Unknown: true}
	if whose := ofOtherTools(s.section); whose != "" {
		p.Severity, p.Unknown, p.Text = Warning, false, whose
	} else if near := nearest.Name(s.section, sectionNames(r.table)); near != "" {
		p.Text = fmt.Sprintf("did you mean [%s]?", near)
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

// ofOtherTools tells of sections that other programs have in the same file, and that OCCM had.
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
	p := Problem{Severity: Mistake, Line: s.line, Section: r.shown, Key: s.key, Unknown: true}
	if r.section.name == "LoadBalancer" && strings.EqualFold(s.key, "use-octavia") {
		p.Severity, p.Unknown, p.Text = Warning, false, "has no effect: load balancers are always Octavia's"
	} else {
		p.Text = r.meant(s.key)
	}
	r.problems = append(r.problems, p)
}

// meant guesses what was meant by a key that is unknown in the section.
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
