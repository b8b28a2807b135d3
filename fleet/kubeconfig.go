package fleet

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// Limits of a kubeconfig, in bytes. A key of RSA with 8192 bits has about 6 KiB; a larger one makes
// each TLS handshake slow.
const (
	maxKubeconfig        = 256 << 10
	maxClientCertificate = 64 << 10
	maxClientKey         = 8 << 10
	maxToken             = 16 << 10
)

// A parser returns the client configuration of a kubeconfig. Its errors have no credentials.
type parser func(kubeconfig []byte) (*rest.Config, error)

// A kubeconfigSource is a Source that reads kubeconfigs with a parser.
type kubeconfigSource func(ctx context.Context, parse parser, update func([]Cluster)) error

// Run implements Source. It accepts only the fields that cannot act on the replica.
func (s kubeconfigSource) Run(ctx context.Context, update func([]Cluster)) error {
	return s(ctx, parseKubeconfig, update)
}

// Trusted is a [Source] whose clusters the operator vouches for: [Params].Access does not apply to
// them. A kubeconfig of a trusted source may name files and programs of the replica's machine,
// which the replica reads and runs. Use it only if no owner of a cluster can write the kubeconfigs,
// the addresses in them, or the DNS records of these addresses.
func Trusted(source Source) Source {
	if source == nil {
		return nil
	}
	return SourceFunc(func(ctx context.Context, update func([]Cluster)) error {
		mark := func(all []Cluster) {
			all = slices.Clone(all)
			for i := range all {
				all[i].isTrusted = true
			}
			update(all)
		}
		if reader, ok := source.(kubeconfigSource); ok {
			return reader(ctx, parseTrustedKubeconfig, mark)
		}
		return source.Run(ctx, mark)
	})
}

// parseTrustedKubeconfig omits the text of the kubeconfig from the error, because it has
// credentials.
func parseTrustedKubeconfig(data []byte) (*rest.Config, error) {
	config, err := clientcmd.Load(data)
	if err != nil {
		return nil, errors.New("the kubeconfig is not valid YAML of the kind Config")
	}
	for _, cluster := range config.Clusters {
		// client-go quotes these values in its errors, with the password.
		if _, err := url.Parse(cluster.Server); err != nil {
			return nil, errors.New("kubeconfig: server is not a valid URL")
		}
		if cluster.ProxyURL == "" {
			continue
		}
		if _, err := proxyURL(cluster.ProxyURL); err != nil {
			return nil, fmt.Errorf("kubeconfig: proxy-url %w", err)
		}
	}
	got, err := clientcmd.NewDefaultClientConfig(*config, nil).ClientConfig()
	if err != nil {
		return nil, fmt.Errorf("kubeconfig: %w", err)
	}
	return got, nil
}

func proxyURL(text string) (*url.URL, error) {
	proxy, err := url.Parse(text)
	switch {
	case err != nil: // the error has the URL, with its password
		return nil, errors.New("is not a valid URL")
	case !slices.Contains([]string{"http", "https", "socks5"}, proxy.Scheme):
		return nil, errors.New("has another scheme than http, https and socks5")
	case proxy.Host == "":
		return nil, errors.New("has no host")
	}
	return proxy, nil
}

// allowedFields are the fields of a kind of object in a kubeconfig. A field with a reason is
// refused, and so is a field that is missing here. The other fields are read, or have no effect.
type allowedFields map[string]string

const (
	runsProgram  = "it runs a program of the replica"
	readsFile    = "it reads a file of the replica; write the content into the kubeconfig"
	acts         = "the replica acts only with the identity of its own credentials"
	hasPassword  = "API servers do not support passwords; use a token or a client certificate"
	refusedField = "is not allowed in the kubeconfig of a fleet"
)

var (
	fileFields = allowedFields{
		"apiVersion": "", "kind": "", "clusters": "", "users": "", "contexts": "",
		"current-context": "", "preferences": "", "extensions": "",
	}
	entryFields = map[string]allowedFields{
		"cluster": {"name": "", "cluster": ""},
		"user":    {"name": "", "user": ""},
		"context": {"name": "", "context": ""},
	}
	objectFields = map[string]allowedFields{
		"cluster": {
			"server": "", "tls-server-name": "", "certificate-authority-data": "",
			"insecure-skip-tls-verify": "", "proxy-url": "", "disable-compression": "",
			"extensions": "", "certificate-authority": readsFile,
		},
		"user": {
			"token": "", "client-certificate-data": "", "client-key-data": "", "extensions": "",
			"tokenFile": readsFile, "client-certificate": readsFile, "client-key": readsFile,
			"exec": runsProgram, "auth-provider": runsProgram, "username": hasPassword,
			"password": hasPassword, "as": acts, "as-uid": acts, "as-groups": acts,
			"as-user-extra": acts,
		},
		"context": {"cluster": "", "user": "", "namespace": "", "extensions": ""},
	}
)

// parseKubeconfig reads a kubeconfig that the owner of a cluster may have written. It opens no file
// and starts no program. Fields that could make the replica do so are refused in all users and
// clusters of the file, so that a change of current-context alone never makes the file worse. Its
// errors contain no text of the kubeconfig, which may be secret.
func parseKubeconfig(data []byte) (*rest.Config, error) {
	config, err := readKubeconfig(data)
	if err != nil {
		return nil, fmt.Errorf("kubeconfig: %w", err)
	}
	return config, nil
}

func readKubeconfig(data []byte) (*rest.Config, error) {
	if len(data) > maxKubeconfig {
		return nil, fmt.Errorf("it has more than %d bytes", maxKubeconfig)
	}
	var document yaml.Node
	decoder := yaml.NewDecoder(strings.NewReader(string(data)))
	if decoder.Decode(&document) != nil || len(document.Content) != 1 ||
		decoder.Decode(new(yaml.Node)) == nil {
		return nil, errors.New("it is not one document of valid YAML")
	}
	file, err := mapping(document.Content[0], "the file", fileFields)
	if err != nil {
		return nil, err
	}
	for key, want := range map[string]string{"kind": "Config", "apiVersion": "v1"} {
		if got, err := text(file, "", key); err != nil || got != "" && got != want {
			return nil, fmt.Errorf("%s is not %s", key, want)
		}
	}
	clusters, err := entries(file, "clusters", "cluster")
	if err != nil {
		return nil, err
	}
	users, err := entries(file, "users", "user")
	if err != nil {
		return nil, err
	}
	contexts, err := entries(file, "contexts", "context")
	if err != nil {
		return nil, err
	}
	current, err := text(file, "", "current-context")
	if err != nil {
		return nil, err
	}
	at, ok := contexts[current]
	if !ok {
		return nil, errors.New("current-context names no context")
	}
	var cluster, user entry
	for key, of := range map[string]struct {
		all   map[string]entry
		found *entry
	}{"cluster": {clusters, &cluster}, "user": {users, &user}} {
		name, err := text(at.fields, at.path, key)
		if err != nil {
			return nil, err
		}
		if *of.found, ok = of.all[name]; !ok && (key == "cluster" || name != "") {
			return nil, fmt.Errorf("%s.%s names no %s", at.path, key, key)
		}
	}
	return clientConfig(cluster, user)
}

// An entry is an element of clusters, users or contexts.
type entry struct {
	path   string
	fields map[string]*yaml.Node
}

// clientConfig reads a cluster and a user. A user may be missing.
func clientConfig(cluster, user entry) (*rest.Config, error) {
	config := &rest.Config{}
	var proxy string
	for _, of := range []struct {
		entry
		key   string
		to    *string
		limit int
	}{
		{cluster, "server", &config.Host, maxKubeconfig},
		{cluster, "tls-server-name", &config.ServerName, 253},
		{cluster, "proxy-url", &proxy, maxKubeconfig},
		{user, "token", &config.BearerToken, maxToken},
	} {
		value, err := text(of.fields, of.path, of.key)
		if err != nil {
			return nil, err
		}
		if len(value) > of.limit {
			return nil, fmt.Errorf("%s.%s has more than %d bytes", of.path, of.key, of.limit)
		}
		*of.to = value
	}
	for _, of := range []struct {
		entry
		key   string
		to    *[]byte
		limit int
	}{
		{cluster, "certificate-authority-data", &config.CAData, maxKubeconfig},
		{user, "client-certificate-data", &config.CertData, maxClientCertificate},
		{user, "client-key-data", &config.KeyData, maxClientKey},
	} {
		value, err := text(of.fields, of.path, of.key)
		if err != nil {
			return nil, err
		}
		if value == "" {
			continue
		}
		if *of.to, err = base64.StdEncoding.DecodeString(value); err != nil {
			return nil, fmt.Errorf("%s.%s is not base64", of.path, of.key)
		}
		if len(*of.to) > of.limit {
			return nil, fmt.Errorf("%s.%s has more than %d bytes", of.path, of.key, of.limit)
		}
	}
	for key, to := range map[string]*bool{
		"insecure-skip-tls-verify": &config.Insecure,
		"disable-compression":      &config.DisableCompression,
	} {
		if node := cluster.fields[key]; node != nil && node.ShortTag() != "!!null" {
			if node.Decode(to) != nil {
				return nil, fmt.Errorf("%s.%s is not true or false", cluster.path, key)
			}
		}
	}
	if proxy != "" {
		address, err := proxyURL(proxy)
		if err != nil {
			return nil, fmt.Errorf("%s.proxy-url %w", cluster.path, err)
		}
		config.Proxy = http.ProxyURL(address)
	}
	if config.Host == "" {
		return nil, fmt.Errorf("%s.server is missing", cluster.path)
	}
	return config, nil
}

// entries returns the elements of a list by their names.
func entries(file map[string]*yaml.Node, list, kind string) (map[string]entry, error) {
	all := map[string]entry{}
	node := file[list]
	if node == nil || node.ShortTag() == "!!null" {
		return all, nil
	}
	if node.Kind != yaml.SequenceNode {
		return nil, fmt.Errorf("%s is not a list", list)
	}
	for i, element := range node.Content {
		path := fmt.Sprintf("%s[%d]", list, i)
		outer, err := mapping(element, path, entryFields[kind])
		if err != nil {
			return nil, err
		}
		name, err := text(outer, path, "name")
		if err != nil {
			return nil, err
		}
		if _, twice := all[name]; twice {
			return nil, fmt.Errorf("%s has the name of an earlier one", path)
		}
		e := entry{path: path + "." + kind}
		if inner := outer[kind]; inner != nil && inner.ShortTag() != "!!null" {
			if e.fields, err = mapping(inner, e.path, objectFields[kind]); err != nil {
				return nil, err
			}
		}
		all[name] = e
	}
	return all, nil
}

// mapping returns the fields of an object. Each must be allowed, and must not be repeated. Aliases
// are refused with the other nodes that are no mappings or plain keys.
func mapping(node *yaml.Node, path string, allowed allowedFields) (map[string]*yaml.Node, error) {
	if node.Kind != yaml.MappingNode {
		return nil, fmt.Errorf("%s is not an object", path)
	}
	all := map[string]*yaml.Node{}
	for i := 0; i+1 < len(node.Content); i += 2 {
		key, value := node.Content[i], node.Content[i+1]
		why, known := allowed[key.Value]
		switch {
		case key.Kind != yaml.ScalarNode || key.ShortTag() != "!!str" || !known:
			return nil, fmt.Errorf("%s has an unknown field in line %d", path, key.Line)
		case why != "":
			return nil, fmt.Errorf("%s.%s %s: %s", path, key.Value, refusedField, why)
		case all[key.Value] != nil:
			return nil, fmt.Errorf("%s.%s is repeated in line %d", path, key.Value, key.Line)
		}
		all[key.Value] = value
	}
	return all, nil
}

// text returns a string, which is empty if it is missing.
func text(of map[string]*yaml.Node, path, key string) (string, error) {
	node := of[key]
	if node == nil || node.ShortTag() == "!!null" {
		return "", nil
	}
	if node.Kind != yaml.ScalarNode || node.ShortTag() != "!!str" {
		return "", fmt.Errorf("%s is not a string", strings.TrimPrefix(path+"."+key, "."))
	}
	return node.Value, nil
}
