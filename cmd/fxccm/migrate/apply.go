package migrate

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// lastRequests is how long the last requests after an interruption may take.
const lastRequests = 10 * time.Second

func (m *migration) runApply(ctx context.Context) error {
	return m.checked(ctx, func() error {
		earlier, err := m.readRecord(ctx)
		if err != nil {
			return err
		}
		if m.occm.isStopped() && m.served == nil {
			return errBlocked(m.blockers())
		}
		if m.occm.isStopped() && earlier == nil {
			return m.alreadyDone(ctx)
		}
		if earlier != nil && m.occm.isStopped() {
			m.say("Continuing an earlier migration: %s is stopped.", m.occm)
		} else if m.isBlocked() {
			if err := m.report().WriteTable(m.out); err != nil {
				return err
			}
			return errBlocked(errors.New("nothing was changed"))
		}
		if m.conf == nil {
			return errBlocked(errors.Join(m.blockers(), m.interrupted(nil)))
		}
		if err := m.install(ctx, true); err != nil {
			return err
		}
		m.announce()
		if err := m.confirm(ctx); err != nil {
			return err
		}
		err = m.apply(ctx, earlier)
		switch {
		case err == nil:
			return nil
		case ctx.Err() != nil:
			return m.interrupted(err)
		}
		m.say("Going back: %v", err)
		if back := m.goBack(ctx); back != nil {
			return errors.Join(err, fmt.Errorf("the way back failed: %w", back),
				m.interrupted(nil))
		}
		return fmt.Errorf("%w\nOCCM runs again; fxccm has no replicas", err)
	})
}

// announce prints what apply will do.
func (m *migration) announce() {
	m.say("%s", m.plans.Summary())
	for _, f := range m.findings {
		if f.Level == Differs && f.Subject == "managed by" {
			m.say("Warning: %s", f.Text)
		}
	}
	m.say(`fxccm migrate apply does this:
  1. install Deployment %s/%s with image %s and OCCM's settings, without replicas
  2. stop %s, and wait until its Pods are gone and its lease is free
  3. start fxccm, and wait until it leads and is ready
  4. compare OpenStack before and after: only tags may differ
If a step fails, it stops fxccm and starts OCCM again.
Load balancers keep forwarding. Changes of nodes and Services wait until fxccm leads: avoid them.`,
		m.occm.Namespace, fxccmName, m.line.image, m.occm)
}

// apply runs the steps. Each step is a no-op if it was done before.
func (m *migration) apply(ctx context.Context, earlier *record) error {
	m.say("Installing fxccm")
	if err := m.install(ctx, false); err != nil {
		return err
	}
	before := earlier
	if before == nil || !m.occm.isStopped() {
		// fxccm of an unfinished attempt must not lead before OCCM stops.
		if err := m.scale(ctx, 0); err != nil {
			return err
		}
		m.say("Reading OpenStack")
		now, err := m.newRecord(ctx)
		if err != nil {
			return err
		}
		if err := m.writeRecord(ctx, now); err != nil {
			return err
		}
		before = &now
	}
	replicas, err := m.installed(ctx)
	if err != nil {
		return err
	}
	m.say("Stopping %s", m.occm)
	if err := m.stop(ctx, m.occm); err != nil {
		return err
	}
	if err := m.awaitGone(ctx, "OCCM", m.occm.selector); err != nil {
		return err
	}
	if replicas <= 0 {
		if err := m.awaitFree(ctx); err != nil {
			return err
		}
		m.say("Starting fxccm")
		if err := m.scale(ctx, before.Replicas); err != nil {
			return err
		}
	}
	if err := m.awaitLeader(ctx); err != nil {
		return err
	}
	m.say("Verifying")
	if err := m.verify(ctx, *before); err != nil {
		return err
	}
	if err := m.deleteRecord(ctx); err != nil {
		return err
	}
	verdict := "Nothing but tags has changed in OpenStack."
	if !m.conf.LoadBalancer.Enabled {
		verdict = "OpenStack was not compared: load balancers are disabled in cloud.conf."
	}
	m.say(`fxccm runs the cluster. %s
Look at it: %s
Keep OCCM's objects for a while: "fxccm migrate rollback" needs them. Delete them afterwards.`,
		verdict, m.statusCommand())
	return nil
}

// statusCommand is the command that shows the state of the installed replicas, without default
// flags.
func (m *migration) statusCommand() string {
	if m.isHosted() { // the replicas cannot authenticate a caller of their own cluster
		return "kubectl -n " + m.occm.Namespace + " logs deployment/" + fxccmName
	}
	command := "fxccm status"
	add := func(flag, value, unless string) {
		if value != unless {
			command += " --" + flag + "=" + value
		}
	}
	flags, _ := m.program.NewFlags()
	election := m.settings.Config.LeaderElection
	lease := election.ResourceName
	if election.ResourceNamespace != m.occm.Namespace {
		lease = election.ResourceNamespace + "/" + lease
	}
	add("kubeconfig", m.line.Kubeconfig, "")
	add("context", m.line.Context, "")
	add("namespace", m.occm.Namespace, metav1.NamespaceSystem)
	add("lease", lease, flags.Lookup("leader-elect-resource-name").DefValue)
	add("port", strconv.Itoa(m.settings.Serving.SecurePort), flags.Lookup("secure-port").DefValue)
	return command
}

// verify waits until fxccm has served all Services, and compares OpenStack with its previous state.
func (m *migration) verify(ctx context.Context, before record) error {
	verified := map[string]bool{}
	for _, uid := range before.Verified {
		verified[uid] = true
	}
	pending := func(ctx context.Context) (string, error) {
		var err error
		if m.world, err = m.readWorld(ctx); err != nil {
			return "", err
		}
		m.plans, err = PlanServices(ctx, *m.conf, m.settings.Config, "", m.world)
		if err != nil {
			return "", err
		}
		var left []string
		for i, plan := range m.plans {
			if verified[string(m.world.Services[i].UID)] && plan.Outcome != NoChange {
				left = append(left, fmt.Sprintf("%s: %s %s", plan.Service, plan.Outcome,
					plan.Error))
			}
		}
		return strings.Join(left, "; "), nil
	}
	settled := m.until(ctx, "fxccm has served each Service", pending)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	after, err := m.snapshot(ctx, before.Verified)
	if err != nil {
		return err
	}
	if lines := before.Before.Differences(after); len(lines) > 0 {
		return fmt.Errorf("more than tags has changed in OpenStack:\n%s", strings.Join(lines, "\n"))
	}
	return settled
}

// alreadyDone is apply after a finished migration.
func (m *migration) alreadyDone(ctx context.Context) error {
	if err := m.awaitLeader(ctx); err != nil {
		return err
	}
	m.say("fxccm runs the cluster already; %s is stopped.", m.occm)
	return nil
}

// interrupted reports the progress of the migration. The context of the command has ended.
func (m *migration) interrupted(err error) error {
	ctx, cancel := context.WithTimeout(context.Background(), lastRequests)
	defer cancel()
	state := m.occm.String()
	if now, findErr := m.findOCCM(ctx, m.occm.Namespace+"/"+m.occm.Name); findErr != nil {
		state += " has an unknown state"
	} else if len(now) == 1 && now[0].kind == m.occm.kind && now[0].isStopped() {
		state += " is stopped"
	} else {
		state += " runs"
	}
	replicas, installErr := m.installed(ctx)
	switch {
	case installErr != nil:
		state += "; the state of fxccm is unknown"
	case replicas < 0:
		state += "; fxccm is not installed"
	default:
		state += fmt.Sprintf("; fxccm has %d replicas", replicas)
	}
	where := fmt.Errorf("%s. Run apply again to continue, or rollback to go back", state)
	if err == nil {
		return where
	}
	return fmt.Errorf("interrupted (%w): %w", err, where)
}
