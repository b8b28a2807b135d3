package main

import (
	_ "embed"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/fxccm/fxccm/ccm"
	"github.com/fxccm/fxccm/options"
)

// prefix begins each flag of the cloud controller manager. Without it, --leader-elect, --kubeconfig
// and others would exist twice, and AddFlags would refuse them.
const prefix = "ccm-"

// rbac has the rules that the program needs in its cluster.
//
//go:embed rbac.yaml
var rbac string

// commandLine has the values of the arguments.
type commandLine struct {
	host     hostFlags
	ccm      ccm.Config
	gates    map[string]bool
	warnings []string

	printRBAC bool
}

// hostFlags are the flags that this host had before it contained a cloud controller manager.
type hostFlags struct {
	kubeconfig string
	listen     string
	election   electionFlags
}

// electionFlags are --leader-elect and the related flags.
type electionFlags struct {
	enabled                                   bool
	identity                                  string
	leaseDuration, renewDeadline, retryPeriod time.Duration
}

// parse reads the arguments. The error is one sentence for each flag at fault.
func parse(args []string) (commandLine, error) {
	var cmd commandLine
	flags := pflag.NewFlagSet("fxccm-embedded", pflag.ContinueOnError)
	flags.StringVar(&cmd.host.kubeconfig, "kubeconfig", "",
		"How to reach the API server. Empty: as a pod does.")
	flags.StringVar(&cmd.host.listen, "listen", "127.0.0.1:8090",
		"Where to serve /healthz, /nodes, /metrics, and /ccm/.")
	flags.BoolVar(&cmd.printRBAC, "print-rbac", false,
		"Print what the program may do in its cluster, for kubectl apply, and exit.")
	e := &cmd.host.election
	flags.BoolVar(&e.enabled, "leader-elect", true,
		"Act only while holding the lease "+leaseNamespace+"/"+leaseName+".")
	flags.StringVar(&e.identity, "leader-elect-identity", "",
		"The name in the lease. Empty: the host name and a random part.")
	flags.DurationVar(&e.leaseDuration, "leader-elect-lease-duration", 15*time.Second,
		"After it another may take a lease that is not renewed.")
	flags.DurationVar(&e.renewDeadline, "leader-elect-renew-deadline", 10*time.Second,
		"After it a leader that can not renew gives up.")
	flags.DurationVar(&e.retryPeriod, "leader-elect-retry-period", 2*time.Second,
		"The pause between two tries.")

	manager := options.New()
	// By default it leads with the host. With --ccm-leader-elect it has a lease of its own, and may
	// lead in another replica than the host.
	manager.Config.LeaderElection.LeaderElect = false
	if err := manager.AddFlags(flags, options.WithPrefix(prefix),
		options.WithControllers(censusName)); err != nil {
		return cmd, err
	}
	flags.Lookup(prefix +
		"leader-elect").Usage = "Hold a lease of its own before acting. Without this flag the cloud controller manager acts when the host leads."
	if err := flags.Parse(args); err != nil {
		return cmd, err
	}
	if flags.NArg() > 0 {
		return cmd,
			fmt.Errorf("want flags only, got %q: see --help", strings.Join(flags.Args(), " "))
	}
	completed, err := manager.Complete()
	if err := errors.Join(e.complete(), notUsed(flags), err); err != nil {
		return cmd, err
	}
	cmd.ccm, cmd.gates, cmd.warnings = completed.Config, completed.FeatureGates, completed.Warnings
	return cmd, nil
}

// notUsed refuses flags without effect: the host gives these settings to the cloud controller
// manager.
func notUsed(flags *pflag.FlagSet) error {
	var errs []error
	for name, instead := range map[string]string{
		"kubeconfig": "kubeconfig", "master": "kubeconfig",
		"secure-port": "listen", "bind-address": "listen",
	} {
		if flags.Changed(prefix + name) {
			errs = append(errs,
				fmt.Errorf(
					"--%s%s has no effect here: the cloud controller manager shares what --%s says",
					prefix, name, instead))
		}
	}
	return errors.Join(errs...)
}

// complete fills in the identity, and returns errors that client-go's elector would return later.
func (e *electionFlags) complete() error {
	if e.leaseDuration <= e.renewDeadline || e.renewDeadline <= e.retryPeriod*12/10 ||
		e.retryPeriod <= 0 || e.leaseDuration%time.Second != 0 {
		return fmt.Errorf(
			"--leader-elect-lease-duration (%s) must be in whole seconds and more than --leader-elect-renew-deadline (%s), and that more than 1.2 times --leader-elect-retry-period (%s)",
			e.leaseDuration, e.renewDeadline, e.retryPeriod)
	}
	if e.identity != "" {
		return nil
	}
	host, err := os.Hostname()
	if err != nil {
		return fmt.Errorf("--leader-elect-identity is needed: %w", err)
	}
	e.identity = host + "_" + string(uuid.NewUUID())
	return nil
}

func newRESTConfig(flags hostFlags) (*rest.Config, error) {
	config, err := clientcmd.BuildConfigFromFlags("", flags.kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("--kubeconfig: %w", err)
	}
	return config, nil
}
