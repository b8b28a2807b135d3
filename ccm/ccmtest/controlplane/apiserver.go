package controlplane

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

func (c *ControlPlane) apiServerURL() string { return "https://" + c.apiPort.Address() }

func (c *ControlPlane) apiServerArgs() []string {
	args := []string{
		"--bind-address=127.0.0.1",
		fmt.Sprintf("--secure-port=%d", c.apiPort.Number),
		"--tls-cert-file=" + c.files.apiserver.cert,
		"--tls-private-key-file=" + c.files.apiserver.key,

		"--etcd-servers=" + c.etcdURL(),
		"--etcd-cafile=" + c.files.etcdCA,
		"--etcd-certfile=" + c.files.apiserverEtcdClient.cert,
		"--etcd-keyfile=" + c.files.apiserverEtcdClient.key,

		// The Service default/kubernetes gets no endpoints: a loopback address is not allowed as
		// one, and no test uses it.
		"--advertise-address=127.0.0.1",
		"--endpoint-reconciler-type=none",
		// Dual stack, for Services of either family and of both.
		"--service-cluster-ip-range=10.96.0.0/16,fd00:96::/108",

		"--authorization-mode=RBAC",
		"--client-ca-file=" + c.files.clusterCA,
		// With these flags, the API server fills the ConfigMap
		// kube-system/extension-apiserver-authentication, which a server that delegates its
		// authentication reads.
		"--requestheader-client-ca-file=" + c.files.frontProxyCA,
		"--requestheader-allowed-names=front-proxy-client",
		"--requestheader-username-headers=X-Remote-User",
		"--requestheader-group-headers=X-Remote-Group",
		"--requestheader-extra-headers-prefix=X-Remote-Extra-",

		"--service-account-issuer=https://kubernetes.default.svc",
		"--service-account-key-file=" + c.files.serviceAccountKey,
		"--service-account-signing-key-file=" + c.files.serviceAccountKey,

		// These plugins need kube-controller-manager, which does not run here. ServiceAccount
		// refuses Pods until a controller has created the namespace's default account.
		// TaintNodesByCondition taints every new Node as not-ready, and the node lifecycle
		// controller must remove the taint.
		"--disable-admission-plugins=ServiceAccount,TaintNodesByCondition",

		"--allow-privileged=true",
		// Graceful shutdown that does not take minutes: the server ends watches, and refuses new
		// requests with 429.
		"--shutdown-send-retry-after=true",
		"--shutdown-watch-termination-grace-period=2s",
		"--profiling=false",
	}
	if !c.opts.DisableAudit {
		args = append(args,
			"--audit-policy-file="+c.auditPolicy(),
			"--audit-log-path="+c.audit.path,
			// The server writes a record before it continues, so a server that dies has recorded
			// all its requests.
			"--audit-log-mode=blocking",
			// In megabytes. The test cannot read a rotated log; the default is 100.
			"--audit-log-maxsize=1000000",
		)
	}
	return append(args, c.opts.APIServerArgs...)
}

// apiServerCheck returns a check whether a test can begin. It reads /readyz, and the objects that
// the server creates a moment after it is ready: without the namespaces no object can be created,
// and without a ready ServiceCIDR no Service gets an address. The caller calls done at the end.
func (c *ControlPlane) apiServerCheck() (
	check func(context.Context) error, done func(), err error,
) {
	config := c.RESTConfig()
	config.UserAgent = "controlplane-health"
	httpClient, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, nil, fmt.Errorf("make a client for kube-apiserver: %w", err)
	}
	client, err := kubernetes.NewForConfigAndClient(config, httpClient)
	if err != nil {
		return nil, nil, fmt.Errorf("make a client for kube-apiserver: %w", err)
	}
	return func(ctx context.Context) error { return checkCluster(ctx, client) },
		httpClient.CloseIdleConnections, nil
}

func checkCluster(ctx context.Context, client kubernetes.Interface) error {
	if err := client.CoreV1().RESTClient().Get().AbsPath("/readyz").Do(ctx).Error(); err != nil {
		return fmt.Errorf("/readyz: %w", err)
	}
	for _, name := range []string{
		metav1.NamespaceDefault, metav1.NamespaceSystem, corev1.NamespaceNodeLease,
	} {
		if _, err := client.CoreV1().Namespaces().Get(ctx, name, metav1.GetOptions{}); err != nil {
			return err
		}
	}
	return checkServiceCIDR(ctx, client)
}

// checkServiceCIDR checks that Services can get addresses. Servers before Kubernetes 1.33 have no
// ServiceCIDRs: they assign addresses as soon as /readyz succeeds.
func checkServiceCIDR(ctx context.Context, client kubernetes.Interface) error {
	cidr, err := client.NetworkingV1().ServiceCIDRs().Get(ctx, "kubernetes", metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		isServed, discoveryErr := servesServiceCIDRs(client)
		if discoveryErr != nil {
			return discoveryErr
		}
		if !isServed {
			return nil
		}
	}
	if err != nil {
		return err
	}
	if !meta.IsStatusConditionTrue(cidr.Status.Conditions, networkingv1.ServiceCIDRConditionReady) {
		return fmt.Errorf("the ServiceCIDR %s is not ready", cidr.Name)
	}
	return nil
}

func servesServiceCIDRs(client kubernetes.Interface) (bool, error) {
	list, err := client.Discovery().ServerResourcesForGroupVersion(
		networkingv1.SchemeGroupVersion.String())
	if err != nil {
		return false, err
	}
	return slices.ContainsFunc(list.APIResources, func(r metav1.APIResource) bool {
		return r.Name == "servicecidrs"
	}), nil
}
