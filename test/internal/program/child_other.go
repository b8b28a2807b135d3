//go:build !linux

package program

import "syscall"

func childAttributes() *syscall.SysProcAttr { return nil }
