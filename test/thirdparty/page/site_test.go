package page_test

import (
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
)

const (
	// siteBase is the default of SITE_BASE in tools/site/build.sh.
	siteBase = "/fxccm/"
	siteEnv  = "FXCCM_SITE"
	// emptyHeader is a minor rule of axe: the first column of some tables names their rows.
	emptyHeader = "empty-table-header"
)

// serveSite serves the built site, and returns its URL and its pages.
func serveSite(t *testing.T) (url string, pages []string) {
	t.Helper()
	folder := os.Getenv(siteEnv)
	if folder == "" {
		t.Skipf("%s is not set: run make test-site", siteEnv)
	}
	err := filepath.WalkDir(folder, func(path string, _ fs.DirEntry, err error) error {
		if err == nil && filepath.Ext(path) == ".html" && filepath.Base(path) != "404.html" {
			path, err = filepath.Rel(folder, path)
			pages = append(pages, path)
		}
		return err
	})
	if err != nil || len(pages) < 2 {
		t.Fatalf("the site has the pages %q: %v", pages, err)
	}
	server := httptest.NewServer(
		http.StripPrefix(siteBase, http.FileServer(http.Dir(folder))))
	t.Cleanup(server.Close)
	return server.URL + siteBase, pages
}

func TestSite_EachPage_HasATitleFitsAPhoneIsQuietAndAccessible(t *testing.T) {
	url, pages := serveSite(t)
	check, err := os.ReadFile(axe)
	if err != nil {
		t.Fatalf("run make browser: %v", err)
	}
	browser, titles := newBrowser(t), map[string]string{}
	for _, page := range pages {
		t.Run(page, func(t *testing.T) {
			tab := open(t, browser, url+strings.TrimSuffix(page, "index.html"),
				window{360, 740, "light"})
			tab.awaitSite()
			tab.checkWidth()
			tab.checkAccessibility(string(check), emptyHeader)
			tab.checkSilence()
			var title string
			tab.run(chromedp.Title(&title))
			if other, ok := titles[title]; ok || title == "" || title == "fxccm" {
				t.Errorf("the title is %q, as that of the page %q", title, other)
			}
			titles[title] = page
		})
	}
}

func TestSite_OnAWideDarkScreen_IsQuietAndAccessible(t *testing.T) {
	url, _ := serveSite(t)
	check, err := os.ReadFile(axe)
	if err != nil {
		t.Fatalf("run make browser: %v", err)
	}
	browser := newBrowser(t)
	for _, page := range []string{"", "how-to/serve-load-balancers.html", "reference/chart.html"} {
		tab := open(t, browser, url+page, window{1280, 900, "dark"})
		tab.awaitSite()
		tab.checkWidth()
		tab.checkAccessibility(string(check), emptyHeader)
		tab.checkSilence()
	}
}

func TestSite_SearchForASetting_OpensItsPage(t *testing.T) {
	url, _ := serveSite(t)
	tab := open(t, newBrowser(t), url, window{1280, 900, "light"})
	tab.awaitSite()
	const result = `.VPLocalSearchBox a.result[href*="reference/cloud-conf.html"]`
	tab.run(chromedp.Click(`.VPNavBarSearch button`),
		chromedp.SendKeys(`.VPLocalSearchBox input`, "floating-network-id"),
		chromedp.WaitVisible(result),
		chromedp.Click(result),
		chromedp.WaitVisible(`//h1[contains(., "cloud.conf")]`))
	tab.checkSilence()
}

// awaitSite waits until the page's program runs.
func (b *tab) awaitSite() {
	b.t.Helper()
	b.run(chromedp.WaitReady(`#app .VPContent`), chromedp.Poll(
		`document.readyState === "complete" && "__vue_app__" in document.querySelector("#app")`,
		nil, chromedp.WithPollingInterval(50*time.Millisecond)))
}
