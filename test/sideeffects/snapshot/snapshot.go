// Package snapshot records the global state of a process: flags, handlers, metrics, goroutines,
// settings. The difference of two snapshots shows what changed in between, or which state an import
// adds.
package snapshot

import (
	"encoding/json"
	"flag"
	"fmt"
	"log"
	"log/slog"
	"net/http"
	"os"
	"runtime"
	"slices"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/pflag"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/component-base/metrics/legacyregistry"
	"k8s.io/klog/v2"
)

// A Snapshot has sorted names for each kind of global state. Equal names may repeat.
type Snapshot map[Kind][]string

// A Kind is a kind of global state.
type Kind string

// The kinds.
const (
	Flags           Kind = "flag.CommandLine"
	PFlags          Kind = "pflag.CommandLine"
	Handlers        Kind = "http.DefaultServeMux"
	Metrics         Kind = "prometheus.DefaultRegisterer"
	LegacyMetrics   Kind = "legacyregistry"
	FeatureGates    Kind = "feature gates"
	Goroutines      Kind = "goroutines"
	Settings        Kind = "settings"
	EnvironmentVars Kind = "environment"
)

// Take records the state of this process.
func Take() (Snapshot, error) {
	// First, because the goroutines of described can still be there when it has returned.
	s := Snapshot{Goroutines: goroutines()}
	patterns, err := handlers(http.DefaultServeMux)
	if err != nil {
		return nil, err
	}
	metrics, err := described(prometheus.DefaultRegisterer)
	if err != nil {
		return nil, err
	}
	legacy, err := described(legacyregistry.Registerer())
	if err != nil {
		return nil, err
	}
	s[Handlers], s[Metrics], s[LegacyMetrics] = patterns, metrics, legacy
	s[Settings], s[EnvironmentVars] = settings(), environment()
	flag.CommandLine.VisitAll(func(f *flag.Flag) { s[Flags] = append(s[Flags], f.Name) })
	pflag.CommandLine.VisitAll(func(f *pflag.Flag) { s[PFlags] = append(s[PFlags], f.Name) })
	for gate := range utilfeature.DefaultMutableFeatureGate.GetAll() {
		s[FeatureGates] = append(s[FeatureGates],
			fmt.Sprintf("%s=%t", gate, utilfeature.DefaultFeatureGate.Enabled(gate)))
	}
	for kind := range s {
		slices.Sort(s[kind])
	}
	return s, nil
}

// Since returns the entries of s that before lacks.
func (s Snapshot) Since(before Snapshot) Snapshot {
	added := Snapshot{}
	for kind, names := range s {
		left := slices.Clone(before[kind])
		for _, name := range names {
			if i := slices.Index(left, name); i >= 0 {
				left = slices.Delete(left, i, i+1)
				continue
			}
			added[kind] = append(added[kind], name)
		}
	}
	return added
}

// Write takes a snapshot and writes it to a file.
func Write(path string) error {
	s, err := Take()
	if err != nil {
		return err
	}
	data, err := json.Marshal(s)
	if err != nil {
		return err
	}
	return os.WriteFile(path, data, 0o600)
}

// described names the metrics of a registry. Metrics without a value are included.
func described(registerer prometheus.Registerer) ([]string, error) {
	registry, ok := registerer.(*prometheus.Registry)
	if !ok {
		return nil, fmt.Errorf("a %T cannot list its metrics", registerer)
	}
	descs := make(chan *prometheus.Desc)
	go func() {
		defer close(descs)
		registry.Describe(descs)
	}()
	var names []string
	for desc := range descs {
		name, _, _ := strings.Cut(strings.TrimPrefix(desc.String(), `Desc{fqName: "`), `"`)
		names = append(names, name)
	}
	return names, nil
}

// goroutines names each goroutine, except the caller's, by its first function.
func goroutines() []string {
	buf := make([]byte, 1<<20)
	for {
		n := runtime.Stack(buf, true)
		if n < len(buf) {
			buf = buf[:n]
			break
		}
		buf = make([]byte, 2*len(buf))
	}
	var names []string
	for i, stack := range strings.Split(strings.TrimSpace(string(buf)), "\n\n") {
		if i == 0 {
			continue
		}
		lines := strings.Split(stack, "\n")
		first := ""
		for _, line := range lines[1:] {
			if strings.HasPrefix(line, "created by ") {
				break
			}
			if !strings.HasPrefix(line, "\t") {
				first = line[:strings.LastIndexByte(line, '(')]
			}
		}
		names = append(names, first)
	}
	return names
}

// settings are global settings whose change a host would notice.
func settings() []string {
	return []string{
		fmt.Sprintf("log: to %T, prefix %q, flags %d", log.Writer(), log.Prefix(), log.Flags()),
		fmt.Sprintf("slog: %T", slog.Default().Handler()),
		fmt.Sprintf("klog: %T, V(1) %t", klog.Background().GetSink(), klog.V(1).Enabled()),
		fmt.Sprintf("http: transport %T, client's transport %v, timeout %s", http.DefaultTransport,
			http.DefaultClient.Transport, http.DefaultClient.Timeout),
		fmt.Sprintf("processors: %d", runtime.GOMAXPROCS(0)),
		fmt.Sprintf("mutex profile: %d", runtime.SetMutexProfileFraction(-1)),
	}
}

// environment returns only the names of variables, because values may be secrets.
func environment() []string {
	var names []string
	for _, variable := range os.Environ() {
		name, _, _ := strings.Cut(variable, "=")
		names = append(names, name)
	}
	return names
}
