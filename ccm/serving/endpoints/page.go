package endpoints

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"embed"
	"encoding/base64"
	"fmt"
	"html/template"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/fxccm/fxccm/ccm"
)

//go:embed page.html page.css
var pageFiles embed.FS

// maxRefresh is the longest ?refresh of the page, in seconds.
const maxRefresh = 3600

// StatusPage serves the state of several Managers as one HTML page, worst first, such as that of
// all Managers of a process. managers is called for each request. The page has no scripts and loads
// nothing. With ?refresh=5 the browser loads it again every 5 seconds. As with [NewHandler],
// authentication is up to the host.
func StatusPage(managers func() []*ccm.Manager) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var all []status
		for _, m := range managers() {
			all = append(all, statusOf(m))
		}
		writePage(w, r, time.Now(), all)
	})
}

func writePage(w http.ResponseWriter, r *http.Request, now time.Time, all []status) {
	refresh := 0
	if text := r.URL.Query().Get("refresh"); text != "" {
		seconds, err := strconv.Atoi(text)
		if err != nil || seconds < 1 || seconds > maxRefresh {
			http.Error(w, fmt.Sprintf("refresh=%q is not a number of seconds from 1 to %d", text,
				maxRefresh), http.StatusBadRequest)
			return
		}
		refresh = seconds
	}
	var body bytes.Buffer
	style, err := pageFiles.ReadFile("page.css")
	if err == nil {
		err = renderPage(&body, template.CSS(style), now, refresh, all)
	}
	if err != nil {
		http.Error(w, "render the page: "+err.Error(), http.StatusInternalServerError)
		return
	}
	hash := sha256.Sum256(style)
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Set("Content-Security-Policy", "default-src 'none'; img-src data:; "+
		"style-src 'sha256-"+base64.StdEncoding.EncodeToString(hash[:])+"'; "+
		"base-uri 'none'; form-action 'none'; frame-ancestors 'self'")
	w.Header().Set("Referrer-Policy", "no-referrer")
	_, _ = w.Write(body.Bytes()) // an error means that the client is gone
}

func renderPage(
	body *bytes.Buffer, style template.CSS, now time.Time, refresh int, all []status,
) error {
	page, err := template.New("page.html").Funcs(template.FuncMap{
		"age":     func(t time.Time) string { return between(t, now) },
		"between": between,
		"iso":     func(t time.Time) string { return t.UTC().Format(time.RFC3339) },
		"mark":    markOf,
	}).ParseFS(pageFiles, "page.html")
	if err != nil {
		return err
	}
	views := make([]managerView, 0, len(all))
	for _, s := range all {
		views = append(views, viewOf(s, now))
	}
	slices.SortStableFunc(views, func(a, b managerView) int {
		return cmp.Or(cmp.Compare(a.Mark.Level, b.Mark.Level),
			cmp.Compare(len(b.Problems), len(a.Problems)))
	})
	title := "Cloud controller manager"
	if len(views) > 0 {
		title = views[0].Mark.Word + ": " + views[0].Title
	}
	return page.Execute(body, map[string]any{
		"Title": title, "Style": style, "Refresh": refresh, "Managers": views,
		"Now": now,
	})
}

func between(from, to time.Time) string { return duration.HumanDuration(to.Sub(from)) }

// level is how much attention a state needs. Worse levels are smaller.
type level int

const (
	bad level = iota
	warn
	good
	idle
)

// String is the CSS class of the level.
func (l level) String() string { return []string{"bad", "warn", "good", "idle"}[l] }

// Shape tells levels apart without colors.
func (l level) Shape() string { return []string{"✖", "▲", "●", "○"}[l] }

// mark is a state as the page shows it.
type mark struct {
	Level level
	Word  string
}

// markOf returns the mark of a state of ccm.
func markOf(state any) mark {
	switch state := state.(type) {
	case ccm.ControllerState:
		return mark{map[ccm.ControllerState]level{
			ccm.ControllerFailed: bad, ccm.ControllerRunning: good,
			ccm.ControllerWaiting: idle, ccm.ControllerSkipped: idle,
			ccm.ControllerDisabled: idle, ccm.ControllerStopped: idle,
		}[state], string(state)}
	case ccm.LoadBalancerState:
		return mark{map[ccm.LoadBalancerState]level{
			ccm.LoadBalancerDegraded: bad, ccm.LoadBalancerRefused: bad,
			ccm.LoadBalancerWaiting: warn, ccm.LoadBalancerReady: good,
		}[state], string(state)}
	case ccm.TermStatus:
		switch {
		case state.End == "stopped":
			return mark{idle, state.End}
		case state.End == "lost":
			return mark{warn, state.End}
		case state.End != "":
			return mark{bad, strings.ReplaceAll(state.End, "_", " ")}
		case !state.DrainBegan.IsZero():
			return mark{warn, "draining"}
		case state.Opened.IsZero():
			return mark{warn, "opening"}
		}
		return mark{good, "leading"}
	}
	return mark{bad, fmt.Sprint(state)}
}

// problem is one line of the list at the top of a Manager.
type problem struct {
	mark
	// Subject is short, for the table of Managers.
	Subject string
	Text    string
	Since   time.Time
}

func (p problem) Mark() mark { return p.mark }

// managerView is one Manager as the page shows it.
type managerView struct {
	status
	Title    string
	Mark     mark
	Problems []problem

	Unready, ReadyBalancers []ccm.LoadBalancerStatus
	Calls                   []ccm.Activity
	Timeline                []bar
}

func viewOf(s status, now time.Time) managerView {
	v := managerView{status: s, Title: s.cluster, Timeline: timeline(s.Terms, now)}
	if s.name != "" {
		v.Title = s.name + " (" + s.cluster + ")"
	}
	for _, lb := range s.LoadBalancers {
		if lb.State == ccm.LoadBalancerReady {
			v.ReadyBalancers = append(v.ReadyBalancers, lb)
		} else {
			v.Unready = append(v.Unready, lb)
		}
	}
	v.Controllers = slices.Clone(s.Controllers)
	slices.SortStableFunc(v.Controllers, func(a, b ccm.ControllerStatus) int {
		return cmp.Compare(markOf(a.State).Level, markOf(b.State).Level)
	})
	for _, a := range s.Running {
		// The controllers of a term run as long as it does; a table of its own shows them.
		if a.MayAct || s.State != ccm.StateLeading || strings.HasPrefix(a.Name, "call ") {
			v.Calls = append(v.Calls, a)
		}
	}
	v.Problems = problems(s)
	v.Mark = markOfManager(s)
	if len(v.Problems) > 0 && v.Problems[0].Level < v.Mark.Level {
		v.Mark = mark{v.Problems[0].Level, v.Mark.Word + ", with problems"}
	}
	return v
}

func markOfManager(s status) mark {
	switch {
	case s.State == ccm.StateDegraded, s.State == ccm.StateStopped && s.Reason != "":
		return mark{bad, string(s.State)}
	case s.State == ccm.StateDraining:
		return mark{warn, string(s.State)}
	case s.State == ccm.StateLeading && !s.Ready:
		return mark{warn, "opening"}
	case s.State == ccm.StateLeading:
		return mark{good, string(s.State)}
	}
	return mark{idle, string(s.State)}
}

// problems lists what needs attention, worst first.
func problems(s status) []problem {
	var all []problem
	add := func(l level, word, subject, text string, since time.Time) {
		all = append(all, problem{mark{l, word}, subject, text, since})
	}
	if s.Reason != "" {
		add(bad, string(s.State), string(s.State), s.Reason, time.Time{})
	}
	for _, t := range s.Troubles {
		add(bad, "cloud", "cloud: "+t.Subject, t.Subject+": "+t.Reason, t.Since)
	}
	for _, state := range []ccm.LoadBalancerState{
		ccm.LoadBalancerDegraded, ccm.LoadBalancerRefused, ccm.LoadBalancerWaiting,
	} {
		found := slices.DeleteFunc(slices.Clone(s.LoadBalancers),
			func(lb ccm.LoadBalancerStatus) bool { return lb.State != state })
		if len(found) == 0 {
			continue
		}
		first := slices.MinFunc(found,
			func(a, b ccm.LoadBalancerStatus) int { return a.Since.Compare(b.Since) })
		m, text := markOf(state), "load balancer of "
		if len(found) > 1 {
			text = fmt.Sprintf("%d load balancers, the first of ", len(found))
		}
		add(m.Level, m.Word, fmt.Sprintf("load balancers %s: %d", state, len(found)),
			text+first.Namespace+"/"+first.Service+because(first.Reason, first.Message),
			first.Since)
	}
	if len(s.Nodes) > 0 {
		first, text := s.Nodes[0], "node "
		if len(s.Nodes) > 1 {
			text = fmt.Sprintf("%d nodes, the first is ", len(s.Nodes))
		}
		add(warn, "waiting", fmt.Sprintf("nodes waiting: %d", len(s.Nodes)),
			text+first.Name+because(first.Reason, first.Message), first.Since)
	}
	for _, w := range s.Warnings {
		add(warn, "warning", "warning", w, time.Time{})
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
	Level               level
	X, Y, Width, Height int
}

// timeline draws the phases of terms, newest first, from the beginning of the first until now. A
// high bar leads, low bars open and drain.
func timeline(terms []ccm.TermStatus, now time.Time) []bar {
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
			draw(term.Opened, bar{Level: good, Height: 20})
		}
		draw(term.Began, bar{Level: warn, Y: 8, Height: 12})
	}
	return bars
}
