package client

import (
	"context"
	"crypto/sha256"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/utils/clock"

	"github.com/fxccm/fxccm/internal/rescue"
	"github.com/fxccm/fxccm/provider/openstack/cloudconf"
)

const (
	// Files are looked at, instead of waiting to be told: a Secret that is mounted changes by a link to another directory, which a
	// watch of the file does not see.
	watchEvery = 10 * time.Second
	// What is in the files and does not do is tried again all the same, since it may have been OpenStack that was not ready for it. The
	// pauses double up to the longest: a login that is refused too often may lock the user.
	longestWatchPause = 5 * time.Minute
)

// watch takes over the configuration when the files have changed.
type watch struct {
	clients *Clients
	clock   clock.Clock
	logger  logr.Logger

	// seen is what is in use.
	seen string
	// refused is what did not do, the last time of tries, and is not tried again before notUntil.
	refused  string
	tries    int
	notUntil time.Time
}

func (w *watch) run(ctx context.Context) {
	for pause(ctx, w.clock, watchEvery) == nil {
		err := rescue.Panic(func() error {
			w.look(ctx)
			return nil
		})
		if err != nil {
			w.logger.Error(err, "look at the configuration of OpenStack")
		}
	}
}

func (w *watch) look(ctx context.Context) {
	// It is taken before the files are read: what changes in between is found the next time.
	found := fingerprint(watched(w.clients.options, w.clients.configuration()))
	if found == w.seen {
		w.refused = ""
		return
	}
	// With nobody logged in there is nothing to lose, and nothing is asked of Keystone here.
	if found == w.refused && w.clock.Now().Before(w.notUntil) && w.clients.loggedIn() {
		return
	}
	err := w.clients.reload(ctx)
	switch {
	case err == nil:
		w.seen, w.refused = found, ""
		w.logger.Info("new configuration of OpenStack is in use")
	case ctx.Err() == nil:
		w.refuse(found, err)
	}
}

func (w *watch) refuse(found string, err error) {
	if found != w.refused {
		w.refused, w.tries = found, 0
	}
	wait := backoff(watchEvery, longestWatchPause, w.tries, 1)
	w.tries++
	w.notUntil = w.clock.Now().Add(wait)
	w.logger.Error(err, "new configuration of OpenStack does not do; the one before stays in use", "triedAgainIn", wait)
}

func (c *Clients) configuration() cloudconf.Config {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.current.config
}

// reload makes a new generation. If somebody is logged in, the new one must be able to log in as well before it is used.
func (c *Clients) reload(ctx context.Context) error {
	cfg := c.configuration()
	if c.options.Reload != nil {
		var err error
		if cfg, err = c.options.Reload(ctx); err != nil {
			return fmt.Errorf("read the configuration: %w", err)
		}
	}
	next, err := newGeneration(cfg, c.options)
	if err != nil {
		return err
	}
	if c.loggedIn() {
		if _, err := next.session.identity(ctx, nil); err != nil {
			c.retire(next)
			return err
		}
	}
	c.replace(next)
	return nil
}

func (c *Clients) loggedIn() bool {
	c.mu.Lock()
	now := c.current
	c.mu.Unlock()
	return now.session.loggedIn()
}

// watched are the files that matter.
func watched(o Options, cfg cloudconf.Config) []string {
	files := slices.Clone(o.Files)
	for _, file := range []string{cfg.Global.CAFile, cfg.Global.CertFile, cfg.Global.KeyFile} {
		if file != "" {
			files = append(files, file)
		}
	}
	slices.Sort(files)
	return slices.Compact(files)
}

// fingerprint differs when a file has changed, has come or has gone.
func fingerprint(files []string) string {
	hash := sha256.New()
	for _, file := range files {
		content, err := os.ReadFile(file)
		fmt.Fprintf(hash, "%q %t %d\n", file, err == nil, len(content))
		hash.Write(content)
	}
	return string(hash.Sum(nil))
}
