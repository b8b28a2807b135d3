package main

import (
	"strings"
	"testing"
	"time"
)

func rowWith(target float64) (*results, row) {
	return newResults(), row{title: "something", unit: seconds, target: target}
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

func TestVerdict(t *testing.T) {
	for name, test := range map[string]struct {
		target       float64
		mine, theirs sample
		want         verdict
	}{
		"within the target":        {0.1, sample{value: 1}, sample{value: 10}, verdict{"0.100", "≤ 0.1", "passed"}},
		"above the target":         {0.1, sample{value: 1.1}, sample{value: 10}, verdict{"0.110", "≤ 0.1", "missed"}},
		"no worse, as it is shown": {1, sample{value: 1.0004}, sample{value: 1}, verdict{"1.000", "≤ 1", "passed"}},
		"worse by what is shown":   {1, sample{value: 1.0006}, sample{value: 1}, verdict{"1.001", "≤ 1", "missed"}},
		"without a target":         {0, sample{value: 1}, sample{value: 10}, verdict{"0.100", "", ""}},
		"upstream did not finish": {
			0.1,
			sample{value: 1},
			sample{value: 900, unfinished: true},
			verdict{"< 0.001", "≤ 0.1", "passed"},
		},
		"upstream did not finish, and might have been as fast": {
			0.1,
			sample{value: 200},
			sample{value: 900, unfinished: true},
			verdict{"< 0.222", "≤ 0.1", "not known"},
		},
		"fxccm did not finish": {
			0.1,
			sample{value: 900, unfinished: true},
			sample{value: 900, unfinished: true},
			verdict{"–", "≤ 0.1", "missed"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			r, at := rowWith(test.target)
			r.add(at, ours, test.mine)
			r.add(at, upstream, test.theirs)
			if got := r.judge(at); got != test.want {
				t.Errorf("the verdict is %+v, want %+v", got, test.want)
			}
		})
	}
}

func TestVerdict_WhenUpstreamWasNotMeasured_ThereIsNone(t *testing.T) {
	r, at := rowWith(1)
	r.add(at, ours, sample{value: 1})
	if got := r.judge(at); got.ratio != "" || got.text != "" {
		t.Errorf("the verdict is %+v, want neither a ratio nor a word", got)
	}
}

func TestReport_ShowsWhatDidNotFinish(t *testing.T) {
	r, at := rowWith(0.1)
	r.add(at, upstream, sample{value: 900, unfinished: true, done: 17, of: 1000})
	r.add(at, ours, sample{value: 6.5})
	page := report{results: r, begun: time.Now()}
	for name, text := range map[string]string{
		"terminal": page.terminal(),
		"page":     rendered(t, page.markdown),
	} {
		if !strings.Contains(text, "not in 900 s (17 of 1000)") {
			t.Errorf("the %s does not say how far upstream came:\n%s", name, text)
		}
	}
}

func TestReport_ShowsWhatOneMoreClusterCosts(t *testing.T) {
	process := usage{
		resident: 80 << 20, private: 20 << 20, peak: 81 << 20, heap: 10 << 20,
		goroutines: 120, connections: 2,
	}
	many := usage{
		resident: 125 << 20, private: 95 << 20, peak: 150 << 20, heap: 50 << 20,
		goroutines: 2000, connections: 21,
	}
	one := usage{
		resident: 45 << 20, private: 15 << 20, peak: 50 << 20, heap: 10 << 20,
		goroutines: 100, connections: 1,
	}
	r := newResults()
	r.fleet = &fleetResult{beside: newResults()}
	r.fleet.addFurther(startedAgain, process, one, many.minus(one).over(20))
	page := rendered(t, report{
		results: r, begun: time.Now(),
		settings: settings{clusters: 21, rest: 150 * time.Second},
	}.fleetMarkdown)
	for _, want := range []string{
		"memory at rest | 80 MiB |  | 4.00 MiB | 0.050 |  |  |",
		"memory at rest | 4.00 MiB | ≤ 2.5 MiB | missed |",
		"memory at rest that is its own | 20 MiB |  | 4.00 MiB | 0.200 |",
		"goroutines | 120 |  | 95 | 0.792 |",
		"connections to the API server | 2 |  | 1 | 0.500 |",
		"a fleet of 21 clusters and a fleet of one, divided by 20.",
		"rest for 2m30s",
	} {
		if !strings.Contains(page, want) {
			t.Errorf("the page lacks %q:\n%s", want, page)
		}
	}
}

func rendered(t *testing.T, render func() (string, error)) string {
	t.Helper()
	page, err := render()
	if err != nil {
		t.Fatal(err)
	}
	return page
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
