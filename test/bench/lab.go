package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/fxccm/fxccm/test/internal/project"
)

// labScenario needs a real OpenStack, which not every machine has.
const labScenario = "lab"

// labLimit is how many times as long as other trials that on the lab may take: it measures one
// thing after the other, on servers that are made once.
const labLimit = 4

// A labResult is what was measured on the real OpenStack, and of what packages that is.
type labResult struct {
	packages []string
	figures  []labFigure
}

// A labFigure is what was measured of one thing that there is to do.
type labFigure struct {
	title string
	// took is until all was as it should be, in the cluster and in Octavia.
	took time.Duration
	// pending is how long of that Octavia was at work, pendingEach how long at each load balancer:
	// it may have been at several at once.
	pending, pendingEach time.Duration
	requests             tallies
	// target is the most that the requests may be, or noTarget.
	target float64
	// logged is how many requests the services have noted, by service.
	logged map[string]int
	// occm is in requests, occmTime in seconds.
	occm, occmTime cost
}

// labFolder is that of the lab; "" if none is named.
func labFolder() string { return os.Getenv(project.LabVariable) }

// findLab is an error unless the lab is up.
func findLab(ctx context.Context) error {
	folder := labFolder()
	if folder == "" {
		return fmt.Errorf("no lab is named by %s; `make openstack-lab` brings one up",
			project.LabVariable)
	}
	text, err := os.ReadFile(filepath.Join(folder, "lab.json"))
	if err != nil {
		return fmt.Errorf("there is no lab in %s; `make openstack-lab` brings one up: %w", folder,
			err)
	}
	var lab struct {
		AuthURL string `json:"auth_url"`
	}
	if err := json.Unmarshal(text, &lab); err != nil {
		return fmt.Errorf("read the lab's address: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, lab.AuthURL, nil)
	if err != nil {
		return fmt.Errorf("read the lab's address: %w", err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return fmt.Errorf("the lab in %s is not up; `make openstack-lab` brings it up: %w", folder,
			err)
	}
	defer func() { _ = resp.Body.Close() }()
	_, _ = io.Copy(io.Discard, resp.Body)
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf(
			"the lab in %s is not well: Keystone says %s; `make openstack-lab-down openstack-lab` starts it again", folder, resp.Status)
	}
	return nil
}

// labPackages are those whose versions tell what OpenStack this is.
func labPackages() []string {
	return []string{
		"python3-keystone", "python3-nova", "python3-neutron", "python3-octavia",
		"mariadb-server", "rabbitmq-server",
	}
}

// measureLab measures whole fxccm on a real OpenStack, in a project that is made for that, and
// deleted with all that is in it.
func measureLab(b *bench) {
	args := append([]string{"-W", "-f", "${Package} ${Version}\n"}, labPackages()...)
	out, err := exec.CommandContext(b.run.Context(), "dpkg-query", args...).Output()
	b.run.Check(err)
	b.results.lab.packages = strings.Split(strings.TrimSpace(string(out)), "\n")
	b.run.Check(b.trialWithin(labLimit*b.limit, labScenario, 0, func(t *trial) {
		l := &labTrial{trial: t, cloud: newLabCloud(t)}
		l.measureInitialize()
		l.measureStatusPass()
		l.measureOne()
		l.measureMany()
		l.measureNothingToDo()
		l.measureRestart()
		l.measurePortAdded()
		l.measureNodeJoins()
		l.measureNodeGone()
		l.measureDeleted()
		b.progress.say("lab: deleting all that is in the project")
	}))
}

// labTrial is a trial on the lab. Its measurements follow each other.
type labTrial struct {
	*trial
	cloud *labCloud
	// running is the process that is measured; nil if none is.
	running *process
	// alone is what Octavia needed while it had nothing else to do: for a new load balancer, one
	// change of it, its deletion. From it is computed how often OCCM would ask.
	alone struct{ creation, change, deletion time.Duration }
}

// leadCCM starts fxccm as it is by default, but for what it does by the clock, which would be
// counted with whatever is measured meanwhile. It returns when fxccm leads.
func (t *labTrial) leadCCM(flags ...string) (at time.Time) {
	t.running, at = t.lead(openStackCCM(t.writeFile("lab.conf", t.cloud.config()),
		append([]string{"--node-status-update-frequency=" + neverPeriod.String()}, flags...)...))
	return at
}

// stopCCM ends the process; the lease is free then.
func (t *labTrial) stopCCM() {
	t.end(t.running)
	t.running = nil
	t.settle()
}

// tallies are what the running process has counted, and how many of its requests are in flight.
func (t *labTrial) tallies() (_ tallies, underway int) {
	if t.running == nil {
		return tallies{}, 0
	}
	return talliesOf(t.metrics(t.running))
}

// awaitQuiet waits until fxccm has asked nothing for a while, and tells what it has asked until
// then.
func (t *labTrial) awaitQuiet() tallies {
	t.update("waiting until nothing more is asked")
	for last, since := -1, time.Now(); ; t.pause(4 * pollInterval) {
		all, underway := t.tallies()
		if n := all.sum().count; underway > 0 || n != last {
			last, since = n, time.Now()
		}
		if time.Since(since) >= settleTime {
			return all
		}
	}
}

// measure counts the requests while do runs, and until no request has been sent for a while after
// that. do returns when it began, and when the cluster showed that it was done; left is what
// OpenStack shows not to be done yet, which it is asked when all is quiet.
func (t *labTrial) measure(
	title string, do func() (begun, done time.Time), left func() error,
) labFigure {
	f := labFigure{title: title}
	t.title = labScenario + ": " + title
	logs := filepath.Join(labFolder(), "log")
	before, _ := t.tallies()
	mark, err := markLogs(logs)
	t.Check(err)
	watched := t.watchOctavia()
	defer watched.stop()
	begun, done := do()
	after := t.awaitDone(watched, done, left)
	if len(after) == 0 {
		t.Fatalf("fxccm serves no metric %s", requestMetric)
	}
	f.requests = after.since(before)
	f.logged, err = countLogged(logs, mark, t.cloud.ID)
	t.Check(err)
	seen := watched.stop()
	var together time.Duration
	var balancers int
	if f.pending, together, balancers = seen.pending(); balancers > 0 {
		f.pendingEach = together / time.Duration(balancers)
	}
	if rest := seen.rest(); rest.After(done) {
		done = rest
	}
	f.took = done.Sub(begun)
	return f
}

// awaitDone waits until nothing is left to do, and tells what has been asked until then. Between
// two steps of a longer work it may be quiet, too.
func (t *labTrial) awaitDone(watched *octavia, done time.Time, left func() error) tallies {
	for end := time.Now().Add(t.limit); ; done = time.Now() {
		t.until(func() bool { return watched.isAtRest(done) })
		all := t.awaitQuiet()
		err := left()
		if err == nil {
			return all
		}
		if time.Now().After(end) {
			t.Check(err)
		}
	}
}

// note keeps a figure with what OCCM would need, and tells it.
func (t *labTrial) note(f labFigure, occm, occmTime cost) {
	f.occm, f.occmTime = occm, occmTime
	t.results.lab.figures = append(t.results.lab.figures, f)
	t.progress.say(fmt.Sprintf("%s: %s s, %d calls (%s)", t.title, secondsText(f.took),
		f.requests.sum().count, f.kindsText()))
}

func secondsText(d time.Duration) string { return fmt.Sprintf("%.2f", d.Seconds()) }

// kindsText is how many requests there were of each kind. That one succeeded is not told.
func (f labFigure) kindsText() string {
	var texts []string
	for _, kind := range f.requests.kinds() {
		text := fmt.Sprintf("%s %d", kind.operation, f.requests[kind].count)
		if !strings.HasPrefix(kind.code, "2") {
			text += " (" + kind.code + ")"
		}
		texts = append(texts, text)
	}
	return strings.Join(texts, ", ")
}

// figureTable has a line for each figure.
func (r labResult) figureTable() table {
	t := table{header: []string{
		"", "fxccm: time", "Octavia at work", "on each", "fxccm: calls", "target", "", "each takes",
		"OCCM, computed: calls", "by", "OCCM, computed: time", "by",
	}}
	for _, f := range r.figures {
		all := f.requests.sum()
		calls := figure{value: float64(all.count), target: f.target}
		pending, each := "", ""
		if f.pending > 0 {
			pending, each = secondsText(f.pending)+" s", secondsText(f.pendingEach)+" s"
		}
		t.lines = append(t.lines, []string{
			f.title, secondsText(f.took) + " s", pending, each, strconv.Itoa(all.count),
			calls.targetText(), calls.verdict(), fmt.Sprintf("%.3f s", all.mean().Seconds()),
			f.occm.text(count), f.occm.formula, f.occmTime.text(seconds), f.occmTime.formula,
		})
	}
	return t
}

// kindTable has a line for each kind of request of each figure.
func (r labResult) kindTable() table {
	t := table{header: []string{"", "service", "operation", "result", "calls", "each takes"}}
	for _, f := range r.figures {
		title := f.title
		for _, kind := range f.requests.kinds() {
			one := f.requests[kind]
			t.lines = append(t.lines, []string{
				title, kind.service, kind.operation, kind.code, strconv.Itoa(one.count),
				fmt.Sprintf("%.3f s", one.mean().Seconds()),
			})
			title = ""
		}
	}
	return t
}

// logTable shows what fxccm has counted beside what the services have noted.
func (r labResult) logTable() table {
	t := table{header: []string{""}}
	for _, l := range serviceLogs() {
		t.header = append(t.header, fmt.Sprintf("%s (`%s`)", l.service, l.file))
	}
	for _, f := range r.figures {
		cells := []string{f.title}
		for _, l := range serviceLogs() {
			counted := f.requests.only(func(k requestKind) bool {
				return k.service == l.service && k.isAnswered()
			}).sum().count
			cells = append(cells, fmt.Sprintf("%d / %d", counted, f.logged[l.service]))
		}
		t.lines = append(t.lines, cells)
	}
	return t
}

// labPage is the page on the real OpenStack.
func (r report) labPage() page {
	lab := r.results.lab
	figures, kinds, logs := lab.figureTable(), lab.kindTable(), lab.logTable()
	return page{
		"On a real OpenStack: fxccm's requests, and beside lines in the services' logs",
		[]table{figures, kinds, logs},
		"benchmarks-lab",
		map[string]any{
			"Table": figures, "Kinds": kinds, "Logs": logs,
			"LabNodes": r.settings.labNodes, "LabServices": r.settings.labServices,
			"Ports": balancerPorts, "SettleTime": settleTime, "LookInterval": lookInterval,
			"StatusPeriod": statusPeriod, "OCCMRevision": occmRevision, "Monitors": occmMonitors,
			"FirstPause": occmFirstPause, "PauseFactor": occmPauseFactor,
			"Packages": strings.Join(lab.packages, ", "),
		},
	}
}
