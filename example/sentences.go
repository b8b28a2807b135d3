package main

import (
	"fmt"
	"strings"

	"go.uber.org/dig"

	"github.com/fxccm/fxccm/ccm"
)

// sentences are what an error says to who has typed the command, one for each thing at fault. Which
// of fx's constructors met it is of no interest to them.
func sentences(err error) []string {
	err = dig.RootCause(err)
	// The very error, and not one that says more around it: package options names the flag already.
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

// flagOf is the flag that sets a field of ccm.Config. Package options names it in all that it can
// check; these are the fields that only the app can.
func flagOf(field string) string {
	field, _, _ = strings.Cut(field, "[")
	return map[string]string{
		"controllers":                 "--controllers",
		"clusterCIDR":                 "--cluster-cidr",
		"cloudProvider.name":          "--cloud-provider",
		"cloudProvider.configFile":    "--cloud-config",
		"clientConnection":            "--kubeconfig",
		"clientConnection.kubeconfig": "--kubeconfig",
	}[field]
}
