package program

import (
	"os"

	"golang.org/x/sys/unix"
)

// kubeconfigPath is the first of the files that the program inherits.
const kubeconfigPath = "/proc/self/fd/3"

// memoryFile returns a file that is on no disk. It is freed when all its users have ended.
func memoryFile(name string, content []byte) (*os.File, error) {
	fd, err := unix.MemfdCreate(name, unix.MFD_CLOEXEC)
	if err != nil {
		return nil, os.NewSyscallError("memfd_create", err)
	}
	file := os.NewFile(uintptr(fd), name)
	if _, err := file.Write(content); err != nil {
		_ = file.Close()
		return nil, err
	}
	return file, nil
}
