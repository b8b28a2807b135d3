package registered

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
)

// maxConfig bounds what is read into the host's memory if --cloud-config names some other file, in
// bytes.
const maxConfig = 4 << 20

// config is what a factory is given.
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

// openConfig reads the file to its end, so that what may be wrong with the file is known apart from
// what may be wrong with its content. Errors name the path; they hold nothing of the content.
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
	// Opening a pipe without a writer would hang, and what is written comes once, not once a
	// term.
	if info.Mode()&(fs.ModeNamedPipe|fs.ModeSocket) != 0 {
		return nil, &fs.PathError{
			Op: "read", Path: path,
			Err: errors.New("it is a pipe or a socket, and cannot be read again in the next term"),
		}
	}
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	content, err := io.ReadAll(io.LimitReader(file, maxConfig+1))
	if err != nil {
		return nil, err
	}
	if len(content) > maxConfig {
		return nil, &fs.PathError{
			Op: "read", Path: path,
			Err: fmt.Errorf("it is larger than %d MiB", maxConfig>>20),
		}
	}
	return content, nil
}
