package klog

var OsExit = func(int) {}

func Fatalf(format string, args ...any) {}
func ExitDepth(depth int, args ...any)  {}
func FlushAndExit(code int)             {}
func InitFlags(any)                     {}
func SetLogger(any)                     {}
func InfoS(msg string, kv ...any)       {}
func Background() int                   { return 0 }
