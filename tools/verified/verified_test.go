package main

import (
	"bytes"
	"encoding/json"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/fxccm/fxccm/tools/internal/evidence"
)

func TestPage_Results_AreOfTheKeptRuns(t *testing.T) {
	root := filepath.Join("..", "..")
	all := runs{}
	if err := load(filepath.Join(root, kept), &all); err != nil {
		t.Fatal(err)
	}
	_, results, err := evidence.ReadPage(filepath.Join(root, page))
	if err != nil {
		t.Fatal(err)
	}
	if results != "\n"+all.tables() {
		t.Errorf("%s differs from %s: run make verified", page, kept)
	}
}

func TestRead_TestsOfEachOutcome_HaveTheirLastResult(t *testing.T) {
	const message = "    a_test.go:7: want 1\n"
	for name, of := range map[string]struct {
		events  []evidence.Event
		want    suite
		unnoted []string
	}{
		"a test fails and passes when it runs again": {
			[]evidence.Event{
				{Action: "start"},
				{Action: "run", Test: "TestA"},
				{Action: "run", Test: "TestA/x"},
				{Action: "output", Test: "TestA/x", Output: message},
				{Action: "fail", Test: "TestA/x", Elapsed: 2},
				{Action: "fail", Test: "TestA", Elapsed: 2},
				{Action: "run", Test: "TestB"},
				{Action: "attr", Test: "TestB", Key: seenKey, Value: "8 of 8 requests were answered"},
				{Action: "pass", Test: "TestB", Elapsed: 3},
				{Action: "fail", Elapsed: 6},
				{Action: "start"},
				{Action: "run", Test: "TestA"},
				{Action: "run", Test: "TestA/x"},
				{Action: "pass", Test: "TestA/x", Elapsed: 1},
				{Action: "attr", Test: "TestA/x", Key: seenKey, Value: "one"},
				{Action: "run", Test: "TestA/y"},
				{Action: "attr", Test: "TestA/y", Key: seenKey, Value: "two"},
				{Action: "pass", Test: "TestA/y", Elapsed: 4},
				{Action: "pass", Test: "TestA", Elapsed: 0},
				{Action: "pass", Elapsed: 5},
			},
			suite{Result: "3 passed", Seconds: 11, Tests: []test{
				{Name: "TestA", Result: "2 passed", Seconds: 4, Seen: "x: one; y: two"},
				{Name: "TestB", Result: "passed", Seconds: 3, Seen: "8 of 8 requests were answered"},
			}},
			nil,
		},
		"tests fail, are skipped and do not end": {
			[]evidence.Event{
				{Action: "start"},
				{Action: "run", Test: "TestA"},
				{Action: "run", Test: "TestA/x"},
				{Action: "attr", Test: "TestA", Key: seenKey, Value: "half of it"},
				{Action: "output", Test: "TestA/x", Output: message},
				{Action: "fail", Test: "TestA/x"},
				{Action: "fail", Test: "TestA"},
				{Action: "run", Test: "TestB"},
				{Action: "output", Test: "TestB", Output: message},
				{Action: "skip", Test: "TestB"},
				{Action: "run", Test: "TestC"},
				{Action: "fail", Elapsed: 1},
			},
			suite{Result: "**2 failed**, 0 passed, 1 skipped", Seconds: 1, Tests: []test{
				{Name: "TestA", Result: "**failed**", Seen: "`/x: want 1`"},
				{Name: "TestB", Result: "skipped", Seen: "`want 1`"},
				{Name: "TestC", Result: "**failed**", Seen: "`did not end`"},
			}},
			nil,
		},
		"the package fails after its tests": {
			[]evidence.Event{
				{Action: "start"},
				{Action: "run", Test: "TestA"},
				{Action: "pass", Test: "TestA"},
				{Action: "output", Output: "found unexpected goroutines\n"},
				{Action: "fail", Elapsed: 1},
			},
			suite{Result: "**1 failed**, 1 passed", Seconds: 1, Tests: []test{
				{Name: "TestA", Result: "passed"},
				{
					Name: thePackage, Result: "**failed**", Seconds: 1,
					Seen: "`(the package): no message`",
				},
			}},
			[]string{"TestA"},
		},
		"a part of a test notes nothing": {
			[]evidence.Event{
				{Action: "start"},
				{Action: "run", Test: "TestA"},
				{Action: "run", Test: "TestA/x"},
				{Action: "attr", Test: "TestA/x", Key: seenKey, Value: "one"},
				{Action: "pass", Test: "TestA/x"},
				{Action: "run", Test: "TestA/y"},
				{Action: "pass", Test: "TestA/y"},
				{Action: "pass", Test: "TestA"},
				{Action: "pass", Elapsed: 1},
			},
			suite{Result: "2 passed", Seconds: 1, Tests: []test{
				{Name: "TestA", Result: "2 passed", Seen: "x: one"},
			}},
			[]string{"TestA"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			var log bytes.Buffer
			for _, e := range of.events {
				e.Package = "example.com/test/packets"
				e.Time = time.Date(2026, 11, 29, 0, 0, 1, 0, time.FixedZone("", 3600))
				if err := json.NewEncoder(&log).Encode(e); err != nil {
					t.Fatal(err)
				}
			}
			found, err := read(&log, "aaaa")
			if err != nil || len(found) != 1 {
				t.Fatalf("%v, %v; want one suite", found, err)
			}
			got := *found["packets"]
			if unnoted := got.unnoted(); !slices.Equal(unnoted, of.unnoted) {
				t.Errorf("%q passed without a note, want %q", unnoted, of.unnoted)
			}
			got.last = nil
			of.want.Date, of.want.Revision = "2026-11-28", "aaaa"
			if !reflect.DeepEqual(got, of.want) {
				t.Errorf("%+v\nwant\n%+v", got, of.want)
			}
		})
	}
}

func TestMerge_OneSuite_ReplacesItsRunAndThoseOfOtherVersions(t *testing.T) {
	of := func(version, archive, suiteName, result string) runs {
		return runs{"zed": {
			Versions: map[string]string{"Nova": version}, Archive: archive,
			Suites: map[string]*suite{suiteName: {Result: result}},
		}}
	}
	all := runs{"2025.1": {Suites: map[string]*suite{"packets": {Result: "kept"}}}}
	for _, step := range []struct {
		more runs
		want map[string]string
	}{
		{of("26.1", "", "api", "first"), map[string]string{"api": "first"}},
		{of("26.1", "", "manager", "other"), map[string]string{"api": "first", "manager": "other"}},
		{of("26.1", "", "api", "again"), map[string]string{"api": "again", "manager": "other"}},
		{of("26.2", "", "api", "newer"), map[string]string{"api": "newer"}},
		{of("26.2", "2026-11-14", "manager", "last"), map[string]string{"manager": "last"}},
	} {
		all.merge(step.more)
		got := map[string]string{}
		for name, s := range all["zed"].Suites {
			got[name] = s.Result
		}
		if !reflect.DeepEqual(got, step.want) {
			t.Errorf("%v, want %v", got, step.want)
		}
	}
	for _, seconds := range []int{150, 0} {
		more := of("26.2", "2026-11-14", "api", "timed")
		more["zed"].Seconds = seconds
		all.merge(more)
	}
	if got := all["zed"].Seconds; got != 150 {
		t.Errorf("the lab was up after %d s, want the 150 that were measured", got)
	}
	if all["2025.1"].Suites["packets"].Result != "kept" {
		t.Error("the run of another release is not kept")
	}
}

func TestTables_FewRuns_AreOfAllReleasesAndSuites(t *testing.T) {
	all := runs{"2025.1": {
		Versions: map[string]string{"OVN": "25.03.0", "Nova": "31.0.0"}, Archive: "2026-11-14",
		Seconds: 183,
		Suites: map[string]*suite{"packets": {
			Date: "2026-11-29", Revision: "aaaa", Result: "1 passed", Seconds: 61.5,
			Tests: []test{{Name: "TestA", Result: "passed", Seconds: 2.25, Seen: "8 of 8"}},
		}},
	}}
	const notRecorded = `| [api](../../test/providers/api) | not recorded yet |  |  |  |
| [openstack](../../test/providers/openstack) | not recorded yet |  |  |  |
| [manager](../../test/providers/manager) | not recorded yet |  |  |  |
| [takeover](../../test/providers/takeover) | not recorded yet |  |  |  |
`
	const want = `## OpenStack Zed

No run is recorded yet.

## OpenStack 2025.1

Nova 31.0.0, OVN 25.03.0, of Debian's archive of 2026-11-14.

The lab was up after 183 s.

| suite | result | seconds | date | fxccm |
|---|---|---|---|---|
` + notRecorded + `| [packets](../../test/providers/packets) | 1 passed | 62 | 2026-11-29 | aaaa |

### OpenStack 2025.1: packets

| test | result | seconds | seen |
|---|---|---|---|
| ` + "`TestA`" + ` | passed | 2.2 | 8 of 8 |

## OpenStack 2026.2

No run is recorded yet.
`
	if got := all.tables(); got != want {
		t.Errorf("the tables are\n%s\nwant\n%s", got, want)
	}

	const none = "## OpenStack Zed\n\nNo run is recorded yet.\n\n" +
		"## OpenStack 2025.1\n\nNo run is recorded yet.\n\n" +
		"## OpenStack 2026.2\n\nNo run is recorded yet.\n"
	if got := (runs{}).tables(); got != none {
		t.Errorf("without a run, the tables are\n%s\nwant\n%s", got, none)
	}

	zed := runs{"zed": {Suites: map[string]*suite{}}}.tables()
	if !strings.Contains(zed, notRecorded) || strings.Contains(zed, "packets") {
		t.Errorf("the suites of Zed, which has no data plane, are\n%s", zed)
	}
}
