package cloudconf

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"go.yaml.in/yaml/v3"

	"github.com/fxccm/fxccm/internal/nearest"
)

// cloudsFile is a clouds.yaml, secure.yaml or clouds-public.yaml.
type cloudsFile struct {
	path string
	root *yaml.Node
}

// setting is a scalar with its position.
type setting struct {
	value         string
	file, section string
	line          int
}

// cloudEntry is a cloud in a file: its scalars by name, and those of auth as auth.name.
type cloudEntry struct {
	settings map[string]setting
	regions  []regionEntry
	problems []Problem
}

// regionEntry has the values that differ in a region.
type regionEntry struct {
	cloudEntry
	name, file string
	line       int
}

// parseClouds reads YAML. It takes only the line and sentences without a quote from an error of the
// YAML parser: the others have a part of the file.
func parseClouds(path string, content []byte) (*cloudsFile, *Problem) {
	file := &cloudsFile{path: path}
	problem := &Problem{severity: asError, File: path, Text: "is not YAML"}
	switch kind, line := kindOf(string(content)); kind {
	case kindUnknown, kindCloudYAML, kindYAML, kindJSON, kindUTF16: // the parser decides
	default:
		problem.Line, problem.Text = line, "is "+string(kind)+", not a clouds.yaml"
		return nil, problem
	}
	var document yaml.Node
	if err := yaml.Unmarshal(content, &document); err != nil {
		sentence := strings.TrimPrefix(err.Error(), "yaml: ")
		if _, after, found := strings.Cut(err.Error(), "line "); found {
			line, rest, _ := strings.Cut(after, ":")
			problem.Line, _ = strconv.Atoi(line)
			sentence = strings.TrimSpace(rest)
		}
		if isOfParser(sentence) {
			problem.Text += ": " + sentence
		}
		if strings.Contains(err.Error(), "anchor") {
			problem.Text += `; a value that begins with "*" or "&" must be in quotes`
		}
		return nil, problem
	}
	if len(document.Content) == 0 {
		return file, nil
	}
	file.root = resolve(document.Content[0])
	if file.root.Kind != yaml.MappingNode {
		problem.Text = "must be a mapping that contains clouds"
		return nil, problem
	}
	return file, nil
}

// isOfParser reports whether a sentence of the YAML parser has no part of the file: in quotes it
// has only punctuation.
func isOfParser(sentence string) bool {
	isWord := func(r rune) bool {
		return unicode.IsLetter(r) || unicode.IsDigit(r) || unicode.IsSpace(r)
	}
	isNotPlain := func(r rune) bool { return !isWord(r) && !strings.ContainsRune(",.-", r) }
	parts := strings.Split(sentence, "'")
	for i, part := range parts {
		isQuoted := i%2 == 1
		isPunctuation := part != "" && len(part) <= 3 && !strings.ContainsFunc(part, isWord)
		if isQuoted && !isPunctuation || !isQuoted && strings.ContainsFunc(part, isNotPlain) {
			return false
		}
	}
	return sentence != "" && len(parts)%2 == 1 && !strings.Contains(sentence, "anchor")
}

// resolve follows aliases.
func resolve(n *yaml.Node) *yaml.Node {
	for n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	return n
}

// member is a key of a mapping with its value.
type member struct {
	key, value *yaml.Node
}

// members returns the members of a mapping in order, then those of the mappings that it merges,
// which have lower precedence. Each mapping is visited once, so a mapping may merge itself.
func members(mapping *yaml.Node) []member {
	var own, merged []member
	seen := map[*yaml.Node]bool{}
	var walk func(n *yaml.Node, into *[]member)
	walk = func(n *yaml.Node, into *[]member) {
		n = resolve(n)
		if seen[n] {
			return
		}
		seen[n] = true
		if n.Kind == yaml.SequenceNode {
			for _, each := range n.Content {
				walk(each, &merged)
			}
		}
		if n.Kind != yaml.MappingNode {
			return
		}
		for i := 0; i+1 < len(n.Content); i += 2 {
			if n.Content[i].Tag == "!!merge" {
				walk(n.Content[i+1], &merged)
				continue
			}
			*into = append(*into, member{resolve(n.Content[i]), resolve(n.Content[i+1])})
		}
	}
	walk(mapping, &own)
	for _, m := range merged {
		if !slices.ContainsFunc(own, func(o member) bool { return o.key.Value == m.key.Value }) {
			own = append(own, m)
		}
	}
	return own
}

// child is the value of a member. If a key occurs several times, the last one counts, as in other
// YAML libraries.
func child(mapping *yaml.Node, key string) *yaml.Node {
	var found *yaml.Node
	if mapping != nil {
		for _, m := range members(mapping) {
			if m.key.Value == key {
				found = m.value
			}
		}
	}
	return found
}

// names are the names of the clouds in order.
func (f *cloudsFile) names(group string) []string {
	var names []string
	if clouds := child(f.root, group); clouds != nil {
		for _, m := range members(clouds) {
			if !slices.Contains(names, m.key.Value) {
				names = append(names, m.key.Value)
			}
		}
	}
	return names
}

func (f *cloudsFile) cloud(group, name string) *yaml.Node {
	return child(child(f.root, group), name)
}

func (f *cloudsFile) entry(group, name string) cloudEntry {
	section := group + "." + name
	cloud := f.cloud(group, name)
	if cloud == nil {
		return cloudEntry{settings: map[string]setting{}}
	}
	entry := f.read(cloud, section)
	if again := repeated(f.root, group); again != nil {
		entry.report(asMistake, f, again, "", group, occursTwice)
	}
	if again := repeated(child(f.root, group), name); again != nil {
		entry.report(asMistake, f, again, group, name, occursTwice)
	}
	return entry
}

// occursTwice is about a key of a mapping.
const occursTwice = "occurs twice; the last one counts"

// repeated returns the second occurrence of a key in a mapping; nil for none.
func repeated(mapping *yaml.Node, key string) *yaml.Node {
	isSeen := false
	for _, m := range members(mapping) {
		if m.key.Value != key {
			continue
		}
		if isSeen {
			return m.key
		}
		isSeen = true
	}
	return nil
}

// read parses the mapping of a cloud or a region.
func (f *cloudsFile) read(cloud *yaml.Node, section string) cloudEntry {
	entry := cloudEntry{settings: map[string]setting{}}
	if cloud.Kind != yaml.MappingNode {
		if !null(cloud) {
			entry.report(asError, f, cloud, section, "", "must be a mapping")
		}
		return entry
	}
	f.scalars(&entry, cloud, section, "")
	if auth := child(cloud, "auth"); auth != nil && !null(auth) {
		if auth.Kind == yaml.MappingNode {
			f.scalars(&entry, auth, section+".auth", "auth.")
		} else {
			entry.report(asError, f, auth, section, "auth", "must be a mapping")
		}
	}
	if regions := child(cloud, "regions"); regions != nil {
		entry.regions = f.regions(regions, section)
	}
	entry.unify()
	return entry
}

// scalars collects the scalars of a mapping and reports unknown keys.
func (f *cloudsFile) scalars(entry *cloudEntry, mapping *yaml.Node, section, prefix string) {
	seen := map[string]bool{}
	for _, m := range members(mapping) {
		// openstacksdk treats "-" as "_" in keys.
		written := m.key.Value
		key := prefix + strings.ReplaceAll(written, "-", "_")
		known, scalar := cloudsKey(key)
		if seen[key] && known {
			entry.report(asMistake, f, m.key, section, written, occursTwice)
		}
		seen[key] = true
		switch {
		case isOfTLSInAuth(key):
			entry.report(asWarning, f, m.key, section, written,
				"has no effect in auth, and neither has it in openstacksdk; write it beside auth")
		case key == "identity_endpoint_override" || key == "identity_endpoint":
			entry.report(asWarning, f, m.key, section, written,
				"has no effect, and neither has it in openstacksdk: logins use auth_url")
		case isOfOneService(key):
			entry.report(asWarning, f, m.key, section, written, "has no effect: all services have "+
				"the interface and the region of the cloud; set the endpoint_override of the "+
				"service instead")
		case !known:
			p := Problem{
				severity: asMistake, File: f.path, Line: m.key.Line, Section: section,
				Unknown: true,
			}
			if isName(written) {
				p.Key = written
			}
			if len(entry.problems) > maxShown {
				entry.problems = append(entry.problems, p) // it is only counted
				continue
			}
			if isKnown, _ := cloudsKey(strings.TrimPrefix(key, prefix)); isKnown {
				p.Key, p.Text = written, "it belongs beside auth, and not inside"
			} else if near := nearest.Name(key, cloudsKeys()); near != "" &&
				strings.HasPrefix(near, prefix) {
				p.Key, p.Text = written, didYouMean(strings.TrimPrefix(near, prefix))
			}
			entry.problems = append(entry.problems, p)
		case !scalar:
		case key == "region_name" && m.value.Kind == yaml.SequenceNode:
			entry.regions = f.regions(m.value, section)
		case null(m.value):
			delete(entry.settings, key)
			// yaml.v3 gives a comment in place of the value to the key.
			if isSecret(key) && m.key.LineComment != "" {
				entry.report(asWarning, f, m.key, section, written, beginsComment)
				entry.problems[len(entry.problems)-1].isCutAway = true
			}
		case m.value.Kind != yaml.ScalarNode:
			entry.report(asError, f, m.value, section, written, "must be a single value")
		default:
			const quoted = yaml.DoubleQuotedStyle | yaml.SingleQuotedStyle
			if isSecret(key) && m.value.LineComment != "" && m.value.Style&quoted == 0 {
				entry.report(asWarning, f, m.value, section, written, beginsComment)
			}
			entry.settings[key] = setting{
				value: m.value.Value, file: f.path, section: section,
				line: m.value.Line,
			}
		}
	}
}

// beginsComment is about a secret.
const beginsComment = "ends at #, which begins a comment; put the whole value in quotes if it is a " +
	"part of it"

// isSecret reports whether a key of clouds.yaml is that of a secret option, in auth or beside it.
func isSecret(key string) bool {
	return slices.ContainsFunc(global(&Global{}).options, func(o option) bool {
		return o.secret && o.clouds != "" && strings.TrimPrefix(o.clouds, "auth.") ==
			strings.TrimPrefix(key, "auth.")
	})
}

// isOfOneService reports whether a key selects the endpoint of one of the services that fxccm
// calls.
func isOfOneService(key string) bool {
	for _, service := range []string{"compute", "network", "load_balancer", "key_manager"} {
		what, found := strings.CutPrefix(key, service+"_")
		if found && slices.Contains([]string{
			"interface", "endpoint_type", "region_name", "service_type", "service_name",
		}, what) {
			return true
		}
	}
	return false
}

// isOfTLSInAuth: openstacksdk reads the settings of TLS only beside auth.
func isOfTLSInAuth(key string) bool {
	name, inAuth := strings.CutPrefix(key, "auth.")
	return inAuth &&
		slices.Contains([]string{"cacert", "cert", "key", "verify", "insecure"}, name)
}

// regions are names, or mappings of a name and the values that differ from the cloud's.
func (f *cloudsFile) regions(list *yaml.Node, section string) []regionEntry {
	var regions []regionEntry
	for _, item := range list.Content {
		item = resolve(item)
		region := regionEntry{name: item.Value, file: f.path, line: item.Line}
		region.settings = map[string]setting{}
		if item.Kind == yaml.MappingNode {
			if name := child(item, "name"); name != nil {
				region.name = name.Value
			}
			if values := child(item, "values"); values != nil {
				region.cloudEntry = f.read(values,
					fmt.Sprintf("%s.regions.%s.values", section, region.name))
			}
		}
		if region.name != "" {
			regions = append(regions, region)
		}
	}
	return regions
}

func (e *cloudEntry) report(severity severity, f *cloudsFile, at *yaml.Node, section,
	key, text string,
) {
	e.problems = append(e.problems, Problem{
		severity: severity, File: f.path, Line: at.Line,
		Section: section, Key: key, Text: text,
	})
}

func null(n *yaml.Node) bool { return n.Kind == yaml.ScalarNode && n.Tag == "!!null" }

// over merges an entry with one of lower precedence. Empty values do not count.
func (e cloudEntry) over(weaker cloudEntry) cloudEntry {
	merged := cloudEntry{
		settings: maps.Clone(weaker.settings),
		regions:  slices.Concat(e.regions, weaker.regions),
		problems: slices.Concat(e.problems, weaker.problems),
	}
	for key, s := range e.settings {
		if s.value != "" {
			merged.settings[key] = s
		}
	}
	return merged
}

// profile names the public cloud on which the entry is based.
func (e cloudEntry) profile() setting {
	if s := e.settings["profile"]; s.value != "" {
		return s
	}
	return e.settings["cloud"]
}

// unify copies the values of alternative keys to the keys of the table.
func (e cloudEntry) unify() {
	others := map[string]string{
		"endpoint_type":     "interface",
		"auth_type":         "auth_plugin",
		"auth.project_id":   "auth.tenant_id",
		"auth.project_name": "auth.tenant_name",
		"auth.username":     "auth.user_name",

		"compute_endpoint_override":       "compute_endpoint",
		"network_endpoint_override":       "network_endpoint",
		"load_balancer_endpoint_override": "load_balancer_endpoint",
		"key_manager_endpoint_override":   "key_manager_endpoint",
	}
	for _, key := range cloudsKeys() {
		if beside, inAuth := strings.CutPrefix(key, "auth."); inAuth {
			e.copyIfEmpty(key, beside)
		}
	}
	for key, other := range others {
		e.copyIfEmpty(key, other)
	}
	// requests, the library under openstacksdk, takes a path in verify for that of the authorities.
	if strings.HasPrefix(e.settings["verify"].value, "/") {
		e.copyIfEmpty("cacert", "verify")
		delete(e.settings, "verify")
	}
}

func (e cloudEntry) copyIfEmpty(key, other string) {
	if e.settings[key].value == "" {
		e.settings[key] = e.settings[other]
	}
}

// cloudsKeys are the keys that have an effect, those of auth with the prefix auth.
func cloudsKeys() []string {
	keys := []string{
		"auth", "auth_type", "auth_plugin", "cloud", "profile", "regions", "interface", "insecure",
		"auth.default_domain", "auth.tenant_id", "auth.tenant_name", "auth.user_name",
		"compute_endpoint", "network_endpoint", "load_balancer_endpoint", "key_manager_endpoint",
	}
	for _, o := range global(&Global{}).options {
		if o.clouds != "" {
			keys = append(keys, o.clouds)
		}
	}
	return keys
}

// cloudsKey reports whether a key is known, and whether it has one value that is used. The file is
// shared, so many known keys are for other programs.
func cloudsKey(key string) (known, scalar bool) {
	if slices.Contains(cloudsKeys(), key) {
		return true, key != "auth" && key != "regions"
	}
	name, inAuth := strings.CutPrefix(key, "auth.")
	if inAuth {
		return slices.Contains([]string{"system_scope", "allow_reauth", "passcode"}, name), false
	}
	// openstacksdk reads the keys of auth also beside it.
	if slices.Contains(cloudsKeys(), "auth."+key) {
		return true, true
	}
	for _, ending := range []string{
		"_api_version", "_endpoint_override", "_endpoint", "_interface", "_endpoint_type",
		"_region_name", "_service_type", "_service_name",
		"_default_microversion", "_min_version", "_max_version", "_status_code_retries",
		"_connect_retries", "_connect_retry_delay", "_status_code_retry_delay", "_timeout",
	} {
		if strings.HasSuffix(name, ending) {
			return true, false
		}
	}
	return slices.Contains([]string{
		"auth_methods", "block_storage_endpoint_override", "client_config_file", "collect_timing",
		"disable_vendor_agent", "external_network", "floating_ip_source",
		"force_ipv4", "image_api_use_tasks", "image_format", "internal_network", "message",
		"nat_destination", "networks", "password_callback",
		"prefer_ipv6", "private", "requires_floating_ip", "secgroup_source", "statsd", "status",
		"use_external_network", "use_internal_network",
		"vendor_hook", "app_name", "app_version", "cache", "metrics",
		"rate_limit", "log_level", "split_loggers", "identity_provider", "protocol",
		"system_scope", "passcode", "timeout",
	}, name), false
}
