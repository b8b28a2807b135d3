// Package webpage is shared by the status pages: their style, their marks for states, and the
// headers that prevent a browser from running scripts and loading files.
package webpage

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/base64"
	"fmt"
	"html/template"
	"io"
	"net/http"
	"strconv"
)

//go:embed page.css
var files embed.FS

// maxRefresh is the longest ?refresh of a page, in seconds.
const maxRefresh = 3600

// Write renders a page. render gets the style, and the seconds of ?refresh=, or 0 without it.
func Write(
	w http.ResponseWriter, r *http.Request,
	render func(body io.Writer, style template.CSS, refresh int) error,
) {
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
	style, err := files.ReadFile("page.css")
	if err == nil {
		err = render(&body, template.CSS(style), refresh)
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

// A Level is how much attention a state needs. Worse levels are smaller.
type Level int

// The levels.
const (
	Bad Level = iota
	Warn
	Good
	Idle
)

// String is the CSS class of the level.
func (l Level) String() string { return []string{"bad", "warn", "good", "idle"}[l] }

// Shape distinguishes levels without colors.
func (l Level) Shape() string { return []string{"✖", "▲", "●", "○"}[l] }

// A Mark is a state as a page shows it.
type Mark struct {
	Level Level
	Word  string
}

// Mark returns the mark of a state at this level.
func (l Level) Mark(word string) Mark { return Mark{l, word} }
