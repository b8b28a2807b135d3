package controlplane

import (
	"strings"
	"testing"

	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
)

func TestServiceCIDR_EachServer_IsWaitedForIfItHasOne(t *testing.T) {
	cidr := func(ready metav1.ConditionStatus) *networkingv1.ServiceCIDR {
		return &networkingv1.ServiceCIDR{
			ObjectMeta: metav1.ObjectMeta{Name: "kubernetes"},
			Status: networkingv1.ServiceCIDRStatus{Conditions: []metav1.Condition{{
				Type: networkingv1.ServiceCIDRConditionReady, Status: ready,
			}}},
		}
	}
	for name, test := range map[string]struct {
		// resources are those of networking.k8s.io/v1.
		resources []string
		cidr      *networkingv1.ServiceCIDR
		want      string
	}{
		"before Kubernetes 1.33":           {[]string{"ingresses"}, nil, ""},
		"Kubernetes 1.33, not created yet": {[]string{"ingresses", "servicecidrs"}, nil, "not found"},
		"Kubernetes 1.33, not ready":       {[]string{"servicecidrs"}, cidr(metav1.ConditionFalse), "is not ready"},
		"Kubernetes 1.33, ready":           {[]string{"servicecidrs"}, cidr(metav1.ConditionTrue), ""},
	} {
		t.Run(name, func(t *testing.T) {
			client := fake.NewClientset()
			if test.cidr != nil {
				client = fake.NewClientset(test.cidr)
			}
			list := &metav1.APIResourceList{
				GroupVersion: networkingv1.SchemeGroupVersion.String(),
			}
			for _, each := range test.resources {
				list.APIResources = append(list.APIResources, metav1.APIResource{Name: each})
			}
			client.Resources = []*metav1.APIResourceList{list}
			got := ""
			if err := checkServiceCIDR(t.Context(), client); err != nil {
				got = err.Error()
			}
			if test.want == "" && got != "" || !strings.Contains(got, test.want) {
				t.Errorf("error %q, want %q", got, test.want)
			}
		})
	}
}
