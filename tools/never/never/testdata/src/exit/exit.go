package exit

import (
	"log"
	"os"
	"syscall"

	"k8s.io/klog/v2"
)

func Exit(l *log.Logger) {
	os.Exit(1)                    // want `exit: os.Exit ends the host's process`
	syscall.Exit(1)               // want `exit: syscall.Exit`
	log.Fatal("x")                // want `exit: log.Fatal`
	log.Panicf("x")               // want `exit: log.Panicf`
	l.Fatalln("x")                // want `exit: log.Fatalln`
	klog.Fatalf("x")              // want `exit: k8s.io/klog/v2.Fatalf`
	klog.ExitDepth(1)             // want `exit: k8s.io/klog/v2.ExitDepth`
	klog.FlushAndExit(1)          // want `exit: k8s.io/klog/v2.FlushAndExit`
	klog.OsExit(1)                // want `exit: k8s.io/klog/v2.OsExit`
	handedOn(os.Exit)             // want `exit: os.Exit`
	defer func() { os.Exit(2) }() // want `exit: os.Exit`
}

func handedOn(func(int)) {}

var atImport = func() int { os.Exit(1); return 0 }() // want `exit: os.Exit`
