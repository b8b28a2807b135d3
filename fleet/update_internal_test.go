package fleet

import (
	"errors"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/go-logr/logr"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/workqueue"

	"github.com/fxccm/fxccm/ccm"
)

// newIdle returns a fleet that does not run: it only remembers what it has to look at.
func newIdle(t *testing.T) *Fleet {
	t.Helper()
	f := &Fleet{
		params: Params{Access: AccessRules{AllowProxy: true}},
		log:    logr.Discard(), problems: map[string]error{}, members: map[string]*member{},
		view: newLeaseView(nil),
		queue: workqueue.NewTypedRateLimitingQueue(
			workqueue.DefaultTypedControllerRateLimiter[string]()),
	}
	t.Cleanup(f.queue.ShutDown)
	return f
}

// enqueued empties the queue.
func (f *Fleet) enqueued() (names []string) {
	for f.queue.Len() > 0 {
		name, _ := f.queue.Get()
		f.queue.Done(name)
		names = append(names, name)
	}
	return names
}

func proxyVia(host string) func(*http.Request) (*url.URL, error) {
	return http.ProxyURL(&url.URL{Scheme: "http", Host: host})
}

func TestUpdate_OneClusterChanges_OnlyThatOneIsLookedAt(t *testing.T) {
	object := clusterObject{name: "b"}
	// Each call returns new pointers, as a source does that reads everything again.
	clusters := func() []Cluster {
		object := object
		return []Cluster{
			{Name: "a", RESTConfig: &rest.Config{Host: "https://a", Proxy: proxyVia("one")}},
			{
				Name: "b", UID: "1", Labels: map[string]string{"read": "x", "unread": "x"},
				CloudConfig: []byte("x"), object: &object,
				RESTConfig: &rest.Config{
					Host: "https://b", BearerToken: "x", Proxy: proxyVia("one"),
				},
			},
			{Name: "c", Err: errors.New("no kubeconfig")},
		}
	}
	for name, test := range map[string]struct {
		change  func(*Cluster)
		ignored bool
	}{
		"nothing":        {change: func(*Cluster) {}, ignored: true},
		"UID":            {change: func(c *Cluster) { c.UID = "2" }},
		"label":          {change: func(c *Cluster) { c.Labels["read"] = "y" }},
		"label unread":   {change: func(c *Cluster) { c.Labels["unread"] = "y" }, ignored: true},
		"cloud.conf":     {change: func(c *Cluster) { c.CloudConfig = []byte("y") }},
		"no cloud.conf":  {change: func(c *Cluster) { c.CloudConfig = nil }},
		"address":        {change: func(c *Cluster) { c.RESTConfig.Host = "https://y" }},
		"token":          {change: func(c *Cluster) { c.RESTConfig.BearerToken = "y" }},
		"proxy":          {change: func(c *Cluster) { c.RESTConfig.Proxy = proxyVia("two") }},
		"no proxy":       {change: func(c *Cluster) { c.RESTConfig.Proxy = nil }},
		"no kubeconfig":  {change: func(c *Cluster) { c.RESTConfig = nil }},
		"error":          {change: func(c *Cluster) { c.Err = errors.New("garbled") }},
		"deleted object": {change: func(c *Cluster) { c.object.deleting = true }},
		"no object":      {change: func(c *Cluster) { c.object = nil }},
	} {
		t.Run(name, func(t *testing.T) {
			f := newIdle(t)
			f.params.Labels = []string{"read"}
			f.update(clusters())
			if got := len(f.enqueued()); got != 3 {
				t.Errorf("%d of 3 new clusters are looked at", got)
			}
			changed := clusters()
			test.change(&changed[1])
			f.update(changed)
			want := "b"
			if test.ignored {
				want = ""
			}
			if got := strings.Join(f.enqueued(), " "); got != want {
				t.Errorf("the clusters %q are looked at, want %q", got, want)
			}
		})
	}
}

func TestUpdate_NameCannotBeUsed_TheStatusShowsTheClusterAsFailed(t *testing.T) {
	f := newIdle(t)
	f.update([]Cluster{
		{Name: "Upper"},
		{Name: strings.Repeat("x", maxName+1), RESTConfig: &rest.Config{}},
		{Name: "good"},
	})
	status := f.Status()
	if len(status.Clusters) != 3 {
		t.Fatalf("the status has the clusters %+v", status.Clusters)
	}
	for _, c := range status.Clusters {
		isGood := c.Name == "good"
		if (c.State != StateFailed) != isGood || (c.Reason == "") != isGood {
			t.Errorf("%q is %s because of %q", c.Name, c.State, c.Reason)
		}
	}
	if failed := f.measure().Clusters[string(StateFailed)]; failed != 2 {
		t.Errorf("the metrics have %d failed clusters, want 2", failed)
	}
}

func TestRefresh_CredentialsAreReplacedAfterAFailure_TheProblemEnds(t *testing.T) {
	config := &rest.Config{Host: "http://cluster.invalid", BearerToken: "old"}
	access, _, err := newAccess(config)
	if err != nil {
		t.Fatal(err)
	}
	defer access.reset()
	f := newIdle(t)
	m := &member{
		cluster: Cluster{Name: "a", RESTConfig: config},
		made:    made{manager: &ccm.Manager{}, access: access},
	}
	give := func(next *rest.Config) { f.refresh(m, &Cluster{Name: "a", RESTConfig: next}) }
	for _, after := range []*rest.Config{
		{Host: config.Host, BearerToken: "new"},
		config, // the mistake is taken back
	} {
		m.cluster.RESTConfig = config
		give(&rest.Config{Host: config.Host, TLSClientConfig: rest.TLSClientConfig{
			CAData: []byte("garbled"),
		}})
		if f.problems[clusterSubject("a")] == nil || f.queue.NumRequeues("a") == 0 {
			t.Fatal("a certificate authority that cannot be read is no problem")
		}
		give(after)
		if f.problems[clusterSubject("a")] != nil || f.queue.NumRequeues("a") != 0 {
			t.Errorf("problems %v, %d retries after the replacement", f.problems,
				f.queue.NumRequeues("a"))
		}
	}
}
