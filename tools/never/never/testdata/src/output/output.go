package output

import (
	"fmt"
	"io"
	"log"
	"log/slog"
	"os"

	"k8s.io/klog/v2"
)

var _ = fmt.Sprint("x")

func Print(w io.Writer) {
	fmt.Print("x")              // want `output: fmt.Print prints`
	fmt.Println("x")            // want `output: fmt.Println`
	fmt.Printf("x")             // want `output: fmt.Printf`
	fmt.Fprintln(os.Stdout)     // want `output: os.Stdout`
	_, _ = os.Stderr.Write(nil) // want `output: os.Stderr`
	log.Println("x")            // want `output: log.Println`
	slog.Info("x")              // want `output: log/slog.Info logs past the logger`
	klog.InfoS("x")             // want `output: k8s.io/klog/v2.InfoS`
	println("x")                // want `output: println`
	print("x")                  // want `output: print`
	fmt.Fprintln(w, "x")
	_ = klog.Background()
}
