package printable_test

import (
	"strings"
	"testing"

	"github.com/fxccm/fxccm/internal/printable"
)

func TestText_AnyText_IsShortAndPrintable(t *testing.T) {
	for text, want := range map[string]string{
		"":                       "",
		"four":                   "four",
		"fives":                  "five...",
		"a\x1b[m":                "a [m",
		"a\u009b\n\xff":          "a  \uFFFD",
		"ü🙂ß€":                   "ü🙂ß€",
		strings.Repeat("€", 1e6): "€€€€...",
	} {
		if got := printable.Text(text, 4); got != want {
			t.Errorf("%.10q becomes %q, want %q", text, got, want)
		}
	}
}

func TestWithoutIDs_FailuresOfOneCause_AreEqual(t *testing.T) {
	for _, each := range [][2]string{
		{
			"403 Forbidden: no permission (request 1b206dd1f9a811e5becf051c60f11c4a)",
			"403 Forbidden: no permission (request 8e02a4577be14c7d9e3f6a0b5c4d3e2f)",
		},
		{
			"https response error StatusCode: 403, RequestID: 1b206dd1-f9a8-11e5-becf-051c60f11c4a, x",
			"https response error StatusCode: 403, RequestID: 8e02a457-7be1-4c7d-9e3f-6a0b5c4d3e2f, x",
		},
		{
			"Trace ID: 1b206dd1-f9a8-11e5-becf-051c60f11c4a Timestamp: 2026-11-30 10:00:00Z",
			"Trace ID: 8e02a457-7be1-4c7d-9e3f-6a0b5c4d3e2f Timestamp: 2026-11-30 10:05:01Z",
		},
		{"failed at 2026-11-30T10:00:00.123Z", "failed at 2026-11-30T10:05:01.456Z"},
		{"req-1b206dd1: quota exceeded", "req-8e02a457: quota exceeded"},
	} {
		if a, b := printable.WithoutIDs(each[0]), printable.WithoutIDs(each[1]); a != b {
			t.Errorf("%q and %q differ", a, b)
		}
	}
}

func TestWithoutIDs_FailuresOfOtherCauses_Differ(t *testing.T) {
	for _, each := range [][2]string{
		{"403 Forbidden", "503 Service Unavailable"},
		{"StatusCode: 403", "StatusCode: 500"},
		{"quota exceeded", "no valid host"},
		{"", "timeout"},
	} {
		if a, b := printable.WithoutIDs(each[0]), printable.WithoutIDs(each[1]); a == b {
			t.Errorf("%q and %q are the same", each[0], each[1])
		}
	}
}
