// Envtest downloads kube-apiserver and etcd into a folder, from the index of releases that
// controller-runtime's envtest uses. It verifies the checksum from the index.
//
//	envtest VERSION FOLDER
//
// It takes the newest patch release of VERSION's minor version. ENVTEST_INDEX is the URL of another
// index; "none" disables the download. tools/controlplane/build.sh builds both programs if the
// download fails.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"time"

	"github.com/go-logr/logr"
	"sigs.k8s.io/controller-runtime/tools/setup-envtest/remote"
	"sigs.k8s.io/controller-runtime/tools/setup-envtest/store"
	"sigs.k8s.io/controller-runtime/tools/setup-envtest/versions"
)

const (
	// indexTimeout is short, because behind a firewall the index never answers.
	indexTimeout    = 10 * time.Second
	downloadTimeout = 5 * time.Minute
)

var programs = []string{"kube-apiserver", "etcd"}

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "envtest: want a version and a folder")
		os.Exit(2)
	}
	index := os.Getenv("ENVTEST_INDEX")
	if err := download(context.Background(), index, os.Args[1], os.Args[2], os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, "envtest:", err)
		os.Exit(1)
	}
}

func download(ctx context.Context, index, version, dir string, progress io.Writer) error {
	if index == "none" {
		return errors.New("ENVTEST_INDEX=none")
	}
	ctx = logr.NewContext(ctx, logr.Discard())
	client := &remote.HTTPClient{Log: logr.Discard(), IndexURL: index}
	item, err := newest(ctx, client, version)
	if err != nil {
		return err
	}
	temporary, err := os.MkdirTemp("", "fxccm-envtest-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(temporary)
	archive, err := os.Create(filepath.Join(temporary, "archive"))
	if err != nil {
		return err
	}
	defer archive.Close()
	ctx, cancel := context.WithTimeout(ctx, downloadTimeout)
	defer cancel()
	begin := time.Now()
	out := &counter{to: archive, progress: progress, name: item.ArchiveName(item.version)}
	if err := client.GetVersion(ctx, item.version, item.PlatformItem, out); err != nil {
		return err
	}
	if _, err := archive.Seek(0, io.SeekStart); err != nil {
		return err
	}
	unpacked := store.NewAt(temporary)
	if err := unpacked.Initialize(ctx); err != nil {
		return err
	}
	at := store.Item{Version: item.version, Platform: item.Platform}
	if err := unpacked.Add(ctx, at, archive); err != nil {
		return err
	}
	folder, err := unpacked.Path(at)
	if err != nil {
		return err
	}
	for _, name := range programs {
		if err := install(filepath.Join(folder, name), filepath.Join(dir, name)); err != nil {
			return fmt.Errorf("%s: %w", out.name, err)
		}
	}
	fmt.Fprintf(progress, "envtest: downloaded %s (%d MiB) in %s\n", out.name, out.n>>20,
		time.Since(begin).Round(time.Second))
	return nil
}

type release struct {
	version versions.Concrete
	versions.PlatformItem
}

// newest returns the release for this platform with the same minor version and the highest patch.
func newest(ctx context.Context, client *remote.HTTPClient, version string) (release, error) {
	spec, err := versions.FromExpr(version)
	if err != nil {
		return release{}, fmt.Errorf("version %q: %w", version, err)
	}
	wanted := spec.AsConcrete()
	if wanted == nil {
		return release{}, fmt.Errorf("version %q: want one like 1.2.3", version)
	}
	ctx, cancel := context.WithTimeout(ctx, indexTimeout)
	defer cancel()
	sets, err := client.ListVersions(ctx) // the newest first
	if err != nil {
		return release{}, err
	}
	for _, set := range sets {
		if set.Version.Major != wanted.Major || set.Version.Minor != wanted.Minor {
			continue
		}
		i := slices.IndexFunc(set.Platforms, func(p versions.PlatformItem) bool {
			return p.OS == runtime.GOOS && p.Arch == runtime.GOARCH
		})
		if i >= 0 && set.Platforms[i].Hash != nil && set.Platforms[i].Hash.Value != "" {
			return release{set.Version, set.Platforms[i]}, nil
		}
	}
	return release{}, fmt.Errorf("the index has no release %d.%d for %s/%s", wanted.Major,
		wanted.Minor, runtime.GOOS, runtime.GOARCH)
}

// install copies a program so that a control plane that runs the old file is not disturbed.
func install(from, to string) error {
	source, err := os.Open(from)
	if err != nil {
		return err
	}
	defer source.Close()
	target, err := os.CreateTemp(filepath.Dir(to), "."+filepath.Base(to)+"-")
	if err != nil {
		return err
	}
	defer os.Remove(target.Name()) // no effect after the rename
	_, err = io.Copy(target, source)
	if closeErr := target.Close(); err == nil {
		err = closeErr
	}
	if err != nil {
		return err
	}
	if err := os.Chmod(target.Name(), 0o755); err != nil {
		return err
	}
	return os.Rename(target.Name(), to)
}

// counter reports how much has been written, every 20 MiB.
type counter struct {
	to       io.Writer
	progress io.Writer
	name     string
	n        int64
}

func (c *counter) Write(p []byte) (int, error) {
	n, err := c.to.Write(p)
	const step = 20 << 20
	if before := c.n; (before+int64(n))/step > before/step {
		fmt.Fprintf(c.progress, "envtest: %s: %d MiB\n", c.name, (before+int64(n))>>20)
	}
	c.n += int64(n)
	return n, err
}
