package migrate

import (
	"context"
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
	deployment, err := m.AppsV1().Deployments(m.occm.Namespace).Get(ctx, fxccmName,
		metav1.GetOptions{})
	switch {
	case err == nil && deployment.Annotations[releaseAnnotation] != "":
		m.add(Blocks, "Deployment "+fxccmName, "Helm release %s owns it, and fxccm migrate would "+
			"install another one with its name", deployment.Annotations[releaseAnnotation])
	case err != nil && !apierrors.IsNotFound(err):
		return fmt.Errorf("read Deployment %s: %w", fxccmName, err)
	}
	return nil
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
