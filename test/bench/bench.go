package main

import (
	"context"
	"os"
	"path/filepath"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/fxccm/fxccm/ccm/ccmtest/controlplane"
	"github.com/fxccm/fxccm/test/internal/attempt"
)

// bench is what all trials share.
type bench struct {
	settings
	// run is the whole benchmark, which a failed trial ends.
	run      *attempt.T
	results  *results
	progress *progress

	plane *controlplane.ControlPlane
	// client is the administrator's, account what the candidates reach the API server with.
	client  kubernetes.Interface
	account *rest.Config
	cloud   *cloudServer

	// dir holds logs and the two files that candidates are configured with.
	dir                     string
	kubeconfig, cloudConfig string
}

// open starts the control plane and the cloud.
func open(t *attempt.T, s settings) *bench {
	b := &bench{settings: s, run: t, results: &results{}, progress: newProgress(os.Stdout)}
	b.progress.say("starting etcd and kube-apiserver")
	b.startControlPlane()
	dir, err := os.MkdirTemp("", "fxccm-bench-")
	t.Check(err)
	t.Cleanup(func() { t.Check(os.RemoveAll(dir)) })
	b.dir = dir
	b.cloud = serveCloud(t)
	b.kubeconfig = b.writeKubeconfig("bench", b.account)
	b.cloudConfig = b.writeFile("cloud.conf", b.cloud.address+"\n")
	return b
}

// startControlPlane starts a control plane in which the candidates' account may do its work.
func (b *bench) startControlPlane() {
	t := b.run
	var err error
	b.plane, err = controlplane.Start(t.Context(), controlplane.Options{
		// The record of each request is for tests; it would be written while time is measured.
		DisableAudit: true,
		APIServerArgs: []string{
			"--delete-collection-workers=4",
			// Two for each Service of a large fleet; no node listens there.
			"--service-node-port-range=10000-60000",
		},
	})
	t.Check(err)
	t.Cleanup(func() { t.Check(b.plane.Stop(context.WithoutCancel(t.Context()))) })
	config := b.plane.RESTConfig()
	config.ContentType = "application/vnd.kubernetes.protobuf"
	config.AcceptContentTypes = config.ContentType + ",application/json"
	config.UserAgent = "bench"
	b.client, err = kubernetes.NewForConfig(config)
	t.Check(err)
	_, err = b.client.RbacV1().ClusterRoles().Create(t.Context(), newRole(), metav1.CreateOptions{})
	t.Check(err)
	_, err = b.client.RbacV1().ClusterRoleBindings().Create(t.Context(), newRoleBinding(),
		metav1.CreateOptions{})
	t.Check(err)
	t.Check(b.createNamespace(t.Context(), serviceNamespace))
	t.Check(b.createNamespace(t.Context(), fleetNamespace))
	b.account, err = b.plane.ServiceAccountConfig(metav1.NamespaceSystem, accountName)
	t.Check(err)
}

func (b *bench) createNamespace(ctx context.Context, name string) error {
	_, err := b.client.CoreV1().Namespaces().Create(ctx,
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
	return err
}

func (b *bench) writeKubeconfig(name string, config *rest.Config) (path string) {
	path = filepath.Join(b.dir, name+".kubeconfig")
	b.run.Check(controlplane.WriteKubeconfig(path, config))
	return path
}

func (b *bench) writeFile(name, text string) (path string) {
	path = filepath.Join(b.dir, name)
	b.run.Check(os.WriteFile(path, []byte(text), 0o600))
	return path
}
