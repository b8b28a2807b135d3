package persistentvolumelabel_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	utilrand "k8s.io/apimachinery/pkg/util/rand"
	cloudprovider "k8s.io/cloud-provider"

	"github.com/fxccm/fxccm/ccm"
	"github.com/fxccm/fxccm/ccm/ccmtest"
	"github.com/fxccm/fxccm/ccm/ccmtest/controlplane"
	"github.com/fxccm/fxccm/ccm/status"
	"github.com/fxccm/fxccm/controllers/persistentvolumelabel"
	"github.com/fxccm/fxccm/internal/waittest"
	"github.com/fxccm/fxccm/provider/fake"
)

// home contains the labels that the fake cloud returns for all volumes.
var home = map[string]string{
	corev1.LabelTopologyRegion: "region-1",
	corev1.LabelTopologyZone:   "region-1a",
}

// answers contains the labels of other volumes, by the name of the PersistentVolume.
type answers map[string]map[string]string

// labeler is the fake cloud's provider with these answers. The fake cloud still records the calls,
// and makes them fail.
type labeler struct {
	cloudprovider.Interface
	cloudprovider.PVLabeler
	answers answers
}

func (l labeler) GetLabelsForVolume(
	ctx context.Context, pv *corev1.PersistentVolume,
) (map[string]string, error) {
	labels, err := l.PVLabeler.GetLabelsForVolume(ctx, pv)
	// A provider may change its argument.
	pv.Labels, pv.Spec.NodeAffinity = map[string]string{"scribbled": "on"}, nil
	if answer, ok := l.answers[pv.Name]; ok && err == nil {
		return answer, nil
	}
	return labels, err
}

func (a answers) provider(cloud *fake.Cloud) ccm.Provider {
	provider := cloud.CCMProvider()
	return ccm.Provider{
		Name: provider.Name,
		New: func(ctx context.Context, env ccm.ProviderEnv) (cloudprovider.Interface, error) {
			opened, err := provider.New(ctx, env)
			if err != nil {
				return nil, err
			}
			inner, ok := opened.(cloudprovider.PVLabeler)
			if !ok {
				return nil, errors.New("the fake cloud does not serve PVLabeler")
			}
			return labeler{opened, inner, a}, nil
		},
	}
}

// start runs a CCM with only this controller, under the shipped RBAC rules.
func start(t *testing.T, cloud *fake.Cloud, opts ...ccmtest.Option) *ccmtest.CCM {
	t.Helper()
	// A call that hangs at the end of a test would delay the end of the term.
	t.Cleanup(cloud.ClearFaults)
	return ccmtest.StartManager(t, suite.cp, cloud, append([]ccmtest.Option{
		ccmtest.WithIdentity(suite.identity),
		ccmtest.WithControllers(persistentvolumelabel.Controller()),
		ccmtest.WithConfig(func(cfg *ccm.Config) {
			cfg.Controllers = []string{persistentvolumelabel.Name}
		}),
	}, opts...)...)
}

// A volumeOption changes the PersistentVolume that create creates.
type volumeOption func(*corev1.PersistentVolume)

func labeled(labels map[string]string) volumeOption {
	return func(pv *corev1.PersistentVolume) { pv.Labels = maps.Clone(labels) }
}

func restricted(affinity *corev1.VolumeNodeAffinity) volumeOption {
	return func(pv *corev1.PersistentVolume) { pv.Spec.NodeAffinity = affinity }
}

// create creates a PersistentVolume as an administrator does, and removes it when the test is over.
// It returns the volume's name, which begins with prefix.
func create(t *testing.T, prefix string, opts ...volumeOption) string {
	t.Helper()
	pv := &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: prefix + "-" + utilrand.String(5)},
		Spec: corev1.PersistentVolumeSpec{
			Capacity:    corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")},
			AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			PersistentVolumeSource: corev1.PersistentVolumeSource{
				CSI: &corev1.CSIPersistentVolumeSource{
					Driver:       "csi.example.com",
					VolumeHandle: "volume-of-" + prefix,
				},
			},
		},
	}
	for _, opt := range opts {
		opt(pv)
	}
	if _, err := suite.admin.CoreV1().PersistentVolumes().Create(t.Context(), pv,
		metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		remove(t, pv.Name)
		removeFinalizers(t, pv.Name)
	})
	return pv.Name
}

// remove requests the deletion. Admission has added a finalizer to every PersistentVolume, so the
// volume stays until removeFinalizers.
func remove(t *testing.T, name string) {
	t.Helper()
	err := suite.admin.CoreV1().PersistentVolumes().Delete(context.Background(), name,
		metav1.DeleteOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		t.Fatal(err)
	}
}

// removeFinalizers removes the finalizers, as kube-controller-manager does when no Pod uses the
// volume.
func removeFinalizers(t *testing.T, name string) {
	t.Helper()
	_, err := suite.admin.CoreV1().PersistentVolumes().Patch(context.Background(), name,
		types.MergePatchType,
		[]byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		t.Fatal(err)
	}
}

func get(t *testing.T, name string) *corev1.PersistentVolume {
	t.Helper()
	pv, err := suite.admin.CoreV1().PersistentVolumes().Get(t.Context(), name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return pv
}

// change applies a merge patch as an administrator.
func change(t *testing.T, name, patch string) error {
	t.Helper()
	_, err := suite.admin.CoreV1().PersistentVolumes().Patch(t.Context(), name,
		types.MergePatchType, []byte(patch), metav1.PatchOptions{})
	return err
}

// waitLabels waits until the volume has exactly these labels, and returns it.
func waitLabels(t *testing.T, name string, want map[string]string) *corev1.PersistentVolume {
	t.Helper()
	return ccmtest.Eventually(t, fmt.Sprintf("PersistentVolume %s has the labels %v", name, want),
		func(ctx context.Context) (*corev1.PersistentVolume, error) {
			pv, err := suite.admin.CoreV1().PersistentVolumes().Get(ctx, name, metav1.GetOptions{})
			if err == nil && !maps.Equal(pv.Labels, want) {
				err = fmt.Errorf("labels %v", pv.Labels)
			}
			return pv, err
		})
}

// affinity is a short form of a volume's node affinity: "zone in a,b and region in r or …".
func affinity(pv *corev1.PersistentVolume) string {
	if pv.Spec.NodeAffinity == nil {
		return "any"
	}
	var terms []string
	for _, term := range pv.Spec.NodeAffinity.Required.NodeSelectorTerms {
		var all []string
		for _, e := range term.MatchExpressions {
			_, key, _ := strings.Cut(e.Key, "/")
			all = append(all, fmt.Sprintf("%s %s %s", key, strings.ToLower(string(e.Operator)),
				strings.Join(e.Values, ",")))
		}
		terms = append(terms, strings.Join(all, " and "))
	}
	return strings.Join(terms, " or ")
}

const atHome = "region in region-1 and zone in region-1a"

// writes returns the CCM's requests to change volumes since the mark. With names, it returns only
// those for these volumes.
func writes(t *testing.T, since controlplane.Mark, names ...string) []controlplane.AuditRecord {
	t.Helper()
	filters := []controlplane.Filter{
		controlplane.ByUser(suite.user), controlplane.ByResource("",
			"persistentvolumes"), controlplane.Mutating(),
	}
	if len(names) > 0 {
		filters = append(filters, controlplane.ByName(names...))
	}
	records, err := suite.cp.Audit().Since(since, filters...)
	if err != nil {
		t.Fatal(err)
	}
	return records
}

// settle returns when the CCM has handled all existing volumes and its requests are in the audit
// log. It stops the CCM.
func settle(t *testing.T, app *ccmtest.CCM) {
	t.Helper()
	// The CCM begins with volumes in the order of their creation, and a stop finishes the work in
	// flight.
	waitLabels(t, create(t, "last"), home)
	app.Stop()
	since := suite.cp.Audit().Mark()
	last := create(t, "mark")
	if _, err := suite.cp.Audit().Wait(waittest.Context(t), since, 1,
		controlplane.ByName(last)); err != nil {
		t.Fatal(err)
	}
}

// calls returns the calls to the cloud for the volume that have begun.
func calls(cloud *fake.Cloud, volume string) []fake.Call {
	return cloud.Calls(fake.CallFilter{Method: "GetLabelsForVolume", Object: volume}.Matches)
}

// waitCalls waits until the cloud has got n calls for the volume.
func waitCalls(t *testing.T, cloud *fake.Cloud, volume string, n int) {
	t.Helper()
	waittest.Until(t, fmt.Sprintf("the cloud got %d calls for %s", n, volume), func() error {
		if got := len(calls(cloud, volume)); got < n {
			return fmt.Errorf("%d calls", got)
		}
		return nil
	})
}

// eventsOf returns the events of the volume. Events of objects without a namespace are in default.
func eventsOf(ctx context.Context, name string) ([]corev1.Event, error) {
	list, err := suite.admin.CoreV1().Events(metav1.NamespaceDefault).List(ctx, metav1.ListOptions{
		FieldSelector: "involvedObject.kind=PersistentVolume,involvedObject.name=" + name,
	})
	if err != nil {
		return nil, err
	}
	return list.Items, nil
}

// waitEvent waits for an event of the volume whose message contains text.
func waitEvent(t *testing.T, name, text string) corev1.Event {
	t.Helper()
	return ccmtest.Eventually(t, fmt.Sprintf("an event of %s says %q", name, text),
		func(ctx context.Context) (corev1.Event, error) {
			events, err := eventsOf(ctx, name)
			if err != nil {
				return corev1.Event{}, err
			}
			var seen []string
			for _, e := range events {
				if strings.Contains(e.Message, text) {
					return e, nil
				}
				seen = append(seen, e.Message)
			}
			return corev1.Event{}, fmt.Errorf("events say %q", seen)
		})
}

func noEvents(t *testing.T, name string) {
	t.Helper()
	events, err := eventsOf(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range events {
		t.Errorf("%s has the event %s: %s", name, e.Reason, e.Message)
	}
}

// stateOf returns the controller's status.
func stateOf(current status.Manager) status.Controller {
	for _, c := range current.Controllers {
		if c.Name == persistentvolumelabel.Name {
			return c
		}
	}
	return status.Controller{}
}

// seen is a probe for ccmtest.Eventually.
func seen(t *testing.T, want string, look func() string) func(context.Context) (string, error) {
	t.Helper()
	return func(context.Context) (string, error) {
		got := look()
		if got != want {
			return got, fmt.Errorf("it is %q", got)
		}
		return got, nil
	}
}
