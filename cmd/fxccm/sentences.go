package main

import (
	"fmt"
	"strings"

	"go.uber.org/dig"

	"github.com/fxccm/fxccm/ccm"
)

// sentences splits an error into one sentence for each mistake, without the names of fx's
// constructors.
func sentences(err error) []string {
	err = dig.RootCause(err)
	// Not errors.As: an error of package options wraps it, and already names the flag.
	invalid, ok := err.(*ccm.ConfigError)
	if !ok {
		return strings.Split(err.Error(), "\n")
	}
	all := make([]string, 0, len(invalid.Fields))
	for _, field := range invalid.Fields {
		where := field.Field
		if flag := flagOf(field.Field); flag != "" {
			where = fmt.Sprintf("%s (%s)", flag, field.Field)
		}
		all = append(all, strings.Split(where+": "+field.ErrorBody(), "\n")...)
	}
	return all
}

// flagOf is the flag of a field of ccm.Config that only the app can check.
func flagOf(field string) string {
	field, _, _ = strings.Cut(field, "[")
	return map[string]string{
		"controllers":                 "--controllers",
		"clusterCIDR":                 "--cluster-cidr",
		"nodeIPAM":                    "--node-cidr-mask-size",
		"nodeIPAM.allocatorType":      "--cidr-allocator-type",
		"nodeIPAM.serviceCIDR":        "--service-cluster-ip-range",
		"cloudProvider.name":          "--cloud-provider",
		"cloudProvider.configFile":    "--cloud-config",
		"clientConnection":            "--kubeconfig",
		"clientConnection.kubeconfig": "--kubeconfig",
	}[field]
}
