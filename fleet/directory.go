package fleet

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/fxccm/fxccm/internal/configfile"
)

// directoryPeriod is how often a [Directory] is read.
const directoryPeriod = 2 * time.Second

// The files of a cluster.
const (
	kubeconfigFile  = "kubeconfig"
	cloudConfigFile = "cloud.conf"
)

// Directory is a [Source] that reads a folder for each cluster, with the file "kubeconfig" and
// optionally the file "cloud.conf". The folder's name is the cluster's. Folders whose names begin
// with a dot are not clusters. The source sees changes within seconds, also if a folder is a
// mounted Secret. A kubeconfig must contain its credentials. If the source is [Trusted], it may
// also name them by absolute paths.
//
// A cluster whose folder is deleted leaves the fleet. If the directory cannot be read, the source
// fails and the fleet keeps its clusters.
func Directory(path string) Source {
	return kubeconfigSource(func(
		ctx context.Context, parse parser, update func([]Cluster),
	) error {
		reader := directory{
			path: path, parse: parse, last: map[string]Cluster{}, seen: map[string][2][]byte{},
		}
		var told []Cluster
		for {
			clusters, changed, err := reader.read()
			if err != nil {
				return err
			}
			if changed || told == nil {
				told = clusters
				update(clusters)
			}
			select {
			case <-time.After(directoryPeriod):
			case <-ctx.Done():
				return nil
			}
		}
	})
}

// directory caches the files that it has read, so that an unchanged file is not parsed again.
type directory struct {
	path  string
	parse parser
	last  map[string]Cluster
	seen  map[string][2][]byte
}

func (d *directory) read() (clusters []Cluster, changed bool, err error) {
	entries, err := os.ReadDir(d.path)
	if err != nil {
		return nil, false, fmt.Errorf("read the directory of clusters: %w", err)
	}
	found := map[string]bool{}
	for _, entry := range entries {
		name := entry.Name()
		folder := filepath.Join(d.path, name)
		info, err := os.Stat(folder) // a mounted Secret is a link
		if strings.HasPrefix(name, ".") || err == nil && !info.IsDir() ||
			errors.Is(err, fs.ErrNotExist) {
			continue
		}
		found[name] = true
		changed = d.readCluster(name, folder) || changed
	}
	for name := range d.last {
		if !found[name] {
			delete(d.last, name)
			delete(d.seen, name)
			changed = true
		}
	}
	for _, c := range d.last {
		clusters = append(clusters, c)
	}
	slices.SortFunc(clusters, func(a, b Cluster) int { return strings.Compare(a.Name, b.Name) })
	if clusters == nil {
		clusters = []Cluster{}
	}
	return clusters, changed, nil
}

// readCluster reads one cluster, and reports whether it has changed.
func (d *directory) readCluster(name, folder string) bool {
	kubeconfig, err := configfile.Read(filepath.Join(folder, kubeconfigFile))
	var cloud []byte
	if err == nil {
		cloud, err = configfile.Read(filepath.Join(folder, cloudConfigFile))
		if errors.Is(err, fs.ErrNotExist) {
			err = nil
		}
	}
	last, known := d.last[name]
	if err != nil {
		cluster := Cluster{Name: name, Err: err}
		d.last[name] = cluster
		delete(d.seen, name)
		return !known || last.Err == nil || last.Err.Error() != err.Error()
	}
	content := [2][]byte{kubeconfig, cloud}
	if seen, ok := d.seen[name]; ok && bytes.Equal(seen[0], kubeconfig) &&
		bytes.Equal(seen[1], cloud) {
		return false
	}
	d.seen[name] = content
	cluster := Cluster{Name: name, CloudConfig: cloud}
	cluster.RESTConfig, cluster.Err = d.parse(kubeconfig)
	d.last[name] = cluster
	return true
}
