package fleet

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/fxccm/fxccm/internal/printable"
)

const (
	protobufType = "application/vnd.kubernetes.protobuf"
	jsonType     = "application/json"

	// maxErrorBody limits how much of an error answer is read.
	maxErrorBody = 16 << 10
	// maxErrorText limits, in characters, a text of an API server in errors, which reach logs,
	// events and the status of clusters.
	maxErrorText = 512
	// maxWarnings limits the warnings in a response, which client-go logs.
	maxWarnings = 3
)

// sizerOf returns the sizer of a response, or nil if the response is text. Decoders other than
// those of JSON and protobuf have no estimate, so a response of another encoding is an error.
func sizerOf(r *http.Request, response *http.Response, isWatch bool) (sizer, error) {
	media, _, err := mime.ParseMediaType(response.Header.Get("Content-Type"))
	switch {
	case response.ContentLength == 0:
		return nil, nil
	case err != nil:
		return nil, errContentType
	case media == protobufType && strings.Contains(r.Header.Get("Accept"), protobufType):
		return newProtobufSizer(isWatch), nil
	case media == jsonType:
		return &jsonSizer{}, nil
	case media == "text/plain":
		return nil, nil
	}
	return nil, errContentType
}

// boundError replaces the body of an error answer by its Status, with texts that are short and
// printable. An answer without a Status, such as a page of HTML, gets an empty body.
func boundError(response *http.Response) error {
	body, err := io.ReadAll(io.LimitReader(response.Body, maxErrorBody))
	_ = response.Body.Close()
	if err != nil {
		return err
	}
	status, ok := readStatus(response.Header.Get("Content-Type"), body)
	body = nil
	if ok {
		if body, err = json.Marshal(status); err != nil {
			return err
		}
	}
	response.Header.Set("Content-Type", jsonType)
	response.Header.Del("Content-Length")
	response.Body, response.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	return nil
}

func readStatus(contentType string, body []byte) (metav1.Status, bool) {
	var given metav1.Status
	media, _, _ := mime.ParseMediaType(contentType)
	switch media {
	case jsonType:
		if json.Unmarshal(body, &given) != nil || given.Kind != "Status" {
			return given, false
		}
	case protobufType:
		var object runtime.Unknown
		body, found := bytes.CutPrefix(body, []byte(protobufPrefix))
		if !found || object.Unmarshal(body) != nil || object.Kind != "Status" ||
			given.Unmarshal(object.Raw) != nil {
			return given, false
		}
	default:
		return given, false
	}
	status := metav1.Status{
		TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: metav1.StatusFailure,
		Code: given.Code, Reason: metav1.StatusReason(shortText(string(given.Reason))),
		Message: shortText(given.Message),
	}
	if d := given.Details; d != nil {
		status.Details = &metav1.StatusDetails{
			Name: shortText(d.Name), Group: shortText(d.Group), Kind: shortText(d.Kind),
			RetryAfterSeconds: d.RetryAfterSeconds,
		}
		for _, cause := range d.Causes[:min(len(d.Causes), 4)] {
			status.Details.Causes = append(status.Details.Causes, metav1.StatusCause{
				Type:  metav1.CauseType(shortText(string(cause.Type))),
				Field: shortText(cause.Field), Message: shortText(cause.Message),
			})
		}
	}
	return status, true
}

func shortText(text string) string { return printable.Text(text, maxErrorText) }

// boundedError has a short and printable text of an error, whose parts may be the server's or the
// kubeconfig's: the reason of a status, or names in a certificate.
type boundedError struct{ error }

func (e boundedError) Error() string { return shortText(e.error.Error()) }

func (e boundedError) Unwrap() error { return e.error }

// outageStatus is the error of a status that means an outage, without the server's text.
func outageStatus(response *http.Response) error {
	return fmt.Errorf("status %d %s", response.StatusCode, http.StatusText(response.StatusCode))
}

// boundWarnings limits the warnings, which client-go logs.
func boundWarnings(header http.Header) {
	warnings := header["Warning"]
	warnings = warnings[:min(len(warnings), maxWarnings)]
	for i := range warnings {
		if len(warnings[i]) > maxErrorText {
			warnings[i] = fmt.Sprintf("299 - %q", "a warning that is too long")
		}
	}
	if len(warnings) > 0 {
		header["Warning"] = warnings
	}
}
