package openstack

import (
	"context"
	"errors"
	"maps"
	"reflect"
	"sync"

	"github.com/fxccm/fxccm/provider/openstack/cloudconf"
	"github.com/fxccm/fxccm/provider/openstack/internal/client"
)

// LiveConfig is a configuration as data. Its credentials can be replaced during a term. It is safe
// for concurrent use.
type LiveConfig struct {
	mu     sync.Mutex
	config cloudconf.Config
	// open are the clients of the current terms, with their regions.
	open map[*client.Clients]string
}

// NewLiveConfig returns a configuration for [WithLiveConfig].
func NewLiveConfig(cfg cloudconf.Config) *LiveConfig {
	return &LiveConfig{config: cfg, open: map[*client.Clients]string{}}
}

// Replace gives the current term other credentials, after a login with them. isKept is false if
// that is not possible, and a new Manager is needed: another setting differs, such as the project,
// or the term is not logged in. If Keystone refuses the new credentials, or does not answer, the
// term keeps its current ones, and Replace returns the error.
func (l *LiveConfig) Replace(ctx context.Context, next cloudconf.Config) (isKept bool, err error) {
	l.mu.Lock()
	last, open := l.config, maps.Clone(l.open)
	l.mu.Unlock()
	if !reflect.DeepEqual(withoutCredentials(last), withoutCredentials(next)) {
		return false, nil
	}
	for clients, region := range open {
		cfg, _ := next.In(region)
		err := clients.Replace(ctx, cfg)
		switch {
		case errors.Is(err, client.ErrClosed): // its term has ended
		case errors.Is(err, client.ErrCannotContinue):
			return false, nil
		case err != nil:
			return false, err
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for clients := range l.open {
		if _, isReplaced := open[clients]; !isReplaced {
			return false, nil // a term has begun with the last credentials
		}
	}
	l.config = next
	return true, nil
}

// withoutCredentials returns a configuration without the options that may change during a term.
func withoutCredentials(cfg cloudconf.Config) cloudconf.Config {
	clear := func(g *cloudconf.Global) {
		g.UserID, g.Username, g.Password = "", "", ""
		g.UserDomainID, g.UserDomainName = "", ""
		g.ApplicationCredentialID, g.ApplicationCredentialName = "", ""
		g.ApplicationCredentialSecret, g.Token = "", ""
		g.CAFile, g.CAFileContents, g.CertFile, g.KeyFile = "", "", "", ""
	}
	clear(&cfg.Global)
	cfg.Regions = maps.Clone(cfg.Regions)
	for name, region := range cfg.Regions {
		clear(&region.Global)
		cfg.Regions[name] = region
	}
	return cfg
}

func (l *LiveConfig) read() cloudconf.Config {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.config
}

// add registers the clients of a region, until they are removed. It returns false if the
// configuration has changed since it was read.
func (l *LiveConfig) add(c *client.Clients, region string, read cloudconf.Config) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !reflect.DeepEqual(l.config, read) {
		return false
	}
	l.open[c] = region
	return true
}

func (l *LiveConfig) remove(c *client.Clients) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.open, c)
}
