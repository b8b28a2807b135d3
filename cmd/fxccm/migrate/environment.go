package migrate

import (
	"context"
	"errors"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// variable is an environment variable of OCCM's container.
type variable struct {
	value string
	// isLiteral: the value is in the workload, and not in another object.
	isLiteral bool
	// unknown says why the value cannot be read; nil if it can.
	unknown error
}

// readEnvironment resolves the variables of OCCM's container like the kubelet: envFrom first, then
// env, which may refer to earlier variables.
func (c *Cluster) readEnvironment(ctx context.Context, w *workload) map[string]variable {
	all := map[string]variable{}
	for _, from := range w.container.EnvFrom {
		var values map[string]string
		var err error
		isOptional := false
		switch {
		case from.ConfigMapRef != nil:
			isOptional = isTrue(from.ConfigMapRef.Optional)
			values, err = c.readConfigMap(ctx, w.Namespace, from.ConfigMapRef.Name)
		case from.SecretRef != nil:
			isOptional = isTrue(from.SecretRef.Optional)
			values, err = c.readSecret(ctx, w.Namespace, from.SecretRef.Name)
		}
		if err != nil && !(isOptional && apierrors.IsNotFound(err)) {
			// Each variable may come from this object.
			all[anyVariable] = variable{unknown: err}
		}
		for key, value := range values {
			all[from.Prefix+key] = variable{value: value}
		}
	}
	for _, env := range w.container.Env {
		if v, isSet := c.resolve(ctx, w, env, all); isSet {
			all[env.Name] = v
		}
	}
	return all
}

// anyVariable stands for the variables of an object that cannot be read. No variable has this name.
const anyVariable = ""

func isTrue(b *bool) bool { return b != nil && *b }

func (c *Cluster) readConfigMap(
	ctx context.Context, namespace, name string,
) (map[string]string, error) {
	config, err := c.CoreV1().ConfigMaps(namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return nil, fmt.Errorf("read ConfigMap %s/%s: %w", namespace, name, err)
	}
	values := map[string]string{}
	for key, value := range config.BinaryData {
		values[key] = string(value)
	}
	for key, value := range config.Data {
		values[key] = value
	}
	return values, nil
}

func (c *Cluster) readSecret(
	ctx context.Context, namespace, name string,
) (map[string]string, error) {
	secret, err := c.CoreV1().Secrets(namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return nil, fmt.Errorf("read Secret %s/%s: %w", namespace, name, err)
	}
	values := map[string]string{}
	for key, value := range secret.Data {
		values[key] = string(value)
	}
	return values, nil
}

// resolve returns the value of an entry of env; false if an optional object or key does not exist.
func (c *Cluster) resolve(
	ctx context.Context, w *workload, env v1.EnvVar, earlier map[string]variable,
) (variable, bool) {
	from := env.ValueFrom
	if from == nil {
		value, err := expand(env.Value, earlier)
		_, literalErr := expand(env.Value, literals(earlier))
		return variable{value, literalErr == nil, err}, true
	}
	var values map[string]string
	var err error
	var key string
	isOptional := false
	switch {
	case from.ConfigMapKeyRef != nil:
		key, isOptional = from.ConfigMapKeyRef.Key, isTrue(from.ConfigMapKeyRef.Optional)
		values, err = c.readConfigMap(ctx, w.Namespace, from.ConfigMapKeyRef.Name)
	case from.SecretKeyRef != nil:
		key, isOptional = from.SecretKeyRef.Key, isTrue(from.SecretKeyRef.Optional)
		values, err = c.readSecret(ctx, w.Namespace, from.SecretKeyRef.Name)
	case from.FieldRef != nil && from.FieldRef.FieldPath == "metadata.namespace":
		return variable{value: w.Namespace}, true
	case from.FieldRef != nil:
		return variable{unknown: fmt.Errorf("only the running Pod has %s",
			from.FieldRef.FieldPath)}, true
	default:
		return variable{unknown: errors.New("only the running Pod has it")}, true
	}
	value, found := values[key]
	switch {
	case found:
		return variable{value: value}, true
	case isOptional && (err == nil || apierrors.IsNotFound(err)):
		return variable{}, false
	case err == nil:
		err = fmt.Errorf("its Secret or ConfigMap has no key %q", key)
	}
	return variable{unknown: err}, true
}

// literals are the variables whose values are in the workload.
func literals(all map[string]variable) map[string]variable {
	found := map[string]variable{}
	for name, v := range all {
		if v.isLiteral {
			found[name] = v
		}
	}
	return found
}

// lookUp returns a variable, "" if it is not set, and an error if its value cannot be read.
func lookUp(all map[string]variable, name string) (value string, isSet bool, err error) {
	v, isSet := all[name]
	if !isSet {
		v.unknown = all[anyVariable].unknown
	}
	return v.value, isSet, v.unknown
}

var reference = regexp.MustCompile(`\$\$|\$\([^()]+\)`)

// expand replaces $(NAME) like the kubelet. A name without a value is an error, because the kubelet
// also knows the variables of Services.
func expand(text string, variables map[string]variable) (string, error) {
	var failed []error
	expanded := reference.ReplaceAllStringFunc(text, func(ref string) string {
		if ref == "$$" {
			return "$"
		}
		name := ref[2 : len(ref)-1]
		value, isSet, err := lookUp(variables, name)
		switch {
		case err != nil:
			failed = append(failed, fmt.Errorf("the value of %s is unknown: %w", ref, err))
		case !isSet:
			failed = append(failed, fmt.Errorf("the value of %s is unknown: "+
				"OCCM's container does not define it", ref))
		}
		return value
	})
	return expanded, errors.Join(failed...)
}

// word is a word of OCCM's command line.
type word struct {
	// shown has the values that the workload contains. The kubelet expands the rest, which may be
	// secret.
	shown string
	// value is what OCCM gets.
	value string
}

// commandLine returns the words after the program. The error says why they are unknown.
func (m *migration) commandLine() ([]word, error) {
	var words []word
	var failed []error
	c := m.occm.container
	for _, text := range append(slices.Clone(c.Command), c.Args...) {
		w := word{shown: text}
		var err error
		if w.value, err = expand(text, m.variables); err != nil {
			failed = append(failed, fmt.Errorf("%s: %w; write the value instead", text, err))
		}
		if _, err := expand(text, literals(m.variables)); err == nil {
			w.shown = strings.ReplaceAll(w.value, "$", "$$")
		}
		words = append(words, w)
	}
	if len(words) > 0 && !strings.HasPrefix(words[0].value, "-") {
		if wrapper := m.wrapper(words); wrapper != "" {
			return nil, fmt.Errorf("%s starts OCCM, so its arguments and its environment are "+
				"unknown: let the container start OCCM directly", wrapper)
		}
		words = words[1:]
	}
	return words, errors.Join(failed...)
}

// wrapper returns the program that starts OCCM; "" if the container starts OCCM itself.
func (*migration) wrapper(words []word) string {
	first := path.Base(words[0].value)
	if first == occmName {
		return ""
	}
	if strings.HasSuffix(first, "sh") {
		return "a shell"
	}
	for _, w := range words[1:] {
		if w.value == "--" || w.value == "-c" || startsOCCM(w.value) {
			return first
		}
	}
	return ""
}
