package controlplane

import (
	"fmt"
	"os"
	"time"
)

const (
	// startTimeoutVariable is envtest's.
	startTimeoutVariable = "KUBEBUILDER_CONTROLPLANE_START_TIMEOUT"
	// defaultStartTimeout suits a machine that compiles at the same time; on an idle machine the
	// start takes three seconds.
	defaultStartTimeout = 5 * time.Minute
	// stopTimeout is how long a process may take to end after SIGTERM before it is killed.
	stopTimeout = 10 * time.Second
)

// Options configure the start of a control plane. The zero value is valid.
type Options struct {
	// APIServerArgs are appended to kube-apiserver's command line: a flag with one value overrides
	// the one of this package, a flag with a list adds to it. Example:
	// "--feature-gates=WatchList=false".
	APIServerArgs []string

	// DisableAudit switches the audit log off. [ControlPlane.Audit] then returns errors.
	DisableAudit bool

	// LogDir is the folder of kube-apiserver.log, etcd.log and audit.log. It is created if missing,
	// and stays when the control plane is stopped. Use each folder for one control plane, because
	// existing logs are appended to. Empty means a folder that is removed with the control plane.
	LogDir string

	// StartTimeout limits each start of the control plane or of one process. Zero means the
	// duration in KUBEBUILDER_CONTROLPLANE_START_TIMEOUT, as with envtest of controller-runtime, or
	// five minutes if it is not set.
	StartTimeout time.Duration
}

func (o Options) startTimeout() (time.Duration, error) {
	if o.StartTimeout != 0 {
		return o.StartTimeout, nil
	}
	text := os.Getenv(startTimeoutVariable)
	if text == "" {
		return defaultStartTimeout, nil
	}
	timeout, err := time.ParseDuration(text)
	if err != nil || timeout <= 0 {
		return 0, fmt.Errorf("%s is %q: want a positive duration, such as 90s",
			startTimeoutVariable, text)
	}
	return timeout, nil
}
