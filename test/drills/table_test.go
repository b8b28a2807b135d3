//go:build linux

package drills_test

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// A result is the result of a cell.
type result struct {
	cell cell
	// wrong are the words for deviations.
	wrong []string
	// unfinished is true if the cell failed before it had a result.
	unfinished bool
	// leads reports whether the cloud controller manager led again, and led the time from the end
	// of the outage until then.
	leads          bool
	led            time.Duration
	late, overlaps int
}

// note adds a remark to the result that is not an error.
func (r *result) note(word string) { r.wrong = append(r.wrong, word) }

// complain adds a remark and fails the test.
func (r *result) complain(t *testing.T, word, format string, args ...any) {
	t.Helper()
	r.note(word)
	t.Errorf(format, args...)
}

func (r *result) verdict() string {
	wrong := slices.Clone(r.wrong)
	if r.unfinished {
		wrong = append(wrong, "unfinished")
	}
	if r.late > 0 {
		wrong = append(wrong, "late calls")
	}
	if r.overlaps > 0 {
		wrong = append(wrong, "overlap")
	}
	return cmp.Or(strings.Join(wrong, ", "), "ok")
}

// results are the results of all cells, and the lines of the lease drills.
var results list

type list struct {
	mu     sync.Mutex
	all    []*result
	leases []string
	// fleets and hostile have the lines of the fleet drills, in their order.
	fleets, hostile []string
	// otherVersion is the version of one replica in the first of the fleet drills.
	otherVersion string
}

func (l *list) add(r *result) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all = append(l.all, r)
}

// addLease adds a line to the table of the lease drills.
func (l *list) addLease(candidates, changes string, o overlap) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.leases = append(l.leases,
		fmt.Sprintf("| %s | %s | %d | %d | %d | %.1f s | %.1f s | %d | %d |", candidates, changes,
			o.terms, o.of, o.calls, o.time.Seconds(), o.leaderless.Seconds(), o.writes, o.unled))
}

func (l *list) addVersions(other string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.otherVersion = other
}

// addFleet adds a line to the table of the fleet drills.
func (l *list) addFleet(line string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.fleets = append(l.fleets, line)
}

// addHostile adds a line to the table of the drill with hostile clusters.
func (l *list) addHostile(line string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.hostile = append(l.hostile, line)
}

// report prints the results, and writes them to the page with -update.
func report() error {
	var fleets, written string
	if len(results.fleets) > 0 && len(results.hostile) > 0 {
		fleets = "The replica that cannot reach the management cluster runs " +
			results.otherVersion + "; the others run this version.\n\n" + fleetPreamble +
			strings.Join(results.fleets, "\n") + "\n" +
			hostilePreamble + strings.Join(results.hostile, "\n") + "\n"
	}
	if len(results.all) > 0 || len(results.leases) > 0 {
		written = tables(results.all, results.leases)
	}
	fmt.Print(fleets, written)
	if !*update || fleets+written == "" {
		return nil
	}
	path := filepath.Join("..", "..", "docs", "evidence", "drills.md")
	data, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	page := string(data)
	if fleets != "" {
		before, rest, found := strings.Cut(page, fleetMark)
		_, after, ends := strings.Cut(rest, fleetEnd)
		if !found || !ends {
			return fmt.Errorf("%s has no lines %s and %s", path, fleetMark, fleetEnd)
		}
		page = before + fleetMark + "\n\n" + fleets + "\n" + fleetEnd + after
	}
	if written != "" {
		prose, _, found := strings.Cut(page, resultsMark)
		if !found {
			return fmt.Errorf("%s has no line %s", path, resultsMark)
		}
		page = prose + resultsMark + "\n\n" + written
	}
	return os.WriteFile(path, []byte(page), 0o644)
}

// The results of the fleet drills are between these lines of the page.
const (
	fleetMark = "<!-- fleet results -->"
	fleetEnd  = "<!-- end of fleet results -->"
)

const fleetPreamble = "| event | clusters that moved | half served again after | 95 % after | " +
	"all after |\n|---|---|---|---|---|\n"

const hostilePreamble = "\n| clusters | Services of the others | half reach the cloud after | " +
	"all after | memory of the replica |\n|---|---|---|---|---|\n"

// resultsMark is the line of the page before the results.
const resultsMark = "<!-- results -->"

func tables(all []*result, leases []string) string {
	order := map[string]int{}
	for i, c := range cells() {
		order[c.String()] = i
	}
	slices.SortFunc(all, func(a, b *result) int {
		return order[a.cell.String()] - order[b.cell.String()]
	})
	var page strings.Builder
	ok := 0
	for _, r := range all {
		if r.verdict() == "ok" {
			ok++
		}
	}
	fmt.Fprintf(&page, "## Outages\n\n%d of %d cells are ok.\n\n", ok, len(all))
	page.WriteString(
		"| outage | situation | topology | result | leads again after | mutating calls after the fence | overlaps |\n|---|---|---|---|---|---|---|\n")
	for _, r := range all {
		led := "never"
		if r.leads {
			led = fmt.Sprintf("%.1f s", r.led.Seconds())
		}
		fmt.Fprintf(&page, "| %s | %s | %s | %s | %s | %d | %d |\n", r.cell.outage.name,
			r.cell.situation.name, r.cell.topology.name,
			r.verdict(), led, r.late, r.overlaps)
	}
	if len(leases) > 0 {
		page.WriteString(leasePreamble)
		slices.Sort(leases)
		for _, line := range leases {
			page.WriteString(line + "\n")
		}
	}
	return page.String()
}

const leasePreamble = "\n## The lease\n\n" +
	"| candidates | changes of the lease | terms | mutating calls | of these, while two terms acted | that lasted | longest time without a call | writes to the API server | calls and writes without a valid lease |\n|---|---|---|---|---|---|---|---|---|\n"
