package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/fxccm/fxccm/ccm/ccmtest/controlplane"
)

// bench is what all trials share.
type bench struct {
	settings settings
	cluster  *cluster
	cloud    *cloudServer
	versions versions
	results  *results
	progress *progress

	// dir holds logs and the two files that candidates are configured with.
	dir                     string
	kubeconfig, cloudConfig string
}

// open starts the control plane and the cloud.
func open(ctx context.Context, s settings) (_ *bench, err error) {
	if err := checkPrograms(s.programs); err != nil {
		return nil, err
	}
	b := &bench{settings: s, results: newResults(), progress: newProgress(os.Stdout)}
	defer func() {
		if err != nil {
			err = errors.Join(err, b.close())
		}
	}()
	b.progress.say("starting etcd and kube-apiserver")
	if b.cluster, err = startCluster(ctx); err != nil {
		return b, err
	}
	if b.cloud, err = serveCloud(); err != nil {
		return b, err
	}
	if b.versions, err = describeVersions(ctx, b.cluster.client.Discovery()); err != nil {
		return b, err
	}
	return b, b.writeFiles()
}

func (b *bench) writeFiles() (err error) {
	if b.dir, err = os.MkdirTemp("", "fxccm-bench-"); err != nil {
		return fmt.Errorf("make a folder for the logs: %w", err)
	}
	b.kubeconfig, b.cloudConfig = filepath.Join(b.dir, "kubeconfig"),
		filepath.Join(b.dir, "cloud.conf")
	account, err := b.cluster.account()
	if err != nil {
		return err
	}
	if err := controlplane.WriteKubeconfig(b.kubeconfig, account); err != nil {
		return err
	}
	if err := os.WriteFile(b.cloudConfig, []byte(b.cloud.address+"\n"), 0o600); err != nil {
		return fmt.Errorf("write the address of the cloud: %w", err)
	}
	return nil
}

func (b *bench) close() (err error) {
	if b.cloud != nil {
		err = b.cloud.close()
	}
	if b.cluster != nil {
		err = errors.Join(err, b.cluster.close())
	}
	if b.dir != "" {
		err = errors.Join(err, os.RemoveAll(b.dir))
	}
	return err
}
