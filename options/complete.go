package options

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/fxccm/fxccm/ccm"
)

// Completed is the result of a command line.
type Completed struct {
	// Configuration is complete and valid, except for the names of controllers, which [ccm.New]
	// checks, and the files of the secure port, which serving.New reads.
	Configuration

	// FeatureGates has the gates of --feature-gates. Gates belong to the process, so only a program
	// may set them, before it starts a Manager:
	//
	//	utilfeature.DefaultMutableFeatureGate.SetFromMap(completed.FeatureGates)
	FeatureGates map[string]bool

	// Warnings are sentences for the log, each about a flag without effect.
	Warnings []string
}

// Complete merges the flags, the file of --config and the defaults, and validates the result. Call
// it after the flags have been parsed; it does not change the Options. The error has one sentence
// for each invalid value, with the flag, or the file and the field; errors.As finds a
// *[ccm.ConfigError] in it if a value is out of range.
func (o *Options) Complete() (Completed, error) {
	cfg, err := o.merge()
	if err != nil {
		return Completed{}, err
	}
	warnings, refusals := o.checkUnused()
	if err := errors.Join(append(refusals, o.validate(cfg)...)...); err != nil {
		return Completed{}, err
	}
	return Completed{
		Configuration: cfg, FeatureGates: maps.Clone(o.featureGates),
		Warnings: append(warnings, o.warnUnallocated(cfg)...),
	}, nil
}

// merge lets the file override the defaults, and the flags given override the file.
func (o *Options) merge() (Configuration, error) {
	if o.configFile == "" {
		return o.Configuration, nil
	}
	cfg, err := loadOnto(o.Configuration, o.configFile)
	if err != nil {
		return Configuration{}, err
	}
	for _, b := range o.bound {
		if b.flag.Changed && b.spec.carry != nil {
			b.spec.carry(&cfg, &o.Configuration)
		}
	}
	return cfg, nil
}

// checkUnused returns warnings and errors for flags that set nothing.
func (o *Options) checkUnused() (warnings []string, refusals []error) {
	byFlag := map[string]difference{}
	for _, d := range differences() {
		byFlag[d.Flag] = d
	}
	for _, b := range o.bound {
		if !b.flag.Changed {
			continue
		}
		prefix := strings.TrimSuffix(b.flag.Name, b.spec.name)
		value := b.flag.Value.String()
		switch d := byFlag[b.spec.name]; {
		case d.Kind == isIgnored:
			why := binding{prefix: prefix}.text(d.Why)
			warnings = append(warnings, fmt.Sprintf("--%s has no effect: %s", b.flag.Name, why))
		case d.Kind == isRefused && value != b.flag.DefValue && !slices.Contains(d.Accepted, value):
			refusals = append(refusals,
				fmt.Errorf("--%s=%s is not supported: %s", b.flag.Name, value, d.Why))
		}
	}
	for _, gate := range featureGates() {
		if _, given := o.featureGates[gate.name]; given && gate.ignored != "" {
			warnings = append(warnings,
				fmt.Sprintf("feature gate %s has no effect: %s", gate.name, gate.ignored))
		}
	}
	slices.Sort(o.unreadGates)
	for _, name := range slices.Compact(slices.Clone(o.unreadGates)) {
		warnings = append(warnings, fmt.Sprintf("feature gate %s has no effect: no part of a "+
			"cloud controller manager of this release reads it", name))
	}
	return warnings, refusals
}

// warnUnallocated warns of --allocate-node-cidrs if no controller reads it. Many manifests give the
// flag to a CCM although kube-controller-manager allocates the ranges.
func (o *Options) warnUnallocated(cfg Configuration) []string {
	selected := cfg.Config.Controllers
	if !cfg.Config.AllocateNodeCIDRs || slices.ContainsFunc(selected, func(name string) bool {
		return name != "*" && !strings.HasPrefix(name, "-")
	}) {
		return nil
	}
	return []string{o.source("allocateNodeCIDRs") + " has no effect: " +
		"only controllers that are selected by name, such as node-ipam-controller, " +
		"allocate pod ranges"}
}

// validate returns an error for each value out of range, with its source.
func (o *Options) validate(cfg Configuration) []error {
	err := cfg.Validate()
	var invalid *ccm.ConfigError
	if !errors.As(err, &invalid) {
		if err == nil {
			return nil
		}
		return []error{err}
	}
	var errs []error
	for _, e := range invalid.Fields {
		errs = append(errs, &valueError{source: o.source(e.Field), field: e})
	}
	return errs
}

// source returns the origin of the value at path: its flag, if the flag was given or no file was.
func (o *Options) source(path string) string {
	path, _, _ = strings.Cut(path, "[")
	paths := leaves(&o.Configuration)
	source := ""
	if o.configFile != "" {
		source = "configuration file " + o.configFile
	}
	for _, b := range o.bound {
		if b.spec.field == nil || paths[b.spec.field(&o.Configuration)] != path {
			continue
		}
		if b.flag.Changed || source == "" {
			return "--" + b.flag.Name
		}
	}
	return source
}

// valueError is a *ccm.ConfigError of one field, with the source of the value.
type valueError struct {
	source string
	field  *field.Error
}

func (e *valueError) Error() string {
	where := e.field.Field
	if e.source != "" {
		where = e.source + " (" + where + ")"
	}
	return where + ": " + e.field.ErrorBody()
}

func (e *valueError) Unwrap() error {
	return &ccm.ConfigError{Fields: field.ErrorList{e.field}}
}
