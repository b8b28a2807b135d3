package main

import (
	"fmt"
	"os"
	"sync"
	"time"

	"golang.org/x/term"
)

// updateInterval is how often progress is shown where it cannot be in place.
const updateInterval = 10 * time.Second

// progress tells whoever waits what is going on.
type progress struct {
	out     *os.File
	inPlace bool
	begun   time.Time

	mu    sync.Mutex
	shown time.Time
}

func newProgress(out *os.File) *progress {
	now := time.Now()
	return &progress{out: out, inPlace: term.IsTerminal(int(out.Fd())), begun: now, shown: now}
}

// say writes a line that stays.
func (p *progress) say(text string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.write(text, "\n")
}

// update writes a line that the next one replaces; if the output is no terminal, one now and then.
func (p *progress) update(text string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.inPlace:
		p.write(text, "")
	case time.Since(p.shown) >= updateInterval:
		p.write(text, "\n")
	}
}

func (p *progress) write(text, end string) {
	p.shown = time.Now()
	begin := ""
	if p.inPlace {
		begin = "\r\033[K"
	}
	_, _ = fmt.Fprintf(p.out, "%s%5.0fs  %s%s", begin, time.Since(p.begun).Seconds(), text, end)
}
