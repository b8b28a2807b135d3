package nodes

import (
	"errors"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
)

// The text of an error may have a field of the node, which an API server fills with megabytes.
func TestRecord_ErrorIsLong_OnlyItsBeginningIsKept(t *testing.T) {
	r := NewRecord(func(string, error) {})
	r.failed(&v1.Node{}, checking, "Failed", errors.New(strings.Repeat("x\n", 1<<20)), time.Time{})
	kept := r.Failing()[0].Message
	if len(kept) > maxText+len("...") || strings.ContainsRune(kept, '\n') {
		t.Errorf("%d bytes: %.100q", len(kept), kept)
	}
}
