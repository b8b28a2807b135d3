package main

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fxccm/fxccm/cmd/fxccm/cli"
	"github.com/fxccm/fxccm/cmd/fxccm/fleet"
)

const (
	// completionTimeout is how long the shell waits for names from the cluster.
	completionTimeout = 2 * time.Second
	// maxCompletions limits the objects of a list. A shell shows no more anyway.
	maxCompletions = 500
)

// complete says how the shell completes the values of all flags, by their names. A flag that is not
// in the table has no completion.
func complete(root *cobra.Command) {
	root.CompletionOptions.SetDefaultShellCompDirective(cobra.ShellCompDirectiveNoFileComp)
	table := flagCompletions()
	for _, c := range root.Commands() {
		completeFlags(c, table)
	}
	completeFlags(root, table)
}

func completeFlags(cmd *cobra.Command, table map[string]cobra.CompletionFunc) {
	for _, c := range cmd.Commands() {
		completeFlags(c, table)
	}
	cmd.Flags().VisitAll(func(flag *pflag.Flag) {
		if of := table[flag.Name]; of != nil {
			_ = cmd.RegisterFlagCompletionFunc(flag.Name, of) // fails only for an unknown flag
		}
	})
}

func flagCompletions() map[string]cobra.CompletionFunc {
	anyFile := files()
	cloudConf, manifest := files("conf", "ini", "yaml", "yml"), files("yaml", "yml", "json")
	certificate, key := files("crt", "pem", "cer"), files("key", "pem")
	return map[string]cobra.CompletionFunc{
		"output":              words("json", "yaml"),
		"logging-format":      words("json", "text"),
		"sort":                words(clusterColumns()...),
		"state":               words(clusterStates()...),
		"clusters":            words(fleet.Kinds()...),
		"lock":                words("management", "workload"),
		"context":             contextsOf("kubeconfig"),
		"workload-context":    contextsOf("workload-kubeconfig"),
		"namespace":           namespaces,
		"ccm-namespace":       namespaces,
		"clusters-namespace":  namespaces,
		"clusters-directory":  directories,
		"cert-dir":            directories,
		"kubeconfig":          anyFile,
		"workload-kubeconfig": anyFile,

		"authentication-kubeconfig": anyFile,
		"authorization-kubeconfig":  anyFile,

		"cloud-config": cloudConf,
		"config":       manifest,
		"service-file": manifest,
		"node-file":    manifest,

		"server-ca":                    certificate,
		"client-ca-file":               certificate,
		"requestheader-client-ca-file": certificate,
		"tls-cert-file":                certificate,
		"tls-private-key-file":         key,
	}
}

func words(all ...string) cobra.CompletionFunc {
	return cobra.FixedCompletions(all, cobra.ShellCompDirectiveNoFileComp)
}

// files completes files with one of the extensions; without extensions, all files.
func files(extensions ...string) cobra.CompletionFunc {
	if len(extensions) == 0 {
		return cobra.FixedCompletions(nil, cobra.ShellCompDirectiveDefault)
	}
	return cobra.FixedCompletions(extensions, cobra.ShellCompDirectiveFilterFileExt)
}

func directories(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	return nil, cobra.ShellCompDirectiveFilterDirs
}

// accessOf is the cluster that the flags before the cursor select.
func accessOf(cmd *cobra.Command, kubeconfig string) *cli.Access {
	access := &cli.Access{}
	access.Kubeconfig, _ = cmd.Flags().GetString(kubeconfig)
	access.Context, _ = cmd.Flags().GetString("context")
	return access
}

func contextsOf(kubeconfig string) cobra.CompletionFunc {
	return func(cmd *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
		return accessOf(cmd, kubeconfig).Contexts(), cobra.ShellCompDirectiveNoFileComp
	}
}

// named lists the names of objects of the cluster: none if it cannot be reached in time.
func named(
	cmd *cobra.Command, list func(context.Context, *cli.Cluster) ([]string, error),
) []string {
	cluster, err := accessOf(cmd, "kubeconfig").Connect()
	if err != nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(cmd.Context(), completionTimeout)
	defer cancel()
	names, err := list(ctx, cluster)
	if err != nil {
		return nil
	}
	slices.Sort(names)
	return names
}

func namespaces(cmd *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
	return named(cmd, func(ctx context.Context, cluster *cli.Cluster) (names []string, err error) {
		all, err := cluster.CoreV1().Namespaces().List(ctx,
			metav1.ListOptions{Limit: maxCompletions})
		if err != nil {
			return nil, err
		}
		for _, each := range all.Items {
			names = append(names, each.Name)
		}
		return names, nil
	}), cobra.ShellCompDirectiveNoFileComp
}

// services completes the forms of [serviceName] with the Services of type LoadBalancer.
func services(
	cmd *cobra.Command, args []string, typed string,
) ([]string, cobra.ShellCompDirective) {
	prefix := "service/"
	namespace, _ := cmd.Flags().GetString("namespace")
	before, _, isPair := strings.Cut(typed, "/")
	switch {
	case len(args) == 1 && isServiceKind(args[0]) && !isPair:
		prefix = ""
	case len(args) > 1, len(args) == 1 && !isServiceKind(args[0]):
		return nil, cobra.ShellCompDirectiveNoFileComp
	case isPair:
		prefix = before + "/"
		if !isServiceKind(before) {
			namespace = before
		}
	}
	return named(cmd, func(ctx context.Context, cluster *cli.Cluster) (names []string, err error) {
		all, err := cluster.CoreV1().Services(cmp.Or(namespace, cluster.Namespace)).List(ctx,
			metav1.ListOptions{Limit: maxCompletions})
		if err != nil {
			return nil, err
		}
		for _, each := range all.Items {
			if each.Spec.Type == v1.ServiceTypeLoadBalancer {
				names = append(names, prefix+each.Name)
			}
		}
		return names, nil
	}), cobra.ShellCompDirectiveNoFileComp
}
