package cloudconf

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"slices"
	"strings"
)

// takeClouds fills what cloud.conf leaves open from the cloud that it names in clouds.yaml, the file of OpenStack's command line
// clients: https://docs.openstack.org/openstacksdk/latest/user/config/configuration.html. secure.yaml adds to it, and what is in
// both is secure.yaml's; clouds-public.yaml holds what a cloud's profile stands for, and is the weakest.
func (d *document) takeClouds(o Options) {
	c := cloudsReader{document: d, options: o}
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
		if public == nil || public.cloud("public-clouds", profile.value) == nil {
			c.tell(Error, profile, "profile", "names a cloud that is not in clouds-public.yaml")
			return
		}
		cloud = cloud.over(public.entry("public-clouds", profile.value))
	}
	c.problems = append(c.problems, cloud.problems...)
	c.take(c.inRegion(cloud))
}

// A cloudsReader reads clouds.yaml and the files that belong to it.
type cloudsReader struct {
	*document
	options Options
}

// tell adds a problem about a setting.
func (c *cloudsReader) tell(severity Severity, s setting, key, text string) {
	c.problems = append(c.problems, Problem{Severity: severity, File: s.file, Line: s.line, Section: s.section, Key: key, Text: text})
}

// tellOption adds a problem about an option of [Global].
func (c *cloudsReader) tellOption(severity Severity, key, text string) {
	at := c.origins[origin{header("Global", ""), key}]
	c.tell(severity, setting{section: header("Global", ""), file: at.file, line: at.line}, key, text)
}

// openClouds opens the clouds.yaml that is named, or else the first that is found. OCCM searches even if the one that is named
// does not exist.
func (c *cloudsReader) openClouds() *cloudsFile {
	global := &c.config.Global
	if global.CloudsFile == "" {
		global.CloudsFile = c.options.environment("OS_CLIENT_CONFIG_FILE")
	}
	if path := global.CloudsFile; path != "" {
		if file, found := c.read(path); found {
			return file
		}
		c.tellOption(Mistake, "clouds-file", "names a file that does not exist; others are searched for")
	}
	known := len(c.problems)
	file := c.open("clouds", "")
	if file == nil && known == len(c.problems) {
		c.tellOption(Error, "use-clouds", "is set and there is no clouds.yaml")
	}
	return file
}

// open reads the first file of a kind that there is: beside another, or in the usual places.
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

// read returns no file, and found, if there is one that cannot be read: that has been told, and no other is taken in its place.
func (c *cloudsReader) read(path string) (file *cloudsFile, found bool) {
	content, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, false
	}
	c.files = append(c.files, path)
	if err != nil {
		c.problems = append(c.problems, Problem{Severity: Error, File: path, Text: "cannot be read: " + reason(err)})
		return nil, true
	}
	file, problem := parseClouds(path, content)
	if problem != nil {
		c.problems = append(c.problems, *problem)
	}
	return file, true
}

// reason is an error of the file system without the path, which is told already.
func reason(err error) string {
	var pathError *fs.PathError
	if errors.As(err, &pathError) {
		err = pathError.Err
	}
	return err.Error()
}

// choose names the cloud: the one that cloud.conf names, or else the only one.
func (c *cloudsReader) choose(clouds, secure *cloudsFile) (string, bool) {
	global := &c.config.Global
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
		c.tellOption(Error, "cloud", fmt.Sprintf("is in no clouds: %s has none", clouds.path))
	case global.Cloud == "":
		c.tellOption(Error, "cloud", fmt.Sprintf("is missing, and %s has several: %s", clouds.path, strings.Join(names, ", ")))
	default:
		c.tellOption(Error, "cloud", fmt.Sprintf("is not in %s, which has %s%s", clouds.path, strings.Join(names, ", "), guess(global.Cloud, names)))
	}
	return "", false
}

// inRegion adds what the cloud says of its region: the one that cloud.conf names, or that the cloud itself does, or the only one.
func (c *cloudsReader) inRegion(cloud cloudEntry) cloudEntry {
	name := c.config.Global.Region
	if name == "" {
		name = cloud.settings["region_name"].value
	}
	if name == "" && len(cloud.regions) > 1 {
		c.tellOption(Mistake, "region", "is missing, and clouds.yaml has several for the cloud")
	}
	for _, region := range cloud.regions {
		if region.name != name && (name != "" || len(cloud.regions) > 1) {
			continue
		}
		c.problems = append(c.problems, region.problems...)
		merged := region.over(cloud)
		merged.settings["region_name"] = setting{value: region.name, file: region.file, line: region.line}
		return merged
	}
	return cloud
}

// take sets the options that cloud.conf has left open.
func (c *cloudsReader) take(cloud cloudEntry) {
	all := place{Config: &c.config}
	cloud.unify()
	for _, o := range global().options {
		s := cloud.settings[o.clouds]
		at := origin{header("Global", ""), o.key}
		if o.clouds == "" || s.value == "" {
			continue
		}
		if o.clouds == "verify" {
			c.verify(s)
			continue
		}
		if o.write(all)[0] != "" || o.key == "ca-file" && c.config.Global.CAFileContents != "" {
			continue
		}
		c.origins[at] = position{s.file, s.line}
		if f := o.read(all, s.value, false); f != nil {
			c.tell(f.severity, s, o.clouds, f.text)
		}
	}
	c.authType(cloud.settings["auth_type"])
	c.defaultDomain(cloud.settings["auth.default_domain"].value)
}

// verify is the reverse of tls-insecure, which is false in cloud.conf only if it is there.
func (c *cloudsReader) verify(s setting) {
	at := origin{header("Global", ""), "tls-insecure"}
	verify, ok := words()[strings.ToLower(s.value)]
	if !ok {
		c.tell(Error, s, "verify", "wants true or false")
	}
	if _, given := c.origins[at]; !given && ok {
		c.config.Global.TLSInsecure = !verify
		c.origins[at] = position{s.file, s.line}
	}
}

func (c *cloudsReader) authType(s setting) {
	switch s.value {
	case "", "password", "v3password", "token", "v3token", "v3applicationcredential":
	default:
		c.tell(Mistake, s, "auth_type", "is not supported: password, v3password, token, v3token and v3applicationcredential are")
	}
}

// defaultDomain is the id of the domain where none is named.
func (c *cloudsReader) defaultDomain(id string) {
	g := &c.config.Global
	if domainID, domainName := g.UserDomain(); domainID == "" && domainName == "" {
		g.UserDomainID = id
	}
	if domainID, domainName := g.TenantDomain(); domainID == "" && domainName == "" {
		g.TenantDomainID = id
	}
}
