package migrate

import (
	"context"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// accountDir is where a Pod finds its ServiceAccount's token.
const accountDir = "/var/run/secrets/kubernetes.io/serviceaccount"

// serverVariables are variables with the address of the API server.
var serverVariables = []string{"KUBERNETES_SERVICE_HOST", "KUBERNETES_SERVICE_PORT"}

// ownConnection says how OCCM's settings choose its API server; "" if OCCM uses that of its Pods.
func (m *migration) ownConnection() string {
	connection := m.settings.Config.ClientConnection
	switch {
	case connection.Kubeconfig != "":
		return "--kubeconfig=" + connection.Kubeconfig
	case connection.Master != "":
		return "--master=" + connection.Master
	}
	for _, name := range serverVariables {
		if _, isSet := m.variables[name]; isSet {
			return "variable " + name
		}
	}
	if at := m.occm.accountMount(); at != "" {
		return "the volume at " + at
	}
	return ""
}

// accountMount is the mount that replaces the Pod's ServiceAccount; "" if the Pod uses its own.
func (w *workload) accountMount() string {
	for _, mount := range w.container.VolumeMounts {
		at := path.Clean(mount.MountPath)
		if !strings.HasPrefix(strings.TrimPrefix(at, "/var"),
			strings.TrimPrefix(accountDir, "/var")) {
			continue
		}
		isOwn := false
		for _, volume := range w.template.Spec.Volumes {
			if volume.Name != mount.Name || volume.Projected == nil {
				continue
			}
			for _, source := range volume.Projected.Sources {
				isOwn = isOwn || source.ServiceAccountToken != nil
			}
		}
		if !isOwn {
			return at
		}
	}
	return ""
}

// connection describes how the OCCM of a workload chooses its API server; "" if it uses that of its
// Pods. Two workloads with the same description serve the same cluster. The arguments of OCCM may
// be inside those of another program, which starts it.
func (w *workload) connection() string {
	var parts []any
	files := []string{w.accountMount() + "/token"}
	words := slices.Concat(w.container.Command, w.container.Args)
	for i, word := range words {
		if !strings.Contains(word, "--kubeconfig") && !strings.Contains(word, "--master") {
			continue
		}
		if !strings.Contains(word, "=") && i+1 < len(words) {
			word += "=" + words[i+1]
		}
		parts = append(parts, word)
		_, file, _ := strings.Cut(word, "=")
		files = append(files, file)
	}
	for _, env := range w.container.Env {
		if slices.Contains(serverVariables, env.Name) {
			parts = append(parts, env)
		}
	}
	isOfNode := false
	for _, mount := range w.container.VolumeMounts {
		if !slices.ContainsFunc(files, func(file string) bool {
			return strings.HasPrefix(file, path.Clean(mount.MountPath)+"/")
		}) {
			continue
		}
		for _, volume := range w.template.Spec.Volumes {
			if volume.Name == mount.Name {
				parts = append(parts, mount.SubPath, volume.VolumeSource)
				isOfNode = volume.HostPath != nil
			}
		}
	}
	switch {
	case len(parts) == 0:
		return ""
	case !isOfNode: // the names of Secrets and Services are those of the namespace
		parts = append(parts, w.Namespace)
	}
	text, _ := json.Marshal(parts) // no error, because the API server has sent them
	return string(text)
}

// isHosted reports whether OCCM's Pods run in another cluster than the one that OCCM serves.
func (m *migration) isHosted() bool { return m.served != m.Cluster }

// chooseServed decides which cluster OCCM serves. Only the operator knows the cluster of an address
// that is valid in OCCM's Pods.
func (m *migration) chooseServed(ctx context.Context) error {
	const subject = "served cluster"
	connection := m.ownConnection()
	if m.workload == nil {
		if connection != "" {
			m.add(Blocks, subject, "OCCM chooses its API server itself (%s), which may be that of "+
				"another cluster: name a kubeconfig of the cluster whose nodes OCCM serves with "+
				"--workload-kubeconfig", connection)
			return nil
		}
		m.served = m.Cluster
		return nil
	}
	m.add(Same, subject, "%s", m.workload)
	own, err := ReadUID(ctx, m)
	if err != nil {
		return err
	}
	other, err := ReadUID(ctx, m.workload)
	if err != nil {
		return fmt.Errorf("--workload-kubeconfig: %w", err)
	}
	switch {
	case own == other:
		m.served = m.Cluster
		m.add(Same, subject, "OCCM's Pods run in the cluster that they serve")
	case connection == "":
		m.add(Blocks, subject, "OCCM uses the ServiceAccount of its Pods, so it serves the "+
			"cluster of --kubeconfig, and not that of --workload-kubeconfig")
		return nil
	default:
		m.served = m.workload
	}
	return m.checkHolder(ctx)
}

// checkUser finds the user that fxccm's rights are bound to.
func (m *migration) checkUser(ctx context.Context) {
	if m.workload == nil || m.served == nil {
		return
	}
	var err error
	if m.subject, err = m.user(ctx); err != nil {
		m.add(Blocks, "OCCM's user", "fxccm gets its rights from bindings for OCCM's user, "+
			"which is unknown: %v", err)
	} else if m.subject != nil {
		m.add(Same, "OCCM's user", "%s %s gets fxccm's rights", m.subject.Kind, m.subject.Name)
	}
}

// user is the user that OCCM logs in as; nil if it is the ServiceAccount of the Pods.
func (m *migration) user(ctx context.Context) (*rbacv1.Subject, error) {
	file := m.settings.Config.ClientConnection.Kubeconfig
	switch {
	case file != "":
		content, err := m.readVisible(ctx, "kubeconfig", file)
		if err != nil {
			return nil, err
		}
		config, err := clientcmd.Load(content)
		if err != nil {
			return nil, fmt.Errorf("%s is not a kubeconfig", file) // an error may quote it
		}
		use := config.Contexts[config.CurrentContext]
		if use == nil || config.AuthInfos[use.AuthInfo] == nil {
			return nil, fmt.Errorf("%s has no current context with a user", file)
		}
		return m.userOf(ctx, *config.AuthInfos[use.AuthInfo], path.Dir(file))
	case m.occm.accountMount() != "":
		return m.userOf(ctx, clientcmdapi.AuthInfo{TokenFile: "token"}, accountDir)
	case m.settings.Config.ClientConnection.Master != "":
		return nil, errors.New("--master has no login: use --kubeconfig")
	case m.isHosted():
		return nil, errors.New("a ServiceAccount of one cluster has no rights in another one: " +
			"use --kubeconfig")
	}
	return nil, nil
}

// readVisible reads a file, and names its source.
func (m *migration) readVisible(ctx context.Context, subject, file string) ([]byte, error) {
	found, err := m.readFile(ctx, file)
	if err != nil {
		return nil, fmt.Errorf("%s: %w%s", file, err, m.wayOut(file, err))
	}
	m.accept(subject, file, found)
	return found.content, nil
}

// userOf returns the user of a login whose relative paths begin in dir.
func (m *migration) userOf(
	ctx context.Context, login clientcmdapi.AuthInfo, dir string,
) (*rbacv1.Subject, error) {
	read := func(subject, file string) ([]byte, error) {
		if !path.IsAbs(file) {
			file = path.Join(dir, file)
		}
		return m.readVisible(ctx, subject, file)
	}
	certificate, token := login.ClientCertificateData, []byte(login.Token)
	var err error
	if len(certificate) == 0 && login.ClientCertificate != "" {
		certificate, err = read("client certificate", login.ClientCertificate)
	}
	// A token file beats a token.
	if err == nil && login.TokenFile != "" {
		token, err = read("token", login.TokenFile)
	}
	switch {
	case err != nil:
		return nil, err
	case login.Impersonate != "":
		return &rbacv1.Subject{
			Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: login.Impersonate,
		}, nil
	case len(certificate) > 0:
		return userOfCertificate(certificate)
	case len(token) > 0:
		return userOfToken(string(token))
	}
	return nil, errors.New("its kubeconfig has neither a client certificate nor a token")
}

func userOfCertificate(text []byte) (*rbacv1.Subject, error) {
	block, _ := pem.Decode(text)
	if block == nil {
		return nil, errors.New("its client certificate is not PEM")
	}
	certificate, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		return nil, fmt.Errorf("its client certificate: %w", err)
	}
	return &rbacv1.Subject{
		Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: certificate.Subject.CommonName,
	}, nil
}

// userOfToken reads the ServiceAccount of a token, and does not check the token.
func userOfToken(token string) (*rbacv1.Subject, error) {
	const unknown = "its token does not belong to a ServiceAccount"
	parts := strings.Split(strings.TrimSpace(token), ".")
	if len(parts) != 3 {
		return nil, errors.New(unknown)
	}
	text, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err != nil {
		return nil, errors.New(unknown)
	}
	var claims struct {
		Subject string `json:"sub"`
	}
	if err := json.Unmarshal(text, &claims); err != nil {
		return nil, errors.New(unknown)
	}
	name, isAccount := strings.CutPrefix(claims.Subject, "system:serviceaccount:")
	namespace, name, isComplete := strings.Cut(name, ":")
	if !isAccount || !isComplete {
		return nil, errors.New(unknown)
	}
	return &rbacv1.Subject{
		Kind: rbacv1.ServiceAccountKind, Namespace: namespace, Name: name,
	}, nil
}

// checkHolder compares the holder of the lease with the Pods, because a mistaken
// --workload-kubeconfig would have check read another cluster.
func (m *migration) checkHolder(ctx context.Context) error {
	var hosts []string
	for _, selector := range []*metav1.LabelSelector{m.occm.selector, fxccmSelector()} {
		if selector == nil {
			continue
		}
		pods, err := m.pods(ctx, selector)
		if err != nil {
			return fmt.Errorf("list OCCM's Pods: %w", err)
		}
		for _, pod := range pods {
			hosts = append(hosts, pod.Name)
			if pod.Spec.HostNetwork {
				hosts = append(hosts, pod.Spec.NodeName)
			}
		}
	}
	lease, err := m.readLease(ctx)
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("read the lease: %w", err)
	}
	const hint = ": does OCCM serve the cluster of --workload-kubeconfig?"
	switch {
	case len(hosts) == 0 || err != nil && m.occm.isStopped():
		return nil
	case err != nil:
		m.add(Blocks, "lease", "OCCM's Pods run, and it does not exist"+hint)
		return nil
	}
	// The identity begins with the name of the host, which has 63 characters at most.
	host, _, _ := strings.Cut(lease.holder(), "_")
	isHost := func(name string) bool {
		return name != "" && (name == host || len(host) >= 63 && strings.HasPrefix(name, host) ||
			strings.HasPrefix(host, name+"."))
	}
	if lease.holder() == "" || slices.ContainsFunc(hosts, isHost) {
		return nil
	}
	if m.occm.isStopped() { // the holder may be a Pod of fxccm that was killed
		isRenewed, err := m.isRenewed(ctx, lease)
		if err != nil || !isRenewed {
			return err
		}
	}
	m.add(Blocks, "lease", "%s, which is not a Pod of OCCM, holds it"+hint, lease.holder())
	return nil
}
