package controlplane

import (
	"cmp"
	"time"
)

const (
	// defaultStartTimeout is for a machine that compiles at the same time; an idle one takes three
	// seconds.
	defaultStartTimeout = 90 * time.Second
	// stopTimeout is how long a process may take to end after SIGTERM before it is killed.
	stopTimeout = 10 * time.Second
)

// Options say how a control plane is started. The zero value is a good one.
type Options struct {
	// APIServerArgs are added to kube-apiserver's command line, after those of this package: a flag
	// that takes one value overrides ours, a flag that takes a list adds to ours. Example:
	// "--feature-gates=WatchList=false".
	APIServerArgs []string

	// DisableAudit switches the audit log off. [ControlPlane.Audit] then answers with an error.
	DisableAudit bool

	// LogDir is where kube-apiserver.log, etcd.log and audit.log are written; it is made if
	// missing, and stays when the control plane is stopped. Logs of earlier control planes in it
	// are appended to, so a folder serves one control plane. Empty means a folder that is removed
	// with the control plane.
	LogDir string

	// StartTimeout bounds a start, of the whole or of one process again. Zero means 90 seconds.
	StartTimeout time.Duration
}

func (o Options) startTimeout() time.Duration { return cmp.Or(o.StartTimeout, defaultStartTimeout) }
