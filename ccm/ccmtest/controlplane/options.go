package controlplane

import "time"

const (
	// DefaultStartTimeout is how long a start may take when [Options.StartTimeout] is zero. A start
	// takes about three seconds on an idle machine; the limit is for one that compiles at the same
	// time.
	DefaultStartTimeout = 90 * time.Second
	// DefaultStopTimeout is how long each process may take to end when [Options.StopTimeout] is
	// zero.
	DefaultStopTimeout = 10 * time.Second
)

// Options say how a control plane is started. The zero value is a good one.
type Options struct {
	// BinaryDir is the folder that holds the executables kube-apiserver and etcd. Empty means: as
	// [FindBinaries] says.
	BinaryDir string

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

	// StartTimeout bounds a start, of the whole or of one process again. Zero means
	// [DefaultStartTimeout].
	StartTimeout time.Duration

	// StopTimeout is how long each process has to end after SIGTERM before it is killed. Zero means
	// [DefaultStopTimeout].
	StopTimeout time.Duration
}

func (o Options) withDefaults() Options {
	if o.StartTimeout == 0 {
		o.StartTimeout = DefaultStartTimeout
	}
	if o.StopTimeout == 0 {
		o.StopTimeout = DefaultStopTimeout
	}
	return o
}

// Option changes one of the [Options] of [ForTest].
type Option func(*Options)

// WithAPIServerArgs adds to kube-apiserver's command line, see [Options.APIServerArgs].
func WithAPIServerArgs(args ...string) Option {
	return func(o *Options) { o.APIServerArgs = append(o.APIServerArgs, args...) }
}

// WithoutAudit switches the audit log off.
func WithoutAudit() Option {
	return func(o *Options) { o.DisableAudit = true }
}

// WithLogDir writes the logs to dir and leaves them there, see [Options.LogDir].
func WithLogDir(dir string) Option {
	return func(o *Options) { o.LogDir = dir }
}

// WithBinaryDir takes the executables from dir, see [Options.BinaryDir].
func WithBinaryDir(dir string) Option {
	return func(o *Options) { o.BinaryDir = dir }
}
