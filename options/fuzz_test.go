package options_test

import (
	"maps"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/fxccm/fxccm/options"
)

func FuzzDecode(f *testing.F) {
	for _, seed := range []string{
		"", header, header + "node: {concurrentSyncs: 1}", header + "controllers: &a [*a]",
		header + "x: *y",
		header + "node: &n {<<: *n}", header + "clusterName: !!binary aGk=",
		header + "clientConnection: {qps: 1e39}",
		header + "? [a]\n: b", "--- \n--- \n",
		header + "drainTimeout: 1h\nclusterName: |\n  a\n  b\n",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		cfg, err := options.Decode(data)
		if err != nil {
			if strings.TrimSpace(err.Error()) == "" {
				t.Error("an error without a text")
			}
			return
		}
		encoded, err := options.Encode(cfg)
		if err != nil {
			t.Fatal(err)
		}
		again, err := options.Decode(encoded)
		if err != nil || !equal(again, cfg) {
			t.Errorf("%v\ngot  %+v\nwant %+v\nin\n%s", err, again, cfg, encoded)
		}
		if q := float64(cfg.Config.ClientConnection.QPS); math.IsNaN(q) || math.IsInf(q, 0) {
			t.Errorf("qps is %v", q)
		}
	})
}

func FuzzParseFeatureGates(f *testing.F) {
	for _, seed := range []string{
		"", ",", "=", "A=true", "CloudControllerManagerWebhook=0",
		"CloudControllerManagerWebhook=1",
		"CloudControllerManagerWatchBasedRoutesReconciliation=T, CloudControllerManagerWebhook=F",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, list string) {
		gates, unread, err := options.ParseFeatureGates(list)
		if err != nil && gates != nil {
			t.Errorf("gates %v were returned with the error %v", gates, err)
		}
		if gates["CloudControllerManagerWebhook"] {
			t.Error("the webhook gate was enabled")
		}
		for _, name := range slices.AppendSeq(unread, maps.Keys(gates)) {
			if !strings.Contains(list, name) {
				t.Errorf("%s was not given", name)
			}
		}
	})
}
