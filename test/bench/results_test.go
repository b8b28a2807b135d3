package main

import (
	"os"
	"strings"
	"testing"
	"time"
)

func rowWith(target float64) (*results, row) {
	return &results{}, row{title: "something", unit: seconds, target: target}
}

func TestMedian_IsTheMiddleSampleAndOfTwoTheLower(t *testing.T) {
	for name, test := range map[string]struct {
		samples []float64
		want    float64
	}{
		"one":   {[]float64{3}, 3},
		"two":   {[]float64{4, 2}, 2},
		"three": {[]float64{9, 1, 5}, 5},
		"five":  {[]float64{5, 4, 3, 2, 1}, 3},
	} {
		t.Run(name, func(t *testing.T) {
			r, at := rowWith(1)
			for _, value := range test.samples {
				r.add(at, ours, sample{value: value})
			}
			if got, ok := r.median(at, ours); !ok || got.value != test.want {
				t.Errorf("the median of %v is %v (%v), want %v", test.samples, got.value, ok,
					test.want)
			}
			if _, ok := r.median(at, upstream); ok {
				t.Error("a candidate without samples has a median")
			}
		})
	}
}

func TestVerdict_EachRatio_PassesOrMissesTheTarget(t *testing.T) {
	for name, test := range map[string]struct {
		target       float64
		mine, theirs sample
		want         [3]string // ratio, target, verdict
	}{
		"within the target":        {0.1, sample{value: 1}, sample{value: 10}, [3]string{"0.100", "≤ 0.1", "passed"}},
		"above the target":         {0.1, sample{value: 1.1}, sample{value: 10}, [3]string{"0.110", "≤ 0.1", "missed"}},
		"no worse, as it is shown": {1, sample{value: 1.0004}, sample{value: 1}, [3]string{"1.000", "≤ 1", "passed"}},
		"worse by what is shown":   {1, sample{value: 1.0006}, sample{value: 1}, [3]string{"1.001", "≤ 1", "missed"}},
		"without a target":         {0, sample{value: 1}, sample{value: 10}, [3]string{"0.100", "", ""}},
		"upstream did not finish": {
			0.1,
			sample{value: 1},
			sample{value: 900, unfinished: true},
			[3]string{"< 0.001", "≤ 0.1", "passed"},
		},
		"upstream did not finish, and might have been as fast": {
			0.1,
			sample{value: 200},
			sample{value: 900, unfinished: true},
			[3]string{"< 0.222", "≤ 0.1", "not known"},
		},
		"fxccm did not finish": {
			0.1,
			sample{value: 900, unfinished: true},
			sample{value: 900, unfinished: true},
			[3]string{"–", "≤ 0.1", "missed"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			r, at := rowWith(test.target)
			r.add(at, ours, test.mine)
			r.add(at, upstream, test.theirs)
			ratio, target, verdict := r.judge(at)
			if got := [3]string{ratio, target, verdict}; got != test.want {
				t.Errorf("the verdict is %q, want %q", got, test.want)
			}
		})
	}
}

func TestVerdict_UpstreamWasNotMeasured_IsEmpty(t *testing.T) {
	r, at := rowWith(1)
	r.add(at, ours, sample{value: 1})
	if ratio, _, verdict := r.judge(at); ratio != "" || verdict != "" {
		t.Errorf("the verdict is %q, %q, want neither a ratio nor a word", ratio, verdict)
	}
}

func TestReport_ShowsWhatDidNotFinish(t *testing.T) {
	r, at := rowWith(0.1)
	r.add(at, upstream, sample{value: 900, unfinished: true, done: 17, of: 1000})
	r.add(at, ours, sample{value: 6.5})
	report := report{results: r, begun: time.Now()}
	for name, text := range map[string]string{
		"terminal": report.terminal(),
		"page":     rendered(t, report),
	} {
		if !strings.Contains(text, "not in 900 s (17 of 1000)") {
			t.Errorf("the %s does not say how far upstream came:\n%s", name, text)
		}
	}
}

func TestReport_ShowsWhatOneMoreClusterCosts(t *testing.T) {
	process := amounts{
		resident: 80, private: 20, peak: 81, heap: 10, goroutines: 120, connections: 2,
	}
	tunedProcess := amounts{
		resident: 82, private: 21, peak: 83, heap: 11, goroutines: 140, connections: 2,
	}
	many := amounts{
		resident: 125, private: 95, peak: 150, heap: 50, goroutines: 2000, connections: 21,
	}
	one := amounts{resident: 45, private: 15, peak: 50, heap: 10, goroutines: 100, connections: 1}
	b := &bench{results: &results{}, progress: newProgress(os.Stdout)}
	b.addFurther(startedAgain, process, tunedProcess, one, many.minus(one).over(20))
	page := rendered(t, report{
		results: b.results, begun: time.Now(),
		settings: settings{clusters: 21, rest: 150 * time.Second},
	})
	for _, want := range []string{
		"memory at rest | 80 MiB | 82 MiB | 4.00 MiB | 0.050 |  |  |",
		"memory at rest | 4.00 MiB | ≤ 2.5 MiB | missed |",
		"memory at rest that is its own | 20 MiB | 21 MiB | 4.00 MiB | 0.200 |",
		"goroutines | 120 | 140 | 95 | 0.792 |",
		"connections to the API server | 2 | 2 | 1 | 0.500 |",
		"a fleet of 21 clusters and a fleet of one, divided by 20.",
		"rest for 2m30s",
	} {
		if !strings.Contains(page, want) {
			t.Errorf("the page lacks %q:\n%s", want, page)
		}
	}
}

func TestReport_ShowsWhatAProcessOfItsOwnCosts(t *testing.T) {
	b := &bench{results: &results{}, progress: newProgress(os.Stdout)}
	trial := &trial{bench: b}
	ms := time.Millisecond
	trial.noteDifference("A call", []time.Duration{3 * ms, 1 * ms, 2 * ms},
		[]time.Duration{5 * ms, 2150 * time.Microsecond, ms}, callTarget)
	trial.noteDifference("A term", []time.Duration{10 * ms}, []time.Duration{111 * ms}, readyTarget)
	page := rendered(t, report{
		results: b.results, begun: time.Now(), settings: settings{rounds: 5, rangeNodes: 5000},
	})
	for _, want := range []string{
		"| A call, in process: median | 2.00 ms |  |  |",
		"| A call, in a process of its own: median | 2.15 ms |  |  |",
		"| A call: difference | 0.15 ms | ≤ 0.2 ms | passed |",
		"| A term: difference | 101 ms | ≤ 100 ms | missed |",
		"200 in each of 20 terms", "gives 5000 nodes a range",
	} {
		if !strings.Contains(page, want) {
			t.Errorf("the page lacks %q:\n%s", want, page)
		}
	}
}

// rendered is the only page of a report.
func rendered(t *testing.T, r report) string {
	t.Helper()
	pages := r.pages()
	if len(pages) != 1 {
		t.Fatalf("there are %d pages", len(pages))
	}
	text, err := r.markdown(pages[0])
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func TestCommandLine_RefusesNonsenseByName(t *testing.T) {
	for args, want := range map[string]string{
		"--nodes=0":          "--nodes=0",
		"--rounds=-1":        "--rounds=-1",
		"--limit=0s":         "--limit=0s",
		"--clusters=1":       "--clusters=1",
		"--rest=-1s":         "--rest=-1s",
		"--not-ready=0":      "--not-ready=0",
		"--routes=0":         "--routes=0",
		"--routes=4097":      "--routes=4097",
		"--range-nodes=8192": "--range-nodes=8192",
		"--idle=59s":         "--idle=59s",
		"--latencies=-1ms":   "--latencies",
		"--scenarios=lunch":  `"lunch"`,
		"--quick something":  `"something"`,
		"--services=a-dozen": "a-dozen",
	} {
		_, err := parse(strings.Fields(args))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: the error is %v, want one with %s", args, err, want)
		}
	}
}

func TestCommandLine_Quick_DoesNotOverrideOtherFlags(t *testing.T) {
	s, err := parse([]string{"--quick", "--nodes=7", "--programs=somewhere"})
	if err != nil {
		t.Fatal(err)
	}
	if s.nodes != 7 || s.services != 20 || s.rounds != 1 {
		t.Errorf("there are %d nodes, %d services, %d rounds, want 7, 20, 1", s.nodes, s.services,
			s.rounds)
	}
}

func TestSlopes_AreTheDifferenceBetweenTwoSizes(t *testing.T) {
	few := amounts{"memory": 450, "plane": 0.2, "leases": 50}
	many := amounts{"memory": 800, "plane": 0.35, "leases": 100}
	text := slopeTable(250, few, 500, many).String()
	for _, want := range []string{
		"| at rest | 250 clusters | 500 clusters | each further cluster | 10,000 clusters |",
		"| memory of the replica | 450 MiB | 800 MiB | 1.40 MiB | 14100 MiB |",
		"| 0.200 cores | 0.350 cores | 0.60 millicores | 6.050 cores |",
		"| 50 a second | 100 a second | 0.20 a second | 2000 a second |",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the table lacks %q:\n%s", want, text)
		}
	}
}

func TestFigure_MustBeZero_ShowsItsTarget(t *testing.T) {
	for value, want := range map[float64]string{0: "passed", 0.01: "missed"} {
		f := figure{value: value, unit: perMinute, target: zeroTarget}
		if f.targetText() != "0 a minute" || f.verdict() != want {
			t.Errorf("%v: target %q, %s", value, f.targetText(), f.verdict())
		}
	}
}
