package options

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"reflect"

	"go.yaml.in/yaml/v3"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/fxccm/fxccm/ccm"
	"github.com/fxccm/fxccm/ccm/serving/servingconfig"
	"github.com/fxccm/fxccm/internal/configfile"
)

// apiVersion and configKind head a configuration file.
const (
	apiVersion = "fxccm.dev/v1alpha1"
	configKind = "CloudControllerManagerConfiguration"
)

// Configuration contains all values of flags and of a configuration file.
type Configuration struct {
	Config  ccm.Config           `json:",inline"`
	Serving servingconfig.Config `json:"serving"`
}

// DefaultConfiguration returns [ccm.DefaultConfig] and servingconfig.Default.
func DefaultConfiguration() Configuration {
	return Configuration{Config: ccm.DefaultConfig(), Serving: servingconfig.Default()}
}

// Validate returns a *[ccm.ConfigError] that names every invalid field, or nil.
func (c Configuration) Validate() error {
	err := c.Config.Validate()
	var invalid *ccm.ConfigError
	if err != nil && !errors.As(err, &invalid) {
		return err
	}
	fields := c.Serving.Validate(field.NewPath("serving"))
	if invalid != nil {
		fields = append(invalid.Fields, fields...)
	}
	if len(fields) == 0 {
		return nil
	}
	return &ccm.ConfigError{Fields: fields}
}

// document is a configuration file.
type document struct {
	APIVersion    string `json:"apiVersion"`
	Kind          string `json:"kind"`
	Configuration `json:",inline"`
}

// LoadFile reads a YAML file as [Decode] does. The error names the file.
func LoadFile(path string) (Configuration, error) { return loadOnto(DefaultConfiguration(), path) }

// Decode reads a Configuration from one YAML (or JSON) document that starts with
//
//	apiVersion: fxccm.dev/v1alpha1
//	kind: CloudControllerManagerConfiguration
//
// and gives fields of [ccm.Config], and below "serving" those of servingconfig.Config, by their
// JSON names. A field that is absent or null keeps its default; a list replaces the default list.
//
// Decode is strict: an unknown field, a repeated field or a wrong type is an error that names line
// and field. Decode does not check ranges: [Configuration.Validate] does.
func Decode(data []byte) (Configuration, error) { return decodeOnto(DefaultConfiguration(), data) }

func loadOnto(cfg Configuration, path string) (Configuration, error) {
	data, err := configfile.Read(path)
	if err != nil {
		return Configuration{}, fmt.Errorf("configuration file: %w", err)
	}
	cfg, err = decodeOnto(cfg, data)
	if err != nil {
		return Configuration{}, fmt.Errorf("configuration file %s: %w", path, err)
	}
	return cfg, nil
}

func decodeOnto(cfg Configuration, data []byte) (Configuration, error) {
	root, err := parse(data)
	if err != nil {
		return Configuration{}, err
	}
	doc := document{Configuration: cfg}
	var d decoder
	d.section("", root, reflect.ValueOf(&doc).Elem())
	// In a file of another kind, every field would be unknown.
	if doc.APIVersion != apiVersion || doc.Kind != configKind {
		return Configuration{}, fmt.Errorf("apiVersion is %.80q and kind is %.80q: want %s and %s",
			doc.APIVersion, doc.Kind, apiVersion, configKind)
	}
	if err := errors.Join(d.errs...); err != nil {
		return Configuration{}, err
	}
	return doc.Configuration, nil
}

// parse returns the mapping of the only document in data.
func parse(data []byte) (*yaml.Node, error) {
	documents := yaml.NewDecoder(bytes.NewReader(data))
	var first, second yaml.Node
	switch err := documents.Decode(&first); {
	case errors.Is(err, io.EOF):
		return nil, fmt.Errorf("empty: it must start with apiVersion: %s and kind: %s",
			apiVersion, configKind)
	case err != nil:
		return nil, fmt.Errorf("not YAML: %w", err)
	}
	switch err := documents.Decode(&second); {
	case err == nil:
		return nil, fmt.Errorf("line %d: a second document starts: only one is allowed",
			second.Line)
	case !errors.Is(err, io.EOF):
		return nil, fmt.Errorf("not YAML: %w", err)
	}
	if len(first.Content) != 1 || first.Content[0].Kind != yaml.MappingNode {
		return nil, fmt.Errorf("not a mapping: it must start with apiVersion: %s and kind: %s",
			apiVersion, configKind)
	}
	return first.Content[0], nil
}
