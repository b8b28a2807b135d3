package serving

import (
	"bytes"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/klog/v2/textlogger"
)

// A client of the port needs no credentials to have such a line written.
func TestGate_PathHasTerminalEscapes_LineIsShortAndPrintable(t *testing.T) {
	hostile := "x\n\x1b[2J" + strings.Repeat("x", 64<<10)
	var out bytes.Buffer
	g := &gate{
		identities: &identities{chain: chain{authenticator.RequestFunc(
			func(*http.Request) (*authenticator.Response, bool, error) {
				return nil, false, errors.New(hostile)
			})}},
		log: textlogger.NewLogger(textlogger.NewConfig(textlogger.Output(&out),
			textlogger.Verbosity(2))),
	}
	answer := httptest.NewRecorder()
	g.ServeHTTP(answer,
		httptest.NewRequest(http.MethodGet, "/"+url.PathEscape(hostile), http.NoBody))
	line := out.String()
	if answer.Code != http.StatusUnauthorized || strings.Count(line, "\n") != 1 ||
		strings.Contains(line, "\x1b") || len(line) > 4*maxInLog {
		t.Errorf("%d, %d bytes: %.600q", answer.Code, len(line), line)
	}
}
