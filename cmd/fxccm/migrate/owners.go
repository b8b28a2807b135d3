package migrate

import (
	"context"
	"errors"
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// releaseAnnotation has the name of the Helm release that owns an object.
const releaseAnnotation = "meta.helm.sh/release-name"

// checkOwners lists objects of a Helm release that fxccm uses, and objects with the names that a
// release of fxccm's chart would use.
func (m *migration) checkOwners(ctx context.Context) error {
	for _, source := range m.occm.sources() {
		var object metav1.Object
		var err error
		if source.kind == "Secret" {
			object, err = m.CoreV1().Secrets(m.occm.Namespace).Get(ctx, source.name,
				metav1.GetOptions{})
		} else {
			object, err = m.CoreV1().ConfigMaps(m.occm.Namespace).Get(ctx, source.name,
				metav1.GetOptions{})
		}
		switch {
		case apierrors.IsNotFound(err): // the source may be optional
			continue
		case err != nil:
			return fmt.Errorf("read %s %s: %w", source.kind, source.name, err)
		}
		owned := object.GetAnnotations()
		if release := owned[releaseAnnotation]; release != "" &&
			owned["helm.sh/resource-policy"] != "keep" {
			m.add(Differs, source.kind+" "+source.name, "Helm release %s owns it, and helm "+
				"uninstall would delete it: fxccm needs a copy first", release)
		}
	}
	_, err := m.CoreV1().ServiceAccounts(m.occm.Namespace).Get(ctx, baseName, metav1.GetOptions{})
	switch {
	case err == nil:
		m.add(Differs, "ServiceAccount "+baseName, "fxccm's chart would create one with this "+
			"name, which Helm refuses: set another fullnameOverride")
	case !apierrors.IsNotFound(err):
		return fmt.Errorf("read ServiceAccount %s: %w", baseName, err)
	}
	if _, err = m.installed(ctx); err == nil {
		_, err = m.findRecord(ctx)
	}
	if foreign := (*foreignError)(nil); errors.As(err, &foreign) {
		m.add(Blocks, foreign.subject, "%s", foreign.text)
		return nil
	}
	return err
}

// fromAnnotation of fxccm's Deployment and of the record names the workload that fxccm replaces,
// because several clusters may have an OCCM in one namespace.
const fromAnnotation = "fxccm.dev/migrate-from"

// foreignError is the error of an object that has the name of an object of this migration, and is
// not for this OCCM.
type foreignError struct{ subject, text string }

func (e *foreignError) Error() string { return e.subject + ": " + e.text }

// checkFrom returns an error that blocks if an object is not for this OCCM.
func (m *migration) checkFrom(kind string, object metav1.Object) error {
	owned := object.GetAnnotations()
	foreign := &foreignError{subject: kind + " " + object.GetName()}
	switch release, source := owned[releaseAnnotation], owned[fromAnnotation]; {
	case release != "":
		foreign.text = fmt.Sprintf("Helm release %s owns it, and fxccm migrate needs its name",
			release)
	case source == m.occm.String():
		return nil
	case source != "":
		foreign.text = fmt.Sprintf("it belongs to the migration of %s, and a namespace can have "+
			"only one: move %s to another namespace first", source, m.occm)
	default:
		foreign.text = "fxccm migrate has not created it, and needs its name"
	}
	return errBlocked(foreign)
}

// source is a Secret or a ConfigMap that OCCM's Pods use.
type source struct{ kind, name string }

// sources are the sources of volumes, environment variables, and image pull secrets.
func (w *workload) sources() []source {
	var all []source
	add := func(kind, name string) {
		if s := (source{kind, name}); name != "" && !slices.Contains(all, s) {
			all = append(all, s)
		}
	}
	secret := func(r v1.LocalObjectReference) { add("Secret", r.Name) }
	config := func(r v1.LocalObjectReference) { add("ConfigMap", r.Name) }
	for _, volume := range w.template.Spec.Volumes {
		if volume.Secret != nil {
			add("Secret", volume.Secret.SecretName)
		}
		if volume.ConfigMap != nil {
			config(volume.ConfigMap.LocalObjectReference)
		}
		if volume.Projected == nil {
			continue
		}
		for _, projection := range volume.Projected.Sources {
			if projection.Secret != nil {
				secret(projection.Secret.LocalObjectReference)
			}
			if projection.ConfigMap != nil {
				config(projection.ConfigMap.LocalObjectReference)
			}
		}
	}
	for _, env := range w.container.Env {
		if env.ValueFrom != nil && env.ValueFrom.SecretKeyRef != nil {
			secret(env.ValueFrom.SecretKeyRef.LocalObjectReference)
		}
		if env.ValueFrom != nil && env.ValueFrom.ConfigMapKeyRef != nil {
			config(env.ValueFrom.ConfigMapKeyRef.LocalObjectReference)
		}
	}
	for _, env := range w.container.EnvFrom {
		if env.SecretRef != nil {
			secret(env.SecretRef.LocalObjectReference)
		}
		if env.ConfigMapRef != nil {
			config(env.ConfigMapRef.LocalObjectReference)
		}
	}
	for _, pull := range w.template.Spec.ImagePullSecrets {
		secret(pull)
	}
	return all
}
