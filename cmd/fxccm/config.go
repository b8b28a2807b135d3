package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"sigs.k8s.io/yaml"

	"github.com/fxccm/fxccm/cmd/fxccm/cli"
	"github.com/fxccm/fxccm/internal/configfile"
	"github.com/fxccm/fxccm/provider/openstack"
	"github.com/fxccm/fxccm/provider/openstack/cloudconf"
)

const configCheckAbout = `Check a cloud.conf, or each cloud of a clouds.yaml, without a cluster. With --login, also log in to OpenStack and send
one read request to each service that fxccm needs. The command changes nothing.

The exit code is 1 if fxccm would refuse the file, or if a login or a service fails.`

const configCheckExample = `  fxccm config check cloud.conf
  fxccm config check clouds.yaml --cloud=prod --login`

// loginTimeout limits the login and the requests for a cloud.
const loginTimeout = time.Minute

// configLine is the command line of "fxccm config check".
type configLine struct {
	cli.Output
	cloud         string
	strict, login bool
}

func newConfigCommand() *cobra.Command {
	l := &configLine{}
	check := &cobra.Command{
		Use: "check FILE", Short: "Check a cloud.conf or clouds.yaml, without a cluster",
		Long: configCheckAbout, Example: configCheckExample, DisableFlagsInUseLine: true,
		ValidArgsFunction: files("conf", "ini", "yaml", "yml"),
		RunE: cli.UntilSignal(func(ctx context.Context, cmd *cobra.Command, args []string) error {
			if len(args) != 1 {
				return cli.Usagef("want one file, got %q", args)
			}
			if err := l.Check(); err != nil {
				return err
			}
			return l.run(ctx, args[0], cmd.OutOrStdout())
		}),
	}
	set := check.Flags()
	set.BoolVar(&l.login, "login", false, "Log in, and ask each service.")
	set.BoolVar(&l.strict, "cloud-config-strict", true,
		"Unknown keys and probable mistakes are errors.")
	set.StringVar(&l.cloud, "cloud", "",
		"A cloud of a clouds.yaml. Empty: each one.")
	l.AddFlag(set, "text")
	return cli.Group("config", "Check the configuration of a cloud",
		"Check the configuration of a cloud.", check)
}

// checkedFile is the result of "fxccm config check".
type checkedFile struct {
	File string `json:"file"`
	Kind string `json:"kind"`
	// Valid: fxccm accepts each of the clouds. It says nothing about logins and services.
	Valid  bool           `json:"valid"`
	Clouds []checkedCloud `json:"clouds"`
}

// checkedCloud is a cloud of a clouds.yaml, or the one of a cloud.conf.
type checkedCloud struct {
	// Name is "" for a cloud.conf.
	Name     string   `json:"name,omitempty"`
	Valid    bool     `json:"valid"`
	Errors   []string `json:"errors,omitempty"`
	Warnings []string `json:"warnings,omitempty"`
	// Services are empty without --login.
	Services []checkedService `json:"services,omitempty"`
}

type checkedService struct {
	Region  string `json:"region,omitempty"`
	Service string `json:"service"`
	Error   string `json:"error,omitempty"`
}

func (l *configLine) run(ctx context.Context, path string, stdout io.Writer) error {
	content, err := configfile.Read(path)
	if err != nil {
		return err
	}
	result := checkedFile{File: path, Kind: "cloud.conf"}
	options := cloudconf.Options{Strict: l.strict, Path: path, Environment: os.Getenv}
	if names, isYAML := cloudsOf(content); isYAML {
		result.Kind = "clouds.yaml"
		if l.cloud != "" {
			isBroken := slices.Equal(names, []string{""})
			if !isBroken && !slices.Contains(names, l.cloud) {
				return fmt.Errorf("--cloud=%s: %s has only %s", l.cloud, path,
					strings.Join(names, ", "))
			}
			names = []string{l.cloud}
		}
		for _, name := range names {
			options.Path = ""
			options.ReadFile = func(file string) ([]byte, error) {
				if file == path { // a pipe can be read only once
					return content, nil
				}
				return configfile.Read(file)
			}
			options.Environment = func(variable string) string {
				return map[string]string{
					"OS_CLIENT_CONFIG_FILE": path, "OS_CLOUD": name,
				}[variable]
			}
			result.Clouds = append(result.Clouds,
				l.check(ctx, name, []byte("[Global]\nuse-clouds = true\n"), options))
		}
	} else {
		if l.cloud != "" {
			return fmt.Errorf("--cloud is for a clouds.yaml; %s has no clouds", path)
		}
		result.Clouds = []checkedCloud{l.check(ctx, "", content, options)}
	}
	result.Valid = len(result.Clouds) > 0 &&
		!slices.ContainsFunc(result.Clouds, func(c checkedCloud) bool { return !c.Valid })
	if err := l.Print(stdout, result, result.writeText); err != nil {
		return err
	}
	if !result.Valid || slices.ContainsFunc(result.Clouds, checkedCloud.hasFailed) {
		return &cli.ExitError{Code: exitFailed}
	}
	return nil
}

// cloudsOf returns the names of the clouds of a clouds.yaml: one without a name if it is not valid
// YAML, whose error cloudconf reports.
func cloudsOf(content []byte) (names []string, isYAML bool) {
	var file struct {
		Clouds map[string]any `json:"clouds"`
	}
	looksRight := regexp.MustCompile(`(?m)\A(---|#.*|\s)*^["']?clouds["']?\s*:`)
	err := yaml.Unmarshal(content, &file)
	switch {
	case err != nil && looksRight.Match(content):
		return []string{""}, true
	case err != nil || file.Clouds == nil:
		return nil, false
	}
	return slices.Sorted(maps.Keys(file.Clouds)), true
}

func (l *configLine) check(
	ctx context.Context, name string, content []byte, options cloudconf.Options,
) checkedCloud {
	cloud := checkedCloud{Name: name}
	loaded, err := cloudconf.Read(content, options)
	for _, warning := range loaded.Warnings {
		cloud.Warnings = append(cloud.Warnings, warning.String())
	}
	var problems cloudconf.Problems
	switch {
	case errors.As(err, &problems):
		cloud.Errors = strings.Split(problems.Error(), "\n") // it limits them
	case err != nil:
		cloud.Errors = []string{err.Error()}
	default:
		cloud.Valid = true
		if l.login {
			cloud.logIn(ctx, loaded.Config)
		}
	}
	return cloud
}

func (c *checkedCloud) logIn(ctx context.Context, config cloudconf.Config) {
	ctx, cancel := context.WithTimeout(ctx, loginTimeout)
	defer cancel()
	services, err := openstack.CheckAccess(ctx, config)
	keystone := checkedService{Service: "Keystone"}
	if err != nil {
		keystone.Error = err.Error()
	}
	c.Services = []checkedService{keystone}
	for _, s := range services {
		checked := checkedService{Region: s.Region, Service: s.Service}
		if s.Err != nil {
			checked.Error = s.Err.Error()
		}
		c.Services = append(c.Services, checked)
	}
}

// hasFailed reports whether the login or a service failed.
func (c checkedCloud) hasFailed() bool {
	return slices.ContainsFunc(c.Services, func(s checkedService) bool { return s.Error != "" })
}

// writeText writes a line for each problem and service, and a verdict for each cloud.
func (f checkedFile) writeText(out io.Writer) error {
	if len(f.Clouds) == 0 {
		_, err := fmt.Fprintf(out, "%s has no clouds\n", f.File)
		return err
	}
	for _, c := range f.Clouds {
		subject := f.File
		if c.Name != "" {
			subject += ", cloud " + c.Name
		}
		for _, text := range c.Errors {
			_, _ = fmt.Fprintf(out, "error: %s\n", text)
		}
		for _, text := range c.Warnings {
			_, _ = fmt.Fprintf(out, "warning: %s\n", text)
		}
		for _, s := range c.Services {
			region := ""
			if s.Region != "" {
				region = " in region " + s.Region
			}
			if s.Error != "" { // it begins with the name of the service
				_, _ = fmt.Fprintf(out, "error%s: %s\n", region, s.Error)
			} else {
				_, _ = fmt.Fprintf(out, "%s answers%s\n", s.Service, region)
			}
		}
		verdict := "valid"
		switch {
		case !c.Valid:
			verdict = "refused"
		case c.hasFailed():
			verdict = "valid, but not all services answer"
		}
		if _, err := fmt.Fprintf(out, "%s: %s\n", subject, verdict); err != nil {
			return err
		}
	}
	return nil
}
