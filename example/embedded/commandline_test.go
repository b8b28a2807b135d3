package main

import (
	"strings"
	"testing"
	"time"
)

func parsed(t *testing.T, args ...string) commandLine {
	t.Helper()
	cmd, err := parse(args)
	if err != nil {
		t.Fatalf("%q: %v", args, err)
	}
	return cmd
}

func TestLeaderElect_WithAndWithoutPrefix_AreIndependent(t *testing.T) {
	cases := map[string]struct {
		args      []string
		host, ccm bool
	}{
		"default":                   {nil, true, false},
		"the host without election": {[]string{"--leader-elect=false"}, false, false},
		"a lease each":              {[]string{"--ccm-leader-elect"}, true, true},
		"only the manager":          {[]string{"--leader-elect=false", "--ccm-leader-elect=true"}, false, true},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			cmd := parsed(t, c.args...)
			if cmd.host.election.enabled != c.host || cmd.ccm.LeaderElection.LeaderElect != c.ccm {
				t.Errorf(
					"the host elects: %t, the cloud controller manager elects: %t; want %t and %t",
					cmd.host.election.enabled, cmd.ccm.LeaderElection.LeaderElect, c.host, c.ccm)
			}
		})
	}
}

func TestRetryPeriod_WithAndWithoutPrefix_AreIndependent(t *testing.T) {
	cmd := parsed(t, "--leader-elect-retry-period=1s", "--ccm-leader-elect-retry-period=3s")
	if cmd.host.election.retryPeriod != time.Second ||
		cmd.ccm.LeaderElection.RetryPeriod.Duration != 3*time.Second {
		t.Errorf("the host has %s, the cloud controller manager %s", cmd.host.election.retryPeriod,
			cmd.ccm.LeaderElection.RetryPeriod.Duration)
	}
}

func TestBadFlags_AreNamed(t *testing.T) {
	for args, want := range map[string][]string{
		"--cluster-cidr=10.0.0.0/8":              {"unknown flag: --cluster-cidr"},
		"--ccm-cluster-cidr=10.0.0.0":            {"--ccm-cluster-cidr", "10.0.0.0"},
		"--leader-elect-renew-deadline=20s":      {"--leader-elect-lease-duration", "--leader-elect-renew-deadline (20s)"},
		"--ccm-kubeconfig=a --ccm-secure-port=1": {"--ccm-kubeconfig has no effect", "--ccm-secure-port has no effect", "--listen"},
		"--leader-elect-retry-period=0s":         {"--leader-elect-retry-period (0s)"},
		"start":                                  {`"start"`},
		"--leader-elect-lease-duration=1500ms --leader-elect-renew-deadline=1s":   {"whole seconds"},
		"--ccm-concurrent-service-syncs=0 --leader-elect-lease-duration=10s":      {"--ccm-concurrent-service-syncs", "--leader-elect-lease-duration (10s)"},
		"--ccm-feature-gates=CloudControllerManagerWebhok=true":                   {"--ccm-feature-gates", "did you mean CloudControllerManagerWebhook?"},
		"--ccm-leader-elect --ccm-leader-elect-renew-deadline=20s --listen=:8090": {"--ccm-leader-elect-lease-duration"},
	} {
		_, err := parse(strings.Fields(args))
		if err == nil {
			t.Errorf("%s is accepted", args)
			continue
		}
		for _, part := range want {
			if !strings.Contains(err.Error(), part) {
				t.Errorf("%s: the error lacks %q: %v", args, part, err)
			}
		}
	}
}

func TestIdentity_IsUniqueByDefault(t *testing.T) {
	if a, b := parsed(t).host.election.identity,
		parsed(t).host.election.identity; a == b || a == "" {
		t.Errorf("two processes are called %q and %q", a, b)
	}
}
