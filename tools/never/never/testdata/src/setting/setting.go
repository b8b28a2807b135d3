package setting

import (
	"log"
	"log/slog"
	"os"
	"runtime"
	"runtime/debug"

	"k8s.io/klog/v2"
)

func Set() {
	os.Setenv("A", "b")   // want `setting: os.Setenv changes a setting`
	runtime.GOMAXPROCS(1) // want `setting: runtime.GOMAXPROCS`
	debug.SetGCPercent(1) // want `setting: runtime/debug.SetGCPercent`
	log.SetOutput(nil)    // want `setting: log.SetOutput`
	slog.SetDefault(nil)  // want `setting: log/slog.SetDefault`
	klog.SetLogger(nil)   // want `setting: k8s.io/klog/v2.SetLogger`
}
