// Package webpage is shared by the status pages: their elements, their style, their marks for
// states, and the headers that prevent a browser from running scripts and loading files.
//
// It has no template engine, because html/template calls methods by their names. The linker then
// keeps all exported methods of the program, which are many megabytes in a host.
package webpage

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/base64"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"golang.org/x/net/html"
)

//go:embed page.css
var files embed.FS

// maxRefresh is the longest ?refresh of a page, in seconds.
const maxRefresh = 3600

// A Page is the content of a page. The heading is above it, and the title is the browser's.
type Page struct {
	Title, Heading string
	Now            time.Time
	Content        Part
}

// Write writes a page, which the browser loads again after the seconds of ?refresh=.
func Write(w http.ResponseWriter, r *http.Request, p Page) {
	query := r.URL.Query()
	refresh := query.Get("refresh")
	if seconds, err := strconv.Atoi(refresh); refresh != "" &&
		(err != nil || seconds < 1 || seconds > maxRefresh) {
		http.Error(w, fmt.Sprintf("refresh=%q is not a number of seconds from 1 to %d", refresh,
			maxRefresh), http.StatusBadRequest)
		return
	}
	var body bytes.Buffer
	style, err := files.ReadFile("page.css")
	if err == nil {
		err = html.Render(&body, p.document(query, refresh, string(style)))
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

func (p Page) document(query url.Values, refresh, style string) *html.Node {
	reload, text := maps.Clone(query), "Refresh every 5 s"
	reload.Set("refresh", "5")
	if refresh != "" {
		text = "Stop"
		reload.Del("refresh")
	}
	document := &html.Node{Type: html.DocumentNode}
	document.AppendChild(&html.Node{Type: html.DoctypeNode, Data: "html"})
	El("html", Attr("lang", "en"),
		El("head",
			El("meta", Attr("charset", "utf-8")),
			El("meta", Attr("name", "viewport"),
				Attr("content", "width=device-width, initial-scale=1")),
			If(refresh != "",
				El("meta", Attr("http-equiv", "refresh"), Attr("content", refresh))),
			El("title", Text(p.Title)),
			El("link", Attr("rel", "icon"), Attr("href", "data:,")),
			El("style", Text(style))),
		El("body",
			El("header", El("h1", Text(p.Heading))),
			El("main", p.Content),
			El("footer", El("p",
				Text("Snapshot of "), Time(p.Now, ""), Text(".\n"),
				If(refresh != "", Text("Refreshed every "+refresh+" s. ")),
				Link("?"+reload.Encode(), Text(text))))),
	)(document)
	return document
}
