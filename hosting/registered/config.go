package registered

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"github.com/fxccm/fxccm/internal/configfile"
)

// maxConfig limits the bytes that are read into the host's memory, in case --cloud-config names a
// wrong file.
const maxConfig = 4 << 20

// config is the argument of a factory.
type config struct {
	path string
	// reader is a nil interface without a file: factories compare it with nil.
	reader io.Reader
}

func (c config) String() string {
	if c.path == "" {
		return "without a configuration file"
	}
	return "from the configuration file " + c.path
}

// openConfig reads the whole file, so that errors of the file are separate from errors of its
// content. Errors name the path, and hold nothing of the content.
func openConfig(path string) (config, error) {
	if path == "" {
		return config{}, nil
	}
	content, err := readConfig(path)
	if err != nil {
		return config{}, fmt.Errorf("read the cloud provider's configuration file: %w", err)
	}
	return config{path: path, reader: bytes.NewReader(content)}, nil
}

func readConfig(path string) ([]byte, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	// Opening a pipe without a writer would hang, and its content could be read only once, not once
	// a term.
	if info.Mode()&(fs.ModeNamedPipe|fs.ModeSocket) != 0 {
		return nil, &fs.PathError{
			Op: "read", Path: path,
			Err: errors.New("it is a pipe or a socket, and cannot be read again in the next term"),
		}
	}
	return configfile.ReadUpTo(path, maxConfig)
}
