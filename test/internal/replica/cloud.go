//go:build linux

package replica

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/fxccm/fxccm/provider/fake"
)

// StartCloud runs a fake cloud as a process, and returns a client of it and the path of the file
// for --cloud-config.
func StartCloud(t testing.TB, dir, program string) (client *fake.Client, config string) {
	t.Helper()
	p := StartProcess(t, dir, "fakecloud", program)
	var address string
	Eventually(t, "the cloud tells its address", func() error {
		data, err := os.ReadFile(p.Log)
		if err != nil {
			return err
		}
		line, _, complete := strings.Cut(string(data), "\n")
		if !complete || !strings.HasPrefix(line, "http://") {
			return fmt.Errorf("its output is %q", data)
		}
		address = line
		return nil
	})
	config = filepath.Join(dir, "cloud.yaml")
	if err := os.WriteFile(config, []byte("endpoint: "+address+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	client, err := fake.Dial(t.Context(), address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	return client, config
}
