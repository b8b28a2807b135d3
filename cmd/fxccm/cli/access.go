package cli

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/yaml"

	"github.com/fxccm/fxccm/internal/apiconn"
	"github.com/fxccm/fxccm/internal/configfile"
)

// Access selects a cluster, as kubectl's flags of the same names do.
type Access struct {
	Kubeconfig, Context string
	// Flag is the flag of the kubeconfig in errors. "": --kubeconfig.
	Flag string
}

// ClusterFlags is the title of flags that select a cluster and its objects.
const ClusterFlags = "Flags of the cluster"

// AddFlags adds --kubeconfig and --context.
func (a *Access) AddFlags(set *pflag.FlagSet) { AddFlags(set, ClusterFlags, a.addFlags) }

func (a *Access) addFlags(set *pflag.FlagSet) {
	set.StringVar(&a.Kubeconfig, "kubeconfig", "",
		"The kubeconfig of the cluster. Empty: as kubectl.")
	set.StringVar(&a.Context, "context", "",
		"The context of the kubeconfig. Empty: its current context.")
}

// Cluster is a Kubernetes cluster.
type Cluster struct {
	kubernetes.Interface
	Config *rest.Config
	// Namespace is that of the context, or "default".
	Namespace string
	// Source names the context and its file.
	Source string
}

// String names the API server, and the kubeconfig that was used.
func (c *Cluster) String() string {
	if c.Config == nil {
		return c.Source
	}
	return c.Config.Host + ", from " + c.Source
}

// requestTimeout ends a request that an API server never answers.
const requestTimeout = 30 * time.Second

// Connect reads the kubeconfig, and sends no request. Without --kubeconfig, it reads $KUBECONFIG or
// ~/.kube/config. Without any kubeconfig, it uses the ServiceAccount of its Pod.
func (a *Access) Connect() (*Cluster, error) {
	flag := cmp.Or(a.Flag, "--kubeconfig")
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = a.Kubeconfig
	source, given := a.source(flag)
	files := rules.GetLoadingPrecedence()
	for _, file := range files {
		if err := configfile.Check(file); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("read %s: %w", source, err)
		}
	}
	hasFile := slices.ContainsFunc(files, exists)
	loader, err := a.loader(rules, given || hasFile)
	var config *rest.Config
	if err == nil {
		config, err = loader.ClientConfig()
	}
	switch {
	case err == nil:
	case !hasFile && !given:
		return nil, errors.New("no kubeconfig: set --kubeconfig or KUBECONFIG")
	case !hasFile:
		return nil, fmt.Errorf("read %s: no such file", source)
	case clientcmd.IsEmptyConfig(err):
		if contexts := a.Contexts(); len(contexts) > 0 && a.Context == "" {
			return nil, fmt.Errorf("read %s: it has no current context; set --context to one of: %s",
				source, strings.Join(contexts, ", "))
		}
		return nil, fmt.Errorf("read %s: it has no cluster", source)
	default:
		return nil, fmt.Errorf("read %s: %w", source, cmp.Or(otherKind(files), err))
	}
	config = apiconn.WithoutRedirects(config)
	config.Timeout = requestTimeout
	cluster := &Cluster{Config: config, Source: "the ServiceAccount of this Pod"}
	if cluster.Namespace, _, err = loader.Namespace(); err != nil {
		return nil, fmt.Errorf("read %s: %w", source, err)
	}
	raw, err := loader.RawConfig()
	name := cmp.Or(a.Context, raw.CurrentContext)
	if err == nil && raw.Contexts[name] != nil {
		cluster.Source = fmt.Sprintf("context %s of %s", name,
			raw.Contexts[name].LocationOfOrigin)
	}
	if cluster.Interface, err = kubernetes.NewForConfig(config); err != nil {
		return nil, fmt.Errorf("%s: %w", source, err)
	}
	return cluster, nil
}

// loader finds the cluster like kubectl. It is that of a Pod's ServiceAccount only if there is no
// kubeconfig.
func (a *Access) loader(
	rules *clientcmd.ClientConfigLoadingRules, hasKubeconfig bool,
) (clientcmd.ClientConfig, error) {
	overrides := &clientcmd.ConfigOverrides{CurrentContext: a.Context}
	if hasKubeconfig {
		return apiconn.Kubeconfig(rules, overrides)
	}
	return clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, overrides), nil
}

// Contexts returns the names of the contexts, or none if the kubeconfig cannot be read.
func (a *Access) Contexts() []string {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = a.Kubeconfig
	rules.Warner = func(error) {}
	config, err := rules.Load()
	if err != nil {
		return nil
	}
	return slices.Sorted(maps.Keys(config.Contexts))
}

// source names the setting that selects the kubeconfig in errors, and whether the user has set it.
func (a *Access) source(flag string) (name string, given bool) {
	variable := os.Getenv(clientcmd.RecommendedConfigPathEnvVar)
	switch {
	case a.Kubeconfig != "":
		return flag + "=" + a.Kubeconfig, true
	case variable != "":
		return clientcmd.RecommendedConfigPathEnvVar + "=" + variable, true
	}
	return clientcmd.RecommendedHomeFile, false
}

func exists(file string) bool {
	_, err := os.Stat(file)
	return !errors.Is(err, fs.ErrNotExist)
}

// otherKind returns an error if a file is not a kubeconfig. The decoder's error would name JSON.
func otherKind(files []string) error {
	for _, file := range files {
		content, err := configfile.Read(file)
		if err != nil {
			continue // the error of clientcmd has the cause
		}
		var kind struct {
			Kind string `json:"kind"`
		}
		if err := yaml.Unmarshal(content, &kind); err != nil ||
			kind.Kind != "" && kind.Kind != "Config" {
			return fmt.Errorf("%s is not a kubeconfig", file)
		}
	}
	return nil
}
