package controlplane_test

import (
	"context"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fxccm/fxccm/ccm/ccmtest/controlplane"
	"github.com/fxccm/fxccm/internal/waittest"
)

func TestAudit_RecordsRequestsAndTheirAnswers(t *testing.T) {
	t.Parallel()
	cp := shared
	cfg, err := cp.UserConfig("audited-jane", "system:masters")
	if err != nil {
		t.Fatal(err)
	}
	cfg.UserAgent = "janes-program/1.0"
	jane := client(t, cfg)
	ctx := waittest.Context(t)

	begin := time.Now().Add(-time.Second) // the record's clock has another resolution
	mark := cp.Audit().Mark()
	if _, err := jane.CoreV1().ConfigMaps("default").Create(ctx,
		&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "c"}},
		metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := jane.CoreV1().Nodes().Patch(ctx, "missing", "application/merge-patch+json",
		[]byte(`{}`), metav1.PatchOptions{}, "status"); err == nil {
		t.Fatal("a Node that does not exist was patched")
	}
	watch, err := jane.CoreV1().Services("").Watch(ctx, metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer watch.Stop()

	// All three are recorded while the watch is open.
	got, err := cp.Audit().Wait(ctx, mark, 3, controlplane.ByUser("audited-jane"))
	if err != nil {
		t.Fatal(err)
	}
	if len(got) != 3 {
		t.Fatalf("three requests were made, the log has %v", got)
	}
	for i, want := range []controlplane.AuditRecord{
		{
			Verb: "create", Resource: "configmaps", Namespace: "default", Name: "c",
			Code:       http.StatusCreated,
			Stage:      "ResponseComplete",
			RequestURI: "/api/v1/namespaces/default/configmaps",
		},
		{
			Verb: "patch", Resource: "nodes", Subresource: "status", Name: "missing",
			Code:  http.StatusNotFound,
			Stage: "ResponseComplete", RequestURI: "/api/v1/nodes/missing/status",
		},
		{
			Verb: "watch", Resource: "services", Code: http.StatusOK,
			Stage: "ResponseStarted", RequestURI: "/api/v1/services?watch=true",
		},
	} {
		r := got[i]
		if r.ID == "" || r.Time.Before(begin) || r.Done.Before(r.Time) {
			t.Errorf("the record %v has id %q and times %s, %s", r, r.ID, r.Time, r.Done)
		}
		if r.UserAgent != "janes-program/1.0" || !slices.Contains(r.Groups, "system:masters") ||
			r.Decision != "allow" {
			t.Errorf("the record %v has user agent %q, groups %v, decision %q", r, r.UserAgent,
				r.Groups, r.Decision)
		}
		want.User, want.APIVersion = "audited-jane", "v1"
		r.ID, r.Time, r.Done, r.UserAgent, r.Groups, r.Decision, r.Reason = "", time.Time{},
			time.Time{}, "", nil, "", ""
		if !reflect.DeepEqual(r, want) {
			t.Errorf("the record is\n%+v, want\n%+v", r, want)
		}
	}

	writes, err := cp.Audit().Since(mark, controlplane.ByUser("audited-jane"),
		controlplane.Mutating())
	if err != nil {
		t.Fatal(err)
	}
	if len(writes) != 2 {
		t.Errorf("the log has the writes %v, want two", writes)
	}
	later, err := cp.Audit().Since(cp.Audit().Mark(), controlplane.ByUser("audited-jane"))
	if err != nil || len(later) > 0 {
		t.Errorf("after a new mark: %v, %v, want no record", later, err)
	}
}

func TestAudit_OwnRequestsOfTheAPIServerAndProbes_AreLeftOut(t *testing.T) {
	t.Parallel()
	cp := shared
	noise, err := cp.Audit().All(func(r controlplane.AuditRecord) bool {
		return r.User == "system:apiserver" || r.RequestURI == "/readyz"
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(noise) > 0 {
		t.Errorf("the log has %v", noise)
	}
}

func TestAuditLog_WhenTheLastLineIsHalfWritten_LeavesItForTheNextRead(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "audit.log")
	log := controlplane.OpenAuditLog(path)
	if _, err := log.All(); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("reading a missing log: %v, want that it does not exist", err)
	}
	if log.Mark() != (controlplane.Mark{}) {
		t.Error("the mark in a missing log is not its beginning")
	}

	const one, two = `{"auditID":"1","verb":"get"}` + "\n", `{"auditID":"2","verb":"delete"}` + "\n"
	write(t, path, one+two[:10])
	expectIDs(t, log, controlplane.Mark{}, "1")
	mark := log.Mark()
	write(t, path, one+two)
	expectIDs(t, log, mark, "2")
	expectIDs(t, log, controlplane.Mark{}, "1", "2")
	expectIDs(t, log, log.Mark())

	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	found, err := log.Wait(ctx, controlplane.Mark{}, 3)
	if !errors.Is(err, context.DeadlineExceeded) || len(found) != 2 {
		t.Errorf("waiting for a third record returned %d and %v, want two and a timeout",
			len(found), err)
	}
}

func TestAuditLog_InvalidLine_ErrorNamesItsPosition(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "audit.log")
	write(t, path, "{}\nno json\n")
	if _, err := controlplane.OpenAuditLog(path).All(); err == nil {
		t.Error("a line that is no JSON was read")
	}
}

func TestFilters_OneRecord_MatchesWhatItHas(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	record := controlplane.AuditRecord{
		Time: at, User: "jane", UserAgent: "ccm/v1 (linux)", Verb: "patch", Resource: "services",
		Subresource: "status",
		Namespace:   "web", Name: "front", Code: http.StatusForbidden,
		Decision: "forbid",
	}
	admission := record
	admission.Decision = "allow"
	read := record
	read.Verb = "watch"

	for name, test := range map[string]struct {
		record controlplane.AuditRecord
		filter controlplane.Filter
		want   bool
	}{
		"one of the users":           {record, controlplane.ByUser("joe", "jane"), true},
		"another user":               {record, controlplane.ByUser("joe"), false},
		"part of the user agent":     {record, controlplane.ByUserAgent("ccm/"), true},
		"one of the verbs":           {record, controlplane.ByVerb("update", "patch"), true},
		"the subresource":            {record, controlplane.ByResource("", "services/status"), true},
		"the resource itself":        {record, controlplane.ByResource("", "services"), false},
		"another group":              {record, controlplane.ByResource("apps", "services/status"), false},
		"another name":               {record, controlplane.ByName("back"), false},
		"one of the codes":           {record, controlplane.ByCode(200, 403), true},
		"a write":                    {record, controlplane.Mutating(), true},
		"a watch is no write":        {read, controlplane.Mutating(), false},
		"forbidden by authorization": {record, controlplane.Denied(), true},
		"forbidden by admission":     {admission, controlplane.Denied(), false},
		"not later than its time":    {record, controlplane.ReceivedAfter(at), false},
		"later than the time before": {record, controlplane.ReceivedAfter(at.Add(-time.Microsecond)), true},
	} {
		if got := test.filter(test.record); got != test.want {
			t.Errorf("%s: %t, want %t", name, got, test.want)
		}
	}
}

func write(t *testing.T, path, content string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

func expectIDs(t *testing.T, log *controlplane.AuditLog, mark controlplane.Mark, want ...string) {
	t.Helper()
	records, err := log.Since(mark)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, r := range records {
		got = append(got, r.ID)
	}
	if !slices.Equal(got, want) {
		t.Errorf("read records %v, want %v", got, want)
	}
}
