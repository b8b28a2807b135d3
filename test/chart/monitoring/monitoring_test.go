package monitoring

import (
	"encoding/json"
	"io/fs"
	"maps"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/common/promslog"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/rulefmt"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/promql/promqltest"
	"github.com/prometheus/prometheus/rules"
)

const (
	alertsFile    = "../../../deploy/chart/monitoring/alerts.yaml"
	dashboardFile = "../../../deploy/chart/monitoring/dashboard.json"
	runbooksFile  = "../../../docs/how-to/runbooks.md"
	runbooksURL   = "https://github.com/fxccm/fxccm/blob/main/docs/how-to/runbooks.md"
)

// metricsPages are generated from the tables that define the metrics.
var metricsPages = []string{
	"../../../docs/reference/metrics.md", "../../../docs/reference/metrics-openstack.md",
	"../../../docs/reference/metrics-fleet.md",
}

func read(t *testing.T, file string) string {
	t.Helper()
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

// alerts are the rules by name.
func alerts(t *testing.T) map[string]rulefmt.Rule {
	t.Helper()
	groups, problems := rulefmt.Parse([]byte(read(t, alertsFile)), false, model.LegacyValidation,
		parser.NewParser(parser.Options{}), promslog.NewNopLogger())
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	all := map[string]rulefmt.Rule{}
	for _, group := range groups.Groups {
		for _, rule := range group.Rules {
			all[rule.Alert] = rule
		}
	}
	return all
}

// series are the names of all series and their labels, by the metrics pages.
func series(t *testing.T) map[string][]string {
	t.Helper()
	row := regexp.MustCompile("(?m)^\\| \\[`([a-z_]+)`\\]\\(#[a-z_]+\\) \\| ([a-z]+) \\|")
	label := regexp.MustCompile("(?m)^\\| `([a-z_]+)` \\|")
	all := map[string][]string{}
	for _, page := range metricsPages {
		text := read(t, page)
		for _, metric := range row.FindAllStringSubmatch(text, -1) {
			name, kind := metric[1], metric[2]
			_, section, _ := strings.Cut(text, "\n## "+name+"\n")
			section, _, _ = strings.Cut(section, "\n## ")
			var names []string
			for _, found := range label.FindAllStringSubmatch(section, -1) {
				names = append(names, found[1])
			}
			if kind != "histogram" {
				all[name] = names
				continue
			}
			all[name+"_count"], all[name+"_sum"] = names, names
			all[name+"_bucket"] = append([]string{"le"}, names...)
		}
	}
	if len(all) < 40 {
		t.Fatalf("the pages have only the series %v", slices.Sorted(maps.Keys(all)))
	}
	return all
}

// check reports unknown metrics and labels in an expression. Prometheus itself adds the label job,
// and the operator of several clusters the label cluster.
func check(t *testing.T, where, expression string, known map[string][]string) {
	t.Helper()
	parsed, err := parser.NewParser(parser.Options{}).ParseExpr(expression)
	if err != nil {
		t.Errorf("%s: %v", where, err)
		return
	}
	selected := 0
	available := []string{"job", "cluster", "le"}
	parser.Inspect(parsed, func(node parser.Node, _ []parser.Node) error {
		selector, ok := node.(*parser.VectorSelector)
		if !ok {
			return nil
		}
		selected++
		names, exists := known[selector.Name]
		if !exists {
			t.Errorf("%s: no metric is named %s", where, selector.Name)
		}
		available = append(available, names...)
		for _, matcher := range selector.LabelMatchers {
			isOwn := matcher.Name == labels.MetricName || matcher.Name == "cluster"
			if !isOwn && !slices.Contains(names, matcher.Name) {
				t.Errorf("%s: %s has no label %s", where, selector.Name, matcher.Name)
			}
		}
		return nil
	})
	if selected == 0 {
		t.Errorf("%s: %s has no selector of a metric", where, expression)
	}
	parser.Inspect(parsed, func(node parser.Node, _ []parser.Node) error {
		if aggregate, ok := node.(*parser.AggregateExpr); ok && !aggregate.Without {
			for _, name := range aggregate.Grouping {
				if !slices.Contains(available, name) {
					t.Errorf("%s: none of its metrics has the label %s", where, name)
				}
			}
		}
		return nil
	})
}

func TestAlerts_NameExistingMetricsAndHaveARunbook(t *testing.T) {
	known, runbooks := series(t), read(t, runbooksFile)
	all := alerts(t)
	for name, rule := range all {
		check(t, name, rule.Expr, known)
		if rule.Annotations["summary"] == "" || rule.Labels["severity"] == "" {
			t.Errorf("%s lacks a summary or a severity", name)
		}
		if rule.Annotations["runbook_url"] != runbooksURL+"#"+strings.ToLower(name) {
			t.Errorf("%s has the runbook %s", name, rule.Annotations["runbook_url"])
		}
		_, section, found := strings.Cut(runbooks, "\n## "+name+"\n")
		section, _, _ = strings.Cut(section, "\n## ")
		for _, part := range []string{"**Symptom.**", "**Causes.**", "**Look at**", "**Do.**"} {
			if !found || !strings.Contains(section, part) {
				t.Errorf("the runbook of %s lacks %s", name, part)
			}
		}
	}
	for _, found := range regexp.MustCompile(`(?m)^## (.+)$`).FindAllStringSubmatch(runbooks, -1) {
		if _, ok := all[found[1]]; !ok {
			t.Errorf("no alert has the runbook %s", found[1])
		}
	}
}

// The first line of a runbook has a text that the person sees, as the product writes it. A text of
// several parts has "..." for what differs each time.
func TestRunbooks_BeginWithATextOfTheProduct(t *testing.T) {
	isSource := regexp.MustCompile(`\.(go|html)$`)
	product := []string{read(t, alertsFile)}
	root := "../../.."
	for _, dir := range []string{
		"ccm", "cmd", "controllers", "example", "fleet", "hosting", "internal",
		"provider",
	} {
		walk := func(path string, _ fs.DirEntry, err error) error {
			if err == nil && isSource.MatchString(path) && !strings.HasSuffix(path, "_test.go") {
				product = append(product, read(t, root+"/"+dir+"/"+path))
			}
			return err
		}
		if err := fs.WalkDir(os.DirFS(root+"/"+dir), ".", walk); err != nil {
			t.Fatal(err)
		}
	}
	line := regexp.MustCompile("^\n(\\*\\*Text\\.\\*\\* `[^\n]+)\n")
	quoted := regexp.MustCompile("`([^`]+)`")
	for _, section := range strings.Split(read(t, runbooksFile), "\n## ")[1:] {
		name, body, _ := strings.Cut(section, "\n")
		first := line.FindStringSubmatch(body)
		if first == nil {
			t.Errorf("the runbook of %s does not begin with a text", name)
			continue
		}
		for _, text := range quoted.FindAllStringSubmatch(first[1], -1) {
			parts := strings.Split(text[1], "...")
			if !slices.ContainsFunc(product, func(source string) bool {
				return !slices.ContainsFunc(parts, func(part string) bool {
					return !strings.Contains(source, part)
				})
			}) {
				t.Errorf("the runbook of %s begins with %q, which the product never says", name,
					text[1])
			}
		}
	}
}

func TestDashboard_ShowsExistingMetrics(t *testing.T) {
	var dashboard struct {
		Panels []struct {
			Title, Description string
			Links              []struct{ URL string }
			Targets            []struct{ Expr string }
		}
	}
	if err := json.Unmarshal([]byte(read(t, dashboardFile)), &dashboard); err != nil {
		t.Fatal(err)
	}
	known, count := series(t), 0
	variables := strings.NewReplacer("$__rate_interval", "5m", "$manager", ".*", "$cluster", ".*")
	anchors := map[string]bool{}
	for name := range alerts(t) {
		anchors[runbooksURL+"#"+strings.ToLower(name)] = true
	}
	for _, panel := range dashboard.Panels {
		if panel.Description == "" {
			t.Errorf("the panel %q has no description", panel.Title)
		}
		if len(panel.Links) == 0 {
			t.Errorf("the panel %q links to no runbook", panel.Title)
		}
		for _, link := range panel.Links {
			if !anchors[link.URL] {
				t.Errorf("the panel %q links to %s, which is no runbook", panel.Title, link.URL)
			}
		}
		for _, target := range panel.Targets {
			count++
			if !strings.Contains(target.Expr, `cluster=~"$cluster", manager=~"$manager"`) {
				t.Errorf("%s: %s is of all clusters or Managers", panel.Title, target.Expr)
			}
			check(t, panel.Title, variables.Replace(target.Expr), known)
		}
	}
	if count < 15 {
		t.Errorf("the dashboard has %d expressions", count)
	}
}

// An alert does not fire without a problem or for a short one, and fires for a lasting one.
func TestAlerts_FireForProblemsThatLast(t *testing.T) {
	const count = "fxccm_openstack_request_duration_seconds_count"
	const requests = count + `{service="load-balancer", operation="loadbalancer_list", `
	const refused = count + `{service="network", operation="floating_ip_create", `
	untested := alerts(t)
	// A series has one value for each minute. A name is that of an alert, and its case.
	for name, c := range map[string]struct {
		quiet, loud string
		// after is the number of minutes until the loud series fire; the alert is silent a minute
		// before.
		after int
		// summary is a part of the text of the alert.
		summary string
	}{
		"FxccmDown": {
			quiet: "fxccm_leading 0x30 _x30\n fxccm_fleet_replicas _x30 3x30",
			loud:  "other 0x60", after: 5, summary: "No replica",
		},
		"FxccmDown, one of several clusters": {
			quiet: `fxccm_leading{cluster="a", pod="x"} 1x20 _x40` + "\n " +
				`fxccm_leading{cluster="a", pod="y"} _x20 0x40` + "\n " +
				`fxccm_leading{cluster="b", pod="x"} 1x60`,
			loud: `fxccm_leading{cluster="a", pod="x"} 1x60` + "\n " +
				`fxccm_leading{cluster="b", pod="x"} 1x10 _x50`,
			after: 20, summary: "No replica",
		},
		"FxccmFleetClustersFailed": {
			quiet: `fxccm_fleet_clusters{pod="a", state="failed"} 0x5 2x14 0x41` + "\n " +
				`fxccm_fleet_clusters{pod="a", state="leading"} 5x60`,
			loud: `fxccm_fleet_clusters{pod="a", state="failed"} 0x60` + "\n " +
				`fxccm_fleet_clusters{pod="b", state="failed"} 2x60`,
			after: 15, summary: "2 clusters",
		},
		"FxccmFleetClustersUnled": {
			quiet: `fxccm_fleet_clusters_unled{pod="a"} 3x60` + "\n " +
				`fxccm_fleet_clusters_unled{pod="b"} 0x5 3x4 0x51`,
			loud: `fxccm_fleet_clusters_unled{pod="a"} 3x60` + "\n " +
				`fxccm_fleet_clusters_unled{pod="b"} 4x60`,
			after: 5, summary: "3 clusters",
		},
		"FxccmFleetProblems": {
			quiet: `fxccm_fleet_problems 0x5 1x9 0x46`, loud: `fxccm_fleet_problems 1x60`,
			after: 10, summary: "cannot announce itself",
		},
		"FxccmFleetReplicasDisagree": {
			quiet: `fxccm_fleet_replicas{pod="a"} 2x60` + "\n " +
				`fxccm_fleet_replicas{pod="b"} 2x20 1x9 2x31`,
			loud: `fxccm_fleet_replicas{pod="a"} 2x60` + "\n " +
				`fxccm_fleet_replicas{pod="b"} 3x60`,
			after: 10, summary: "sees 3 replicas",
		},
		"FxccmNoLeader": {
			quiet: "fxccm_leading{pod=\"a\"} 0x60\n fxccm_leading{pod=\"b\"} 1x60",
			loud:  "fxccm_leading{pod=\"a\"} 0x60\n fxccm_leading{pod=\"b\"} 0x60",
			after: 2, summary: "leads",
		},
		"FxccmNoLeader, in one of several clusters": {
			quiet: `fxccm_leading{cluster="a", pod="x"} 1x60` + "\n " +
				`fxccm_leading{cluster="b", pod="x"} 1x60`,
			loud: `fxccm_leading{cluster="a", pod="x"} 1x60` + "\n " +
				`fxccm_leading{cluster="b", pod="x"} 0x60`,
			after: 2, summary: "leads",
		},
		"FxccmNoStandby": {
			// One replica that was updated, and one that was away for a moment.
			quiet: `fxccm_leading{manager="one", pod="a"} 1x60` + "\n " +
				`fxccm_leading{manager="one", pod="b"} _x10 0x3 _x47` + "\n " +
				`fxccm_leading{manager="two", pod="a"} 1x60` + "\n " +
				`fxccm_leading{manager="two", pod="b"} 0x30 _x15 0x15`,
			loud:  `fxccm_leading{pod="a"} 1x60` + "\n " + `fxccm_leading{pod="b"} 0x40 _x20`,
			after: 60, summary: "one replica left",
		},
		"FxccmRoutesFail": {
			quiet: `fxccm_cloud_call_duration_seconds_count{interface="Routes", result="error"} 0x5 3x55` +
				"\n " + `fxccm_cloud_call_duration_seconds_count{interface="Routes", result="ok"} 0+1x60`,
			loud: `fxccm_cloud_call_duration_seconds_count{interface="Routes", result="error", method="a"} 0+1x60` +
				"\n " + `fxccm_cloud_call_duration_seconds_count{interface="Routes", result="error"} 0x60`,
			after: 11, summary: "calls have failed in 15 minutes",
		},
		"FxccmRateLimited": {
			quiet: "fxccm_openstack_rate_limit_wait_seconds_sum 0+120x10 1200x50",
			loud:  "fxccm_openstack_rate_limit_wait_seconds_sum 0+120x60",
			after: 21, summary: "On average 2 requests",
		},
		"FxccmDegraded": {
			quiet: `fxccm_manager_state{pod="a", state="degraded"} 0x5 1x8 0x46` + "\n " +
				`fxccm_manager_state{pod="b", state="leading"} 1x60`,
			loud: `fxccm_manager_state{pod="a", state="degraded"} 1x60` + "\n " +
				`fxccm_manager_state{pod="b", state="degraded"} 0x60`,
			after: 10, summary: "cannot start a term",
		},
		"FxccmTermsFail": {
			quiet: `fxccm_terms_ended_total{reason="failed"} 0x10 1x50` + "\n " +
				`fxccm_terms_ended_total{reason="stopped"} 0+1x60`,
			loud:  `fxccm_terms_ended_total{reason="failed"} 0 1 2 3 4 5 6 7 8 9 10 11 12`,
			after: 3, summary: "failed",
		},
		"FxccmMassDeletionGuard": {
			quiet: `fxccm_cloud_trouble{subject="instances"} 0x5 1x4 0x50` + "\n " +
				`fxccm_cloud_trouble{subject="quota"} 1x60`,
			loud:  `fxccm_cloud_trouble{subject="instances"} 1x60`,
			after: 5, summary: "only nodes marked for removal are deleted",
		},
		"FxccmMassDeletionGuard, of a region": {
			quiet: `fxccm_cloud_trouble{subject="instances in region north"} 0x5 1x4 0x50` +
				"\n " + `fxccm_cloud_trouble{subject="Keystone in region north"} 1x60`,
			loud:  `fxccm_cloud_trouble{subject="instances in region north"} 1x60`,
			after: 5, summary: "only nodes marked for removal are deleted",
		},
		"FxccmCloudTrouble": {
			quiet: `fxccm_cloud_trouble{subject="Keystone"} 0x5 1x8 0x46` + "\n " +
				`fxccm_cloud_trouble{subject="instances"} 1x60`,
			loud: `fxccm_cloud_trouble{subject="Keystone"} 1x60`, after: 10, summary: "Keystone",
		},
		"FxccmCloudTrouble, of a region": {
			quiet: `fxccm_cloud_trouble{subject="Keystone in region north"} 0x5 1x8 0x46` +
				"\n " + `fxccm_cloud_trouble{subject="instances in region north"} 1x60`,
			loud:  `fxccm_cloud_trouble{subject="Keystone in region north"} 1x60`,
			after: 10, summary: "Keystone in region north",
		},
		"FxccmRequestsFail": {
			quiet: requests + `code="200"} 0+100x60` + "\n " + requests + `code="500"} 0+5x60` +
				"\n " + requests + `code="404"} 0+50x60`,
			loud: requests + `code="200"} 0+100x60` + "\n " + requests +
				`code="timeout"} 0+25x60`,
			after: 11, summary: "20% of the requests to load-balancer",
		},
		"FxccmCloudTrouble, a service does not answer": {
			quiet: `fxccm_cloud_trouble{subject="Octavia"} 0x5 1x8 0x46`,
			loud:  `fxccm_cloud_trouble{subject="Octavia"} 1x60`,
			after: 10, summary: "Octavia",
		},
		"FxccmRequestsRefused": {
			quiet: requests + `code="404"} 0+50x60` + "\n " + refused + `code="404"} 0+1x60`,
			loud:  refused + `code="404"} 0+3x60`,
			after: 12, summary: "network refuses floating_ip_create",
		},
		"FxccmRequestsRefused, quota of Neutron or full subnet": {
			// Octavia is at work on the load balancer, and a port still uses the group.
			quiet: count + `{service="load-balancer", operation="listener_create", ` +
				`code="409"} 0+50x60` + "\n " + count + `{service="network", ` +
				`operation="security_group_delete", code="409"} 0+50x60`,
			loud:  refused + `code="409"} 0+3x60`,
			after: 12, summary: "network refuses floating_ip_create",
		},
		"FxccmRequestsRefused, deletion": {
			quiet: count + `{service="load-balancer", operation="loadbalancer_delete", ` +
				`code="404"} 0+50x60`,
			loud: count + `{service="load-balancer", operation="loadbalancer_delete", ` +
				`code="403"} 0+3x60`,
			after: 12, summary: "load-balancer refuses loadbalancer_delete",
		},
		"FxccmServicesDefective": {
			quiet: `fxccm_load_balancers_defective{reason="a"} 0x5 3x14 0x41`,
			loud:  `fxccm_load_balancers_defective{reason="LoadBalancerForcedInternal"} 2x60`,
			after: 15, summary: "2 Services are served, but not as requested: LoadBalancerForced",
		},
		"FxccmServicesRefused": {
			quiet: `fxccm_load_balancers{state="refused"} 0x5 3x14 0x41` + "\n " +
				`fxccm_load_balancers{state="ready"} 3x60`,
			loud:  `fxccm_load_balancers{state="refused"} 3x60`,
			after: 15, summary: "3 Services",
		},
		"FxccmServicesWait": {
			quiet: `fxccm_load_balancers_oldest_seconds{state="waiting"} 0+60x14 0x46` + "\n " +
				`fxccm_load_balancers_oldest_seconds{state="refused"} 90000x60`,
			loud:  `fxccm_load_balancers_oldest_seconds{state="waiting"} 0+60x60`,
			after: 17, summary: "17m 0s",
		},
		"FxccmLoadBalancersDegraded": {
			quiet: `fxccm_load_balancers{state="degraded"} 0x5 1x14 0x41`,
			loud:  `fxccm_load_balancers{state="degraded"} 1x60`,
			after: 15, summary: "1 load balancers",
		},
		"FxccmDriftRecurs": {
			quiet: `fxccm_openstack_load_balancer_drift_total{stage="found"} 0x10 1x10 2x10 3x30` +
				"\n " + `fxccm_openstack_load_balancer_drift_total{stage="repaired"} 0+1x60`,
			loud:  `fxccm_openstack_load_balancer_drift_total{stage="found"} 0+1x60`,
			after: 6, summary: "times in an hour",
		},
		"FxccmQuotaNearlyUsed": {
			quiet: `fxccm_openstack_quota_limit{resource="port"} 100x60` + "\n " +
				`fxccm_openstack_quota_used{resource="port"} 90x60`,
			loud: `fxccm_openstack_quota_limit{resource="port"} 100x60` + "\n " +
				`fxccm_openstack_quota_used{resource="port"} 90x5 95x60`,
			after: 36, summary: "95% of the project's quota of port",
		},
		"FxccmNodesWait": {
			quiet: "fxccm_nodes_waiting_oldest_seconds 0+60x14 0x46",
			loud:  "fxccm_nodes_waiting_oldest_seconds 0+60x60",
			after: 17, summary: "17m 0s",
		},
	} {
		alert, _, _ := strings.Cut(name, ",")
		t.Run(name, func(t *testing.T) {
			if fired, at, summary := firstFiring(t, alert, c.quiet); fired {
				t.Errorf("the quiet series fire after %d minutes: %s", at, summary)
			}
			fired, at, summary := firstFiring(t, alert, c.loud)
			if !fired || at != c.after || !strings.Contains(summary, c.summary) {
				t.Errorf("the loud series fire: %t, after %d minutes, %q; want %d, %q", fired, at,
					summary, c.after, c.summary)
			}
		})
		delete(untested, alert)
	}
	for name := range untested {
		t.Errorf("no series test %s", name)
	}
}

// firstFiring evaluates an alert each minute for an hour, and returns the minute in which it fires.
func firstFiring(t *testing.T, name, series string) (fired bool, minute int, summary string) {
	t.Helper()
	definition, ok := alerts(t)[name]
	if !ok {
		t.Fatalf("no alert is named %s", name)
	}
	expression, err := parser.NewParser(parser.Options{}).ParseExpr(definition.Expr)
	if err != nil {
		t.Fatal(err)
	}
	rule := rules.NewAlertingRule(name, expression, time.Duration(definition.For),
		time.Duration(definition.KeepFiringFor), labels.FromMap(definition.Labels),
		labels.FromMap(definition.Annotations), labels.EmptyLabels(), "", true,
		promslog.NewNopLogger())
	storage := promqltest.LoadedStorage(t, "load 1m\n "+series)
	query := rules.EngineQueryFunc(promqltest.NewTestEngine(t, false, 0, 10000), storage)
	for minute := range 61 {
		at := time.Unix(0, 0).Add(time.Duration(minute) * time.Minute)
		if _, err := rule.Eval(t.Context(), 0, at, query, &url.URL{}, 0); err != nil {
			t.Fatal(err)
		}
		for _, alert := range rule.ActiveAlerts() {
			if alert.State == rules.StateFiring {
				return true, minute, alert.Annotations.Get("summary")
			}
		}
	}
	return false, 0, ""
}

func TestPages_PromQLNamesExistingMetrics(t *testing.T) {
	known := series(t)
	blocks := regexp.MustCompile("(?s)```promql\n(.+?)```")
	found := 0
	find := func(path string, _ fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, ".md") {
			return err
		}
		for _, block := range blocks.FindAllStringSubmatch(read(t, "../../../docs/"+path), -1) {
			found++
			check(t, path, block[1], known)
		}
		return nil
	}
	err := fs.WalkDir(os.DirFS("../../../docs"), ".", find)
	if err != nil || found == 0 {
		t.Errorf("%d queries, %v", found, err)
	}
}
