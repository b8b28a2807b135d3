package main

import (
	"strings"
	"testing"
)

func TestSummary_FailuresAndFlakyTests_AreToldOnceWithTheirOutput(t *testing.T) {
	t.Parallel()
	const events = `
{"Action":"start","Package":"p"}
{"Action":"run","Package":"p","Test":"TestBroken"}
{"Action":"run","Package":"p","Test":"TestBroken/part"}
{"Action":"output","Package":"p","Test":"TestBroken/part","Output":"=== RUN   TestBroken/part\n"}
{"Action":"output","Package":"p","Test":"TestBroken/part","Output":"    x.go:1: got 1, want 2\n"}
{"Action":"fail","Package":"p","Test":"TestBroken/part"}
{"Action":"fail","Package":"p","Test":"TestBroken"}
{"Action":"run","Package":"p","Test":"TestFlaky"}
{"Action":"output","Package":"p","Test":"TestFlaky","Output":"    x.go:2: too slow\n"}
{"Action":"fail","Package":"p","Test":"TestFlaky"}
{"Action":"run","Package":"p","Test":"TestGood"}
{"Action":"pass","Package":"p","Test":"TestGood"}
{"Action":"fail","Package":"p"}
{"Action":"start","Package":"p"}
{"Action":"run","Package":"p","Test":"TestFlaky"}
{"Action":"output","Package":"p","Test":"TestFlaky","Output":"    x.go:3: in time\n"}
{"Action":"pass","Package":"p","Test":"TestFlaky"}
{"Action":"pass","Package":"p"}
{"Action":"start","Package":"q"}
{"Action":"output","Package":"q","Output":"found unexpected goroutines\n"}
{"Action":"fail","Package":"q"}
`
	results, err := readResults(strings.NewReader(strings.TrimPrefix(events, "\n")))
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	tests, failed := printResults(&out, results)
	const want = `FAILED: p TestBroken/part
    x.go:1: got 1, want 2
FAILED: q 
    found unexpected goroutines
FLAKY: p TestFlaky failed, and passed when it ran again alone
  run 1
    x.go:2: too slow
  run 2
    x.go:3: in time
`
	normalized := strings.ReplaceAll(out.String(), "        x.go", "    x.go")
	if normalized != want {
		t.Errorf("the summary is\n%s\nwant\n%s", normalized, want)
	}
	if tests != 5 || failed != 3 {
		t.Errorf("%d tests, %d failed; want 5 and 3", tests, failed)
	}
}

func TestSummary_RunThatWasEnded_NamesTheTestsThatRan(t *testing.T) {
	t.Parallel()
	const events = `{"Action":"start","Package":"p"}
{"Action":"run","Package":"p","Test":"TestLater"}
{"Action":"pause","Package":"p","Test":"TestLater"}
{"Action":"run","Package":"p","Test":"TestGood"}
{"Action":"pass","Package":"p","Test":"TestGood"}
{"Action":"run","Package":"p","Test":"TestStuck"}
{"Action":"run","Package":"p","Test":"TestStuck/part"}
{"Action":"output","Package":"p","Test":"TestStuck/part","Output":"    x.go:1: 5 s  the nodes answer\n"}
{"Action":"start","Package":"q"}
{"Action":"out`
	results, err := readResults(strings.NewReader(events))
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	tests, failed := printResults(&out, results)
	const want = `NOT ENDED: p TestStuck/part
        x.go:1: 5 s  the nodes answer
NOT ENDED: q 
`
	if out.String() != want {
		t.Errorf("the summary is\n%s\nwant\n%s", out.String(), want)
	}
	if tests != 4 || failed != 3 {
		t.Errorf("%d tests, %d failed; want 4 and 3", tests, failed)
	}
}
