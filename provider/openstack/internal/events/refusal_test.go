package events

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gophercloud/gophercloud/v2"

	"github.com/fxccm/fxccm/provider/openstack/internal/failure"
)

func TestExplain_EachFailure_HasServiceCauseAndWhatFollows(t *testing.T) {
	response := func(status int, body string) error {
		return failure.New("Octavia", "loadbalancer_list", gophercloud.ErrUnexpectedResponseCode{
			URL: "http://cloud/v2", Method: "GET", Expected: []int{200}, Actual: status,
			Body: []byte(body),
		})
	}
	other := errors.New("no such thing")
	for _, c := range []struct {
		err  error
		want string
	}{
		{
			response(403, `{"faultstring":"Policy does not allow this request to be performed."}`),
			"Octavia: 403 Policy does not allow this request to be performed; " +
				"give the user of cloud.conf the role for loadbalancer_list",
		},
		{
			response(403, "<html>"),
			"Octavia: 403 Forbidden; retrying",
		},
		{
			response(503, ""),
			"Octavia: 503 Service Unavailable; retrying",
		},
		{
			&failure.LoginError{User: `user "a"`, Status: http.StatusUnauthorized},
			`Keystone: 401 Unauthorized (user "a"); correct auth-url and the credentials in cloud.conf`,
		},
		{
			&failure.LoginError{User: `user "a"`, Message: "dial 192.0.2.1:5000: refused"},
			`Keystone: dial 192.0.2.1:5000: refused (user "a"); retrying`,
		},
		{
			failure.BodyError("Nova"),
			"Nova: the response does not follow the API; retrying",
		},
		{
			json.Unmarshal([]byte("<html>"), &struct{}{}),
			"OpenStack: the response does not follow the API; retrying",
		},
		{other, "look: ahead: no such thing"},
	} {
		err := Explain(Explain(fmt.Errorf("look: %w", fmt.Errorf("ahead: %w", c.err))))
		if err.Error() != c.want || !errors.Is(err, c.err) {
			t.Errorf("the text is %q, want %q", err, c.want)
		}
	}
	if Explain(nil) != nil {
		t.Error("no error is explained")
	}
}

// Outside of this package, a test wants the advice of each refusal: the simulated cloud refuses as
// the row says.
func TestRefusals_EachAdvice_IsInATestOfTheCodeThatGivesIt(t *testing.T) {
	var tests strings.Builder
	for _, dir := range []string{"../../../openstack", "../../../../cmd"} {
		err := filepath.WalkDir(dir, func(name string, _ fs.DirEntry, err error) error {
			if err != nil || !strings.HasSuffix(name, "_test.go") ||
				strings.Contains(name, "/internal/events/") {
				return err
			}
			content, err := os.ReadFile(name)
			tests.Write(content)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, r := range OfRefusals() {
		_, advice, _ := strings.Cut(r.format, "; ")
		for _, end := range []string{"%", ",", ";", ":"} {
			advice, _, _ = strings.Cut(advice, end)
		}
		if words := strings.Fields(advice); len(words) == 0 {
			t.Errorf("%q gives no advice", r.format)
		} else if first := strings.Join(words[:min(len(words), 3)], " "); !strings.Contains(
			tests.String(), first) {
			t.Errorf("no test outside of this package wants %q", first)
		}
	}
}
