package initfunc_test

import (
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/go-logr/logr/funcr"
	"k8s.io/klog/v2"

	"github.com/fxccm/fxccm/ccm/ccmtest/controlplane"
)

// cluster is shared by all tests of this package. Each test cleans up after itself.
var cluster *controlplane.ControlPlane

func TestMain(m *testing.M) {
	log := &keptLog{}
	klog.SetLogger(funcr.New(log.line, funcr.Options{}))
	code := controlplane.Tests{M: m, ControlPlane: &cluster}.Run()
	if code != 0 {
		log.print()
	}
	os.Exit(code)
}

// keptLog keeps klog's output, which upstream's controllers write, for failed tests.
type keptLog struct {
	mu    sync.Mutex
	lines []string
}

func (l *keptLog) line(prefix, args string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lines = append(l.lines, prefix+" "+args)
}

func (l *keptLog) print() {
	const last = 100
	l.mu.Lock()
	defer l.mu.Unlock()
	fmt.Fprintf(os.Stderr, "the last lines of klog:\n%s\n",
		strings.Join(l.lines[max(0, len(l.lines)-last):], "\n"))
}
