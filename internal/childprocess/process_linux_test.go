package childprocess_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"

	"github.com/fxccm/fxccm/ccm/ccmtest"
	"github.com/fxccm/fxccm/internal/childprocess"
	"github.com/fxccm/fxccm/internal/waittest"
)

// start runs a shell script.
func start(t *testing.T, log logr.Logger, script string, args ...string) *childprocess.Process {
	t.Helper()
	p, err := childprocess.Start(childprocess.Spec{
		Name: "script", Path: "/bin/sh", Args: append([]string{"-c", script, "sh"}, args...),
		Log: log,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		p.Kill(nil)
		<-p.Done()
	})
	return p
}

// errorOf waits for the end of a process.
func errorOf(t *testing.T, p *childprocess.Process) string {
	t.Helper()
	select {
	case <-p.Done():
		return p.Err().Error()
	case <-time.After(waittest.Limit):
		t.Fatal("the process has not ended")
		return ""
	}
}

// logged collects the lines that a process logs, each with its stream.
type logged struct {
	mu    sync.Mutex
	lines []string
}

func (l *logged) logger() logr.Logger {
	return funcr.New(func(_, line string) {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.lines = append(l.lines, line)
	}, funcr.Options{})
}

func TestStart_ProgramEnds_ErrorHasItsStatusAndItsLastLines(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ script, want string }{
		"success":   {"true", "ended: exit status 0"},
		"status":    {"echo why >&2; exit 7", "ended: exit status 7; its last lines: why"},
		"signal":    {"kill -TERM $$", "ended: signal: terminated"},
		"last part": {"printf unfinished", "ended: exit status 0; its last lines: unfinished"},
		"last lines": {
			"seq 1 20", "its last lines: 13 | 14 | 15 | 16 | 17 | 18 | 19 | 20",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := start(t, logr.Discard(), c.script)
			want := fmt.Sprintf("the script (pid %d) ", p.PID())
			if got := errorOf(t, p); !strings.HasPrefix(got, want) ||
				!strings.HasSuffix(got, c.want) {
				t.Errorf("error %q, want one that ends with %q", got, c.want)
			}
		})
	}
}

func TestStart_ProgramDoesNotExist_IsAnError(t *testing.T) {
	t.Parallel()
	_, err := childprocess.Start(childprocess.Spec{Name: "script", Path: "/does/not/exist"})
	if err == nil || !strings.HasPrefix(err.Error(), "start the script: ") {
		t.Errorf("error %v", err)
	}
}

// trace is the output of a Go program that panics, with more lines than an error shows.
const trace = `panic: assignment to entry in nil map
[signal SIGSEGV: segmentation violation]

goroutine 7 [running]:
main.(*cloud).sync(0x0)
	/src/cloud.go:17 +0x1b
main.run({0xc000, 0x2})
	/src/main.go:11 +0x2f
created by main.main in goroutine 1
	/src/main.go:9 +0x25
`

func TestStart_ProgramPanics_ErrorHasTheReason(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ output, want, not string }{
		"panic": {
			"starting\n" + trace,
			"lines: panic: assignment to entry in nil map | [signal SIGSEGV", "starting",
		},
		"fatal error": {
			"fatal error: concurrent map writes\n\ngoroutine 3 [running]:\nmain.f(...)\n" +
				strings.Repeat("\ngoroutine 9 [select]:\nmain.wait(...)\n", 300),
			"lines: fatal error: concurrent map writes | goroutine 3", "9 [select]:\nEND",
		},
		"klog.Fatal": {
			"F0102 15:04:05.000000 1 cloud.go:9] no credentials\n" +
				strings.TrimPrefix(trace, "panic: assignment to entry in nil map\n"),
			"no credentials | [signal", "main.go:9",
		},
		"panic that was logged without a trace": {
			"panic: handled\n" + strings.Repeat("work\n", 20) + "no route to the cloud\n",
			"no route to the cloud", "panic: handled",
		},
		"panic that was logged with a trace": {
			trace + strings.Repeat("work\n", 20) + "no route to the cloud\n",
			"no route to the cloud", "nil map",
		},
		"second panic": {
			trace + "recovered\n" + strings.Replace(trace, "nil map", "closed map", 1),
			"lines: panic: assignment to entry in closed map", "in nil map",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := start(t, logr.Discard(), `printf %s "$1" >&2; echo beside; exit 2`, c.output)
			got := errorOf(t, p)
			if !strings.Contains(got, "exit status 2; its last ") ||
				!strings.Contains(got, c.want) || strings.Contains(got, c.not) {
				t.Errorf("error %q, want one with %q and without %q", got, c.want, c.not)
			}
		})
	}
}

func TestStart_ProgramWritesLines_AreLoggedWithTheirStream(t *testing.T) {
	t.Parallel()
	var all logged
	errorOf(t, start(t, all.logger(), `echo one; printf 'two\r\n'; echo; echo three >&2`))
	got := strings.Join(all.lines, "\n")
	for _, want := range []string{
		`"msg"="one" "stream"="stdout"`, `"msg"="two" "stream"="stdout"`,
		`"msg"="three" "stream"="stderr"`,
	} {
		if !strings.Contains(got, want) {
			t.Errorf("logged\n%s\nwant a line with %s", got, want)
		}
	}
	if len(all.lines) != 3 {
		t.Errorf("logged %d lines, want 3:\n%s", len(all.lines), got)
	}
}

func TestStart_LongLine_IsCutBetweenCharacters(t *testing.T) {
	t.Parallel()
	// A character of three bytes never ends at a power of two.
	text := strings.Repeat("世", 20_000)
	var all logged
	got := errorOf(t, start(t, all.logger(),
		"i=0; while [ $i -lt 20000 ]; do printf 世; i=$((i+1)); done"))
	if !utf8.ValidString(got) || !strings.Contains(got, "世") || strings.Contains(got, `\x`) {
		t.Errorf("error %q has a part of a character", got)
	}
	var joined strings.Builder
	for _, line := range all.lines {
		_, rest, _ := strings.Cut(line, `"msg"="`)
		part, _, _ := strings.Cut(rest, `"`)
		joined.WriteString(part)
	}
	if joined.String() != text || len(all.lines) < 2 {
		t.Errorf("%d lines have %d bytes of %d", len(all.lines), joined.Len(), len(text))
	}
}

func TestKill_OfARunningProgram_EndsItsChildrenAndErrorHasTheCause(t *testing.T) {
	t.Parallel()
	var all logged
	p := start(t, all.logger(), "sleep 1000 & echo $!; wait")
	grandchild := ccmtest.Eventually(t, "the script has started its child",
		func(context.Context) (pid int, err error) {
			all.mu.Lock()
			defer all.mu.Unlock()
			_, err = fmt.Sscanf(strings.Join(all.lines, ""), `"level"=0 "msg"="%d"`, &pid)
			return pid, err
		})
	cause, later := errors.New("it sends garbage"), errors.New("later")
	p.Kill(cause)
	p.Kill(later)
	got := errorOf(t, p)
	if !errors.Is(p.Err(), cause) || !strings.Contains(got, "was killed: it sends garbage") {
		t.Errorf("error %q, want one with the cause of the kill", got)
	}
	waittest.Until(t, "the child of the script is dead", func() error {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", grandchild))
		if err == nil && !strings.Contains(string(stat), ") Z ") {
			return fmt.Errorf("it still runs: %s", stat)
		}
		return nil
	})
}

func TestKill_AfterTheProgramHasEnded_KeepsItsReason(t *testing.T) {
	t.Parallel()
	p := start(t, logr.Discard(), "exit 3")
	errorOf(t, p)
	p.Kill(errors.New("late"))
	if got := p.Err().Error(); !strings.HasSuffix(got, "ended: exit status 3") {
		t.Errorf("error %q", got)
	}
}
