package never

import (
	"slices"
	"strings"
)

// A Rule is a kind of forbidden code.
type Rule string

// The rules.
const (
	RuleExit     Rule = "exit"     // ends the process
	RulePanic    Rule = "panic"    // panics instead of returning an error
	RuleSignal   Rule = "signal"   // takes signals
	RuleFlag     Rule = "flag"     // registers or reads flags of the program
	RuleRegistry Rule = "registry" // changes a registry of the process
	RuleSetting  Rule = "setting"  // changes a setting of the process
	RuleInit     Rule = "init"     // runs code on import
	RuleVariable Rule = "variable" // changes a package variable
	RuleOutput   Rule = "output"   // prints
	RuleImport   Rule = "import"   // imports a package that has a side effect
	RuleDuration Rule = "duration" // logs a duration in a form that depends on the logger
)

// uses are functions and variables that must not be used. A name that ends with * is a prefix. A
// method is written as (*path.Type).Method.
type uses struct {
	rule Rule
	why  string
	// names are names in pkg. If names is empty, all functions and variables of pkg are forbidden,
	// except those in except.
	pkg    string
	names  []string
	except []string
}

const (
	ends    = "ends the host's process"
	catches = "takes the signals of the host's process"
	flags   = "uses the flags of the host's program; take a FlagSet"
	global  = "changes a registry of the host's process"
	setting = "changes a setting of the host's process"
	prints  = "prints in the host's process; take a logger or a writer"
	logs    = "logs past the logger that the host gave"
)

// forbidden lists the functions and variables that must not be used.
func forbidden() []uses {
	return []uses{
		{RuleExit, ends, "os", []string{"Exit"}, nil},
		{RuleExit, ends, "syscall", []string{"Exit"}, nil},
		{
			RuleExit, ends, "log",
			[]string{"Fatal*", "Panic*", "(*log.Logger).Fatal*", "(*log.Logger).Panic*"},
			nil,
		},
		{
			RuleExit, ends, "k8s.io/klog/v2",
			[]string{"Fatal*", "Exit*", "OsExit", "FlushAndExit"},
			nil,
		},
		{
			RuleExit, ends, "k8s.io/component-base/version/verflag",
			[]string{"PrintAndExitIfRequested"},
			nil,
		},
		{RuleExit, ends, "k8s.io/component-base/cli", []string{"Run"}, nil},
		{RuleExit, ends, "github.com/spf13/cobra", []string{"CheckErr"}, nil},

		{RuleSignal, catches, "os/signal", nil, nil},
		{RuleSignal, catches, "k8s.io/apiserver/pkg/server", []string{"SetupSignal*"}, nil},

		{RuleFlag, flags, "flag", nil, []string{"NewFlagSet", "UnquoteUsage", "ErrHelp"}},
		{
			RuleFlag, flags, "github.com/spf13/pflag", nil,
			[]string{"NewFlagSet", "UnquoteUsage", "ErrHelp", "PFlagFromGoFlag", "VarP"},
		},
		{RuleFlag, flags, "k8s.io/klog/v2", []string{"InitFlags"}, nil},
		{RuleFlag, flags, "k8s.io/component-base/version/verflag", []string{"AddFlags"}, nil},
		{RuleFlag, flags, "k8s.io/component-base/cli/globalflag", nil, nil},

		{
			RuleRegistry, global, "github.com/prometheus/client_golang/prometheus",
			[]string{"MustRegister", "Register", "Unregister", "DefaultRegisterer"},
			nil,
		},
		{
			RuleRegistry, global, "github.com/prometheus/client_golang/prometheus/promauto", nil,
			[]string{"With"},
		},
		{
			RuleRegistry, global, "k8s.io/component-base/metrics/legacyregistry",
			[]string{
				"MustRegister", "Register*", "RawMustRegister", "CustomRegister",
				"CustomMustRegister", "Reset", "HandlerWithReset",
			},
			nil,
		},
		{
			RuleRegistry, global, "net/http",
			[]string{"Handle", "HandleFunc", "DefaultServeMux"},
			nil,
		},
		{RuleRegistry, global, "expvar", nil, nil},
		{RuleRegistry, global, "k8s.io/component-base/configz", []string{"New", "Delete"}, nil},
		{RuleRegistry, global, "k8s.io/cloud-provider", []string{"RegisterCloudProvider"}, nil},
		{RuleRegistry, global, "k8s.io/client-go/util/workqueue", []string{"SetProvider"}, nil},
		{
			RuleRegistry, global, "k8s.io/client-go/tools/leaderelection",
			[]string{"SetProvider"},
			nil,
		},
		{RuleRegistry, global, "k8s.io/client-go/tools/metrics", []string{"Register"}, nil},
		{
			RuleRegistry, global, "k8s.io/client-go/rest",
			[]string{"RegisterAuthProviderPlugin", "SetDefaultWarningHandler*"},
			nil,
		},
		{RuleRegistry, global, "encoding/gob", []string{"Register*"}, nil},
		{RuleRegistry, global, "runtime/pprof", []string{"NewProfile"}, nil},

		{RuleSetting, setting, "os", []string{"Setenv", "Unsetenv", "Clearenv", "Chdir"}, nil},
		{
			RuleSetting, setting, "runtime",
			[]string{
				"GOMAXPROCS", "SetBlockProfileRate", "SetMutexProfileFraction",
				"SetCPUProfileRate", "MemProfileRate",
			},
			nil,
		},
		{RuleSetting, setting, "runtime/debug", []string{"Set*"}, nil},
		{RuleSetting, setting, "log", []string{"Set*"}, nil},
		{RuleSetting, setting, "log/slog", []string{"Set*"}, nil},
		{
			RuleSetting, setting, "k8s.io/klog/v2",
			[]string{
				"Set*", "ClearLogger", "LogToStderr", "CopyStandardLogTo",
				"EnableContextualLogging", "StartFlushDaemon", "StopFlushDaemon",
			},
			nil,
		},
		{RuleSetting, setting, "k8s.io/component-base/logs", []string{"InitLogs"}, nil},
		{
			RuleSetting, setting, "k8s.io/component-base/logs/api/v1",
			[]string{"ValidateAndApply*", "ResetForTest"},
			nil,
		},
		{
			RuleSetting, setting, "k8s.io/apiserver/pkg/util/feature",
			[]string{"DefaultMutableFeatureGate"},
			nil,
		},
		{RuleSetting, setting, "go.opentelemetry.io/otel", []string{"Set*"}, nil},

		{RuleOutput, prints, "fmt", []string{"Print", "Printf", "Println"}, nil},
		{RuleOutput, prints, "os", []string{"Stdout", "Stderr"}, nil},
		{RuleOutput, prints, "log", []string{"Print*", "Output", "Default", "Writer"}, nil},
		{
			RuleOutput, logs, "log/slog",
			[]string{"Debug*", "Info*", "Warn*", "Error*", "Log", "LogAttrs", "Default", "With"},
			nil,
		},
		{
			RuleOutput, logs, "k8s.io/klog/v2",
			[]string{"Info*", "Warning*", "Error*", "V", "VDepth"},
			nil,
		},
		{RuleOutput, logs, "k8s.io/apimachinery/pkg/util/runtime", []string{"HandleError"}, nil},
	}
}

// matches reports whether a function or variable is forbidden. method is the full name of a method,
// or empty.
func (u uses) matches(pkg, name, method string) bool {
	if pkg != u.pkg {
		return false
	}
	if u.names == nil {
		return method == "" && !slices.Contains(u.except, name)
	}
	if method != "" {
		name = method
	}
	return slices.ContainsFunc(u.names, func(pattern string) bool {
		prefix, open := strings.CutSuffix(pattern, "*")
		return open && strings.HasPrefix(name, prefix) || name == pattern
	})
}

// imported are packages whose import is enough to change the process.
func imported() map[string]string {
	const (
		serves  = "serves on http.DefaultServeMux when it is imported"
		claims  = "claims metrics for one registry when it is imported"
		base    = "k8s.io/component-base/"
		metrics = base + "metrics/prometheus/"
	)
	return map[string]string{
		"os/signal":                         catches,
		"expvar":                            serves,
		"net/http/pprof":                    serves,
		"golang.org/x/net/trace":            serves,
		base + "version/verflag":            "registers the flag --version when it is imported",
		base + "configz":                    global,
		base + "logs/json/register":         "registers a log format when it is imported",
		metrics + "clientgo":                claims,
		metrics + "restclient":              claims,
		metrics + "workqueue":               claims,
		metrics + "clientgo/leaderelection": claims,
		"github.com/prometheus/client_golang/prometheus/promauto": global,
	}
}
