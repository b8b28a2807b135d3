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

	"github.com/spf13/pflag"

	"github.com/fxccm/fxccm/provider/openstack/cloudconf"
)

const about = `Replace openstack-cloud-controller-manager (OCCM) in a cluster by fxccm, and go back.

Usage:
  fxccm migrate check                     find OCCM; list what stays, what differs and what blocks
  fxccm migrate plan                      list what fxccm would change for each Service
  fxccm migrate apply --image=IMAGE       install fxccm, stop OCCM, start fxccm, verify; else go back
  fxccm migrate rollback                  stop fxccm, start OCCM

check and plan change nothing. apply and rollback ask before they change anything. Each command can be interrupted
and repeated.

Exit codes: 0 success, 1 an error, 2 the migration is blocked.
`

// Exit codes.
const (
	exitDone    = 0
	exitFailed  = 1
	exitBlocked = 2
)

// line is the command line.
type line struct {
	kubeconfig, occm, cloudConfig, image, output string
	files                                        map[string]string
	timeout                                      time.Duration
	allowChanges, yes, help                      bool

	flags *pflag.FlagSet
}

func newLine() *line {
	l := &line{flags: pflag.NewFlagSet("fxccm migrate", pflag.ContinueOnError)}
	l.flags.Usage = func() {}
	l.flags.StringVar(&l.kubeconfig, "kubeconfig", "",
		"The kubeconfig of a cluster administrator. Empty: as kubectl.")
	l.flags.StringVar(&l.occm, "occm", "",
		"OCCM's Deployment or DaemonSet, as [namespace/]name. Empty: it is searched for.")
	l.flags.StringVar(&l.cloudConfig, "cloud-config", "",
		"A local copy of OCCM's cloud.conf, for reading OpenStack. Empty: from OCCM's Secret.")
	l.flags.StringToStringVar(&l.files, "file", nil,
		"PATH=FILE: a local copy of a file that OCCM mounts from its node, such as a CA. Repeatable.")
	l.flags.BoolVar(&l.allowChanges, "allow-changes", false,
		"Migrate even if fxccm would change or refuse Services; these are not verified.")
	l.flags.StringVar(&l.image, "image", "", "With apply: fxccm's image.")
	l.flags.DurationVar(&l.timeout, "timeout", 5*time.Minute,
		"With apply and rollback: how long each step may take.")
	l.flags.BoolVar(&l.yes, "yes", false, "With apply and rollback: do not ask.")
	l.flags.StringVarP(&l.output, "output", "o", "",
		"With check and plan: json. Empty: a table.")
	l.flags.BoolVarP(&l.help, "help", "h", false, "Show this help and exit.")
	return l
}

// migration is one run of a command.
type migration struct {
	*Cluster
	program Program
	line    *line
	in      io.Reader
	out     io.Writer

	// The following fields are set by check.
	occm     *workload
	settings settings
	findings []Finding
	// conf is OCCM's cloud.conf, with files of this machine; nil if it cannot be read.
	conf *cloudconf.Config
	// extra are arguments in addition to OCCM's.
	extra []string
	world World
	plans ServicePlans
}

// Run is "fxccm migrate" from its arguments to its exit code.
func (p Program) Run(ctx context.Context, args []string, in io.Reader, out, errs io.Writer) int {
	l := newLine()
	err := l.flags.Parse(args)
	command := l.flags.Arg(0)
	if err == nil && (l.help || command == "") {
		_, _ = fmt.Fprintf(out, "%s\nFlags:\n%s", about, l.flags.FlagUsages())
		return exitDone
	}
	code := exitFailed
	if err == nil {
		code, err = p.run(ctx, command, l, in, out)
	}
	if err != nil {
		for sentence := range strings.Lines(err.Error()) {
			_, _ = fmt.Fprintln(errs, "fxccm migrate: "+strings.TrimSpace(sentence))
		}
	}
	return code
}

func (p Program) run(
	ctx context.Context, command string, l *line, in io.Reader, out io.Writer,
) (code int, err error) {
	commands := map[string]func(*migration, context.Context) (int, error){
		"check": (*migration).runCheck, "plan": (*migration).runPlan,
		"apply": (*migration).runApply, "rollback": (*migration).runRollback,
	}
	run := commands[command]
	switch {
	case run == nil || l.flags.NArg() > 1:
		return exitFailed, fmt.Errorf("want check, plan, apply or rollback, got %q: see --help",
			l.flags.Args())
	case l.output != "" && l.output != "json":
		return exitFailed, fmt.Errorf("--output=%s is not supported: want json", l.output)
	case command == "apply" && l.image == "":
		return exitFailed, errors.New("--image must be given")
	case l.timeout <= 0:
		return exitFailed, errors.New("--timeout must be longer than 0")
	}
	cluster, err := Connect(l.kubeconfig)
	if err != nil {
		return exitFailed, err
	}
	m := &migration{Cluster: cluster, program: p, line: l, in: in, out: out}
	return run(m, ctx)
}

// checked runs check, and then use. The folder for copies of files exists until both have returned.
func (m *migration) checked(ctx context.Context, use func() (int, error)) (code int, err error) {
	dir, err := os.MkdirTemp("", "fxccm-migrate-")
	if err != nil {
		return exitFailed, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	if err := m.check(ctx, dir); err != nil {
		return exitFailed, err
	}
	return use()
}

func (m *migration) runCheck(ctx context.Context) (int, error) {
	return m.checked(ctx, func() (int, error) {
		report := m.report()
		code := exitDone
		if report.Blocked {
			code = exitBlocked
		}
		if m.line.output == "json" {
			return code, writeJSON(m.out, report)
		}
		return code, report.WriteTable(m.out)
	})
}

func (m *migration) runPlan(ctx context.Context) (int, error) {
	return m.checked(ctx, func() (int, error) {
		if m.plans == nil {
			return exitBlocked, errors.New("no plan is possible: see fxccm migrate check")
		}
		if m.line.output == "json" {
			return exitDone, m.plans.WriteJSON(m.out)
		}
		return exitDone, m.plans.WriteTable(m.out)
	})
}

// say prints a line for the operator.
func (m *migration) say(format string, args ...any) {
	_, _ = fmt.Fprintf(m.out, format+"\n", args...)
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
