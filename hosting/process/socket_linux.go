package process

import (
	"fmt"
	"net"
	"os"
	"syscall"
)

// socketPair returns two connected sockets: the host's and the child's.
func socketPair() (net.Conn, *os.File, error) {
	fds, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, fmt.Errorf("make a pair of sockets: %w", err)
	}
	own, theirs := os.NewFile(uintptr(fds[0]), "host"), os.NewFile(uintptr(fds[1]), "child")
	defer func() { _ = own.Close() }()
	conn, err := net.FileConn(own)
	if err != nil {
		_ = theirs.Close()
		return nil, nil, fmt.Errorf("use a pair of sockets: %w", err)
	}
	return conn, theirs, nil
}

// inherited returns the child's socket, and hides it from processes that the child starts.
func inherited() (net.Conn, error) {
	file := os.NewFile(3, "host")
	defer func() { _ = file.Close() }()
	return net.FileConn(file)
}

// killOwnGroup kills this process, which leads a group, and all others in the group.
func killOwnGroup() {
	if syscall.Getpgrp() == os.Getpid() {
		_ = syscall.Kill(0, syscall.SIGKILL)
	}
}
