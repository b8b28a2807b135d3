package openstack_test

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
)

// journal records log output. It is safe for concurrent use.
type journal struct {
	mu   sync.Mutex
	text bytes.Buffer
}

// Write implements io.Writer.
func (j *journal) Write(text []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.text.Write(text)
}

// logger writes everything to the journal, including each request to OpenStack.
func (j *journal) logger() logr.Logger {
	return funcr.New(func(prefix, args string) {
		fmt.Fprintln(j, prefix, args)
	}, funcr.Options{Verbosity: 6, LogTimestamp: true})
}

func (j *journal) size() int {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.text.Len()
}

// since is the output after the first size bytes.
func (j *journal) since(size int) string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return string(j.text.Bytes()[size:])
}

func (j *journal) String() string { return j.since(0) }

// linesWith are the lines that contain all of the texts.
func (j *journal) linesWith(texts ...string) []string {
	return slices.DeleteFunc(strings.Split(j.String(), "\n"), func(line string) bool {
		return slices.ContainsFunc(texts,
			func(text string) bool { return !strings.Contains(line, text) })
	})
}

// end is the last part of a text, for the output of a failed test.
func end(text string) string {
	const most = 8 << 10
	return text[max(0, len(text)-most):]
}
