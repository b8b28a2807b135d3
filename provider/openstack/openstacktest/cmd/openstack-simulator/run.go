package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"

	"github.com/spf13/pflag"

	"github.com/fxccm/fxccm/provider/openstack/openstacktest"
)

// Exit codes.
const (
	exitOK    = 0
	exitError = 1
	exitUsage = 2
)

// run serves until ctx ends, and returns the exit code.
func run(ctx context.Context, arguments []string, stdout, stderr io.Writer) int {
	o := defaults()
	flags := o.flags(stderr)
	switch err := errors.Join(flags.Parse(arguments), unexpected(flags), o.check()); {
	case errors.Is(err, pflag.ErrHelp):
		return exitOK
	case err != nil:
		fmt.Fprintf(stderr, "openstack-simulator: %v\n", err)
		return exitUsage
	}
	if err := serve(ctx, o, stdout, stderr); err != nil {
		fmt.Fprintf(stderr, "openstack-simulator: %v\n", err)
		return exitError
	}
	return exitOK
}

func unexpected(flags *pflag.FlagSet) error {
	if flags.NArg() > 0 {
		return fmt.Errorf("unexpected arguments: %s", strings.Join(flags.Args(), " "))
	}
	return nil
}

func serve(ctx context.Context, o options, stdout, stderr io.Writer) error {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", o.listen)
	if err != nil {
		return err
	}
	cloud := openstacktest.NewCloud(o.ofServer(listener, stderr)...)
	defer cloud.Close()
	seeded, err := seed(cloud, o)
	if err != nil {
		return err
	}
	if _, err := io.WriteString(stdout, cloud.CloudConf(o.auth)+seeded.sections()); err != nil {
		return fmt.Errorf("write cloud.conf: %w", err)
	}
	fmt.Fprintf(stderr, "openstack-simulator: serving at %s\n", cloud.AuthURL())
	<-ctx.Done()
	return nil
}

// ofServer returns the options of the cloud.
func (o options) ofServer(listener net.Listener, stderr io.Writer) []openstacktest.Option {
	all := []openstacktest.Option{
		openstacktest.WithAdmin(), openstacktest.WithListener(listener),
		openstacktest.WithLatency(o.latency),
		openstacktest.WithPageSize(o.pageSize), openstacktest.WithProvisioning(o.provisioning),
		openstacktest.WithTokenLife(o.tokenLife), openstacktest.WithRegion(o.region),
		openstacktest.WithCallLimit(o.calls),
	}
	if o.tls {
		all = append(all, openstacktest.WithTLS())
	}
	if o.verbose {
		all = append(all, openstacktest.WithObserver(logTo(stderr)))
	}
	return all
}

// logTo returns a function that writes a line for each call. It is safe for concurrent use.
func logTo(w io.Writer) func(openstacktest.Call) {
	var mu sync.Mutex
	return func(c openstacktest.Call) {
		path := c.Path
		if c.Query != "" {
			path += "?" + c.Query
		}
		mu.Lock()
		defer mu.Unlock()
		fmt.Fprintf(w, "%s %s %d %s %s\n", c.Time.UTC().Format("15:04:05.000"), c.Operation,
			c.Status, c.Method, path)
	}
}
