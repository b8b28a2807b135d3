package fleet_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/fxccm/fxccm/fleet"
	"github.com/fxccm/fxccm/internal/waittest"
)

// farTime is a time that the API server accepts. It writes it in JSON as one of the year 10000,
// which no client can read.
const farTime = "9999-12-31T23:59:59.000000-12:00"

func TestSecrets_SecretHasATimeThatJSONCannotHold_OthersFollow(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 0)
	core := kubernetes.NewForConfigOrDie(cluster.RESTConfig()).CoreV1().RESTClient()
	for name, managed := range map[string]string{"a": `[]`, "b": `[{"manager":"m",
		"operation":"Update","apiVersion":"v1","time":"` + farTime + `","fieldsType":"FieldsV1",
		"fieldsV1":{"f:data":{}}}]`} {
		err := core.Post().AbsPath("/api/v1/namespaces", w.namespace, "secrets").
			SetHeader("Content-Type", "application/json").
			Body(fmt.Appendf(nil, `{"apiVersion":"v1","kind":"Secret",
				"metadata":{"name":%q,"labels":{
				"fxccm.dev/fleet-cluster":"true"},"managedFields":%s},
				"stringData":{"kubeconfig":%q,"cloud.conf":"+cloud"}}`, name, managed,
				kubeconfig("of-"+name))).
			Do(t.Context()).Error()
		if err != nil {
			t.Fatal(err)
		}
	}
	follow(t, fleet.Secrets(fleet.SecretsConfig{
		Management: cluster.RESTConfig(), Namespace: w.namespace,
	}))("a of-a+cloud, b of-b+cloud")
}

func TestFleet_LeaseHasATimeThatJSONCannotHold_AnotherReplicaTakesOver(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1)
	a := w.start("a")
	w.waitServed(1, a)
	leases, err := w.leases().List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, lease := range leases.Items {
		if !strings.HasSuffix(lease.Name, "."+w.clusters[0].Name) {
			continue
		}
		// The answer cannot be read, either.
		_, _ = w.leases().Patch(t.Context(), lease.Name, types.MergePatchType,
			[]byte(`{"spec":{"renewTime":"`+farTime+`","acquireTime":"`+farTime+`"}}`),
			metav1.PatchOptions{})
	}
	b := w.start("b")
	a.stop()
	a.done <- <-a.done
	waittest.Until(t, "the other replica serves the cluster", func() error {
		if by := w.served()[w.clusters[0].Name]; by != b.name {
			return errors.New("the cluster is served by " + by)
		}
		return nil
	})
}
