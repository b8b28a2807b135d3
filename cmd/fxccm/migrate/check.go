package migrate

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fxccm/fxccm/cmd/fxccm/cli"
)

// Level is the effect of a finding on the migration.
type Level string

// The levels.
const (
	Same    Level = "same"
	Differs Level = "differs"
	Blocks  Level = "blocks"
)

func (l Level) color() cli.Color {
	switch l {
	case Differs:
		return cli.Yellow
	case Blocks:
		return cli.Red
	}
	return cli.Plain
}

// Finding is a line of the report.
type Finding struct {
	Level   Level  `json:"level"`
	Subject string `json:"subject"`
	Text    string `json:"text"`
}

// Report is the result of "fxccm migrate check".
type Report struct {
	OCCM     string       `json:"occm"`
	Findings []Finding    `json:"findings"`
	Services ServicePlans `json:"services"`
	Blocked  bool         `json:"blocked"`
}

func (m *migration) add(level Level, subject, format string, args ...any) {
	m.findings = append(m.findings, Finding{level, subject, fmt.Sprintf(format, args...)})
}

// isBlocked reports whether a finding blocks the migration.
func (m *migration) isBlocked() bool { return blocks(m.findings) }

func blocks(findings []Finding) bool {
	return slices.ContainsFunc(findings, func(f Finding) bool { return f.Level == Blocks })
}

// check reads the cluster and OpenStack, and changes nothing. It copies files into dir.
func (m *migration) check(ctx context.Context, dir string) error {
	if err := m.find(ctx); err != nil {
		return err
	}
	m.add(Same, "cluster", "%s", m.Cluster)
	m.checkWorkload()
	m.checkMetadata()
	if err := m.checkOwners(ctx); err != nil {
		return err
	}
	if err := m.checkPods(ctx); err != nil {
		return err
	}
	if err := m.readArguments(ctx); err != nil {
		return err
	}
	m.checkPort()
	m.checkUser(ctx)
	if err := m.checkOthers(ctx); err != nil {
		return err
	}
	if m.isBlocked() {
		return nil
	}
	m.checkEnvironment()
	m.readCloudConf(ctx, dir)
	if err := m.checkLease(ctx); err != nil {
		return err
	}
	if err := m.checkRoles(ctx); err != nil {
		return err
	}
	var err error
	if m.world, err = m.readWorld(ctx); err != nil {
		return err
	}
	if m.isBlocked() {
		return nil // OpenStack can be read only with a cloud.conf
	}
	m.plans, err = PlanServices(ctx, *m.conf, m.settings.Config, "", m.world)
	if err != nil {
		return err
	}
	m.checkServices()
	return nil
}

// readArguments reads OCCM's command line, and decides which cluster OCCM serves.
func (m *migration) readArguments(ctx context.Context) error {
	m.variables = m.readEnvironment(ctx, m.occm)
	words, err := m.commandLine()
	if err != nil {
		m.blockAll("arguments", err)
		return nil
	}
	if m.settings, err = m.program.judge(words, m.occm.template.Spec.HostNetwork); err != nil {
		m.add(Blocks, "arguments", "%v", err)
	}
	m.findings = append(m.findings, m.settings.findings...)
	if err != nil || blocks(m.settings.findings) {
		return nil
	}
	if m.line.cloudConfig != "" {
		m.line.files[m.inContainer(m.settings.Config.CloudProvider.ConfigFile)] = m.line.cloudConfig
	}
	return m.chooseServed(ctx)
}

// checkPort blocks if fxccm, which is not root, cannot bind OCCM's port of the node.
func (m *migration) checkPort() {
	port := m.settings.Serving.SecurePort
	if m.occm.template.Spec.HostNetwork && port > 0 && port < 1024 {
		m.add(Blocks, "--secure-port", "fxccm does not run as root, and only root may bind port %d "+
			"of a node: set another port in OCCM's arguments", port)
	}
}

// find finds the workload of OCCM. It must be the only one.
func (m *migration) find(ctx context.Context) error {
	all, err := m.findOCCM(ctx, m.line.occm)
	if err != nil {
		return err
	}
	var names []string
	for _, w := range all {
		names = append(names, w.String())
	}
	switch len(all) {
	case 0:
		return m.notFound(ctx)
	case 1:
		m.occm = all[0]
		return nil
	}
	return fmt.Errorf("several workloads run %s: %s; choose one with --occm=namespace/name",
		occmName, strings.Join(names, ", "))
}

// owners are labels and annotations of controllers that may revert a change of OCCM's workload.
var owners = []struct{ key, text string }{
	{releaseAnnotation, "Helm release %s: do not upgrade it until the end"},
	{
		"argocd.argoproj.io/tracking-id",
		"Argo CD (%s) may start it again: suspend the synchronization first",
	},
	{
		"argocd.argoproj.io/instance",
		"Argo CD application %s may start it again: suspend the synchronization first",
	},
	{
		"kustomize.toolkit.fluxcd.io/name",
		"Flux Kustomization %s may start it again: suspend it first",
	},
	{"helm.toolkit.fluxcd.io/name", "Flux HelmRelease %s may start it again: suspend it first"},
	{
		"objectset.rio.cattle.io/owner-name",
		"add-on %s of K3s, RKE2 or Fleet may start it again: disable it first",
	},
	{
		"addonmanager.kubernetes.io/mode",
		"the add-on manager (%s) may start it again: disable the add-on first",
	},
}

func (m *migration) checkWorkload() {
	w := m.occm
	m.add(Same, "OCCM", "%s, image %s, %d replicas", w, w.container.Image, w.replicas)
	if w.isStopped() {
		m.add(Differs, "OCCM", "stopped by an earlier fxccm migrate apply")
	} else if w.Annotations[restoreAnnotation] != "" {
		m.add(Differs, "OCCM", "it was stopped by fxccm migrate apply, and its owner has started it")
	} else if w.replicas == 0 {
		m.add(Differs, "OCCM", "it has no replicas")
	}
	for _, owner := range owners {
		value := w.Annotations[owner.key]
		if value == "" {
			value = w.Labels[owner.key]
		}
		if value != "" {
			m.add(Differs, "managed by", owner.text, value)
		}
	}
	for _, owner := range w.OwnerReferences {
		m.add(Differs, "managed by", "%s %s may start it again: suspend it first", owner.Kind,
			owner.Name)
	}
	if w.user() == 0 {
		m.add(Differs, "user", "OCCM may run as root and fxccm does not: any user must be able to "+
			"read the files of host paths")
	}
	if n := len(w.template.Spec.InitContainers); n > 0 {
		m.add(Differs, "init containers", "%d are not taken over", n)
	}
	if n := len(w.template.Spec.Containers); n > 1 {
		m.add(Differs, "sidecars", "%d containers beside OCCM's are not taken over", n-1)
	}
	for _, volume := range w.template.Spec.Volumes {
		what := "taken over"
		switch {
		case volume.EmptyDir != nil:
			what = "taken over empty"
		case volume.Secret != nil:
			what = "Secret " + volume.Secret.SecretName + ", taken over"
		case volume.HostPath != nil:
			what = "host path " + volume.HostPath.Path + ", taken over read-only"
		}
		m.add(Same, "volume "+volume.Name, "%s", what)
	}
}

// proxies are variables that change how OCCM reaches OpenStack.
var proxies = []string{"HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY"}

// checkEnvironment shows only the names of the variables, because their values may be secrets.
func (m *migration) checkEnvironment() {
	for _, env := range m.occm.container.Env {
		if env.Name == "OCCM_WAIT_LB_ACTIVE_STEPS" {
			m.add(Differs, "variable "+env.Name, "no effect: fxccm waits without a limit")
			continue
		}
		if slices.Contains(proxies, strings.ToUpper(env.Name)) {
			m.add(Differs, "variable "+env.Name, "taken over; fxccm migrate itself uses the "+
				"proxies of this machine")
			continue
		}
		m.add(Same, "variable "+env.Name, "taken over")
	}
	if len(m.occm.container.EnvFrom) > 0 {
		m.add(Same, "variables", "those from ConfigMaps and Secrets are taken over")
	}
}

func (m *migration) checkLease(ctx context.Context) error {
	lease, err := m.readLease(ctx)
	switch {
	case apierrors.IsNotFound(err):
		m.add(Differs, "lease", "it does not exist: OCCM has never led with these settings")
		return nil
	case err != nil:
		return fmt.Errorf("read the lease: %w", err)
	}
	m.add(Same, "leader", "%s", lease.holder())
	return nil
}

// checkRoles lists the bindings of OCCM's ServiceAccount. fxccm gets its own account.
func (m *migration) checkRoles(ctx context.Context) error {
	account := m.occm.template.Spec.ServiceAccountName
	if account == "" {
		account = m.occm.template.Spec.DeprecatedServiceAccount
	}
	bindings, err := m.RbacV1().ClusterRoleBindings().List(ctx, metav1.ListOptions{})
	if err != nil {
		return fmt.Errorf("list ClusterRoleBindings: %w", err)
	}
	isOCCM := func(s rbacv1.Subject) bool {
		return s.Kind == rbacv1.ServiceAccountKind && s.Name == account &&
			s.Namespace == m.occm.Namespace
	}
	for _, b := range bindings.Items {
		if !slices.ContainsFunc(b.Subjects, isOCCM) {
			continue
		}
		text := "it stays, for the way back; delete it afterwards"
		role, err := m.RbacV1().ClusterRoles().Get(ctx, b.RoleRef.Name, metav1.GetOptions{})
		switch {
		case err == nil && slices.ContainsFunc(role.Rules, readsSecrets):
			text = "it can read all Secrets, which fxccm does not need; " + text
		case err != nil && !apierrors.IsNotFound(err):
			return fmt.Errorf("read ClusterRole %s: %w", b.RoleRef.Name, err)
		}
		m.add(Differs, "ClusterRoleBinding "+b.Name, "%s", text)
	}
	return nil
}

func readsSecrets(rule rbacv1.PolicyRule) bool {
	has := func(all []string, one string) bool {
		return slices.Contains(all, one) || slices.Contains(all, "*")
	}
	return has(rule.APIGroups, "") && has(rule.Resources, "secrets") &&
		(has(rule.Verbs, "get") || has(rule.Verbs, "list")) && len(rule.ResourceNames) == 0
}

const (
	annotations    = "loadbalancer.openstack.org/"
	loadBalancerID = annotations + "load-balancer-id"
)

// checkServices adds a finding for each kind of plan. A plan that changes more than tags blocks the
// migration, unless the operator has allowed it.
func (m *migration) checkServices() {
	level := Blocks
	hint := "; with --allow-changes it does not block"
	if m.line.allowChanges {
		level, hint = Differs, ""
	}
	for _, plan := range m.plans {
		subject := "Service " + plan.Service
		switch plan.Outcome {
		case Changes:
			m.add(level, subject, "fxccm would change more than tags (%d steps)%s", len(plan.Steps),
				hint)
		case Refused:
			m.add(level, subject, "fxccm would not serve it: %s%s",
				strings.Join(plan.Notices, "; "), hint)
		case Failed:
			m.add(Blocks, subject, "no plan: %s", plan.Error)
		case NoChange, TagsOnly:
			m.add(Same, subject, "%s", plan.Outcome)
		}
		if len(plan.OtherClusters) > 0 {
			m.add(Differs, subject, "load balancer %s is shared with another cluster (tags %s): "+
				"each cluster changes only its own listeners; their --cluster-name must differ "+
				"while OCCM runs in one of them", plan.LoadBalancer,
				strings.Join(plan.OtherClusters, ", "))
		}
	}
	users := map[string][]string{}
	for _, s := range m.world.Services {
		if id := s.Annotations[loadBalancerID]; id != "" {
			users[id] = append(users[id], s.Namespace+"/"+s.Name)
		} else if s.Spec.Type == v1.ServiceTypeLoadBalancer {
			m.add(Differs, "Service "+s.Namespace+"/"+s.Name, "no annotation %s: a recent OCCM "+
				"adds it", loadBalancerID)
		}
	}
	for _, s := range m.world.Services {
		id := s.Annotations[loadBalancerID]
		if names := users[id]; len(names) > 1 {
			m.add(Same, "load balancer "+id, "shared by %s", strings.Join(names, ", "))
			delete(users, id)
		}
	}
}

// report returns the result of "fxccm migrate check".
func (m *migration) report() Report {
	return Report{m.occm.String(), m.findings, m.plans, m.isBlocked()}
}

// WriteTable writes a line for each finding, the blocking ones last.
func (r Report) WriteTable(out io.Writer) error {
	table := cli.NewTables()
	for _, level := range []Level{Same, Differs, Blocks} {
		for _, f := range r.Findings {
			if f.Level == level {
				table.ColoredRow(level.color(), string(f.Level), f.Subject, f.Text)
			}
		}
	}
	if err := table.Print(out); err != nil {
		return err
	}
	verdict := "The migration can start."
	if r.Blocked {
		verdict = "The migration is blocked."
	}
	_, err := fmt.Fprintf(out, "\n%s %s\n", r.Services.Summary(), verdict)
	return err
}
