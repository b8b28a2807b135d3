package main

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/spf13/pflag"
)

// options are the values of the command line's flags.
type options struct {
	listen  string
	auth    string
	verbose bool
	tls     bool

	servers  int
	networks int
	router   bool
	zones    []string

	latency      time.Duration
	provisioning time.Duration
	tokenLife    time.Duration
	pageSize     int
	region       string
	calls        int
}

// mostNetworks is the number of /16 networks in 10.0.0.0/8.
const mostNetworks = 256

func defaults() options {
	return options{
		listen: "127.0.0.1:0", auth: "password", servers: 3, networks: 1,
		router: true,
		zones:  []string{"nova"}, tokenLife: time.Hour, pageSize: 1000, region: "RegionOne",
		calls: 10_000,
	}
}

func (o *options) flags(output io.Writer) *pflag.FlagSet {
	flags := pflag.NewFlagSet("openstack-simulator", pflag.ContinueOnError)
	flags.SetOutput(output)
	flags.StringVar(&o.listen, "listen", o.listen, "address to listen on; port 0 is a free one")
	flags.StringVar(&o.auth, "auth", o.auth,
		"how the configurations log in: password, token, application-credential or trust")
	flags.BoolVar(&o.verbose, "verbose", o.verbose, "write each call to the standard error")
	flags.BoolVar(&o.tls, "tls", o.tls, "serve HTTPS; cloud.conf holds the certificate")
	flags.IntVar(&o.servers, "servers", o.servers,
		"servers to begin with, node-1 and so on, with a port in the first network each")
	flags.IntVar(&o.networks, "networks", o.networks,
		"networks to begin with, 10.0.0.0/16 and so on")
	flags.BoolVar(&o.router, "router", o.router,
		"begin with an external network and a router to it that all networks are connected to")
	flags.StringSliceVar(&o.zones, "zones", o.zones,
		"availability zones, which the servers are in by turns")
	flags.DurationVar(&o.latency, "latency", o.latency, "delay of each answer")
	flags.DurationVar(&o.provisioning, "provisioning", o.provisioning,
		"how long servers are built and load balancers pending")
	flags.DurationVar(&o.tokenLife, "token-life", o.tokenLife, "how long a token is valid")
	flags.IntVar(&o.pageSize, "page-size", o.pageSize,
		"how many items a list returns at most; 0: all")
	flags.StringVar(&o.region, "region", o.region, "name of the region")
	flags.IntVar(&o.calls, "calls", o.calls,
		"how many of the last calls are kept for /_sim/calls; 0: all")
	return flags
}

func (o *options) check() error {
	methods := []string{"password", "token", "application-credential", "trust"}
	switch {
	case !slices.Contains(methods, o.auth):
		return fmt.Errorf("--auth is %q, and must be one of %v", o.auth, methods)
	case o.networks < 0 || o.networks > mostNetworks:
		return fmt.Errorf("--networks is %d, and must be 0 to %d", o.networks, mostNetworks)
	case o.servers < 0, o.pageSize < 0, o.calls < 0, o.latency < 0, o.provisioning < 0:
		return errors.New("a number or a duration is negative")
	case o.tokenLife <= 0:
		return errors.New("--token-life must be positive")
	case len(o.zones) == 0:
		return errors.New("--zones is empty")
	}
	return nil
}
