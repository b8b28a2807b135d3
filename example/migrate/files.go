package migrate

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"strings"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fxccm/fxccm/provider/openstack/cloudconf"
)

// errUnreadable means that the file is mounted, but not from the API server.
var errUnreadable = errors.New("only the node has it")

// errNotMounted means that OCCM itself cannot read the file, unless its image contains it.
var errNotMounted = errors.New("it is in no volume of OCCM")

// readMounted reads a file of OCCM's container from a Secret or a ConfigMap.
func (c *Cluster) readMounted(ctx context.Context, w *workload, file string) ([]byte, error) {
	var mount *v1.VolumeMount
	within := ""
	for i, m := range w.container.VolumeMounts {
		rest, is := strings.CutPrefix(file+"/", strings.TrimSuffix(m.MountPath, "/")+"/")
		if is && (mount == nil || len(m.MountPath) > len(mount.MountPath)) {
			mount = &w.container.VolumeMounts[i]
			within = path.Join(m.SubPath, strings.TrimSuffix(rest, "/"))
		}
	}
	if mount == nil {
		return nil, errNotMounted
	}
	for _, volume := range w.template.Spec.Volumes {
		if volume.Name == mount.Name {
			return c.readVolume(ctx, w.Namespace, volume, within)
		}
	}
	return nil, errNotMounted
}

func (c *Cluster) readVolume(
	ctx context.Context, namespace string, volume v1.Volume, within string,
) ([]byte, error) {
	projections := []v1.VolumeProjection{}
	switch {
	case volume.Secret != nil:
		projections = append(projections, v1.VolumeProjection{Secret: &v1.SecretProjection{
			LocalObjectReference: v1.LocalObjectReference{Name: volume.Secret.SecretName},
			Items:                volume.Secret.Items,
		}})
	case volume.ConfigMap != nil:
		projections = append(projections, v1.VolumeProjection{ConfigMap: &v1.ConfigMapProjection{
			LocalObjectReference: volume.ConfigMap.LocalObjectReference,
			Items:                volume.ConfigMap.Items,
		}})
	case volume.Projected != nil:
		projections = volume.Projected.Sources
	case volume.HostPath != nil:
		return nil, fmt.Errorf("%w: host path %s", errUnreadable, volume.HostPath.Path)
	default:
		return nil, fmt.Errorf("%w: volume %s", errUnreadable, volume.Name)
	}
	for _, p := range projections {
		var content []byte
		var found bool
		switch {
		case p.Secret != nil:
			secret, err := c.CoreV1().Secrets(namespace).Get(ctx, p.Secret.Name,
				metav1.GetOptions{})
			if err != nil {
				return nil, fmt.Errorf("read Secret %s/%s: %w", namespace, p.Secret.Name, err)
			}
			content, found = secret.Data[keyOf(p.Secret.Items, within)]
		case p.ConfigMap != nil:
			config, err := c.CoreV1().ConfigMaps(namespace).Get(ctx, p.ConfigMap.Name,
				metav1.GetOptions{})
			if err != nil {
				return nil, fmt.Errorf("read ConfigMap %s/%s: %w", namespace, p.ConfigMap.Name, err)
			}
			var text string
			text, found = config.Data[keyOf(p.ConfigMap.Items, within)]
			content = []byte(text)
		}
		if found {
			return content, nil
		}
	}
	return nil, fmt.Errorf("volume %s has no file %q", volume.Name, within)
}

// keyOf returns the key whose content is at the path.
func keyOf(items []v1.KeyToPath, at string) string {
	if len(items) == 0 {
		return at
	}
	for _, item := range items {
		if item.Path == at {
			return item.Key
		}
	}
	return "" // no key is empty
}

// readCloudConf reads OCCM's cloud.conf, or the local file instead. It copies the files that
// cloud.conf names into dir, so that the login works on this machine.
func (m *migration) readCloudConf(ctx context.Context, dir string) {
	file := m.settings.Config.CloudProvider.ConfigFile
	content, err := m.readMounted(ctx, m.occm, file)
	source := "from the cluster"
	if m.line.cloudConfig != "" {
		content, err = os.ReadFile(m.line.cloudConfig)
		source = "read from " + m.line.cloudConfig
	}
	if err != nil {
		hint := ""
		if errors.Is(err, errUnreadable) {
			hint = "; give a copy with --cloud-config"
		}
		m.add(Blocks, file, "%v%s", err, hint)
		return
	}
	environment := func(name string) string { value, _ := m.occm.variable(name); return value }
	_, strictErr := cloudconf.Read(content, cloudconf.Options{
		Strict: true, Path: file, Environment: environment,
	})
	loaded, err := cloudconf.Read(content, cloudconf.Options{Path: file, Environment: environment})
	var problems cloudconf.Problems
	switch {
	case errors.As(err, &problems):
		for _, problem := range problems {
			m.add(Blocks, "cloud.conf", "%s", problem)
		}
		return
	case err != nil:
		m.add(Blocks, "cloud.conf", "%v", err)
		return
	}
	m.add(Same, "cloud.conf", "%s, %s", file, source)
	for _, warning := range loaded.Warnings {
		m.add(Differs, "cloud.conf", "%s", warning)
	}
	if strictErr != nil {
		m.extra = append(m.extra, "--cloud-config-strict=false")
		m.add(Differs, "--cloud-config-strict", "false, because of the mistakes in cloud.conf")
	}
	m.conf = &loaded.Config
	// OCCM ignores routes that it cannot serve. fxccm refuses a route controller without a range.
	if c := m.settings.Config; c.ConfigureCloudRoutes && c.ClusterCIDR == "" {
		if m.conf.Route.RouterID != "" {
			m.add(Blocks, "--cluster-cidr", "routes need it, because cloud.conf has a router-id")
		}
		m.extra = append(m.extra, "--configure-cloud-routes=false")
		m.add(Same, "routes", "not served: cloud.conf has no router-id")
	}
	global := &m.conf.Global
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
}

// copyNamed replaces the path of a file in OCCM's container by the path of a local copy.
func (m *migration) copyNamed(ctx context.Context, dir, key string, at *string) {
	subject := key + " " + *at
	content, err := m.readMounted(ctx, m.occm, *at)
	if local := m.line.files[*at]; local != "" && !errors.Is(err, errNotMounted) {
		content, err = os.ReadFile(local)
	}
	switch {
	case errors.Is(err, errUnreadable):
		m.add(Blocks, subject, "%v; give a copy with --file=%s=FILE", err, *at)
		return
	case err != nil:
		m.add(Blocks, subject, "%v", err)
		return
	}
	local := filepath.Join(dir, key)
	if err := os.WriteFile(local, content, 0o600); err != nil {
		m.add(Blocks, subject, "%v", err)
		return
	}
	*at = local
	m.add(Same, subject, "mounted")
}
