package migrate

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strings"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/fxccm/fxccm/internal/configfile"
)

var (
	// errUnreadable means that fxccm's Pods get the file, but the API server does not have it.
	errUnreadable = errors.New("only the node has it")
	// errNotMounted means that neither OCCM nor fxccm has the file, unless an agent injects it into
	// the Pods, or OCCM's image contains it.
	errNotMounted = errors.New("it is in no volume of OCCM")
	// errWritten means that fxccm's Pods do not get the file, because other containers of OCCM's
	// Pods write it.
	errWritten = errors.New("another container of OCCM's Pods writes it, which fxccm's Pods do " +
		"not have: put it into a Secret that OCCM mounts")
)

// mounted is a file of OCCM's container.
type mounted struct {
	content []byte
	// source is the object or the local copy that has the content.
	source string
	// isInjected: no volume has it; the content is that of the local copy.
	isInjected bool
}

// readFile reads a file of OCCM's container: from its volumes, or from the local copy that the
// operator has named. It reads no other file of this machine.
func (m *migration) readFile(ctx context.Context, file string) (mounted, error) {
	file = m.inContainer(file)
	if !path.IsAbs(file) {
		return mounted{}, errors.New("only OCCM's image knows its working directory: write an " +
			"absolute path")
	}
	found, err := m.readMounted(ctx, m.occm, m.variables, file)
	local, isNamed := m.line.files[file]
	if !isNamed || errors.Is(err, errWritten) {
		return found, err
	}
	if local == "" {
		return mounted{}, fs.ErrNotExist
	}
	found.isInjected = errors.Is(err, errNotMounted)
	found.source = local + " on this machine"
	found.content, err = configfile.Read(local)
	return found, err
}

// inContainer is the path without dots, from the container's working directory if that is known.
func (m *migration) inContainer(file string) string {
	if !path.IsAbs(file) {
		file = path.Join(m.occm.container.WorkingDir, file)
	}
	return path.Clean(file)
}

// readMounted reads a file of OCCM's container from a Secret or a ConfigMap.
func (c *Cluster) readMounted(
	ctx context.Context, w *workload, variables map[string]variable, file string,
) (mounted, error) {
	var volume *v1.Volume
	longest, within := 0, ""
	for _, mount := range w.container.VolumeMounts {
		at := path.Clean(mount.MountPath)
		rest, is := strings.CutPrefix(file+"/", strings.TrimSuffix(at, "/")+"/")
		if !is || len(at) < longest {
			continue
		}
		sub, err := mount.SubPath, error(nil)
		if mount.SubPathExpr != "" {
			if sub, err = expand(mount.SubPathExpr, variables); err != nil {
				return mounted{}, fmt.Errorf("%w: %w", errUnreadable, err)
			}
		}
		longest, within = len(at), path.Join(sub, strings.TrimSuffix(rest, "/"))
		for i := range w.template.Spec.Volumes {
			if w.template.Spec.Volumes[i].Name == mount.Name {
				volume = &w.template.Spec.Volumes[i]
			}
		}
	}
	if volume == nil {
		return mounted{}, errNotMounted
	}
	return c.readVolume(ctx, w.Namespace, *volume, within)
}

func (c *Cluster) readVolume(
	ctx context.Context, namespace string, volume v1.Volume, within string,
) (mounted, error) {
	var projections []v1.VolumeProjection
	switch {
	case volume.Secret != nil:
		projections = append(projections, v1.VolumeProjection{Secret: &v1.SecretProjection{
			LocalObjectReference: v1.LocalObjectReference{Name: volume.Secret.SecretName},
			Items:                volume.Secret.Items, Optional: volume.Secret.Optional,
		}})
	case volume.ConfigMap != nil:
		projections = append(projections, v1.VolumeProjection{ConfigMap: &v1.ConfigMapProjection{
			LocalObjectReference: volume.ConfigMap.LocalObjectReference,
			Items:                volume.ConfigMap.Items, Optional: volume.ConfigMap.Optional,
		}})
	case volume.Projected != nil:
		projections = volume.Projected.Sources
	case volume.HostPath != nil:
		return mounted{}, fmt.Errorf("%w: host path %s", errUnreadable, volume.HostPath.Path)
	case volume.EmptyDir != nil || volume.VolumeSource == v1.VolumeSource{}:
		return mounted{}, fmt.Errorf("volume %s: %w", volume.Name, errWritten)
	default:
		return mounted{}, fmt.Errorf("%w: volume %s", errUnreadable, volume.Name)
	}
	var found mounted
	isFound, hasOthers := false, false
	for _, p := range projections {
		var values map[string]string
		var items []v1.KeyToPath
		var err error
		isOptional, source := false, ""
		switch {
		case p.Secret != nil:
			items, isOptional = p.Secret.Items, isTrue(p.Secret.Optional)
			source = "Secret " + namespace + "/" + p.Secret.Name
			values, err = c.readSecret(ctx, namespace, p.Secret.Name)
		case p.ConfigMap != nil:
			items, isOptional = p.ConfigMap.Items, isTrue(p.ConfigMap.Optional)
			source = "ConfigMap " + namespace + "/" + p.ConfigMap.Name
			values, err = c.readConfigMap(ctx, namespace, p.ConfigMap.Name)
		default:
			hasOthers = true
		}
		if err != nil && !(isOptional && apierrors.IsNotFound(err)) {
			return mounted{}, err
		}
		// A later source replaces the file of an earlier one.
		if content, has := values[keyOf(items, within)]; has {
			found, isFound = mounted{content: []byte(content), source: source}, true
		}
	}
	switch {
	case isFound:
		return found, nil
	case hasOthers:
		return mounted{}, fmt.Errorf("%w: volume %s", errUnreadable, volume.Name)
	}
	return mounted{}, fmt.Errorf("volume %s has no file %q: %w", volume.Name, within,
		fs.ErrNotExist)
}

// keyOf returns the key whose content is at the path.
func keyOf(items []v1.KeyToPath, at string) string {
	if len(items) == 0 {
		return at
	}
	for _, item := range items {
		if path.Clean(item.Path) == at {
			return item.Key
		}
	}
	return "" // no key is empty
}

// wayOut is what an operator can do about a file that check cannot read.
func (m *migration) wayOut(file string, err error) string {
	file = m.inContainer(file)
	copied := "--file=" + file + "=FILE"
	if file == m.inContainer(m.settings.Config.CloudProvider.ConfigFile) {
		copied = "--cloud-config=FILE"
	}
	switch {
	case errors.Is(err, errUnreadable):
		return "; give a copy with " + copied
	case errors.Is(err, errNotMounted):
		return "; put it into a Secret that OCCM mounts. If an agent injects it into the Pods, " +
			"give a copy with " + copied + ", and with --copy-metadata the annotations and " +
			"labels of OCCM's Pods that the agent reads" + m.listMetadata()
	}
	return ""
}

// block adds the finding of a file that check cannot read.
func (m *migration) block(subject, file string, err error) {
	m.add(Blocks, subject, "%v%s", err, m.wayOut(file, err))
}

// accept names the source of a file. It blocks if fxccm's Pods would not have the file.
func (m *migration) accept(subject, file string, found mounted) {
	if found.isInjected && len(m.line.copyMetadata) == 0 {
		m.block(subject, file, errNotMounted)
		return
	}
	m.add(Same, subject, "%s, read from %s", file, found.source)
	if found.isInjected {
		m.add(Differs, subject, "no volume has %s: an agent must inject it into fxccm's Pods, "+
			"too", file)
	}
}
