package migrate

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	rbacv1 "k8s.io/api/rbac/v1"

	"github.com/fxccm/fxccm/cmd/fxccm/cli"
	"github.com/fxccm/fxccm/provider/openstack/cloudconf"
)

// defaultTimeout is how long a step of apply or rollback may take.
const defaultTimeout = 5 * time.Minute

const about = `Replace openstack-cloud-controller-manager (OCCM) in a cluster by fxccm, and go back.

check and plan change nothing. apply and rollback ask before they change anything. Each command can be interrupted
and repeated. The exit code is 4 if the migration is blocked.`

// ExitBlocked is the exit code if the migration is blocked.
const ExitBlocked = 4

// line is the command line.
type line struct {
	cli.Access
	cli.Output
	workloadKubeconfig, workloadContext string
	namespace, occm, cloudConfig, image string
	// files are local copies by the paths in OCCM's container.
	files             map[string]string
	copyMetadata      []string
	timeout           time.Duration
	allowChanges, yes bool
}

// Command is "fxccm migrate" with its subcommands.
func (p Program) Command() *cobra.Command {
	return cli.Group("migrate", "Replace openstack-cloud-controller-manager, and go back", about,
		p.command("check", "Find OCCM; list what stays, what differs and what blocks",
			(*migration).runCheck, (*line).addReadFlags, (*line).addOutput),
		p.command("plan", "List what fxccm would change for each Service",
			(*migration).runPlan, (*line).addReadFlags, (*line).addOutput),
		p.command("apply", "Install fxccm, stop OCCM, start fxccm, verify; else go back",
			(*migration).runApply, (*line).addReadFlags, (*line).addChangeFlags,
			(*line).addImage),
		p.command("rollback", "Stop fxccm, start OCCM",
			(*migration).runRollback, (*line).addChangeFlags),
	)
}

func (p Program) command(
	name, short string, run func(*migration, context.Context) error,
	flags ...func(*line, *pflag.FlagSet),
) *cobra.Command {
	l := &line{timeout: defaultTimeout}
	cmd := &cobra.Command{
		Use: name, Short: short, Long: short + ".", Args: cli.NoArgs,
		RunE: cli.UntilSignal(func(ctx context.Context, cmd *cobra.Command, _ []string) error {
			m, err := l.connect(name)
			if err != nil {
				return err
			}
			m.program, m.in, m.out = p, cmd.InOrStdin(), cmd.OutOrStdout()
			return run(m, ctx)
		}),
	}
	l.addFlags(cmd.Flags())
	for _, add := range flags {
		add(l, cmd.Flags())
	}
	return cmd
}

// connect checks the command line, and reads the kubeconfigs.
func (l *line) connect(command string) (*migration, error) {
	switch {
	case command == "apply" && l.image == "":
		return nil, cli.Usagef("--image must be given")
	case l.timeout <= 0:
		return nil, cli.Usagef("--timeout must be longer than 0")
	case l.workloadKubeconfig == "" && l.workloadContext != "":
		return nil, cli.Usagef("--workload-context is for --workload-kubeconfig")
	}
	if err := l.checkSource(); err != nil {
		return nil, err
	}
	if err := l.Check(); err != nil {
		return nil, err
	}
	cluster, err := l.Connect()
	if err != nil {
		return nil, err
	}
	m := &migration{Cluster: &Cluster{cluster}, line: l}
	if l.workloadKubeconfig != "" {
		workload := cli.Access{
			Kubeconfig: l.workloadKubeconfig, Context: l.workloadContext,
			Flag: "--workload-kubeconfig",
		}
		served, err := workload.Connect()
		if err != nil {
			return nil, err
		}
		m.workload = &Cluster{served}
	}
	return m, nil
}

// checkSource checks the name of OCCM's workload, and puts its namespace in front.
func (l *line) checkSource() error {
	if l.occm != "" {
		if err := cli.CheckName("--occm", l.occm); err != nil {
			return err
		}
	}
	namespace, _, isPair := strings.Cut(l.occm, "/")
	switch {
	case l.namespace == "":
	case strings.Contains(l.namespace, "/"):
		return cli.Usagef("--namespace=%s is not the name of a namespace", l.namespace)
	case !isPair:
		l.occm = l.namespace + "/" + l.occm
	case namespace != l.namespace:
		return cli.Usagef("--namespace=%s is given, and --occm=%s has another namespace",
			l.namespace, l.occm)
	}
	return nil
}

// addFlags adds the flags of all commands.
func (l *line) addFlags(set *pflag.FlagSet) {
	l.Access.AddFlags(set)
	set.Lookup("kubeconfig").Usage = "The kubeconfig of an administrator of the cluster that " +
		"OCCM's Pods run in. Empty: as kubectl."
	cli.AddFlags(set, cli.ClusterFlags, l.addWorkloadFlags)
	cli.AddFlags(set, cli.ClusterFlags, func(set *pflag.FlagSet) {
		set.StringVarP(&l.namespace, "namespace", "n", "",
			"The namespace of OCCM's Deployment or DaemonSet. Empty: all namespaces.")
	})
	cli.AddFlags(set, "Flags of OCCM", l.addSourceFlags)
}

func (l *line) addWorkloadFlags(set *pflag.FlagSet) {
	set.StringVar(&l.workloadKubeconfig, "workload-kubeconfig", "",
		"The kubeconfig of an administrator of the cluster that OCCM serves, if OCCM chooses its "+
			"API server itself, such as for a hosted control plane. Empty: OCCM serves the "+
			"cluster of --kubeconfig.")
	set.StringVar(&l.workloadContext, "workload-context", "",
		"The context of --workload-kubeconfig. Empty: its current context.")
}

// addSourceFlags adds the flags that say where OCCM and its files are.
func (l *line) addSourceFlags(set *pflag.FlagSet) {
	set.StringVar(&l.occm, "occm", "",
		"OCCM's Deployment or DaemonSet, as [namespace/]name. Empty: it is searched for.")
	set.StringVar(&l.cloudConfig, "cloud-config", "",
		"A local copy of OCCM's cloud.conf, for reading OpenStack. Empty: from OCCM's Secret.")
	set.StringToStringVar(&l.files, "file", map[string]string{},
		"`PATH=FILE`: a local copy of a file of OCCM's Pods that only their node has, such as a CA; "+
			"PATH= if it has none. Repeatable.")
}

// addReadFlags adds the flags of commands that decide whether the migration can start.
func (l *line) addReadFlags(set *pflag.FlagSet) {
	set.StringSliceVar(&l.copyMetadata, "copy-metadata", nil,
		"Annotations and labels of OCCM's Pods that fxccm's Pods get, too, such as "+
			"vault.example.com/*, for agents that inject files or variables.")
	set.BoolVar(&l.allowChanges, "allow-changes", false,
		"Migrate even if fxccm would change or refuse Services; these are not verified.")
}

func (l *line) addImage(set *pflag.FlagSet) {
	set.StringVar(&l.image, "image", "", "fxccm's image.")
}

func (l *line) addOutput(set *pflag.FlagSet) { l.Output.AddFlag(set, "a table") }

func (l *line) addChangeFlags(set *pflag.FlagSet) {
	set.DurationVar(&l.timeout, "timeout", defaultTimeout, "How long each step may take.")
	set.BoolVar(&l.yes, "yes", false, "Do not ask.")
}

// errBlocked is the error of a blocked migration; nil if the reason was printed.
func errBlocked(err error) error { return &cli.ExitError{Code: ExitBlocked, Err: err} }

// migration is one run of a command.
type migration struct {
	*Cluster
	program Program
	line    *line
	in      io.Reader
	out     io.Writer

	// workload is the cluster of --workload-kubeconfig; nil without it.
	workload *Cluster

	// The following fields are set by check.
	occm *workload
	// variables are those of OCCM's container.
	variables map[string]variable
	// served is the cluster that OCCM serves: nodes, Services and the lease. OCCM's Pods run in
	// Cluster, which may be another one. Nil: it is not known.
	served *Cluster
	// subject is the user that OCCM logs in as; nil if it is the ServiceAccount of the Pods.
	subject  *rbacv1.Subject
	settings settings
	findings []Finding
	// conf is OCCM's cloud.conf, with files of this machine; nil if it cannot be read.
	conf *cloudconf.Config
	// extra are arguments in addition to OCCM's.
	extra []string
	world World
	plans ServicePlans
}

// checked runs check, and then use. The folder for copies of files exists until both have returned.
func (m *migration) checked(ctx context.Context, use func() error) (err error) {
	dir, err := os.MkdirTemp("", "fxccm-migrate-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	if err := m.check(ctx, dir); err != nil {
		return err
	}
	return use()
}

func (m *migration) runCheck(ctx context.Context) error {
	return m.checked(ctx, func() error {
		report := m.report()
		err := m.line.Print(m.out, report, report.WriteTable)
		if err == nil && report.Blocked {
			return errBlocked(nil)
		}
		return err
	})
}

func (m *migration) runPlan(ctx context.Context) error { return m.checked(ctx, m.printPlans) }

// printPlans returns an error with ExitBlocked if the migration is blocked.
func (m *migration) printPlans() error {
	if m.plans == nil {
		return errBlocked(errors.New("no plan is possible: see fxccm migrate check"))
	}
	err := m.line.Print(m.out, m.plans, m.plans.WriteTable)
	if err == nil && m.isBlocked() {
		return errBlocked(errors.New("the migration is blocked: see fxccm migrate check"))
	}
	return err
}

// say prints a line for the operator.
func (m *migration) say(format string, args ...any) {
	_, _ = fmt.Fprintln(m.out, cli.Printable(fmt.Sprintf(format, args...)))
}

// confirm asks the operator, unless --yes is given.
func (m *migration) confirm(ctx context.Context) error {
	if m.line.yes {
		return nil
	}
	_, _ = fmt.Fprint(m.out, "Continue? [y/N] ")
	answers := make(chan string, 1)
	go func() { // a terminal's read cannot be canceled; it ends with the process
		answer, _ := bufio.NewReader(m.in).ReadString('\n')
		answers <- strings.ToLower(strings.TrimSpace(answer))
	}()
	answer := ""
	select {
	case answer = <-answers:
	case <-ctx.Done():
	}
	if answer != "y" && answer != "yes" {
		return errors.New("not confirmed; nothing was changed")
	}
	return nil
}
