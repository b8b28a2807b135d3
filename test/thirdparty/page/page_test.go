// Package page_test tests the status page and the site of the documentation in a browser, which it
// drives with a third-party module.
package page_test

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"image"
	"image/color"
	"image/draw"
	"image/png"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/client-go/rest"
	cloudprovider "k8s.io/cloud-provider"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/fxccm/fxccm/ccm"
	"github.com/fxccm/fxccm/ccm/ccmtest"
	"github.com/fxccm/fxccm/ccm/election"
	"github.com/fxccm/fxccm/ccm/serving/endpoints"
	"github.com/fxccm/fxccm/ccm/status"
	"github.com/fxccm/fxccm/provider/fake"
)

const (
	images = "../../../docs/images"
	axe    = "../../../bin/browser/axe-4.10.3.min.js"
	// limit ends a wait that hangs, not a slow one.
	limit = 5 * time.Minute
)

var update = flag.Bool("update", false, "write the screenshots of the documentation")

// window is a size of the browser, with a color scheme.
type window struct {
	width, height int64
	scheme        string
}

var windows = []window{
	{360, 740, "light"},
	{360, 740, "dark"},
	{1280, 900, "light"},
	{1280, 900, "dark"},
}

func TestPage_EachSizeAndScheme_FitsIsQuietAndAccessible(t *testing.T) {
	check, err := os.ReadFile(axe)
	if err != nil {
		t.Fatalf("run make browser: %v", err)
	}
	night, quiet := newNight(t), newManager(t, "staging", objects{})
	full := newManager(t, "large", many(1000, night.Status().LoadBalancers))
	stopped, err := ccm.New(params("test", objects{}))
	if err != nil {
		t.Fatal(err)
	}
	pages := map[string]http.Handler{
		"night": endpoints.NewHandler(night),
		"quiet": endpoints.NewHandler(quiet),
		"large": endpoints.NewHandler(full),
		"many": endpoints.StatusPage(func() []*ccm.Manager {
			return []*ccm.Manager{stopped, quiet, night}
		}),
		"none": endpoints.StatusPage(func() []*ccm.Manager { return nil }),
	}
	browser := newBrowser(t)
	for name, handler := range pages {
		server := httptest.NewServer(handler)
		t.Cleanup(server.Close)
		for _, w := range windows {
			t.Run(fmt.Sprintf("%s at %d px, %s", name, w.width, w.scheme), func(t *testing.T) {
				tab := open(t, browser, server.URL+"/statusz", w)
				tab.checkWidth()
				tab.checkStyle()
				tab.checkNames()
				if name != "large" { // it is the night's page with more rows, and takes axe long
					tab.checkAccessibility(string(check))
				}
				tab.checkSilence()
				if name == "night" {
					tab.checkPicture()
				}
			})
		}
	}
}

// tab is a page in the browser.
type tab struct {
	t      *testing.T
	ctx    context.Context
	url    string
	window window
	// site is the beginning of the URLs that the page may request, if not only its own.
	site string

	mu sync.Mutex
	// notes are messages of the console, and requests beside that of the page.
	notes []string
}

func newBrowser(t *testing.T) context.Context {
	t.Helper()
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.NoSandbox,
		chromedp.Flag("disable-dev-shm-usage", true), chromedp.WSURLReadTimeout(limit))
	allocator, end := chromedp.NewExecAllocator(context.Background(), options...)
	t.Cleanup(end)
	browser, end := chromedp.NewContext(allocator)
	t.Cleanup(end)
	if err := chromedp.Run(browser); err != nil {
		t.Fatalf("start Chromium (make browser installs it): %v", err)
	}
	return browser
}

// open loads a page in a tab of its own.
func open(t *testing.T, browser context.Context, url string, w window) *tab {
	t.Helper()
	ctx, end := chromedp.NewContext(browser)
	t.Cleanup(end)
	ctx, end = context.WithTimeout(ctx, limit)
	t.Cleanup(end)
	b := &tab{t: t, ctx: ctx, url: url, window: w}
	if site, _, ok := strings.Cut(url, siteBase); ok {
		b.site = site + siteBase
	}
	chromedp.ListenTarget(ctx, b.listen)
	b.run(log.Enable(), runtime.Enable(), network.Enable(),
		emulation.SetDeviceMetricsOverride(w.width, w.height, 1, w.width < 500),
		emulation.SetEmulatedMedia().WithFeatures([]*emulation.MediaFeature{
			{Name: "prefers-color-scheme", Value: w.scheme},
		}),
		chromedp.Navigate(url))
	return b
}

func (b *tab) listen(event any) {
	note := ""
	switch event := event.(type) {
	case *log.EventEntryAdded:
		note = "console: " + event.Entry.Text
	case *runtime.EventConsoleAPICalled:
		note = fmt.Sprintf("console: %s", event.Type)
	case *runtime.EventExceptionThrown:
		note = "console: " + event.ExceptionDetails.Error()
	case *network.EventRequestWillBeSent:
		url := event.Request.URL
		isOwn := url == b.url || b.site != "" && strings.HasPrefix(url, b.site)
		if !isOwn && !strings.HasPrefix(url, "data:") {
			note = "request: " + url
		}
	}
	if note != "" {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.notes = append(b.notes, note)
	}
}

func (b *tab) run(actions ...chromedp.Action) {
	b.t.Helper()
	if err := chromedp.Run(b.ctx, actions...); err != nil {
		b.t.Fatal(err)
	}
}

// checkSilence fails the test if the page wrote to the console or sent a request.
func (b *tab) checkSilence() {
	b.t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, note := range b.notes {
		b.t.Error(note)
	}
}

// checkWidth fails the test if the page is wider than the window.
func (b *tab) checkWidth() {
	b.t.Helper()
	var inner, overflow int64
	b.run(chromedp.Evaluate("innerWidth", &inner),
		chromedp.Evaluate("document.documentElement.scrollWidth - innerWidth", &overflow))
	if overflow > 0 || inner != b.window.width {
		b.t.Errorf("a window of %d px is %d px wide, and the page exceeds it by %d px",
			b.window.width, inner, overflow)
	}
}

// checkStyle fails the test if the status page lacks its style sheet.
func (b *tab) checkStyle() {
	b.t.Helper()
	var style string
	b.run(chromedp.Evaluate("getComputedStyle(document.body).fontVariantNumeric", &style))
	if style != "tabular-nums" {
		b.t.Error("the browser has not applied the style sheet")
	}
}

// checkNames fails the test if a name is broken within a word, or is cut without its whole text.
func (b *tab) checkNames() {
	b.t.Helper()
	var broken []string
	b.run(chromedp.Evaluate(`[...document.querySelectorAll(".name")].flatMap(name => {
		const found = [], texts = document.createTreeWalker(name, NodeFilter.SHOW_TEXT);
		for (let text; text = texts.nextNode();) {
			for (const word of text.data.matchAll(/[\w.]+/g)) {
				const range = document.createRange();
				range.setStart(text, word.index);
				range.setEnd(text, word.index + word[0].length);
				if (range.getClientRects().length > 1) found.push(word[0] + " in " + name.title);
			}
		}
		if (name.title !== name.textContent) found.push("no whole text: " + name.textContent);
		return found;
	})`, &broken))
	for _, name := range broken {
		b.t.Errorf("a name is broken: %s", name)
	}
	var names, rows int
	b.run(chromedp.Evaluate(`document.querySelectorAll(".name").length`, &names),
		chromedp.Evaluate(`document.querySelectorAll("tbody tr").length`, &rows))
	if rows > 0 && names == 0 {
		b.t.Error("the page marks no name")
	}
}

// checkAccessibility fails the test for each rule of axe that the page violates, except for those
// that are named.
func (b *tab) checkAccessibility(axe string, except ...string) {
	b.t.Helper()
	rules := map[string]map[string]bool{}
	for _, rule := range except {
		rules[rule] = map[string]bool{"enabled": false}
	}
	options, err := json.Marshal(map[string]any{"rules": rules})
	if err != nil {
		b.t.Fatal(err)
	}
	var answer string
	wait := func(p *runtime.EvaluateParams) *runtime.EvaluateParams {
		return p.WithAwaitPromise(true)
	}
	b.run(chromedp.Evaluate(axe+";0", nil),
		chromedp.Evaluate(`axe.run(`+string(options)+`).then(r => JSON.stringify({passes: r.passes.length,
			violations: r.violations.map(v => v.id + ": " + v.help + ": " + v.nodes[0].html)}))`,
			&answer, wait))
	var result struct {
		Passes     int
		Violations []string
	}
	if err := json.Unmarshal([]byte(answer), &result); err != nil {
		b.t.Fatal(err)
	}
	if result.Passes == 0 && len(result.Violations) == 0 {
		b.t.Error("axe checked nothing")
	}
	for _, violation := range result.Violations {
		b.t.Error(violation)
	}
}

// checkPicture fails the test if the problems of the page are not those of the screenshot.
func (b *tab) checkPicture() {
	b.t.Helper()
	var problems []string
	b.run(chromedp.Evaluate(`[...document.querySelectorAll("article li .what")].map(problem =>
		problem.textContent.replace(/\(\d+\w*\)/, "").replace(/\s+/g, " ").trim())`, &problems))
	now, path := strings.Join(problems, "\n")+"\n", filepath.Join(images, "statusz.txt")
	if *update {
		b.write()
		if err := os.WriteFile(path, []byte(now), 0o644); err != nil {
			b.t.Fatal(err)
		}
	}
	if pictured, err := os.ReadFile(path); err != nil || string(pictured) != now {
		b.t.Errorf("the page has the problems\n%s\nand the screenshot\n%s\n(%v); run make screenshots",
			now, pictured, err)
	}
}

// write writes the screenshot of the documentation.
func (b *tab) write() {
	b.t.Helper()
	name := b.window.scheme
	if b.window.width < 500 {
		name = "phone-" + name
	}
	var picture []byte
	b.run(chromedp.ActionFunc(func(ctx context.Context) (err error) {
		picture, err = page.CaptureScreenshot().WithFormat(page.CaptureScreenshotFormatPng).Do(ctx)
		return err
	}))
	var small bytes.Buffer
	full, err := png.Decode(bytes.NewReader(picture))
	if err == nil {
		err = (&png.Encoder{CompressionLevel: png.BestCompression}).Encode(&small, paletted(full))
	}
	if err == nil {
		err = os.WriteFile(filepath.Join(images, "statusz-"+name+".png"), small.Bytes(), 0o644)
	}
	if err != nil {
		b.t.Fatal(err)
	}
	if small.Len() > 150_000 {
		b.t.Errorf("the screenshot %s has %d bytes, too many for the repository", name, small.Len())
	}
}

// paletted reduces an image to its 64 most frequent colors.
func paletted(full image.Image) image.Image {
	count := map[color.Color]int{}
	for y := range full.Bounds().Dy() {
		for x := range full.Bounds().Dx() {
			count[full.At(x, y)]++
		}
	}
	colors := slices.SortedFunc(maps.Keys(count),
		func(a, b color.Color) int { return count[b] - count[a] })
	small := image.NewPaletted(full.Bounds(), colors[:min(64, len(colors))])
	draw.Draw(small, small.Bounds(), full, image.Point{}, draw.Src)
	return small
}

// objects is a cloud that reports the state of its objects.
type objects struct {
	cloudprovider.Interface

	balancers []status.LoadBalancer
}

func (o objects) LoadBalancerStatus() []status.LoadBalancer { return o.balancers }

// many repeats load balancers of the product until there are n.
func many(n int, balancers []status.LoadBalancer) (o objects) {
	for i := range n {
		lb := balancers[i%len(balancers)]
		lb.Service = fmt.Sprintf("%s-%03d", lb.Service, i)
		o.balancers = append(o.balancers, lb)
	}
	return o
}

func params(name string, cloud objects) ccm.Params {
	discard := logr.Discard()
	cfg := ccm.DefaultConfig()
	cfg.ClusterName = "cluster-of-" + name
	cfg.Controllers = []string{"cloud-node-stub"}
	cloud.Interface = fake.New(fake.WithProviderName("openstack")).Provider()
	return ccm.Params{
		Name: name, Config: cfg, Logger: &discard, Elector: election.NewHost(),
		Registerer: prometheus.NewRegistry(),
		RESTConfig: &rest.Config{Host: "https://127.0.0.1:1"},
		Providers: []ccm.Provider{{Name: "openstack", New: func(
			context.Context, ccm.ProviderEnv,
		) (cloudprovider.Interface, error) {
			return cloud, nil
		}}},
		Controllers: []ccm.Controller{{
			Name: "cloud-node-stub",
			New: func(context.Context, *ccm.Term) (ccm.Runnable, error) {
				return ccm.RunnableFunc(func(ctx context.Context) error {
					<-ctx.Done()
					return nil
				}), nil
			},
		}},
	}
}

// newManager runs a Manager that leads in its third term.
func newManager(t *testing.T, name string, cloud objects) *ccm.Manager {
	t.Helper()
	p := params(name, cloud)
	clock := clocktesting.NewFakeClock(time.Now().Add(-30 * time.Hour))
	p.Clock = clock
	elector := p.Elector.(*election.Host)
	m, err := ccm.New(p)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	go func() { _ = m.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		<-m.Done()
	})
	for i, lasts := range []time.Duration{11 * time.Hour, 16 * time.Hour, 0} {
		led, lose := context.WithCancel(ctx)
		lent := make(chan error, 1)
		go func() { lent <- elector.Lead(led, election.Grant{}) }()
		ccmtest.Eventually(t, fmt.Sprintf("term %d is ready", i+1),
			func(context.Context) (struct{}, error) {
				if s := m.Status(); !s.Ready || s.Term != uint64(i+1) {
					return struct{}{}, fmt.Errorf("it is %+v", s)
				}
				return struct{}{}, nil
			})
		if lasts == 0 {
			t.Cleanup(lose)
			break
		}
		clock.Step(lasts)
		lose()
		if err := <-lent; err != nil {
			t.Fatal(err)
		}
		clock.Step(20 * time.Minute)
	}
	clock.SetTime(time.Now())
	return m
}
