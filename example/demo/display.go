package main

import (
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/term"
)

// view is what there is to see at one moment.
type view struct {
	tables []table
	steps  []outcome
	// closing are lines below all else, when there is nothing more to come.
	closing []string
}

// outcome is what became of a step so far.
type outcome struct {
	name string
	// seen says what was observed, or why the step failed.
	seen  string
	state stepState
	took  time.Duration
}

type stepState int

const (
	running stepState = iota
	succeeded
	failed
)

// heading is the state and the duration, the same in all displays.
func (o outcome) heading() []cell {
	word := map[stepState]cell{running: {"...", waiting}, succeeded: {"ok", good}, failed: {"FAILED", bad}}[o.state]
	if o.state == running {
		return []cell{word, {}}
	}
	return []cell{word, {text: fmt.Sprintf("%5.1f s", o.took.Seconds())}}
}

func (o outcome) text() string {
	if o.seen == "" {
		return o.name
	}
	return o.name + ": " + o.seen
}

// line tells of a step in one line.
func (o outcome) line(width int, colour bool) string {
	return line(append(o.heading(), cell{text: o.text()}), outcomeWidths(width), width, colour)
}

// lines tells of a step in as many lines as it takes.
func (o outcome) lines(width int, colour bool) []string {
	widths := outcomeWidths(width)
	row := o.heading()
	var all []string
	for _, part := range wrap(o.text(), widths[2]) {
		all = append(all, line(append(row, cell{text: part}), widths, width, colour))
		row = []cell{{}, {}}
	}
	return all
}

func outcomeWidths(width int) []int {
	fixed := []int{len("FAILED"), len("999.9 s")}
	return append(fixed, max(width-fixed[0]-fixed[1]-2*columnGap, columnLeast))
}

// A display shows views. show is called often, with what may be the same view.
type display interface {
	// say prints a text that stays.
	say(text string)
	show(v view)
	// end is the last call.
	end()
}

// unlimited is the width of what is not a terminal.
const unlimited = 1 << 20

// chooseDisplay takes what suits out: a table in place in a terminal, a line for each change otherwise, and a line for each
// step when there is only something to be checked.
func chooseDisplay(out *os.File, check bool, getenv func(string) string) display {
	switch {
	case check:
		return &lines{out: out, stepsOnly: true, begun: time.Now()}
	case !term.IsTerminal(int(out.Fd())), getenv("TERM") == "dumb":
		return &lines{out: out, begun: time.Now()}
	}
	return &screen{out: out, colour: getenv("NO_COLOR") == "", size: func() (int, int) {
		width, height, err := term.GetSize(int(out.Fd()))
		if err != nil {
			return 80, 24
		}
		return width, height
	}}
}

// lines prints what changes, line by line. It is safe for concurrent use.
type lines struct {
	out       io.Writer
	stepsOnly bool
	begun     time.Time

	mu   sync.Mutex
	last view
}

func (l *lines) say(text string) {
	if l.stepsOnly {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	_, _ = fmt.Fprintln(l.out, text)
}

func (l *lines) show(v view) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.stepsOnly {
		for _, change := range changes(l.last.tables, v.tables) {
			_, _ = fmt.Fprintf(l.out, "%6.1f s  %s\n", time.Since(l.begun).Seconds(), change)
		}
	}
	for i, step := range v.steps {
		known := i < len(l.last.steps) && l.last.steps[i].state == step.state
		if known || step.state == running && l.stepsOnly {
			continue
		}
		_, _ = fmt.Fprintln(l.out, step.line(unlimited, false))
	}
	if !slices.Equal(v.closing, l.last.closing) && !l.stepsOnly {
		_, _ = fmt.Fprintln(l.out, strings.Join(v.closing, "\n"))
	}
	l.last = v
}

func (l *lines) end() {}

// screen draws the view in place: each time over the last one. It is safe for concurrent use.
type screen struct {
	out    io.Writer
	colour bool
	size   func() (width, height int)

	mu    sync.Mutex
	said  string
	view  view
	drawn int
	// drawnOn is the terminal's size when that was done.
	drawnOn [2]int
}

const (
	cursorHide = "\x1b[?25l"
	cursorShow = "\x1b[?25h"
	eraseLine  = "\x1b[K"
	eraseBelow = "\x1b[J"
	eraseAll   = "\x1b[H\x1b[2J"
)

func (s *screen) say(text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, _ = io.WriteString(s.out, s.home()+text+"\n")
	s.said += text + "\n"
	s.drawn = 0
	s.draw()
}

func (s *screen) show(v view) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.view = v
	s.draw()
}

func (s *screen) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, _ = io.WriteString(s.out, cursorShow)
}

// home brings the cursor to where the last frame began, and removes the frame.
func (s *screen) home() string {
	if s.drawn == 0 {
		return ""
	}
	return fmt.Sprintf("\x1b[%dF", s.drawn) + eraseBelow
}

// draw replaces the last frame. Lines are overwritten and not erased first, so that nothing flickers.
func (s *screen) draw() {
	width, height := s.size()
	frame := frame(s.view, width, height, s.colour)
	var out strings.Builder
	out.WriteString(cursorHide)
	switch {
	case s.drawn > 0 && s.drawnOn != [2]int{width, height}:
		// The terminal has wrapped the last frame anew: nobody knows where it begins.
		out.WriteString(eraseAll + s.said)
	case s.drawn > 0:
		fmt.Fprintf(&out, "\x1b[%dF", s.drawn)
	}
	for _, line := range frame {
		out.WriteString(line + eraseLine + "\n")
	}
	out.WriteString(eraseBelow)
	_, _ = io.WriteString(s.out, out.String())
	s.drawn, s.drawnOn = len(frame), [2]int{width, height}
}

// frame lays a view out for a terminal. It never has as many lines as the terminal, whose last is the cursor's: where there
// is no room, the first steps are shortened to a line, and then left out.
func frame(v view, width, height int, colour bool) []string {
	var all []string
	for _, t := range v.tables {
		if len(t.rows) == 0 {
			continue
		}
		all = append(append(all, t.lines(width, colour)...), "")
	}
	var closing []string
	for _, text := range v.closing {
		closing = append(closing, wrap(text, width)...)
	}
	room := max(height-1-len(all)-len(closing), 1)
	all = append(append(all, stepLines(v.steps, width, room, colour)...), closing...)
	return all[max(0, len(all)-(height-1)):]
}

func stepLines(steps []outcome, width, room int, colour bool) []string {
	for short := 0; ; short++ {
		var all []string
		for i, step := range steps {
			if i < short {
				all = append(all, step.line(width, colour))
			} else {
				all = append(all, step.lines(width, colour)...)
			}
		}
		if len(all) <= room || short == len(steps) {
			return all[max(0, len(all)-room):]
		}
	}
}
