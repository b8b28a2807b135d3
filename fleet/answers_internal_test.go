package fleet

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/fxccm/fxccm/internal/waittest"
)

func TestMeter_ErrorAnswer_IsShortAndPrintable(t *testing.T) {
	page := "<html>" + strings.Repeat("internal-page ", 1000)
	status := `{"kind":"Status","apiVersion":"v1","reason":"Forbidden","message":"no\u001b[31m` +
		strings.Repeat("x", 5000) + `"}`
	for name, test := range map[string]struct{ contentType, body, want string }{
		"a page": {"text/html", page, ""},
		"a Status that is too long": {
			"application/json", status, `"message":"no [31m` + strings.Repeat("x", 505) + `..."`,
		},
		"no Status": {"application/json", `{"internal":"answer"}`, ""},
	} {
		t.Run(name, func(t *testing.T) {
			m := newMetered(t, Limits{}, func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", test.contentType)
				w.WriteHeader(http.StatusForbidden)
				_, _ = io.WriteString(w, test.body)
			})
			request, _ := http.NewRequestWithContext(t.Context(), http.MethodGet,
				m.url+"/api/v1/nodes", nil)
			response, err := m.RoundTrip(request)
			if err != nil {
				t.Fatal(err)
			}
			defer response.Body.Close()
			got, _ := io.ReadAll(response.Body)
			if test.want == "" && len(got) > 0 || !strings.Contains(string(got), test.want) {
				t.Errorf("the body is %.700s", got)
			}
		})
	}
}

func TestMeter_ErrorAnswerHasNoEnd_ItsBeginningIsRead(t *testing.T) {
	m := newMetered(t, Limits{}, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusForbidden)
		part := make([]byte, 4<<10)
		for { // until the client closes the connection
			if _, err := w.Write(part); err != nil {
				return
			}
		}
	})
	request, _ := http.NewRequestWithContext(waittest.Context(t), http.MethodGet,
		m.url+"/api/v1/nodes", nil)
	response, err := m.RoundTrip(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if got, err := io.ReadAll(response.Body); err != nil || len(got) > 0 ||
		response.StatusCode != http.StatusForbidden {
		t.Errorf("status %d, %d bytes, error %v", response.StatusCode, len(got), err)
	}
}

func TestMeter_EncodingThatWasNotRequested_IsRefused(t *testing.T) {
	for _, contentType := range []string{
		"application/yaml", "application/cbor", protobufType, "text/html", "nonsense/",
	} {
		m := newMetered(t, Limits{}, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", contentType)
			_, _ = io.WriteString(w, "kind: NodeList")
		})
		if _, err := m.get("/api/v1/nodes"); err != errContentType {
			t.Errorf("%s: the error is %v", contentType, err)
		}
	}
}
