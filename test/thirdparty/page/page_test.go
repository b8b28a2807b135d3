// Package page_test tests the status page in a browser, which it drives with a third-party module.
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
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	cloudprovider "k8s.io/cloud-provider"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/fxccm/fxccm/ccm"
	"github.com/fxccm/fxccm/ccm/ccmtest"
	"github.com/fxccm/fxccm/ccm/serving/endpoints"
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
	night, quiet := newManager(t, "prod", atNight(8)), newManager(t, "staging", objects{})
	full := newManager(t, "large", atNight(1000))
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
				if name != "large" { // it is the night's page with more rows, and takes axe long
					tab.checkAccessibility(string(check))
				}
				tab.checkSilence()
				if name == "night" && *update {
					tab.write()
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
		if event.Request.URL != b.url && !strings.HasPrefix(event.Request.URL, "data:") {
			note = "request: " + event.Request.URL
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
	var style string
	b.run(chromedp.Evaluate("innerWidth", &inner),
		chromedp.Evaluate("document.documentElement.scrollWidth - innerWidth", &overflow),
		chromedp.Evaluate("getComputedStyle(document.body).fontVariantNumeric", &style))
	if overflow > 0 || inner != b.window.width {
		b.t.Errorf("a window of %d px is %d px wide, and the page exceeds it by %d px",
			b.window.width, inner, overflow)
	}
	if style != "tabular-nums" {
		b.t.Error("the browser has not applied the style sheet")
	}
}

// checkAccessibility fails the test for each rule of axe that the page violates.
func (b *tab) checkAccessibility(axe string) {
	b.t.Helper()
	var answer string
	wait := func(p *runtime.EvaluateParams) *runtime.EvaluateParams {
		return p.WithAwaitPromise(true)
	}
	b.run(chromedp.Evaluate(axe+";0", nil),
		chromedp.Evaluate(`axe.run().then(r => JSON.stringify({passes: r.passes.length,
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

	balancers []ccm.LoadBalancerStatus
	nodes     []ccm.NodeStatus
}

func (o objects) LoadBalancerStatus() []ccm.LoadBalancerStatus { return o.balancers }
func (o objects) NodeStatus() []ccm.NodeStatus                 { return o.nodes }

// atNight is a cloud with some problems, and n load balancers that are ready.
func atNight(n int) objects {
	ago := func(d time.Duration) time.Time { return time.Now().Add(-d) }
	o := objects{
		balancers: []ccm.LoadBalancerStatus{
			{
				Namespace: "shop", Service: "checkout", State: ccm.LoadBalancerDegraded,
				Reason: "LoadBalancerError", Since: ago(7 * time.Minute),
				Message:   "Octavia set the load balancer to ERROR; deleting it and creating a new one",
				ID:        "5e0c2f1d-3a77-4f4b-9d53-6f2f6c9b1a10",
				Addresses: []string{"203.0.113.24"}, ProvisioningStatus: "ERROR",
				OperatingStatus: "OFFLINE", ComparedAt: ago(20 * time.Second),
			},
			{
				Namespace: "shop", Service: "legacy-import", State: ccm.LoadBalancerRefused,
				Reason: "UnsupportedConfiguration", Since: ago(26 * time.Hour),
				Message: "port 5060 uses SCTP, and the Octavia provider ovn has no health monitor for it",
			},
			{
				Namespace: "payments", Service: "webhooks", State: ccm.LoadBalancerWaiting,
				Reason: "QuotaExceeded", Since: ago(3 * time.Minute),
				Message: "the project's quota of floating IPs is used up; retrying in 1m0s",
			},
		},
		nodes: []ccm.NodeStatus{{
			Name: "worker-17", Reason: "InstanceNotFound", Since: ago(11 * time.Minute),
			Message: "no server matches the node; name the server as the node, or set its provider ID",
		}},
	}
	for i := range n {
		lb := ccm.LoadBalancerStatus{
			Namespace: "shop", Service: fmt.Sprintf("store-%03d", i), State: ccm.LoadBalancerReady,
			Since: ago(40 * time.Hour), Name: fmt.Sprintf("kube_service_prod_shop_store-%03d", i),
			ID:                 fmt.Sprintf("c0ffee00-0000-4000-8000-%012d", i),
			ProvisioningStatus: "ACTIVE", OperatingStatus: "ONLINE",
			Addresses:  []string{fmt.Sprintf("203.0.%d.%d", 114+i/250, 1+i%250)},
			ComparedAt: ago(time.Minute),
		}
		if i == 2 {
			lb.DriftedAt, lb.Drift = ago(4*time.Hour), []string{"update member worker-3: weight 1"}
		}
		o.balancers = append(o.balancers, lb)
	}
	return o
}

func params(name string, cloud objects) ccm.Params {
	discard := logr.Discard()
	cfg := ccm.DefaultConfig()
	cfg.ClusterName = "cluster-of-" + name
	cfg.Controllers = []string{"cloud-node-stub", "service-lb-stub"}
	fakeCloud := fake.New(fake.WithProviderName("openstack"))
	cloud.Interface = fakeCloud.Provider()
	return ccm.Params{
		Name: name, Config: cfg, Logger: &discard, Elector: ccm.NewHostElector(),
		RESTConfig: &rest.Config{Host: "https://127.0.0.1:1"},
		Providers: []ccm.Provider{{Name: "openstack", New: func(
			_ context.Context, env ccm.ProviderEnv,
		) (cloudprovider.Interface, error) {
			if cloud.balancers != nil {
				fakeCloud.On(fake.EnsureLoadBalancer).Hang()
				env.ReportTrouble("octavia", fmt.Errorf("503 Service Unavailable; retrying in 30s"))
			}
			return cloud, nil
		}}},
		Controllers: []ccm.Controller{
			{Name: "cloud-node-stub", New: runs(func(ctx context.Context, _ *ccm.Term) {
				<-ctx.Done()
			})},
			{Name: "service-lb-stub", New: runs(func(ctx context.Context, t *ccm.Term) {
				if cloud.balancers != nil {
					lbs, _ := t.Cloud().LoadBalancer()
					_, _ = lbs.EnsureLoadBalancer(ctx, t.ClusterName(), &corev1.Service{
						ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "checkout"},
					}, nil)
				}
				<-ctx.Done()
			})},
		},
	}
}

func runs(
	run func(context.Context, *ccm.Term),
) func(context.Context, *ccm.Term) (ccm.Runnable, error) {
	return func(_ context.Context, t *ccm.Term) (ccm.Runnable, error) {
		return ccm.RunnableFunc(func(ctx context.Context) error {
			run(ctx, t)
			return nil
		}), nil
	}
}

// newManager runs a Manager that leads in its third term.
func newManager(t *testing.T, name string, cloud objects) *ccm.Manager {
	t.Helper()
	p := params(name, cloud)
	clock := clocktesting.NewFakeClock(time.Now().Add(-30 * time.Hour))
	p.Clock = clock
	elector := p.Elector.(*ccm.HostElector)
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
		go func() { lent <- elector.Lead(led, ccm.Grant{}) }()
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
