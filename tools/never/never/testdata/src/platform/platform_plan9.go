package platform

import (
	"fmt"
	stop "os"

	"k8s.io/klog/v2"
)

func init() {}

func Other() {
	stop.Exit(1)
	klog.Fatalf("x")
	panic("x")
	fmt.Println()
	_ = fmt.Sprint()
}
