package endpoints

import (
	"cmp"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/fxccm/fxccm/ccm"
	"github.com/fxccm/fxccm/ccm/status"
	"github.com/fxccm/fxccm/internal/webpage"
)

// StatusPage serves the state of several Managers, such as all Managers of a process, as one HTML
// page, worst first. managers is called for each request. The page has no scripts and loads no
// other files. With ?refresh=5 the browser reloads it every 5 seconds. As with [NewHandler], the
// host authenticates clients.
func StatusPage(managers func() []*ccm.Manager) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var all []statusz
		for _, m := range managers() {
			all = append(all, statusOf(m))
		}
		writePage(w, r, time.Now(), all)
	})
}

func writePage(w http.ResponseWriter, r *http.Request, now time.Time, all []statusz) {
	views := make([]managerView, 0, len(all))
	for _, s := range all {
		views = append(views, viewOf(s, now))
	}
	slices.SortStableFunc(views, func(a, b managerView) int {
		return cmp.Or(cmp.Compare(a.Mark.Level, b.Mark.Level),
			cmp.Compare(len(b.Problems), len(a.Problems)))
	})
	const heading = "Cloud controller manager"
	title := heading
	if len(views) > 0 {
		title = views[0].Mark.Word + ": " + views[0].Title
	}
	webpage.Write(w, r, webpage.Page{
		Title: title, Heading: heading, Now: now, Content: content{now}.of(views),
	})
}

func between(from, to time.Time) string { return duration.HumanDuration(to.Sub(from)) }

// markOf returns the mark of a state of ccm.
func markOf(state any) webpage.Mark {
	switch state := state.(type) {
	case status.ControllerState:
		return map[status.ControllerState]webpage.Level{
			status.ControllerFailed: webpage.Bad, status.ControllerRunning: webpage.Good,
			status.ControllerWaiting: webpage.Idle, status.ControllerSkipped: webpage.Idle,
			status.ControllerDisabled: webpage.Idle, status.ControllerStopped: webpage.Idle,
		}[state].Mark(string(state))
	case status.LoadBalancerState:
		return map[status.LoadBalancerState]webpage.Level{
			status.LoadBalancerDegraded: webpage.Bad, status.LoadBalancerRefused: webpage.Bad,
			status.LoadBalancerWaiting: webpage.Warn, status.LoadBalancerReady: webpage.Good,
		}[state].Mark(string(state))
	case status.Term:
		switch {
		case state.End == "stopped":
			return webpage.Idle.Mark(state.End)
		case state.End == "lost":
			return webpage.Warn.Mark(state.End)
		case state.End != "":
			return webpage.Bad.Mark(strings.ReplaceAll(state.End, "_", " "))
		case !state.DrainBegan.IsZero():
			return webpage.Warn.Mark("draining")
		case state.Opened.IsZero():
			return webpage.Warn.Mark("opening")
		}
		return webpage.Good.Mark("leading")
	}
	return webpage.Bad.Mark(fmt.Sprint(state))
}

// problem is one line of the list at the top of a Manager.
type problem struct {
	webpage.Mark
	// Subject is short, for the table of Managers.
	Subject string
	Text    string
	Since   time.Time
}

// managerView is one Manager as the page shows it.
type managerView struct {
	statusz
	Title    string
	Mark     webpage.Mark
	Problems []problem

	Unready, ReadyBalancers []status.LoadBalancer
	Calls                   []status.Activity
	Timeline                []bar
}

func viewOf(s statusz, now time.Time) managerView {
	v := managerView{statusz: s, Title: s.cluster, Timeline: timeline(s.Terms, now)}
	if s.name != "" {
		v.Title = s.name + " (" + s.cluster + ")"
	}
	for _, lb := range s.LoadBalancers {
		if lb.State == status.LoadBalancerReady && lb.Message == "" {
			v.ReadyBalancers = append(v.ReadyBalancers, lb)
		} else {
			v.Unready = append(v.Unready, lb)
		}
	}
	v.Controllers = slices.Clone(s.Controllers)
	slices.SortStableFunc(v.Controllers, func(a, b status.Controller) int {
		return cmp.Compare(markOf(a.State).Level, markOf(b.State).Level)
	})
	for _, a := range s.Running {
		// Controllers run for as long as their term, and a separate table shows them.
		if a.MayAct || s.State != status.Leading || strings.HasPrefix(a.Name, "call ") {
			v.Calls = append(v.Calls, a)
		}
	}
	v.Problems = problems(s)
	v.Mark = markOfManager(s)
	if len(v.Problems) > 0 && v.Problems[0].Level < v.Mark.Level {
		v.Mark = v.Problems[0].Level.Mark(v.Mark.Word + ", with problems")
	}
	return v
}

func markOfManager(s statusz) webpage.Mark {
	switch {
	case s.State == status.Degraded, s.State == status.Stopped && s.Reason != "":
		return webpage.Bad.Mark(string(s.State))
	case s.State == status.Draining:
		return webpage.Warn.Mark(string(s.State))
	case s.State == status.Leading && !s.Ready:
		return webpage.Warn.Mark("opening")
	case s.State == status.Leading:
		return webpage.Good.Mark(string(s.State))
	}
	return webpage.Idle.Mark(string(s.State))
}

// problems lists the problems of a Manager, worst first.
func problems(s statusz) []problem {
	var all []problem
	add := func(l webpage.Level, word, subject, text string, since time.Time) {
		all = append(all, problem{l.Mark(word), subject, text, since})
	}
	if s.Reason != "" {
		add(webpage.Bad, string(s.State), string(s.State), s.Reason, time.Time{})
	}
	for _, t := range s.Troubles {
		add(webpage.Bad, "cloud", "cloud: "+t.Subject, t.Subject+": "+t.Reason, t.Since)
	}
	for _, state := range []status.LoadBalancerState{
		status.LoadBalancerDegraded, status.LoadBalancerRefused, status.LoadBalancerWaiting,
	} {
		found := slices.DeleteFunc(slices.Clone(s.LoadBalancers),
			func(lb status.LoadBalancer) bool { return lb.State != state })
		if len(found) == 0 {
			continue
		}
		first := slices.MinFunc(found,
			func(a, b status.LoadBalancer) int { return a.Since.Compare(b.Since) })
		m, text := markOf(state), "load balancer of "
		if len(found) > 1 {
			text = fmt.Sprintf("%d load balancers, the first of ", len(found))
		}
		add(m.Level, m.Word, fmt.Sprintf("load balancers %s: %d", state, len(found)),
			text+first.Namespace+"/"+first.Service+because(first.Reason, first.Message),
			first.Since)
	}
	defective := slices.DeleteFunc(slices.Clone(s.LoadBalancers),
		func(lb status.LoadBalancer) bool {
			return lb.State != status.LoadBalancerReady || lb.Message == ""
		})
	if len(defective) > 0 {
		first, text := defective[0], "load balancer of "
		if len(defective) > 1 {
			text = fmt.Sprintf("%d load balancers, the first of ", len(defective))
		}
		add(webpage.Warn, "defect", fmt.Sprintf("load balancers with a defect: %d", len(defective)),
			text+first.Namespace+"/"+first.Service+because(first.Reason, first.Message),
			first.Since)
	}
	if len(s.Nodes) > 0 {
		first, text := s.Nodes[0], "node "
		if len(s.Nodes) > 1 {
			text = fmt.Sprintf("%d nodes, the first is ", len(s.Nodes))
		}
		add(webpage.Warn, "nodes", fmt.Sprintf("nodes that wait or fail: %d", len(s.Nodes)),
			text+first.Name+because(first.Reason, first.Message), first.Since)
	}
	for _, w := range s.Warnings {
		add(webpage.Warn, "warning", "warning", w, time.Time{})
	}
	slices.SortStableFunc(all, func(a, b problem) int { return cmp.Compare(a.Level, b.Level) })
	return all
}

// because joins the non-empty texts, each after a colon.
func because(texts ...string) string {
	all := ""
	for _, text := range texts {
		if text != "" {
			all += ": " + text
		}
	}
	return all
}

// bar is a rectangle in the timeline, which is 1000 wide and 20 high.
type bar struct {
	Level               webpage.Level
	X, Y, Width, Height int
}

// timeline draws the phases of terms, newest first, from the beginning of the first until now. A
// high bar leads, low bars open and drain.
func timeline(terms []status.Term, now time.Time) []bar {
	if len(terms) == 0 {
		return nil
	}
	begin := terms[len(terms)-1].Began
	scale := max(now.Sub(begin), time.Millisecond)
	at := func(t time.Time) int { return int(1000 * t.Sub(begin) / scale) }
	var bars []bar
	for _, term := range slices.Backward(terms) {
		end := now
		draw := func(from time.Time, b bar) {
			b.X = min(at(from), 996)
			b.Width = max(at(end)-b.X, 4) // a short phase is visible, too
			bars = append(bars, b)
			end = from
		}
		if !term.Ended.IsZero() {
			end = term.Ended
		}
		if !term.DrainBegan.IsZero() {
			draw(term.DrainBegan, bar{Level: markOf(term).Level, Y: 8, Height: 12})
		}
		if !term.Opened.IsZero() {
			draw(term.Opened, bar{Level: webpage.Good, Height: 20})
		}
		draw(term.Began, bar{Level: webpage.Warn, Y: 8, Height: 12})
	}
	return bars
}
