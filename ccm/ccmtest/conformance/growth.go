package conformance

import (
	"bufio"
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"github.com/fxccm/fxccm/internal/waittest"
)

// warmTerms come before the first count, and countedTerms between the two counts.
const (
	warmTerms    = 2
	countedTerms = 3
)

// growth counts goroutines, sockets and watches after some terms.
func (x *trial) growth() string {
	m := x.start(x.suite.NewCloud(x))
	var before map[string]int
	for term := range warmTerms + countedTerms {
		m.lead()
		x.join(m)
		x.lose(m)
		if term+1 == warmTerms {
			before = x.count()
		}
	}
	waittest.Until(x, "nothing has grown with the terms", func() error {
		after := x.count()
		var grown []string
		for _, what := range slices.Sorted(maps.Keys(after)) {
			if more := after[what] - before[what]; more >= countedTerms {
				grown = append(grown, fmt.Sprintf("%d more %s", more, what))
			}
		}
		if len(grown) > 0 {
			return fmt.Errorf("after %d terms the process has %s", countedTerms,
				strings.Join(grown, ", "))
		}
		return nil
	})
	return fmt.Sprintf("nothing grows in %d terms", countedTerms)
}

// count counts goroutines by their first function, sockets, and the watches of the API server.
func (x *trial) count() map[string]int {
	counts := map[string]int{}
	records := make([]runtime.StackRecord, 2*runtime.NumGoroutine()+100)
	n, _ := runtime.GoroutineProfile(records)
	for _, r := range records[:n] {
		counts["goroutines of "+firstFunction(r.Stack())]++
	}
	countSockets(counts)
	if watches, err := x.watches(x.Context()); err == nil {
		counts["watches of the API server"] = watches
	}
	return counts
}

// firstFunction is the function of the go statement.
func firstFunction(stack []uintptr) string {
	frames := runtime.CallersFrames(stack)
	first := ""
	for {
		frame, more := frames.Next()
		if frame.Function != "runtime.goexit" && frame.Function != "" {
			first = frame.Function
		}
		if !more {
			return first
		}
	}
}

// countSockets counts the TCP sockets of this process, on Linux.
func countSockets(counts map[string]int) {
	states := map[string]string{} // by inode
	for _, table := range []string{"/proc/self/net/tcp", "/proc/self/net/tcp6"} {
		text, err := os.ReadFile(table)
		if err != nil {
			continue
		}
		for line := range strings.Lines(string(text)) {
			if fields := strings.Fields(line); len(fields) > 9 {
				states[fields[9]] = fields[3]
			}
		}
	}
	files, err := filepath.Glob("/proc/self/fd/*")
	if err != nil {
		return
	}
	for _, file := range files {
		target, err := os.Readlink(file)
		if err != nil {
			continue // closed meanwhile
		}
		inode, isSocket := strings.CutPrefix(target, "socket:[")
		if !isSocket {
			continue
		}
		switch states[strings.TrimSuffix(inode, "]")] {
		case "": // not TCP
		case "0A":
			counts["listening ports"]++
		default:
			counts["connections"]++
		}
	}
}

// watches reads the number of open watches from the API server.
func (x *trial) watches(ctx context.Context) (int, error) {
	text, err := x.client.CoreV1().RESTClient().Get().AbsPath("/metrics").DoRaw(ctx)
	if err != nil {
		return 0, err
	}
	sum := 0.0
	lines := bufio.NewScanner(strings.NewReader(string(text)))
	for lines.Scan() {
		line := lines.Text()
		if !strings.HasPrefix(line, "apiserver_longrunning_requests{") ||
			!strings.Contains(line, `verb="WATCH"`) {
			continue
		}
		value, err := strconv.ParseFloat(line[strings.LastIndexByte(line, ' ')+1:], 64)
		if err != nil {
			return 0, err
		}
		sum += value
	}
	return int(sum), lines.Err()
}
