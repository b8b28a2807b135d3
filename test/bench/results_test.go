package main

import (
	"strings"
	"testing"
	"time"

	"github.com/fxccm/fxccm/provider/openstack/cloudconf"
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

func TestFigure_EachTarget_DecidesTheVerdict(t *testing.T) {
	for name, test := range map[string]struct {
		figure                figure
		text, target, verdict string
	}{
		"within":            {figure{value: 12, target: 30}, "12", "≤ 30", "passed"},
		"just within":       {figure{value: 30, target: 30}, "30", "≤ 30", "passed"},
		"above":             {figure{value: 31, target: 30}, "31", "≤ 30", "missed"},
		"no target":         {figure{value: 31}, "31", "", ""},
		"not finished":      {figure{unfinished: 15 * time.Minute}, "not in 15m0s", "", "missed"},
		"a time":            {figure{value: 4.236, unit: seconds, target: 20}, "4.24 s", "≤ 20 s", "passed"},
		"a minute, whole":   {figure{value: 2, unit: perMinute, target: 2}, "2 a minute", "≤ 2 a minute", "passed"},
		"zero":              {figure{unit: perMinute, target: zeroTarget}, "0 a minute", "0 a minute", "passed"},
		"more than zero":    {figure{value: 0.01, unit: perMinute, target: zeroTarget}, "0.01 a minute", "0 a minute", "missed"},
		"a minute, a third": {figure{value: 7.0 / 3, unit: perMinute, target: 2}, "2.3 a minute", "≤ 2 a minute", "missed"},
	} {
		t.Run(name, func(t *testing.T) {
			f := test.figure
			if f.text() != test.text || f.targetText() != test.target ||
				f.verdict() != test.verdict {
				t.Errorf("the figure is %q, %q, %q, want %q, %q, %q", f.text(), f.targetText(),
					f.verdict(), test.text, test.target, test.verdict)
			}
		})
	}
}

func TestStatusPass_Period_IsLongerThanTheCache(t *testing.T) {
	if remembered := cloudconf.Default().Instances.MetadataMaxAge; statusPeriod <= remembered {
		t.Errorf(
			"passes are %s apart, and fxccm remembers for %s: the second one might ask for nothing",
			statusPeriod, remembered)
	}
}
