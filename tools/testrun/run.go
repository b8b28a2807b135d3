package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"os/signal"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
)

const (
	// progressInterval is the pause between two lines about what runs.
	progressInterval = time.Minute
	// progressDescriptor is the descriptor of the file for these lines, if it is open: standard
	// output is for gotestsum, which takes each line of standard error for an error.
	progressDescriptor = 3
	// mostCPU is how many jobs the end names by their CPU time.
	mostCPU = 10
	// killGrace is how long a binary may go on after -test.timeout, which prints its goroutines.
	killGrace = time.Minute
)

// Codes that gotestsum distinguishes: it runs failed tests again only after a one.
const (
	codeFailed  = 1
	codeNoRerun = 2
)

// errFailed: tests failed, and may run again.
var errFailed = errors.New("tests failed")

func exitCode(err error) int {
	if errors.Is(err, errFailed) {
		return codeFailed
	}
	return codeNoRerun
}

// patterns are regular expressions of names of jobs.
type patterns []*regexp.Regexp

func (p *patterns) String() string { return fmt.Sprint(*p) }

func (p *patterns) Set(text string) error {
	re, err := regexp.Compile(text)
	*p = append(*p, re)
	return err
}

// rank is the place of a name's first pattern, or a place after all.
func (p patterns) rank(name string) int {
	i := slices.IndexFunc(p, func(re *regexp.Regexp) bool { return re.MatchString(name) })
	if i < 0 {
		return len(p)
	}
	return i
}

func (p patterns) match(name string) bool { return p.rank(name) < len(p) }

// run runs the test binaries that build has built, or the tests of one job: gotestsum appends
// -test.run=RE and a name to run a failed test again.
func run(args []string) error {
	var first, again, only, except patterns
	flags := flag.NewFlagSet("run", flag.ContinueOnError)
	dir := flags.String("dir", "", "folder of the test binaries")
	// Many wait for a control plane most of the time.
	p := flags.Int("p", 2*runtime.NumCPU(), "how many binaries run at once")
	atOnce := flags.Int("parallel", 8, "how many tests of one binary run at once")
	limit := flags.Duration("timeout", 20*time.Minute, "the limit of each binary")
	tests := flags.String("test.run", "", "run only these tests")
	skip := flags.String("test.skip", "", "do not run these tests")
	flags.Var(&first, "first", "jobs that begin first, in this order (repeatable)")
	flags.Var(&again, "again", "jobs whose failed tests may run again (repeatable)")
	flags.Var(&only, "only", "run only these jobs (repeatable)")
	flags.Var(&except, "except", "do not run these jobs (repeatable)")
	if err := flags.Parse(args); err != nil {
		return err
	}
	jobs, err := readPlan(*dir)
	if err != nil {
		return err
	}
	jobs = slices.DeleteFunc(jobs, func(j job) bool {
		return len(only) > 0 && !only.match(j.Name) || except.match(j.Name) ||
			flags.NArg() > 0 && !slices.Contains(flags.Args(), j.Name)
	})
	if len(jobs) == 0 {
		return fmt.Errorf("no test binary in %s matches %q %v", *dir, flags.Args(), only)
	}
	for i := range jobs {
		if *tests != "" {
			jobs[i].Args = []string{"-test.run=" + *tests}
		}
		jobs[i].Args = append(jobs[i].Args, fmt.Sprintf("-test.parallel=%d", *atOnce))
		if *skip != "" {
			jobs[i].Args = append(jobs[i].Args, "-test.skip="+*skip)
		}
	}
	slices.SortStableFunc(jobs, func(a, b job) int {
		return first.rank(a.Name) - first.rank(b.Name)
	})
	r := &runner{
		out: os.Stdout, limit: *limit, again: again, count: len(jobs), began: time.Now(),
		running: map[string]running{}, cpu: map[string]time.Duration{},
		progress: progressFile(),
	}
	// Else the binaries, each in a group of its own, would go on without testrun.
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	return r.all(ctx, jobs, *p)
}

// A running job.
type running struct {
	began  time.Time
	events *events
}

// A runner runs jobs and writes their events to out.
type runner struct {
	limit time.Duration
	again patterns
	count int
	began time.Time

	// progress receives lines about what runs.
	progress io.Writer

	mu sync.Mutex
	// out receives whole lines.
	out     io.Writer
	running map[string]running
	ended   int
	failed  []string
	// cpu is the CPU time of each job, with that of the processes that it has waited for.
	cpu map[string]time.Duration
	// final: a failure is not one of a test that may run again.
	final bool
}

func (r *runner) all(ctx context.Context, jobs []job, p int) error {
	stop := r.tell()
	defer stop()
	queue := make(chan job)
	var workers sync.WaitGroup
	for range p {
		workers.Go(func() {
			for j := range queue {
				r.one(ctx, j)
			}
		})
	}
	for _, j := range jobs {
		if ctx.Err() != nil {
			break
		}
		queue <- j
	}
	close(queue)
	workers.Wait()
	switch {
	case ctx.Err() != nil:
		return fmt.Errorf("ended: %w", context.Cause(ctx))
	case r.final:
		return fmt.Errorf("failed: %s", strings.Join(r.failed, ", "))
	case len(r.failed) > 0:
		return errFailed
	}
	return nil
}

// one runs a job.
func (r *runner) one(ctx context.Context, j job) {
	events := &events{to: r.write, running: map[string]time.Time{}}
	r.begin(j.Name, events)
	err := r.process(ctx, j, events)
	isTests := events.failedTests > 0
	if err != nil && (!isTests || events.passed) {
		r.write(failure(j.Name, err))
		isTests = false
	}
	r.end(j.Name, err, isTests)
}

// process runs a binary, and test2json beside it, which cannot run it: it would wait for the output
// of processes that a test has left behind.
func (r *runner) process(ctx context.Context, j job, events *events) error {
	reader, writer, err := os.Pipe()
	if err != nil {
		return err
	}
	convert := exec.Command("go", "tool", "test2json", "-t", "-p", j.Name)
	convert.Stdin, convert.Stdout = reader, events
	err = convert.Start()
	_ = reader.Close()
	if err != nil {
		_ = writer.Close()
		return err
	}
	cmd := exec.Command(j.Binary, append([]string{
		"-test.v=test2json", "-test.paniconexit0", "-test.timeout=" + r.limit.String(),
	}, j.Args...)...)
	cmd.Dir = j.Dir
	cmd.Stdout, cmd.Stderr = writer, writer
	cmd.Env = append(os.Environ(), "PWD="+j.Dir, marker(j.Name),
		// Else each process of a test, too, sleeps a second at its end.
		"GORACE=atexit_sleep_ms=0")
	ctx, cancel := context.WithTimeoutCause(ctx, r.limit+killGrace,
		fmt.Errorf("still running after %s", r.limit+killGrace))
	err = runGroup(ctx, cmd)
	cancel()
	_ = writer.Close()
	r.used(j.Name, cmd.ProcessState)
	if left := leftovers(j.Name); len(left) > 0 {
		err = errors.Join(err, fmt.Errorf("processes of the tests did not end: %s",
			strings.Join(left, "; ")))
	}
	return errors.Join(err, convert.Wait())
}

func (r *runner) used(name string, state *os.ProcessState) {
	if state == nil { // it did not start
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.cpu[name] += state.UserTime() + state.SystemTime()
}

func (r *runner) write(line []byte) {
	r.mu.Lock()
	defer r.mu.Unlock()
	_, _ = r.out.Write(line)
}

func (r *runner) begin(name string, events *events) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.running[name] = running{time.Now(), events}
}

func (r *runner) end(name string, err error, isTests bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.running, name)
	r.ended++
	if err == nil {
		return
	}
	r.failed = append(r.failed, name)
	// A package that fails although no test does has, for example, left goroutines behind.
	r.final = r.final || !isTests || !r.again.match(name)
}

// progressFile is the file for lines about what runs. The tests do not get it.
func progressFile() io.Writer {
	syscall.CloseOnExec(progressDescriptor)
	file := os.NewFile(progressDescriptor, "progress")
	if _, err := file.Stat(); err != nil {
		return io.Discard
	}
	return file
}

// tell prints what runs, until stop.
func (r *runner) tell() (stop func()) {
	ticker := time.NewTicker(progressInterval)
	done, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for {
			select {
			case <-ticker.C:
				fmt.Fprintln(r.progress, r.now())
			case <-done:
				return
			}
		}
	}()
	return func() {
		ticker.Stop()
		close(done)
		<-ended
		fmt.Fprintln(r.progress, r.usage())
	}
}

// usage says which jobs used most of the CPU time.
func (r *runner) usage() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	var total time.Duration
	for _, used := range r.cpu {
		total += used
	}
	names := slices.SortedFunc(maps.Keys(r.cpu), func(a, b string) int {
		return cmp.Or(cmp.Compare(r.cpu[b], r.cpu[a]), strings.Compare(a, b))
	})
	most := names[:min(len(names), mostCPU)]
	for i, name := range most {
		most[i] = fmt.Sprintf("%s (%.0f s)", short(name), r.cpu[name].Seconds())
	}
	return fmt.Sprintf("tests: %.0f s of CPU time; most by %s", total.Seconds(),
		strings.Join(most, ", "))
}

// now says what runs, with the tests that have run for a whole interval.
func (r *runner) now() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	var names []string
	for name, job := range r.running {
		names = append(names, fmt.Sprintf("%s (%.0f s%s)", short(name),
			time.Since(job.began).Seconds(), job.events.slow(progressInterval)))
	}
	slices.Sort(names)
	return fmt.Sprintf("tests: %d of %d packages after %.0f s, %d failed; running: %s", r.ended,
		r.count, time.Since(r.began).Seconds(), len(r.failed), strings.Join(names, ", "))
}

// short is a name without the path of the project.
func short(name string) string { return strings.TrimPrefix(name, "github.com/fxccm/fxccm/") }
