package migrate

import (
	"context"
	"errors"
	"fmt"
	"strings"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/fxccm/fxccm/provider/openstack/cloudconf"
)

func (m *migration) runRollback(ctx context.Context) error {
	if err := m.find(ctx); err != nil {
		return err
	}
	replicas, err := m.installed(ctx)
	if err != nil {
		return err
	}
	if !m.occm.isStopped() && replicas <= 0 {
		m.say("Nothing to do: %s is not stopped, and fxccm has no replicas.", m.occm)
		return m.deleteRecord(ctx)
	}
	if err := m.readArguments(ctx); err != nil {
		return err
	}
	if m.isBlocked() {
		return errBlocked(m.blockers())
	}
	if err := m.warnUnsupported(ctx); err != nil {
		return err
	}
	m.say(`fxccm migrate rollback does this:
  1. scale Deployment %s/%s to zero, and wait until its Pods are gone and its lease is free
  2. start %s as it was
  3. remove the condition %s from Services`, m.occm.Namespace, fxccmName, m.occm,
		conditionType)
	if err := m.confirm(ctx); err != nil {
		return err
	}
	if err := m.goBack(ctx); err != nil {
		if ctx.Err() != nil {
			err = m.interrupted(err)
		}
		return err
	}
	m.say("%s runs again. fxccm stays installed, without replicas.", m.occm)
	return nil
}

// blockers are the findings that block.
func (m *migration) blockers() error {
	var all []error
	for _, f := range m.findings {
		if f.Level == Blocks {
			all = append(all, fmt.Errorf("%s: %s", f.Subject, f.Text))
		}
	}
	return errors.Join(all...)
}

// goBack stops fxccm and starts OCCM. It starts OCCM even if fxccm's Pods do not end: OCCM waits
// for the lease, and a cluster without a cloud controller manager would be worse.
func (m *migration) goBack(ctx context.Context) error {
	replicas, err := m.installed(ctx)
	if err != nil {
		return err
	}
	if replicas > 0 {
		m.say("Stopping fxccm")
		if err := m.scale(ctx, 0); err != nil {
			return err
		}
	}
	if replicas >= 0 {
		err = m.awaitGone(ctx, "fxccm", fxccmSelector())
		if err == nil && replicas > 0 {
			err = m.awaitFree(ctx)
		}
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err != nil:
			m.say("Warning: %v; OCCM waits for the lease", err)
		}
	}
	m.say("Starting %s", m.occm)
	if err := m.restore(ctx, m.occm); err != nil {
		return err
	}
	if err := m.served.removeConditions(ctx); err != nil {
		m.say("Warning: %v; the condition %s stays, and OCCM ignores it", err, conditionType)
	}
	return m.deleteRecord(ctx)
}

// conditionType is the condition of Services that fxccm does not serve, or not as requested.
const conditionType = "fxccm.dev/LoadBalancerReady"

// removeConditions removes fxccm's condition from all Services, because only fxccm updates it. The
// rest of the status stays.
func (c *Cluster) removeConditions(ctx context.Context) error {
	services, err := c.CoreV1().Services("").List(ctx, metav1.ListOptions{})
	if err != nil {
		return fmt.Errorf("list the Services: %w", err)
	}
	patch := fmt.Appendf(nil, `{"status": {"conditions": [{"$patch": "delete", "type": %q}]}}`,
		conditionType)
	var failed []error
	for _, s := range services.Items {
		if meta.FindStatusCondition(s.Status.Conditions, conditionType) == nil {
			continue
		}
		_, err := c.CoreV1().Services(s.Namespace).Patch(ctx, s.Name,
			types.StrategicMergePatchType, patch, metav1.PatchOptions{FieldManager: fieldManager},
			"status")
		if err != nil && !apierrors.IsNotFound(err) {
			failed = append(failed,
				fmt.Errorf("update Service %s/%s: %w", s.Namespace, s.Name, err))
		}
	}
	return errors.Join(failed...)
}

// unsupported are the annotations that OCCM does not support, and their effect.
var unsupported = []struct{ annotation, effect string }{
	{"listener-protocols", "OCCM wants TCP listeners and cannot create them on the same ports"},
	{"x-forwarded-port", "OCCM wants TCP listeners and cannot create them on the same ports"},
	{"x-forwarded-proto", "OCCM wants TCP listeners and cannot create them on the same ports"},
	{"lb-provider", "no effect with OCCM"},
	{"recreate", "no effect with OCCM"},
	{"additional-subnet-id", "no effect with OCCM; the address stays"},
	{"address", "no effect with OCCM; the address stays, and spec.loadBalancerIP requests it"},
	{"floating-ip-id", "no effect with OCCM; the floating IP stays"},
	{"floating-ip-tag", "no effect with OCCM; the floating IP stays, with fxccm's tags"},
	{"member-target", "OCCM makes nodes the members, which needs node ports"},
	{"share-as", "no effect with OCCM; Services that share a load balancer keep it"},
}

// warnUnsupported lists the settings that OCCM does not support.
func (m *migration) warnUnsupported(ctx context.Context) error {
	world, err := m.readWorld(ctx)
	if err != nil {
		return err
	}
	warn := func(format string, args ...any) { m.say("Warning: "+format, args...) }
	for _, s := range world.Services {
		name := s.Namespace + "/" + s.Name
		for _, u := range unsupported {
			if _, is := s.Annotations[annotations+u.annotation]; is {
				warn("Service %s, annotation %s%s: %s", name, annotations, u.annotation, u.effect)
			}
		}
		for _, mode := range []string{"proxy-protocol", "x-forwarded-for"} {
			value := s.Annotations[annotations+mode]
			if value != "" && value != "false" && hasDatagrams(s) {
				warn("Service %s, annotation %s%s with UDP or SCTP ports: OCCM deletes their listeners",
					name, annotations, mode)
			}
		}
		if len(s.Status.LoadBalancer.Ingress) > 1 {
			warn("Service %s: OCCM drops its second address from the status", name)
		}
	}
	found, err := m.readFile(ctx, m.settings.Config.CloudProvider.ConfigFile)
	if err != nil {
		warn("cloud.conf cannot be read (%v): OCCM ignores [Client], [Instances], "+
			"drift-period, max-shared-listeners, member-target, pod-ranges, "+
			"provider-needs-no-node-ports, share-across-namespaces and share-as", err)
		return nil
	}
	loaded, err := m.loadCloudConf(ctx, found.content, false, func(string, mounted, error) {})
	if err != nil {
		warn("cloud.conf is invalid: %v", err)
		return nil
	}
	if names := loaded.Config.RegionNames()[1:]; len(names) > 0 {
		warn("cloud.conf: OCCM serves only the default region, and not %s",
			strings.Join(names, ", "))
	}
	text, err := cloudconf.Render(loaded.Config)
	if err != nil {
		return fmt.Errorf("cloud.conf: %w", err)
	}
	for _, setting := range []string{
		"[Client]", "[Instances]", "drift-period", "max-shared-listeners", "member-target",
		"pod-ranges", "provider-needs-no-node-ports", "share-across-namespaces",
		"share-as",
	} {
		if strings.Contains(text, "\n"+setting) {
			warn("cloud.conf: OCCM ignores %s", setting)
		}
	}
	return nil
}

func hasDatagrams(s *v1.Service) bool {
	for _, port := range s.Spec.Ports {
		if port.Protocol != v1.ProtocolTCP {
			return true
		}
	}
	return false
}
