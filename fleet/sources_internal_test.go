package fleet

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/workqueue"
)

// FuzzSource gives the sources any Secret and any Cluster. A cluster has an error, or a client
// configuration that keeps the rules, a valid name of its Lease, and no data of another key.
func FuzzSource(f *testing.F) {
	for _, name := range []string{"a", "x/../y", strings.Repeat("n", 300)} {
		secret, err := json.Marshal(&corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "n", Labels: map[string]string{
				clusterNameLabel: name,
			}},
			Data: map[string][]byte{
				kubeconfigKey: []byte(kubeconfigWith("", "token: t", "")), "cloud.conf": nil,
			},
		})
		if err != nil {
			f.Fatal(err)
		}
		f.Add(secret, fmt.Appendf(nil, `{"metadata":{"namespace":"n","name":%q}}`, name))
	}
	f.Fuzz(func(t *testing.T, secretJSON, clusterJSON []byte) {
		var secret corev1.Secret
		var object metav1.PartialObjectMetadata
		if json.Unmarshal(secretJSON, &secret) != nil ||
			json.Unmarshal(clusterJSON, &object) != nil {
			return
		}
		parse := func(_ string, data []byte) (*rest.Config, error) { return parseKubeconfig(data) }
		read := ""
		api := ClusterAPIConfig{CloudSuffix: cloudSuffix, CloudKey: "cloud.conf"}
		api.CleanUpLoadBalancers = true
		ofAPI := api.cluster(&object, nil, func(_, name string) *corev1.Secret {
			read += name + " "
			return &secret
		}, parse)
		want := object.Name + cloudSuffix + " " + object.Name + kubeconfigSuffix + " "
		if read != want {
			t.Errorf("the source reads the Secrets %s, want %s", read, want)
		}
		if secret.Labels[clusterNameLabel] != object.Name &&
			(ofAPI.RESTConfig != nil || ofAPI.CloudConfig != nil) {
			t.Errorf("the Cluster %q has data of a Secret that is not its own", object.Name)
		}
		secrets := SecretsConfig{Key: kubeconfigKey, CloudKey: "cloud.conf"}
		ofSecret := secrets.cluster(&secret, parse)

		fleet := &Fleet{
			log: logr.Discard(), problems: map[string]error{}, members: map[string]*member{},
			view: newLeaseView(nil),
			queue: workqueue.NewTypedRateLimitingQueue(
				workqueue.DefaultTypedControllerRateLimiter[string]()),
		}
		defer fleet.queue.ShutDown()
		fleet.params.Name = "fleet"
		breaks := map[string]error{}
		for _, c := range []Cluster{ofAPI, ofSecret} {
			if c.RESTConfig != nil {
				breaks[c.Name] = (&AccessRules{}).check(c.RESTConfig)
			}
		}
		fleet.update([]Cluster{ofAPI, ofSecret})
		for name, c := range fleet.clusters {
			switch {
			case c.Err != nil:
				continue
			case c.RESTConfig == nil:
				t.Errorf("%q has neither a configuration nor an error", name)
			case len(validation.IsDNS1123Subdomain(fleet.leaseOf(name))) > 0:
				t.Errorf("the Lease %q has no valid name", fleet.leaseOf(name))
			}
			if breaks[name] != nil {
				t.Errorf("the configuration of %q breaks the rules: %v", name, breaks[name])
			}
		}
	})
}
