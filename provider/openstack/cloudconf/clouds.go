package cloudconf

import (
	"errors"
	"fmt"
	"io/fs"
	"os/user"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"
)

// takeClouds fills the options that cloud.conf leaves empty from a cloud in clouds.yaml, the file
// of the OpenStack command line clients:
// https://docs.openstack.org/openstacksdk/latest/user/config/configuration.html. Values in
// secure.yaml take precedence over clouds.yaml; clouds-public.yaml has the lowest precedence and
// contains the profiles that a cloud may name.
//
// global are the options of a section, which is [Global] or that of a region.
func (d *document) takeClouds(o Options, global *Global, section string) {
	c := cloudsReader{document: d, options: o, global: global, section: section}
	clouds := c.openClouds()
	if clouds == nil {
		return
	}
	beside := filepath.Dir(clouds.path)
	secure := c.open("secure", beside)
	name, ok := c.choose(clouds, secure)
	if !ok {
		return
	}
	cloud := clouds.entry("clouds", name)
	if secure != nil {
		cloud = secure.entry("clouds", name).over(cloud)
	}
	if profile := cloud.profile(); profile.value != "" {
		public := c.open("clouds-public", beside)
		switch {
		case public != nil && public.cloud("public-clouds", profile.value) != nil:
			cloud = cloud.over(public.entry("public-clouds", profile.value))
		case cloud.settings["auth.auth_url"].value != "":
			// openstacksdk knows some clouds, and goes on without one that it does not know.
			c.report(asWarning, profile, "profile",
				"names a cloud that does not exist in clouds-public.yaml, and has no effect")
		default:
			c.report(asError, profile, "profile", "names a cloud that does not exist in "+
				"clouds-public.yaml; write auth_url and region_name instead")
			return
		}
	}
	c.problems = append(c.problems, cloud.problems...)
	c.clouds[section] = chosenCloud{"clouds." + name, clouds.path}
	c.take(c.inRegion(cloud))
}

// chosenCloud is a cloud of a clouds.yaml.
type chosenCloud struct{ section, file string }

// asOfClouds is a problem of [Global] with the keys of clouds.yaml, unless cloud.conf has set the
// option.
func (d *document) asOfClouds(p Problem) Problem {
	cloud, chosen := d.clouds[p.Section]
	if !chosen {
		return p
	}
	keys := map[string]string{}
	for _, o := range global(&Global{}).options {
		at, given := d.origins[origin{p.Section, o.key}]
		if o.clouds != "" && (!given || at.file != d.path) {
			keys[o.key] = o.clouds
		}
	}
	key, known := keys[p.Key]
	if p.Key != "" && !known {
		return p
	}
	p.Text = renameKeys(p.Text, keys)
	p.Section, p.Key = cloud.section, key
	if name, inAuth := strings.CutPrefix(key, "auth."); inAuth {
		p.Section, p.Key = cloud.section+".auth", name
	}
	if p.File == "" {
		p.File = cloud.file
	}
	return p
}

// renameKeys replaces the words of a text that are keys with a dash, such as auth-url.
func renameKeys(text string, keys map[string]string) string {
	var renamed strings.Builder
	isBetween := func(r rune) bool { return r != '-' && (r < 'a' || r > 'z') }
	for text != "" {
		word := text
		if end := strings.IndexFunc(text, isBetween); end >= 0 {
			_, size := utf8.DecodeRuneInString(text[end:])
			word = text[:max(end, size)]
		}
		text = text[len(word):]
		if other := keys[word]; other != "" && strings.Contains(word, "-") {
			word = strings.TrimPrefix(other, "auth.")
		}
		renamed.WriteString(word)
	}
	return renamed.String()
}

// cloudsReader reads clouds.yaml, secure.yaml and clouds-public.yaml.
type cloudsReader struct {
	*document
	options Options
	global  *Global
	section string
}

// report adds a problem of a setting.
func (c *cloudsReader) report(severity severity, s setting, key, text string) {
	c.problems = append(c.problems, Problem{
		severity: severity, File: s.file, Line: s.line,
		Section: s.section, Key: key, Text: text,
	})
}

// reportOption adds a problem of an option of [Global].
func (c *cloudsReader) reportOption(severity severity, key, text string) {
	at := c.origins[origin{c.section, key}]
	c.report(severity, setting{section: c.section, file: at.file, line: at.line}, key,
		text)
}

// openClouds opens the clouds.yaml that is configured, or else the first that is found. As in OCCM,
// it searches even if the configured file does not exist.
func (c *cloudsReader) openClouds() *cloudsFile {
	global := c.global
	if global.CloudsFile == "" {
		global.CloudsFile = c.options.environment("OS_CLIENT_CONFIG_FILE")
	}
	if path := global.CloudsFile; path != "" {
		if file, found := c.read(path); found {
			return file
		}
		c.reportOption(asMistake, "clouds-file",
			"names a file that does not exist; searching the default locations")
	}
	known := len(c.problems)
	file := c.open("clouds", "")
	if file == nil && known == len(c.problems) {
		c.reportOption(asError, "use-clouds", "is set, but no clouds.yaml exists")
	}
	return file
}

// open reads the first existing file of a kind: next to another file, or in the default
// directories.
func (c *cloudsReader) open(kind, beside string) *cloudsFile {
	dirs := c.options.CloudsDirs
	if dirs == nil {
		dirs = cloudsDirs()
	}
	if beside != "" {
		dirs = append([]string{beside}, dirs...)
	}
	for _, ending := range []string{".yaml", ".yml"} {
		for _, dir := range dirs {
			if file, found := c.read(filepath.Join(dir, kind+ending)); found {
				return file
			}
		}
	}
	return nil
}

func cloudsDirs() []string {
	dirs := []string{"."}
	if u, err := user.Current(); err == nil && u.HomeDir != "" {
		dirs = append(dirs, filepath.Join(u.HomeDir, ".config", "openstack"))
	}
	return append(dirs, "/etc/openstack")
}

// read returns nil and true if the file exists but is unreadable: the problem is reported, and no
// other file replaces it.
func (c *cloudsReader) read(path string) (file *cloudsFile, found bool) {
	content, err := c.options.readFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, false
	}
	c.files = append(c.files, path)
	if err != nil {
		c.problems = append(c.problems, Problem{
			severity: asError, File: path,
			Text: "cannot be read: " + reason(err),
		})
		return nil, true
	}
	file, problem := parseClouds(path, content)
	if problem != nil {
		c.problems = append(c.problems, *problem)
	}
	return file, true
}

// reason is a file system error without the path, which the Problem already has.
func reason(err error) string {
	var pathError *fs.PathError
	if errors.As(err, &pathError) {
		err = pathError.Err
	}
	return err.Error()
}

// choose returns the cloud that cloud.conf names, or else the only one.
func (c *cloudsReader) choose(clouds, secure *cloudsFile) (string, bool) {
	global := c.global
	if global.Cloud == "" {
		global.Cloud = c.options.environment("OS_CLOUD")
	}
	names := clouds.names("clouds")
	if len(names) == 0 && secure != nil {
		names = secure.names("clouds")
	}
	switch {
	case slices.Contains(names, global.Cloud):
		return global.Cloud, true
	case global.Cloud == "" && len(names) == 1:
		return names[0], true
	case len(names) == 0:
		c.reportOption(asError, "cloud", fmt.Sprintf("cannot be chosen: %s contains no clouds",
			clouds.path))
	case global.Cloud == "":
		c.reportOption(asError, "cloud", fmt.Sprintf(
			"is missing, and %s contains several clouds: %s",
			clouds.path, strings.Join(names, ", ")))
	default:
		c.reportOption(asError, "cloud", fmt.Sprintf("does not exist in %s, which contains %s%s",
			clouds.path, strings.Join(names, ", "), guess(global.Cloud, names)))
	}
	return "", false
}

// inRegion adds the values of a region: the region that cloud.conf names, or that the cloud names,
// or the only one.
func (c *cloudsReader) inRegion(cloud cloudEntry) cloudEntry {
	name := c.global.Region
	if name == "" {
		name = cloud.settings["region_name"].value
	}
	if name == "" && len(cloud.regions) > 1 {
		c.reportOption(asMistake, "region",
			"is missing, and clouds.yaml has several regions and no region_name for the cloud")
	}
	for _, region := range cloud.regions {
		if region.name != name && (name != "" || len(cloud.regions) > 1) {
			continue
		}
		c.problems = append(c.problems, region.problems...)
		merged := region.over(cloud)
		merged.settings["region_name"] = setting{
			value: region.name,
			file:  region.file, line: region.line,
		}
		return merged
	}
	return cloud
}

// take sets the options that cloud.conf leaves empty.
func (c *cloudsReader) take(cloud cloudEntry) {
	for _, o := range global(c.global).options {
		s := cloud.settings[o.clouds]
		at := origin{c.section, o.key}
		if o.clouds == "" || o.clouds == "verify" || s.value == "" {
			continue
		}
		if o.write()[0] != "" || o.key == "ca-file" && c.global.CAFileContents != "" {
			continue
		}
		c.origins[at] = position{s.file, s.line}
		key := strings.TrimPrefix(o.clouds, "auth.")
		if f := o.read(s.value, false); f != nil {
			c.report(f.severity, s, key, f.text)
		} else if hasPlaceholder(s.value) {
			c.report(asWarning, s, key, isLiteral)
		}
	}
	c.verification(cloud)
	c.authType(cloud.settings["auth_type"])
	c.defaultDomain(cloud.settings["auth.default_domain"].value)
}

// verification sets tls-insecure, the opposite of verify. As in openstacksdk, insecure beats
// verify. A tls-insecure in cloud.conf has precedence over both.
func (c *cloudsReader) verification(cloud cloudEntry) {
	at := origin{c.section, "tls-insecure"}
	_, given := c.origins[at]
	for _, key := range []string{"verify", "insecure"} {
		s := cloud.settings[key]
		value, ok := words()[strings.ToLower(s.value)]
		isInsecure := key == "insecure"
		switch {
		case s.value == "":
		case !ok:
			c.report(asError, s, key, "must be true or false")
		case !given && (value || !isInsecure):
			c.global.TLSInsecure = value == isInsecure
			c.origins[at] = position{s.file, s.line}
		}
	}
}

func (c *cloudsReader) authType(s setting) {
	switch s.value {
	case "", "password", "v3password", "token", "v3token", "v3applicationcredential":
	default:
		c.report(asMistake, s, "auth_type",
			"is not supported; use password, v3password, token, v3token or v3applicationcredential")
	}
}

// defaultDomain sets the domain ID where no domain is named.
func (c *cloudsReader) defaultDomain(id string) {
	g := c.global
	if domainID, domainName := g.UserDomain(); domainID == "" && domainName == "" {
		g.UserDomainID = id
	}
	if domainID, domainName := g.TenantDomain(); domainID == "" && domainName == "" {
		g.TenantDomainID = id
	}
}
