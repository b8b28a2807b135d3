package migrate

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/url"
	"os"
	"path"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cloud-provider/names"

	"github.com/fxccm/fxccm/provider/openstack/cloudconf"
)

// loadCloudConf reads OCCM's cloud.conf and the files of clouds.yaml as OCCM's container has them.
// seen is called for each of these files.
func (m *migration) loadCloudConf(
	ctx context.Context, content []byte, strict bool, seen func(string, mounted, error),
) (cloudconf.Loaded, error) {
	var unknown []error
	named := m.namedClouds(content)
	loaded, err := cloudconf.Read(content, cloudconf.Options{
		Strict: strict, Path: m.settings.Config.CloudProvider.ConfigFile,
		Environment: func(name string) string {
			value, _, err := lookUp(m.variables, name)
			if err != nil {
				unknown = append(unknown, fmt.Errorf("variable %s: %w; write the value instead",
					name, err))
			}
			return value
		},
		CloudsDirs: m.cloudsDirs(),
		ReadFile: func(file string) ([]byte, error) {
			found, err := m.readFile(ctx, file)
			// A file that nothing names, such as secure.yaml, is optional.
			if errors.Is(err, errNotMounted) && !slices.Contains(named, file) {
				return nil, fs.ErrNotExist
			}
			if !errors.Is(err, fs.ErrNotExist) {
				seen(file, found, err)
			}
			if err != nil && !errors.Is(err, fs.ErrNotExist) {
				err = fmt.Errorf("%w%s", err, m.wayOut(file, err))
			}
			return found.content, err
		},
	})
	return loaded, errors.Join(append(unknown, err)...)
}

// cloudsDirs are searched for clouds.yaml.
func (m *migration) cloudsDirs() []string {
	var dirs []string
	if dir := m.occm.container.WorkingDir; dir != "" {
		dirs = append(dirs, dir)
	}
	return append(append(dirs, m.imageDirs()...), defaultClouds)
}

// imageDirs are those directories of mounted files that are searched if OCCM's image has them as
// the home directory or as the working directory.
func (m *migration) imageDirs() []string {
	var dirs []string
	working := m.occm.container.WorkingDir
	for _, mount := range m.occm.container.VolumeMounts {
		at := path.Clean(mount.MountPath)
		if strings.HasSuffix(at, homeClouds) {
			dirs = append(dirs, at)
		}
		if m.occm.isOfNode(mount) { // only the node knows whether the folder has the file
			switch {
			case strings.HasSuffix(at, path.Dir(homeClouds)):
				dirs = append(dirs, path.Join(at, path.Base(homeClouds)))
			case at == "/root" || path.Dir(at) == "/home":
				dirs = append(dirs, at+homeClouds)
			}
		}
		for _, file := range append(m.occm.itemsAt(mount), at) {
			dir := path.Dir(file)
			isHome := strings.HasSuffix(dir, homeClouds)
			if isCloudsName(path.Base(file)) && dir != defaultClouds && (isHome || working == "") {
				dirs = append(dirs, dir)
			}
		}
	}
	return dirs
}

func (w *workload) isOfNode(mount v1.VolumeMount) bool {
	return slices.ContainsFunc(w.template.Spec.Volumes, func(volume v1.Volume) bool {
		return volume.Name == mount.Name && volume.HostPath != nil
	})
}

// itemsAt are the paths in OCCM's container of the files that the volume of a mount lists.
func (w *workload) itemsAt(mount v1.VolumeMount) []string {
	var items []v1.KeyToPath
	for _, volume := range w.template.Spec.Volumes {
		if volume.Name != mount.Name {
			continue
		}
		switch {
		case volume.Secret != nil:
			items = volume.Secret.Items
		case volume.ConfigMap != nil:
			items = volume.ConfigMap.Items
		case volume.Projected != nil:
			for _, source := range volume.Projected.Sources {
				if source.Secret != nil {
					items = append(items, source.Secret.Items...)
				}
				if source.ConfigMap != nil {
					items = append(items, source.ConfigMap.Items...)
				}
			}
		}
	}
	var files []string
	for _, item := range items {
		sub := strings.TrimSuffix(path.Join("/", mount.SubPath), "/")
		rest, is := strings.CutPrefix(path.Join("/", item.Path)+"/", sub+"/")
		if is {
			files = append(files, path.Join(mount.MountPath, rest))
		}
	}
	return files
}

// isCloudsName reports whether a file with this name is read where clouds.yaml is searched.
func isCloudsName(name string) bool {
	kind, ending, _ := strings.Cut(name, ".")
	return slices.Contains([]string{"clouds", "secure", "clouds-public"}, kind) &&
		slices.Contains([]string{"yaml", "yml"}, ending)
}

// defaultClouds is searched for clouds.yaml with each image.
const defaultClouds = "/etc/openstack"

// homeClouds is where clouds.yaml is in the home directory.
const homeClouds = "/.config/openstack"

// namedClouds are the paths of clouds.yaml that cloud.conf and the environment name.
func (m *migration) namedClouds(content []byte) []string {
	variable, _, _ := lookUp(m.variables, "OS_CLIENT_CONFIG_FILE")
	named := []string{variable}
	config, _, err := cloudconf.Parse(content, cloudconf.Options{})
	if err != nil {
		return named // Read reports it
	}
	named = append(named, config.Global.CloudsFile)
	for _, region := range config.Regions {
		named = append(named, region.Global.CloudsFile)
	}
	return named
}

// readCloudConf reads OCCM's cloud.conf. It copies the files that cloud.conf names into dir, so
// that the login works on this machine.
func (m *migration) readCloudConf(ctx context.Context, dir string) {
	file := m.settings.Config.CloudProvider.ConfigFile
	found, err := m.readFile(ctx, file)
	if err != nil {
		m.block(file, file, err)
		return
	}
	m.accept("cloud.conf", file, found)
	loaded, err := m.loadCloudConf(ctx, found.content, false,
		func(file string, found mounted, err error) {
			if err == nil {
				m.accept(path.Base(file), file, found)
			}
		})
	if err != nil {
		m.blockAll("cloud.conf", err)
		return
	}
	for _, warning := range loaded.Warnings {
		m.add(Differs, "cloud.conf", "%s", warning)
	}
	named := map[string]bool{}
	for _, file := range m.namedClouds(found.content) {
		if file != "" {
			named[path.Dir(m.inContainer(file))] = true
		}
	}
	for _, file := range loaded.Files {
		// A named file is found in each image, with those beside it.
		if dir := path.Dir(file); slices.Contains(m.imageDirs(), dir) && !named[dir] {
			m.add(Blocks, file, "fxccm has another home directory and another working directory "+
				"than OCCM: name the file with clouds-file in cloud.conf")
		}
	}
	nothing := func(string, mounted, error) {}
	if _, err := m.loadCloudConf(ctx, found.content, true, nothing); err != nil {
		m.extra = append(m.extra, "--cloud-config-strict=false")
		m.add(Differs, "--cloud-config-strict", "false, because of the mistakes in cloud.conf")
	}
	m.conf = &loaded.Config
	m.checkRoutes()
	m.copyFiles(ctx, dir, &m.conf.Global)
	m.checkAddress(ctx, m.conf.Global.AuthURL)
	for _, name := range m.conf.RegionNames()[1:] {
		region := m.conf.Regions[name]
		m.copyFiles(ctx, dir, &region.Global)
		m.checkAddress(ctx, region.Global.AuthURL)
		m.conf.Regions[name] = region
	}
}

// checkAddress blocks if Keystone's address is another one on this machine than in OCCM's Pods.
func (m *migration) checkAddress(ctx context.Context, authURL string) {
	address, err := url.Parse(authURL)
	if err != nil {
		return // the login reports it
	}
	host, spec := address.Hostname(), m.occm.template.Spec
	isLoopback := isOwnHost(host)
	for _, alias := range spec.HostAliases {
		if !slices.ContainsFunc(alias.Hostnames, func(name string) bool {
			return strings.EqualFold(name, host)
		}) {
			continue
		}
		if isLoopback = net.ParseIP(alias.IP).IsLoopback(); isLoopback {
			break
		}
		found, err := net.DefaultResolver.LookupHost(ctx, host)
		if err != nil || !slices.Contains(found, alias.IP) {
			m.add(Blocks, "host alias "+host, "OCCM's Pods reach Keystone at %s, and this machine "+
				"finds another address or none: add \"%s %s\" to /etc/hosts of this machine",
				alias.IP, alias.IP, host)
		}
	}
	switch {
	case !isLoopback:
	case spec.HostNetwork && len(running(spec)) == 1:
		if !m.isOnNode(ctx) {
			m.add(Blocks, "auth-url", "%s is an address of OCCM's node itself, and this machine "+
				"is another one: run the command on a node with a Pod of OCCM, or give with "+
				"--cloud-config or --file a copy with a name or an address at which this machine "+
				"reaches the same Keystone", host)
		}
	default:
		m.add(Blocks, "auth-url", "%s is an address of OCCM's Pod itself, which neither this "+
			"machine nor fxccm's Pods have: write Keystone's own address", host)
	}
}

// isOwnHost reports whether a connection to a host stays on the machine. Linux connects an
// unspecified address to the loopback.
func isOwnHost(host string) bool {
	if ip := net.ParseIP(host); ip != nil {
		return ip.IsLoopback() || ip.IsUnspecified()
	}
	name := strings.TrimSuffix(strings.ToLower(host), ".")
	return name == "localhost" || strings.HasSuffix(name, ".localhost")
}

// isOnNode reports whether this machine is a node with a Pod of OCCM or fxccm.
func (m *migration) isOnNode(ctx context.Context) bool {
	var own []string
	addresses, _ := net.InterfaceAddrs() // without any, this machine is no node
	for _, address := range addresses {
		if network, is := address.(*net.IPNet); is {
			own = append(own, network.IP.String())
		}
	}
	for _, selector := range []*metav1.LabelSelector{m.occm.selector, fxccmSelector()} {
		if selector == nil { // it would select all Pods
			continue
		}
		pods, err := m.pods(ctx, selector)
		if err == nil && slices.ContainsFunc(pods, func(pod v1.Pod) bool {
			return slices.Contains(own, pod.Status.HostIP)
		}) {
			return true
		}
	}
	return false
}

// blockAll adds a finding for each reason of an error.
func (m *migration) blockAll(subject string, err error) {
	all := []error{err}
	var several interface{ Unwrap() []error }
	if errors.As(err, &several) {
		all = several.Unwrap()
	}
	for _, each := range all {
		var problems cloudconf.Problems
		if !errors.As(each, &problems) || len(problems) == 0 {
			m.add(Blocks, subject, "%v", each)
		}
		for _, problem := range problems {
			m.add(Blocks, subject, "%s", problem)
		}
	}
}

// checkRoutes: OCCM ignores routes that it cannot serve. fxccm refuses a route controller without a
// range.
func (m *migration) checkRoutes() {
	c := m.settings.Config
	switch {
	case !c.ConfigureCloudRoutes || c.ClusterCIDR != "" || !runsRoutes(c.Controllers):
	case m.conf.Route.RouterID != "":
		m.add(Blocks, "--cluster-cidr", "cloud.conf has a router-id, and routes need the range of "+
			"the Pods: set --cluster-cidr in OCCM's arguments, or "+
			"--configure-cloud-routes=false if the cluster has no routes")
	default:
		m.extra = append(m.extra, "--configure-cloud-routes=false")
		m.add(Same, "routes", "not served: cloud.conf has no router-id")
	}
}

// runsRoutes reports whether --controllers has the route controller, by one of its names.
func runsRoutes(controllers []string) bool {
	aliases := names.CCMControllerAliases()
	for _, entry := range controllers {
		name := strings.TrimPrefix(entry, "-")
		if name == names.NodeRouteController || aliases[name] == names.NodeRouteController {
			return !strings.HasPrefix(entry, "-")
		}
	}
	return slices.Contains(controllers, "*")
}

// copyFiles copies the files that the login of a region needs, and has their paths replaced by
// those of the copies.
func (m *migration) copyFiles(ctx context.Context, dir string, global *cloudconf.Global) {
	for _, named := range []struct {
		key  string
		path *string
	}{
		{"ca-file", &global.CAFile}, {"cert-file", &global.CertFile}, {"key-file", &global.KeyFile},
	} {
		if *named.path != "" {
			m.copyNamed(ctx, dir, named.key, named.path)
		}
	}
	if global.CAFile == "" && global.CAFileContents == "" {
		m.takeAuthorities(ctx, global)
	}
}

// takeAuthorities takes the authorities that OCCM's container trusts instead of this machine's,
// where Go finds them: https://pkg.go.dev/crypto/x509#SystemCertPool.
func (m *migration) takeAuthorities(ctx context.Context, global *cloudconf.Global) {
	file, isSet, err := lookUp(m.variables, "SSL_CERT_FILE")
	if err != nil {
		m.add(Blocks, "variable SSL_CERT_FILE", "%v; write the value instead", err)
		return
	}
	if !isSet || file == "" {
		file = "/etc/ssl/certs/ca-certificates.crt"
	}
	found, err := m.readFile(ctx, file)
	switch {
	case err == nil:
		m.accept("authorities", file, found)
		global.CAFileContents = string(found.content)
	case isSet && !errors.Is(err, fs.ErrNotExist):
		m.block("variable SSL_CERT_FILE", file, err)
	}
}

// copyNamed replaces the path of a file in OCCM's container by the path of a local copy.
func (m *migration) copyNamed(ctx context.Context, dir, key string, at *string) {
	found, err := m.readFile(ctx, *at)
	if err != nil {
		m.block(key+" "+*at, *at, err)
		return
	}
	local, err := os.CreateTemp(dir, key)
	if err == nil {
		_, err = local.Write(found.content)
		err = errors.Join(err, local.Close())
	}
	if err != nil {
		m.add(Blocks, key+" "+*at, "%v", err)
		return
	}
	m.accept(key, *at, found)
	*at = local.Name()
}
