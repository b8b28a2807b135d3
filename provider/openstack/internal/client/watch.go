package client

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/fxccm/fxccm/internal/configfile"
	"github.com/fxccm/fxccm/internal/rescue"
	"github.com/fxccm/fxccm/provider/openstack/cloudconf"
)

const (
	// Files are polled: a mounted Secret changes by a link to another directory, which a watch of
	// the file does not see.
	watchEvery = 10 * time.Second
	// A refused configuration is retried, because OpenStack may not have been ready for it. The
	// pauses double up to maxWatchPause: too many failed logins may lock the user.
	maxWatchPause = 5 * time.Minute
)

// watch reloads the configuration when its files change.
type watch struct {
	clients *Clients
	options Options

	// seen is the fingerprint of the files in use.
	seen string
	// refused is the fingerprint of the files whose reload failed, and cause the text of the
	// failure. They are not retried before notUntil.
	refused, cause string
	tries          int
	notUntil       time.Time
}

func (w *watch) run(ctx context.Context) {
	for pause(ctx, w.options.Clock, watchEvery) == nil {
		err := rescue.Panic(func() error {
			w.look(ctx)
			return nil
		})
		if err != nil {
			w.options.Logger.Error(err, "Checking the configuration files of OpenStack failed")
		}
	}
}

func (w *watch) look(ctx context.Context) {
	// The fingerprint is taken before the files are read, so a change in between is found in the
	// next round.
	found := fingerprint(watched(w.options, w.clients.configuration()))
	if found == w.seen {
		w.refused = ""
		w.options.Trouble.Reload(nil)
		return
	}
	// Without a login the reload sends no request to Keystone, so it cannot lock the user.
	if found == w.refused && w.options.Clock.Now().Before(w.notUntil) && w.clients.loggedIn() {
		return
	}
	err := w.clients.reload(ctx)
	switch {
	case err == nil:
		w.seen, w.refused = found, ""
		w.options.Trouble.Reload(nil)
		w.options.Logger.Info("Reloaded the configuration of OpenStack; settings other than the " +
			"login and the connections apply from the next term on")
	case ctx.Err() == nil:
		w.refuse(found, err)
	}
}

func (w *watch) refuse(found string, err error) {
	isNew := found != w.refused || w.cause != err.Error()
	if found != w.refused {
		w.tries = 0
	}
	w.refused, w.cause = found, err.Error()
	wait := backoff(watchEvery, maxWatchPause, w.tries, 1)
	w.tries++
	w.options.Trouble.Reload(err)
	w.notUntil = w.options.Clock.Now().Add(wait)
	if isNew {
		w.options.Logger.Error(err, "Reload of the configuration of OpenStack failed; keeping the "+
			"previous configuration and retrying")
	} else {
		w.options.Logger.V(2).Info("Reload of the configuration of OpenStack failed again",
			"error", err.Error(), "retryAfter", wait.String())
	}
}

func (c *Clients) configuration() cloudconf.Config {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.current.config
}

// reload reads the configuration again.
func (c *Clients) reload(ctx context.Context) error {
	cfg := c.configuration()
	if c.options.Reload != nil {
		var err error
		if cfg, err = c.options.Reload(ctx); err != nil {
			return fmt.Errorf("read the configuration: %w", err)
		}
	}
	return c.change(ctx, cfg, false)
}

// ErrCannotContinue is the error of a configuration that Clients cannot continue with.
var ErrCannotContinue = errors.New("the clients of OpenStack cannot continue with it")

// Replace switches to another configuration after that has logged in. It must be of the same
// project, which only a login shows.
func (c *Clients) Replace(ctx context.Context, cfg cloudconf.Config) error {
	c.mu.Lock()
	if c.closing.Err() != nil {
		c.mu.Unlock()
		return ErrClosed
	}
	c.watcher.Add(1) // Close waits
	c.mu.Unlock()
	defer c.watcher.Done()
	ctx, done := c.untilClosed(ctx)
	defer done()
	return c.change(ctx, cfg, true)
}

// change creates a new generation. If the current one is logged in, the new one must log in before
// it is used.
func (c *Clients) change(ctx context.Context, cfg cloudconf.Config, keepsProject bool) error {
	c.changing.Lock()
	defer c.changing.Unlock()
	c.mu.Lock()
	before := c.current.session.known(nil)
	c.mu.Unlock()
	if before == nil && keepsProject {
		return ErrCannotContinue
	}
	next, err := newGeneration(cfg, c.options)
	if err != nil {
		return err
	}
	if before != nil {
		after, err := c.identity(ctx, next, nil)
		if err == nil && keepsProject && after.project != before.project {
			err = ErrCannotContinue
		}
		if err != nil {
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

// watched are the files that are polled.
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

// fingerprint changes when a file changes, appears or disappears.
func fingerprint(files []string) string {
	hash := sha256.New()
	for _, file := range files {
		content, err := configfile.Read(file)
		fmt.Fprintf(hash, "%q %t %d\n", file, err == nil, len(content))
		hash.Write(content)
	}
	return string(hash.Sum(nil))
}
