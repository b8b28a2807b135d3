package cloudconf

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/go-logr/logr/funcr"
	"go.yaml.in/yaml/v3"
)

func TestSecret_IsNotPrinted(t *testing.T) {
	t.Parallel()
	c := Config{Global: Global{Username: "ccm", Password: "hunter2", Token: "hunter2"}}
	var out bytes.Buffer
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q"} {
		fmt.Fprintf(&out, verb+"\n", c)
		fmt.Fprintf(&out, verb+"\n", &c)
		fmt.Fprintf(&out, verb+"\n", c.Global.Password)
	}
	for _, encode := range []func(any) ([]byte, error){json.Marshal, yaml.Marshal} {
		text, err := encode(c)
		if err != nil {
			t.Fatal(err)
		}
		out.Write(text)
	}
	slog.New(slog.NewTextHandler(&out, nil)).
		Info("read", "config", c, "password", c.Global.Password)
	slog.New(slog.NewJSONHandler(&out, nil)).
		Info("read", "config", c, "password", c.Global.Password)
	funcr.New(func(_, args string) {
		out.WriteString(args)
	}, funcr.Options{}).Info("read", "config", c, "password", c.Global.Password)
	if got := out.String(); strings.Contains(got, "hunter2") || !strings.Contains(got, "ccm") {
		t.Errorf("the output is %s", got)
	}
}
