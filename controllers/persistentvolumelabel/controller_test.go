package persistentvolumelabel_test

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/fxccm/fxccm/ccm"
	"github.com/fxccm/fxccm/ccm/ccmtest"
	"github.com/fxccm/fxccm/ccm/ccmtest/controlplane"
	"github.com/fxccm/fxccm/ccm/status"
	"github.com/fxccm/fxccm/controllers/persistentvolumelabel"
	"github.com/fxccm/fxccm/provider/fake"
)

func TestVolumes_CreatedBeforeAndAfterTheStart_AreLabeledInOnePatchEach(t *testing.T) {
	mark := suite.cp.Audit().Mark()
	cloud := fake.New()
	var names []string
	for range 20 {
		names = append(names, create(t, "before"))
	}
	app := start(t, cloud)
	app.WaitReady()
	for range 20 {
		names = append(names, create(t, "after"))
	}
	for _, name := range names {
		if got := affinity(waitLabels(t, name, home)); got != atHome {
			t.Errorf("the affinity of %s is %q, want %q", name, got, atHome)
		}
	}
	settle(t, app)
	for _, name := range names {
		if got := writes(t, mark, name); len(got) != 1 || got[0].Verb != "patch" ||
			got[0].Code != http.StatusOK {
			t.Errorf("requests that change %s: %v, want one patch", name, got)
		}
		if got := len(calls(cloud, name)); got != 1 {
			t.Errorf("the cloud got %d calls for %s, want one", got, name)
		}
		noEvents(t, name)
	}
	app.VerifyNoLeaks()
}

func TestVolumes_WithLabelsOrUnknownToTheCloud_AreNotChanged(t *testing.T) {
	mark := suite.cp.Audit().Mark()
	cloud := fake.New()
	labels := create(t, "labeled",
		labeled(map[string]string{corev1.LabelTopologyZone: "z", corev1.LabelTopologyRegion: "r"}))
	beta := create(t, "beta", labeled(map[string]string{
		corev1.LabelFailureDomainBetaZone:   "z",
		corev1.LabelFailureDomainBetaRegion: "r",
	}))
	unknown := create(t, "unknown")
	empty := create(t, "empty")
	deleted := create(t, "deleted")
	remove(t, deleted) // its finalizer keeps it
	app := start(t, cloud, ccmtest.WithProvider(answers{
		unknown: nil,
		empty:   {corev1.LabelTopologyZone: ""},
	}.provider(cloud)))
	waitCalls(t, cloud, unknown, 1)
	waitCalls(t, cloud, empty, 1)
	settle(t, app)
	if got := writes(t, mark, labels, beta, unknown, empty, deleted); len(got) != 0 {
		t.Errorf("requests that change the volumes: %v, want none", got)
	}
	for _, name := range []string{labels, beta, deleted} {
		if got := calls(cloud, name); len(got) != 0 {
			t.Errorf("the cloud got a call for %s", name)
		}
	}
	for _, name := range []string{labels, beta, unknown, empty} {
		if got := affinity(get(t, name)); got != "any" {
			t.Errorf("the affinity of %s is %q, want none", name, got)
		}
		noEvents(t, name)
	}
}

func TestLabels_OfEachKind_BecomeAnAffinity(t *testing.T) {
	cloud := fake.New()
	zone, region := corev1.LabelTopologyZone, corev1.LabelTopologyRegion
	betaZone, betaRegion := corev1.LabelFailureDomainBetaZone, corev1.LabelFailureDomainBetaRegion
	cases := []struct {
		name         string
		there        map[string]string
		answer, want map[string]string
		affinity     string
	}{
		{
			"several-zones", nil,
			map[string]string{zone: "b__a", region: "r"},
			nil,
			"region in r and zone in a,b",
		},
		{
			"beta", nil,
			map[string]string{betaZone: "b__a", betaRegion: "r"},
			nil,
			"region in r and zone in a,b",
		},
		{
			"zone-alone", nil,
			map[string]string{zone: "a", region: ""},
			map[string]string{zone: "a"},
			"zone in a",
		},
		{
			"further", nil,
			map[string]string{zone: "a", region: "r", "example.com/tier": "fast__1"},
			nil, "tier in fast__1 and region in r and zone in a",
		},
		{
			"others-stay",
			map[string]string{"app": "db"},
			map[string]string{zone: "a"},
			map[string]string{"app": "db", zone: "a"},
			"zone in a",
		},
		{
			"wrong-zone",
			map[string]string{zone: "x"},
			map[string]string{zone: "a", region: "r"},
			map[string]string{zone: "a", region: "r"},
			"region in r and zone in a",
		},
		{
			"only-affinity",
			map[string]string{zone: "a"},
			map[string]string{zone: "a"},
			map[string]string{zone: "a"},
			"zone in a",
		},
	}
	given := answers{}
	names := map[string]string{}
	for _, c := range cases {
		name := create(t, c.name, labeled(c.there))
		names[c.name], given[name] = name, c.answer
	}
	start(t, cloud, ccmtest.WithProvider(given.provider(cloud)))
	for _, c := range cases {
		if c.want == nil {
			c.want = c.answer
		}
		name := names[c.name]
		waitLabels(t, name, c.want)
		ccmtest.Eventually(t, fmt.Sprintf("the affinity of %s is %q", name, c.affinity),
			seen(t, c.affinity, func() string { return affinity(get(t, name)) }))
	}
}

// The API server refuses to change an affinity, so a patch with a changed affinity would fail.
func TestVolumes_WithAnAffinity_GetOnlyLabels(t *testing.T) {
	mark := suite.cp.Audit().Mark()
	cloud := fake.New()
	in := func(key string, values ...string) corev1.NodeSelectorTerm {
		return corev1.NodeSelectorTerm{MatchExpressions: []corev1.NodeSelectorRequirement{{
			Key:      key,
			Operator: corev1.NodeSelectorOpIn, Values: values,
		}}}
	}
	mixed := &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{
		NodeSelectorTerms: []corev1.NodeSelectorTerm{
			in(corev1.LabelTopologyZone, "other"), in("example.com/rack", "1", "2"),
		},
	}}
	name := create(t, "mixed", restricted(mixed))
	half := create(t, "half", restricted(mixed),
		labeled(map[string]string{corev1.LabelTopologyZone: "region-1a"}))
	const before = "zone in other or rack in 1,2"
	app := start(t, cloud, ccmtest.WithProvider(answers{}.provider(cloud)))
	for _, volume := range []string{name, half} {
		if got := affinity(waitLabels(t, volume, home)); got != before {
			t.Errorf("the affinity of %s is %q, want %q as before", volume, got, before)
		}
	}
	settle(t, app)
	if got := writes(t, mark, name, half); len(got) != 2 {
		t.Errorf("%d patches, want one each: %v", len(got), got)
	}
	// This part fails when a later API server permits the change.
	err := change(t, name,
		`{"spec":{"nodeAffinity":{"required":{"nodeSelectorTerms":[{"matchExpressions":[{"key":"k","operator":"Exists"}]}]}}}}`)
	if !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), "nodeAffinity") {
		t.Errorf(
			"a change of the affinity returned %v, want that it is immutable",
			err)
	}
}

func TestLabels_Removed_AreSetAgain(t *testing.T) {
	cloud := fake.New()
	name := create(t, "stripped")
	start(t, cloud)
	waitLabels(t, name, home)
	if err := change(t, name, `{"metadata":{"labels":null}}`); err != nil {
		t.Fatal(err)
	}
	waitLabels(t, name, home)
}

func TestVolume_ChangedDuringTheCallToTheCloud_IsRetried(t *testing.T) {
	mark := suite.cp.Audit().Mark()
	cloud := fake.New()
	release := cloud.On("GetLabelsForVolume").Times(1).Hang()
	name := create(t, "conflict")
	app := start(t, cloud)
	waitCalls(t, cloud, name, 1)
	// The other client's affinity stays.
	err := change(t, name,
		`{"spec":{"nodeAffinity":{"required":{"nodeSelectorTerms":[{"matchExpressions":[{"key":"example.com/rack","operator":"In","values":["1"]}]}]}}}}`)
	if err != nil {
		t.Fatal(err)
	}
	release()
	if got := affinity(waitLabels(t, name, home)); got != "rack in 1" {
		t.Errorf("the affinity is %q, want the other client's", got)
	}
	settle(t, app)
	var codes []int
	for _, r := range writes(t, mark, name) {
		codes = append(codes, r.Code)
	}
	if !slices.Equal(codes, []int{http.StatusConflict, http.StatusOK}) {
		t.Errorf("the patches returned %v, want a conflict and then success", codes)
	}
	noEvents(t, name)
}

func TestVolume_DeletedDuringTheCallToTheCloud_IsNotRetried(t *testing.T) {
	for _, gone := range []bool{true, false} {
		t.Run(fmt.Sprintf("gone=%t", gone), func(t *testing.T) {
			mark := suite.cp.Audit().Mark()
			cloud := fake.New()
			name := create(t, "deleted")
			release := cloud.On("GetLabelsForVolume").For(name).Hang()
			app := start(t, cloud)
			waitCalls(t, cloud, name, 1)
			remove(t, name)
			if gone {
				removeFinalizers(t, name)
			}
			release()
			settle(t, app)
			want := http.StatusConflict
			if gone {
				want = http.StatusNotFound
			}
			if got := writes(t, mark, name); len(got) != 1 || got[0].Code != want {
				t.Errorf("requests that change the volume: %v, want one patch that returns %d", got, want)
			}
			if got := len(calls(cloud, name)); got != 1 {
				t.Errorf("the cloud got %d calls, want one", got)
			}
			noEvents(t, name)
		})
	}
}

func TestFailure_Repeated_IsRetriedAndReportedOnce(t *testing.T) {
	cases := []struct {
		name   string
		script func(fake.FaultBuilder) func()
		answer map[string]string
		reason string
	}{
		{
			"error", func(s fake.FaultBuilder) func() {
				return s.Fail(errors.New("quota of the volume API exceeded"))
			}, nil,
			"ask the cloud provider for the labels of the volume: quota of the volume API exceeded",
		},
		{
			"panic", func(s fake.FaultBuilder) func() { return s.Panic("boom") }, nil,
			"cloud provider panicked in PVLabeler.GetLabelsForVolume: boom",
		},
		{
			"zone", nil,
			map[string]string{corev1.LabelTopologyZone: "a____b"},
			"the cloud provider's label topology.kubernetes.io/zone=a____b makes no sense",
		},
		{
			"value", nil,
			map[string]string{corev1.LabelTopologyZone: "not a label"},
			"write the labels: PersistentVolume ",
		},
	}
	cloud := fake.New()
	given := answers{}
	names := make([]string, len(cases))
	takeBack := make([]func(), len(cases))
	for i, c := range cases {
		names[i] = create(t, "failing-"+c.name)
		if c.script != nil {
			takeBack[i] = c.script(cloud.On("GetLabelsForVolume").For(names[i]))
		} else {
			given[names[i]] = c.answer
		}
	}
	start(t, cloud, ccmtest.WithProvider(given.provider(cloud)))
	for i, c := range cases {
		event := waitEvent(t, names[i], c.reason)
		if event.Type != corev1.EventTypeWarning ||
			event.Reason != "LabelingFailed" ||
			event.Source.Component != persistentvolumelabel.Name {
			t.Errorf("%s: the event is a %s %s of %s", c.name, event.Type, event.Reason,
				event.Source.Component)
		}
		waitCalls(t, cloud, names[i], 4)
	}
	// Other volumes do not wait.
	waitLabels(t, create(t, "other"), home)
	for i, c := range cases {
		if takeBack[i] == nil {
			continue
		}
		takeBack[i]()
		waitLabels(t, names[i], home)
		events, err := eventsOf(t.Context(), names[i])
		if err != nil {
			t.Fatal(err)
		}
		if len(events) != 1 || events[0].Count != 1 {
			t.Errorf("%s: %d failures were reported by %d events, want one", c.name,
				len(calls(cloud, names[i]))-1, len(events))
		}
	}
}

func TestFailure_WithAnotherReason_IsReported(t *testing.T) {
	cloud := fake.New()
	name := create(t, "unsteady")
	first := cloud.On("GetLabelsForVolume").For(name).Fail(errors.New("no route to the cloud"))
	start(t, cloud)
	waitEvent(t, name, "no route to the cloud")
	first()
	cloud.On("GetLabelsForVolume").For(name).Fail(errors.New("token expired"))
	waitEvent(t, name, "token expired")
}

// Events bypass the fence, and the end of a term cancels calls before the controller's context
// ends.
func TestLeadershipLost_DuringARetry_IsNotReportedAsAFailure(t *testing.T) {
	cloud := fake.New()
	name := create(t, "failing")
	cloud.On("GetLabelsForVolume").Times(2).Fail(errors.New("no route to the cloud"))
	cloud.On("GetLabelsForVolume").Hang()
	app := start(t, cloud)
	waitCalls(t, cloud, name, 3)
	app.Elector.Lose(errors.New("partition"))
	app.Elector.WaitReleased(t)
	events, err := eventsOf(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	if len(events) != 1 || !strings.HasSuffix(events[0].Message, "no route to the cloud") {
		t.Errorf("the events are %v, want one that reports the cloud's failure", events)
	}
}

func TestController_NotNamed_IsDisabled(t *testing.T) {
	for _, c := range []struct {
		controllers []string
		want        status.ControllerState
	}{
		{[]string{"*"}, status.ControllerDisabled},
		{[]string{"*", "persistentvolume-label-controller"}, status.ControllerRunning},
		{[]string{"persistentvolume-label"}, status.ControllerRunning},
	} {
		t.Run(strings.Join(c.controllers, ","), func(t *testing.T) {
			mark := suite.cp.Audit().Mark()
			cloud := fake.New()
			name := create(t, "named")
			app := start(t, cloud,
				ccmtest.WithConfig(func(cfg *ccm.Config) { cfg.Controllers = c.controllers }))
			if got := stateOf(app.WaitReady()); got.State != c.want {
				t.Errorf("the controller is %+v, want %s", got, c.want)
			}
			if c.want == status.ControllerRunning {
				waitLabels(t, name, home)
				return
			}
			untouched(t, mark, app, name)
		})
	}
}

func TestController_WithoutALabeler_IsSkippedWithTheReason(t *testing.T) {
	mark := suite.cp.Audit().Mark()
	name := create(t, "unserved")
	app := start(t, fake.New(fake.Without("PVLabeler")))
	got := stateOf(app.WaitReady())
	if got.State != status.ControllerSkipped ||
		!strings.Contains(got.Reason, `cloud provider "fake" is not a PVLabeler`) {
		t.Errorf("the controller is %+v, want it skipped for lack of a PVLabeler", got)
	}
	untouched(t, mark, app, name)
}

// untouched checks that the ready CCM has not requested volumes.
func untouched(t *testing.T, since controlplane.Mark, app *ccmtest.CCM, name string) {
	t.Helper()
	app.Stop()
	records, err := suite.cp.Audit().Since(since, controlplane.ByUser(suite.user),
		controlplane.ByResource("", "persistentvolumes"))
	if err != nil {
		t.Fatal(err)
	}
	if len(records) > 0 {
		t.Errorf("the API server got requests for volumes: %v", records)
	}
	if pv := get(t, name); len(pv.Labels) > 0 {
		t.Errorf("%s was labeled: %v", name, pv.Labels)
	}
}
