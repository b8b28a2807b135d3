package chart

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"

	"github.com/fxccm/fxccm/ccm/ccmtest/controlplane"
)

func TestPods_InARestrictedNamespace_AreAcceptedWithoutTheNodesNetwork(t *testing.T) {
	client := kubernetes.NewForConfigOrDie(controlplane.ForTest(t).RESTConfig())
	var shipped corev1.Namespace
	manifest, err := os.ReadFile(filepath.Join(fleetDir, "namespace.yaml"))
	if err == nil {
		err = yaml.UnmarshalStrict(manifest, &shipped)
	}
	if err == nil {
		_, err = client.CoreV1().Namespaces().Create(t.Context(), &shipped, metav1.CreateOptions{})
	}
	if err != nil {
		t.Fatal(err)
	}
	restricted := shipped.Name
	create := func(values string) error {
		t.Helper()
		template := podTemplate(t, values)
		for _, c := range template.Spec.Containers { // Pod Security does not check it
			if s := c.SecurityContext; s == nil || !ptr.Deref(s.ReadOnlyRootFilesystem, false) {
				t.Errorf("the root of the container %s is writable: %+v", c.Name, s)
			}
		}
		pod := &corev1.Pod{ObjectMeta: template.ObjectMeta, Spec: template.Spec}
		pod.GenerateName = "pod-"
		account := &corev1.ServiceAccount{
			ObjectMeta: metav1.ObjectMeta{Name: pod.Spec.ServiceAccountName},
		}
		if _, err := client.CoreV1().ServiceAccounts(restricted).Create(t.Context(), account,
			metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
			t.Fatal(err)
		}
		_, err := client.CoreV1().Pods(restricted).Create(t.Context(), pod,
			metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		return err
	}
	for name, values := range map[string]string{
		"fleet":             fleetValues(t),
		"one cluster":       "hostNetwork: false",
		"volumes and flags": "{hostNetwork: false, extraArgs: [--drain-timeout=20s], env: [{name: A, value: b}]}",
	} {
		if err := create(values); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := create(""); !apierrors.IsForbidden(err) ||
		!strings.Contains(err.Error(), "hostNetwork=true") {
		t.Errorf("a Pod in the node's network: %v, want it refused by Pod Security", err)
	}
}

func TestNetworkPolicy_OfAFleet_AllowsNoLinkLocalAddressAndNoOtherPeers(t *testing.T) {
	client := kubernetes.NewForConfigOrDie(controlplane.ForTest(t).RESTConfig())
	values := strings.Replace(fleetValues(t), "networkPolicy:\n  enabled: true", `networkPolicy:
  enabled: true
  from: [{namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: monitoring}}}]
  exceptIPv4: [10.0.0.0/8]`, 1)
	manifests, err := render(t, "Helm", values)
	if err != nil {
		t.Fatal(err)
	}
	var policy networkingv1.NetworkPolicy
	if err := yaml.UnmarshalStrict([]byte(manifests["networkpolicy.yaml"]), &policy); err != nil {
		t.Fatal(err)
	}
	got, err := client.NetworkingV1().NetworkPolicies(namespace).Create(t.Context(), &policy,
		metav1.CreateOptions{FieldValidation: metav1.FieldValidationStrict})
	if err != nil {
		t.Fatal(err)
	}
	ingress, egress := got.Spec.Ingress, got.Spec.Egress
	if len(got.Spec.PolicyTypes) != 2 || len(ingress) != 1 || len(ingress[0].From) != 1 ||
		len(ingress[0].Ports) != 1 || ingress[0].Ports[0].Port.IntValue() != 10258 {
		t.Errorf("the policy lets in %+v, want one peer at the secure port", ingress)
	}
	var excepted []string
	for _, rule := range egress {
		for _, peer := range rule.To {
			excepted = append(excepted, peer.IPBlock.Except...)
		}
	}
	want := []string{
		"169.254.0.0/16", "168.63.129.16/32", "100.100.100.200/32", "192.0.0.192/32", "10.0.0.0/8",
		"fe80::/10", "fd00:ec2::/32", "fd20:ce::254/128", "fd00:42::42/128",
	}
	if !slices.Equal(excepted, want) {
		t.Errorf("the policy excepts %q, want %q", excepted, want)
	}
}
