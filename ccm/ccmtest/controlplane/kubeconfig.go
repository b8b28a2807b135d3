package controlplane

import (
	"errors"
	"fmt"
	"os"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// kubeconfig returns cfg as a kubeconfig file's content. It contains certificates that cfg has as
// data, and refers to those that cfg has as files. Settings that a kubeconfig cannot express are
// omitted if they only tune the client (QPS, timeouts, user agent), and are errors otherwise.
func kubeconfig(cfg *rest.Config) ([]byte, error) {
	if cfg.Transport != nil || cfg.WrapTransport != nil || cfg.Dial != nil {
		return nil,
			errors.New(
				"write a kubeconfig: a kubeconfig can not hold the Transport, WrapTransport or Dial of a rest.Config")
	}
	const name = "controlplane"
	config := clientcmdapi.NewConfig()
	config.Clusters[name] = &clientcmdapi.Cluster{
		Server:                   cfg.Host,
		TLSServerName:            cfg.ServerName,
		InsecureSkipTLSVerify:    cfg.Insecure,
		CertificateAuthority:     cfg.CAFile,
		CertificateAuthorityData: cfg.CAData,
		DisableCompression:       cfg.DisableCompression,
	}
	config.AuthInfos[name] = &clientcmdapi.AuthInfo{
		ClientCertificate:     cfg.CertFile,
		ClientCertificateData: cfg.CertData,
		ClientKey:             cfg.KeyFile,
		ClientKeyData:         cfg.KeyData,
		Token:                 cfg.BearerToken,
		TokenFile:             cfg.BearerTokenFile,
		Username:              cfg.Username,
		Password:              cfg.Password,
		Impersonate:           cfg.Impersonate.UserName,
		ImpersonateUID:        cfg.Impersonate.UID,
		ImpersonateGroups:     cfg.Impersonate.Groups,
		ImpersonateUserExtra:  cfg.Impersonate.Extra,
		AuthProvider:          cfg.AuthProvider,
		Exec:                  cfg.ExecProvider,
	}
	config.Contexts[name] = &clientcmdapi.Context{Cluster: name, AuthInfo: name}
	config.CurrentContext = name
	data, err := clientcmd.Write(*config)
	if err != nil {
		return nil, fmt.Errorf("write a kubeconfig: %w", err)
	}
	return data, nil
}

// WriteKubeconfig writes cfg as a kubeconfig file that only the owner can read. It returns an error
// if a kubeconfig cannot express the connection or the login of cfg.
func WriteKubeconfig(path string, cfg *rest.Config) error {
	data, err := kubeconfig(cfg)
	if err != nil {
		return err
	}
	if err := os.WriteFile(path, data, 0o600); err != nil {
		return fmt.Errorf("write a kubeconfig: %w", err)
	}
	return nil
}
