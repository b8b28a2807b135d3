package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/fxccm/fxccm/test/internal/project"
)

// labScenario needs a real OpenStack, which not every machine has.
const labScenario = "lab"

// labLimit is how many times as long as other trials that on the lab may take: it measures one
// thing after the other, on servers that are made once.
const labLimit = 4

// A labResult is what was measured on the real OpenStack, and of what.
type labResult struct {
	packages []string
	figures  []labFigure
}

// labFolder is that of the lab; "" if none is named.
func labFolder() string { return os.Getenv(project.LabVariable) }

// findLab is an error unless the lab is up.
func findLab(ctx context.Context) error {
	folder := labFolder()
	if folder == "" {
		return fmt.Errorf("no lab is named by %s; `make openstack-lab` brings one up",
			project.LabVariable)
	}
	text, err := os.ReadFile(filepath.Join(folder, "lab.json"))
	if err != nil {
		return fmt.Errorf("there is no lab in %s; `make openstack-lab` brings one up: %w", folder,
			err)
	}
	var lab struct {
		AuthURL string `json:"auth_url"`
	}
	if err := json.Unmarshal(text, &lab); err != nil {
		return fmt.Errorf("read the lab's address: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, lab.AuthURL, nil)
	if err != nil {
		return fmt.Errorf("read the lab's address: %w", err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return fmt.Errorf("the lab in %s is not up; `make openstack-lab` brings it up: %w", folder,
			err)
	}
	defer func() { _ = resp.Body.Close() }()
	_, _ = io.Copy(io.Discard, resp.Body)
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf(
			"the lab in %s is not well: Keystone says %s; `make openstack-lab-down openstack-lab` starts it again", folder, resp.Status)
	}
	return nil
}

// labPackages are those whose versions tell what OpenStack this is.
func labPackages() []string {
	return []string{
		"python3-keystone", "python3-nova", "python3-neutron", "python3-octavia",
		"mariadb-server", "rabbitmq-server",
	}
}

func describeLab(ctx context.Context) ([]string, error) {
	args := append([]string{"-W", "-f", "${Package} ${Version}\n"}, labPackages()...)
	out, err := exec.CommandContext(ctx, "dpkg-query", args...).Output()
	if err != nil {
		return nil, fmt.Errorf("ask dpkg for the versions of OpenStack: %w", err)
	}
	return strings.Split(strings.TrimSpace(string(out)), "\n"), nil
}

// measureLab measures whole fxccm on a real OpenStack, in a project that is made for that, and
// deleted with all that is in it.
func measureLab(ctx context.Context, b *bench) error {
	packages, err := describeLab(ctx)
	if err != nil {
		return err
	}
	b.results.lab = &labResult{packages: packages}
	return attemptTo(ctx, func(a *attempt) error {
		cloud := newLabCloud(a, b)
		a.Cleanup(func() { b.progress.say("lab: deleting all that is in the project") })
		return b.trialWithin(ctx, labLimit*b.settings.limit, 0,
			func(ctx context.Context, t *trial) error {
				l := &labTrial{trial: t, cloud: cloud}
				for _, measure := range l.measures() {
					if err := measure(ctx); err != nil {
						if cause := context.Cause(ctx); cause != nil {
							// A process has died, or there was no more time, and what was under way
							// only says that it was broken off.
							err = fmt.Errorf("%w: %w", err, cause)
						}
						return fmt.Errorf("%s: %w", t.title, err)
					}
				}
				return nil
			})
	})
}
