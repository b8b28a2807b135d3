package serving

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/util/wait"
	coreinformers "k8s.io/client-go/informers/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"github.com/fxccm/fxccm/internal/informerview"
)

// The ConfigMap in which kube-apiserver publishes its trusted CAs and front proxy, for servers that
// delegate authentication. The Role extension-apiserver-authentication-reader allows reading it.
const (
	clusterTrustNamespace = metav1.NamespaceSystem
	clusterTrustConfigMap = "extension-apiserver-authentication"
	clusterTrustName      = "ConfigMap " + clusterTrustNamespace + "/" + clusterTrustConfigMap
)

// lookupTimeout limits one read of the ConfigMap.
const lookupTimeout = 10 * time.Second

// clusterTrust watches the ConfigMap and holds its content. It is safe for concurrent use.
type clusterTrust struct {
	client kubernetes.Interface
	log    logr.Logger

	mu      sync.Mutex
	current *trust // nil until the first successful read
	reason  string // why the last read failed
	logged  string // the last logged error
}

func newClusterTrust(client kubernetes.Interface, log logr.Logger) *clusterTrust {
	return &clusterTrust{client: client, log: log, reason: "not read yet"}
}

// trusted returns the last valid content of the ConfigMap.
func (c *clusterTrust) trusted() trust {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.current == nil {
		return trust{}
	}
	return *c.current
}

// missing explains why the ConfigMap has not been read, or returns "" after a successful read.
func (c *clusterTrust) missing() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.current != nil {
		return ""
	}
	return "cannot authenticate yet: " + clusterTrustName + ": " + c.reason
}

// follow retries to read the ConfigMap until it succeeds, then watches it until ctx ends.
func (c *clusterTrust) follow(ctx context.Context) {
	ctx = klog.NewContext(ctx, c.log)
	delay := wait.Backoff{
		Duration: 200 * time.Millisecond, Factor: 2, Jitter: 0.2, Steps: 10, Cap: 5 * time.Second,
	}.DelayFunc()
	for !c.read(ctx) {
		select {
		case <-time.After(delay()):
		case <-ctx.Done():
			return
		}
	}
	// The controllers of k8s.io/apiserver/pkg/server/dynamiccertificates also watch this ConfigMap,
	// but their Run returns before their goroutines end, and they log to klog.
	informer := coreinformers.NewFilteredConfigMapInformer(
		informerview.ListingClient(c.client), clusterTrustNamespace, 0, cache.Indexers{},
		func(o *metav1.ListOptions) {
			o.FieldSelector = fields.OneTermEqualSelector(
				metav1.ObjectNameField, clusterTrustConfigMap).String()
		})
	// After a deletion of the ConfigMap its last content stays in use.
	_, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(obj any) { c.changed(obj) },
		UpdateFunc: func(_, obj any) { c.changed(obj) },
	})
	if err != nil {
		c.log.Error(err, "Cannot watch the ConfigMap; changes take effect after a restart",
			"configMap", clusterTrustName)
		return
	}
	informer.RunWithContext(ctx)
}

func (c *clusterTrust) read(ctx context.Context) bool {
	timed, cancel := context.WithTimeout(ctx, lookupTimeout)
	defer cancel()
	cm, err := c.client.CoreV1().ConfigMaps(clusterTrustNamespace).
		Get(timed, clusterTrustConfigMap, metav1.GetOptions{})
	switch {
	case ctx.Err() != nil:
		return false
	case apierrors.IsNotFound(err):
		// A cluster may lack the ConfigMap. The watch below notices a later creation.
		c.log.Info("ConfigMap not found; client certificate authentication is disabled",
			"configMap", clusterTrustName)
		c.set(trust{})
		return true
	case err != nil:
		err = &unavailable{
			what:  "get it",
			needs: "the rules of Role extension-apiserver-authentication-reader", err: err,
		}
		c.failed(err, plain(err))
		return false
	}
	t, err := parseTrust(cm)
	if err != nil {
		c.failed(err, err.Error())
		return false
	}
	c.log.Info("Read the cluster's authentication configuration", "configMap", clusterTrustName)
	c.set(t)
	return true
}

func (c *clusterTrust) changed(obj any) {
	cm, ok := obj.(*corev1.ConfigMap)
	if !ok || cm.Name != clusterTrustConfigMap {
		return
	}
	t, err := parseTrust(cm)
	if err != nil {
		c.log.Error(err, "Invalid change of the ConfigMap; keeping the previous configuration",
			"configMap", clusterTrustName)
		return
	}
	c.set(t)
}

func (c *clusterTrust) set(t trust) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.current = &t
}

// failed logs an error unless it repeats the last one. reason is shown to clients.
func (c *clusterTrust) failed(err error, reason string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.reason = reason
	if text := err.Error(); text != c.logged {
		c.logged = text
		c.log.Error(err, "Cannot read the cluster's authentication configuration; "+
			"protected paths return 503 until a retry succeeds", "configMap", clusterTrustName)
	}
}

// parseTrust reads the keys that kube-apiserver writes.
func parseTrust(cm *corev1.ConfigMap) (trust, error) {
	var t trust
	var err error
	if pem := cm.Data["client-ca-file"]; pem != "" {
		if t.clients, err = parseCAs([]byte(pem)); err != nil {
			return trust{}, fmt.Errorf("key client-ca-file: %w", err)
		}
	}
	pem := cm.Data["requestheader-client-ca-file"]
	if pem == "" {
		return t, nil
	}
	p := &proxyTrust{}
	if p.ca, err = parseCAs([]byte(pem)); err != nil {
		return trust{}, fmt.Errorf("key requestheader-client-ca-file: %w", err)
	}
	for key, list := range map[string]*[]string{
		"requestheader-allowed-names":        &p.allowedNames,
		"requestheader-username-headers":     &p.usernameHeaders,
		"requestheader-uid-headers":          &p.uidHeaders,
		"requestheader-group-headers":        &p.groupHeaders,
		"requestheader-extra-headers-prefix": &p.extraHeaderPrefixes,
	} {
		if text := cm.Data[key]; text != "" {
			if err := json.Unmarshal([]byte(text), list); err != nil {
				return trust{}, fmt.Errorf("key %s: not a JSON list of strings", key)
			}
		}
	}
	t.proxy = p
	return t, nil
}
