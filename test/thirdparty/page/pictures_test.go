package page_test

import (
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
)

// overlaps lists the texts of a picture that overlap another text, cross the edge of a rectangle,
// or leave the picture, if each is a quarter wider, as with another font.
const overlaps = `(() => {
	const room = 1.25, view = document.documentElement.viewBox.baseVal;
	const boxes = [...document.querySelectorAll("text")].map(text => {
		const b = text.getBBox(), more = b.width * (room - 1);
		const left = {start: 0, middle: more / 2, end: more}[getComputedStyle(text).textAnchor];
		return {text: text.textContent, x: b.x - left, y: b.y + 3, right: b.x - left + b.width + more,
			bottom: b.y + b.height - 3};
	});
	const rows = (a, b) => a.y < b.bottom && b.y < a.bottom;
	const found = [];
	for (const [i, a] of boxes.entries()) {
		if (a.x < 0 || a.right > view.width) found.push("leaves the picture: " + a.text);
		for (const b of boxes.slice(i + 1))
			if (rows(a, b) && a.x < b.right && b.x < a.right) found.push(a.text + " / " + b.text);
		for (const rect of document.querySelectorAll("rect")) {
			const r = rect.getBBox(), edges = [r.x, r.x + r.width];
			if (rows(a, {y: r.y, bottom: r.y + r.height}) && edges.some(x => a.x < x && x < a.right))
				found.push("crosses an edge: " + a.text);
		}
	}
	return found;
})()`

func TestPictures_AQuarterWider_NoTextOverlaps(t *testing.T) {
	const docs = "../../../docs"
	server := httptest.NewServer(http.FileServer(http.Dir(docs)))
	t.Cleanup(server.Close)
	browser, found := newBrowser(t), 0
	err := filepath.WalkDir(docs, func(path string, _ fs.DirEntry, err error) error {
		if err != nil || filepath.Ext(path) != ".svg" {
			return err
		}
		found++
		t.Run(filepath.Base(path), func(t *testing.T) {
			picture, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if !strings.Contains(string(picture), "prefers-color-scheme: dark") {
				t.Error("the picture has no dark colors")
			}
			tab := open(t, browser, server.URL+strings.TrimPrefix(path, docs),
				window{1280, 900, "light"})
			var texts []string
			tab.run(chromedp.Evaluate(overlaps, &texts))
			for _, text := range texts {
				t.Error(text)
			}
		})
		return nil
	})
	if err != nil || found == 0 {
		t.Fatalf("%d pictures: %v", found, err)
	}
}
