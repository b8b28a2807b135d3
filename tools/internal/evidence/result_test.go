package evidence

import (
	"io"
	"reflect"
	"strings"
	"testing"
)

// eventsOf returns lines of go test -json for lines such as "pass TestA" or "output TestA text".
func eventsOf(lines ...string) string {
	var all strings.Builder
	for _, line := range lines {
		action, rest, _ := strings.Cut(line, " ")
		test, text, _ := strings.Cut(rest, " ")
		all.WriteString(`{"Action":"` + action + `","Package":"p","Test":"` + test +
			`","Output":"` + text + `\n"}` + "\n")
	}
	return all.String()
}

func TestRead_EachOutcome_IsCountedWithItsReason(t *testing.T) {
	for name, test := range map[string]struct {
		events []string
		want   Result
		ok     bool
		text   string
	}{
		"all pass": {
			[]string{"run A", "run B", "pass A", "pass B", "pass"},
			Result{Passed: 2},
			true, "2 passed",
		},
		"subtests count, and their test does not": {
			[]string{"run A", "run A/x", "run A/y", "pass A/x", "pass A/y", "pass A", "pass"},
			Result{Passed: 2},
			true, "2 passed",
		},
		"a skipped test does not pass": {
			[]string{
				"run A", "run A/x", "run A/y", "pass A/x",
				"output A/y     a_test.go:7: kube-apiserver lacks it", "skip A/y", "pass A", "pass",
			},
			Result{Passed: 1, Skipped: 1, Problems: []Problem{
				{"A/y", "skipped", "kube-apiserver lacks it"},
			}},
			true, "1 passed, 1 skipped",
		},
		"all are skipped": {
			[]string{"run A", "skip A", "pass"},
			Result{Skipped: 1, Problems: []Problem{{"A", "skipped", noMessage}}},
			false, "0 passed, 1 skipped",
		},
		"a logger writes after the failure": {
			[]string{
				"run A", "output A     a_test.go:7: want 1",
				"output A     run.go:8: I1130 01:04:07.554338] ccm: Term has drained",
				"output A     run.go:9: level=INFO msg=done", "fail A", "fail",
			},
			Result{Failed: 1, Problems: []Problem{{"A", "failed", "want 1"}}},
			false, "**1 failed**, 0 passed",
		},
		"a subtest fails": {
			[]string{
				"run A", "run A/x", "run B", "output A/x     a_test.go:7: want 1", "fail A/x",
				"fail A", "pass B", "fail",
			},
			Result{Passed: 1, Failed: 1, Problems: []Problem{{"A/x", "failed", "want 1"}}},
			false, "**1 failed**, 1 passed",
		},
		"a test fails after its subtests": {
			[]string{
				"run A", "run A/x", "pass A/x", "output A     a_test.go:9: left over", "fail A",
				"fail",
			},
			Result{Passed: 1, Failed: 1, Problems: []Problem{{"A", "failed", "left over"}}},
			false, "**1 failed**, 1 passed",
		},
		"the package fails after its tests": {
			[]string{"run A", "pass A", "fail"},
			Result{Passed: 1, Failed: 1, Problems: []Problem{
				{"(the package)", "failed", noMessage},
			}},
			false, "**1 failed**, 1 passed",
		},
		"a test has no result": {
			[]string{"run A", "pass A", "run B", "fail"},
			Result{Passed: 1, Failed: 1, Problems: []Problem{{"B", "failed", "did not end"}}},
			false, "**1 failed**, 1 passed",
		},
		"nothing runs": {[]string{"pass"}, Result{}, false, "no test ran"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := Read(strings.NewReader(eventsOf(test.events...)), io.Discard,
				func(*Result) {})
			if err != nil {
				t.Fatal(err)
			}
			if !reflect.DeepEqual(*got, test.want) {
				t.Errorf("%+v, want %+v", *got, test.want)
			}
			if got.OK() != test.ok || got.String() != test.text {
				t.Errorf("%t, %q; want %t, %q", got.OK(), got, test.ok, test.text)
			}
		})
	}
	if r, err := Read(strings.NewReader("# compile error\n"), io.Discard,
		func(*Result) {}); err == nil {
		t.Errorf("a line that is no event: %+v, no error", r)
	}
}
