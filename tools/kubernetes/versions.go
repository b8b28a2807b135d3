package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/util/version"

	"github.com/fxccm/fxccm/tools/internal/evidence"
)

// resolveAll returns the releases that the arguments name, in their order.
func resolveAll(ctx context.Context, wanted []string) ([]string, error) {
	if len(wanted) == 0 {
		return nil, errors.New("want versions, such as 1.31 or 1.34.2")
	}
	listed, err := evidence.Output(ctx, "go", "list", "-m", "-versions", "k8s.io/kubernetes")
	if err != nil {
		return nil, err
	}
	var all []string
	for _, each := range wanted {
		found, err := resolve(each, strings.Fields(listed))
		if err != nil {
			return nil, err
		}
		all = append(all, found)
	}
	return all, nil
}

// resolve returns the version of a Kubernetes module: a whole version as it is, and for a minor
// version the newest release, or else the newest pre-release.
func resolve(wanted string, available []string) (string, error) {
	wanted = strings.TrimPrefix(wanted, "v")
	if whole, err := version.ParseSemantic(wanted); err == nil {
		return "v" + whole.String(), nil
	}
	minor, err := version.ParseMajorMinor(wanted)
	if err != nil {
		return "", fmt.Errorf("version %q: want one like 1.31 or 1.34.2", wanted)
	}
	var newest *version.Version
	for _, each := range available {
		v, err := version.ParseSemantic(each)
		if err != nil || v.Major() != minor.Major() || v.Minor() != minor.Minor() {
			continue
		}
		isRelease := v.PreRelease() == ""
		if newest == nil || isRelease && newest.PreRelease() != "" ||
			isRelease == (newest.PreRelease() == "") && newest.LessThan(v) {
			newest = v
		}
	}
	if newest == nil {
		return "", fmt.Errorf("the module proxy has no version of Kubernetes %s", wanted)
	}
	return "v" + newest.String(), nil
}
