package controlplane

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"time"
)

// auditPolicy records each request once: a watch when it begins, because it may not end during the
// test, and any other request when it is answered. The API server's own requests and health checks
// are left out.
const auditPolicy = `apiVersion: audit.k8s.io/v1
kind: Policy
rules:
- level: None
  users: ["system:apiserver"]
- level: None
  nonResourceURLs: ["/healthz*", "/livez*", "/readyz*"]
- level: Metadata
  verbs: ["watch"]
  omitStages: ["RequestReceived", "ResponseComplete"]
- level: Metadata
  omitStages: ["RequestReceived", "ResponseStarted"]
`

// AuditRecord is one request to the API server and its answer.
type AuditRecord struct {
	// ID is the audit id, which the server also sends to the client as the header Audit-Id.
	ID string
	// Time is when the request reached the server, Done when it reached Stage. Both are the
	// server's clock, in microseconds.
	Time, Done time.Time
	// Stage is ResponseStarted for a watch, ResponseComplete for other requests, and Panic if the
	// API server failed while it served the request.
	Stage string

	// User and Groups are the identity of the client; system:authenticated is among the groups.
	User      string
	Groups    []string
	UserAgent string

	// Verb is the verb of authorization: get, list, watch, create, update, patch, delete,
	// deletecollection; for a path that is no resource the HTTP method in lower case.
	Verb string
	// APIGroup is empty for the core group.
	APIGroup    string
	APIVersion  string
	Resource    string
	Subresource string
	// Namespace is empty for an object without one, and for a request across all namespaces.
	Namespace string
	// Name is also set for a created object, and for a list or watch of one object by the field
	// selector metadata.name.
	Name       string
	RequestURI string

	// Code is the HTTP status of the answer.
	Code int
	// Decision is the decision of authorization: "allow" or "forbid". It is empty if the request
	// failed before (401). If an allowed request gets the answer 403, an admission plugin has
	// refused it. Reason is authorization's explanation, such as the binding that allowed the
	// request.
	Decision, Reason string
}

// Mutating reports whether the request could have changed an object.
func (r AuditRecord) Mutating() bool {
	switch r.Verb {
	case "get", "list", "watch", "head", "options":
		return false
	}
	return true
}

// ResourcePath is the resource with its subresource as RBAC rules write it, such as nodes/status.
func (r AuditRecord) ResourcePath() string {
	if r.Subresource == "" {
		return r.Resource
	}
	return r.Resource + "/" + r.Subresource
}

// String formats the record as a line for the output of a failed test.
func (r AuditRecord) String() string {
	target := r.RequestURI
	if r.Resource != "" {
		target = r.ResourcePath()
		if r.APIGroup != "" {
			target = r.APIGroup + "/" + target
		}
		if r.Namespace != "" || r.Name != "" {
			target += " " + r.Namespace + "/" + r.Name
		}
	}
	return fmt.Sprintf("%s %s %s -> %d (%s, %s)", r.Time.Format("15:04:05.000000"), r.Verb, target,
		r.Code, r.User, r.UserAgent)
}

// auditEvent has the fields that this package reads of audit.k8s.io/v1. It is defined here, because
// the API's types are in k8s.io/apiserver.
type auditEvent struct {
	AuditID    string `json:"auditID"`
	Stage      string `json:"stage"`
	RequestURI string `json:"requestURI"`
	Verb       string `json:"verb"`
	User       struct {
		Username string   `json:"username"`
		Groups   []string `json:"groups"`
	} `json:"user"`
	UserAgent string `json:"userAgent"`
	ObjectRef struct {
		Resource    string `json:"resource"`
		Namespace   string `json:"namespace"`
		Name        string `json:"name"`
		APIGroup    string `json:"apiGroup"`
		APIVersion  string `json:"apiVersion"`
		Subresource string `json:"subresource"`
	} `json:"objectRef"`
	ResponseStatus struct {
		Code int `json:"code"`
	} `json:"responseStatus"`
	RequestReceivedTimestamp time.Time         `json:"requestReceivedTimestamp"`
	StageTimestamp           time.Time         `json:"stageTimestamp"`
	Annotations              map[string]string `json:"annotations"`
}

func (e *auditEvent) record() AuditRecord {
	return AuditRecord{
		ID:          e.AuditID,
		Time:        e.RequestReceivedTimestamp,
		Done:        e.StageTimestamp,
		Stage:       e.Stage,
		User:        e.User.Username,
		Groups:      e.User.Groups,
		UserAgent:   e.UserAgent,
		Verb:        e.Verb,
		APIGroup:    e.ObjectRef.APIGroup,
		APIVersion:  e.ObjectRef.APIVersion,
		Resource:    e.ObjectRef.Resource,
		Subresource: e.ObjectRef.Subresource,
		Namespace:   e.ObjectRef.Namespace,
		Name:        e.ObjectRef.Name,
		RequestURI:  e.RequestURI,
		Code:        e.ResponseStatus.Code,
		Decision:    e.Annotations["authorization.k8s.io/decision"],
		Reason:      e.Annotations["authorization.k8s.io/reason"],
	}
}

// AuditLog reads the requests that an API server has recorded, in the order in which they were
// answered. It is safe for concurrent use and may be read while the server writes.
//
// A test takes a mark, lets the program act, and reads the requests since then:
//
//	mark := cp.Audit().Mark()
//	...
//	writes, err := cp.Audit().Since(mark, controlplane.ByUser(user), controlplane.Mutating())
//
// A record may follow a moment after the client has its answer. A test that expects a request waits
// for it with [AuditLog.Wait]. A test that expects no request makes a later request of its own, and
// waits for the record of that.
type AuditLog struct{ path string }

// Mark is a position in an [AuditLog]. The zero Mark is its beginning.
type Mark struct{ offset int64 }

// Mark is the position after the last complete record. If the log cannot be read, it is the
// beginning, and [AuditLog.Since] returns the error.
func (l *AuditLog) Mark() Mark {
	f, err := l.open()
	if err != nil {
		return Mark{}
	}
	defer f.Close()
	offset, err := endOfLastLine(f)
	if err != nil {
		return Mark{}
	}
	return Mark{offset: offset}
}

// Since returns the records after mark that pass all filters. A record that is not written
// completely yet is left for the next call.
func (l *AuditLog) Since(mark Mark, filters ...Filter) ([]AuditRecord, error) {
	records, _, err := l.read(mark, filters)
	return records, err
}

// All returns all records that pass all filters.
func (l *AuditLog) All(filters ...Filter) ([]AuditRecord, error) {
	return l.Since(Mark{}, filters...)
}

// Wait returns the records after mark that pass all filters as soon as there are n of them. If ctx
// ends first, it returns the records so far, with an error.
func (l *AuditLog) Wait(
	ctx context.Context, mark Mark, n int, filters ...Filter,
) ([]AuditRecord, error) {
	ticker := time.NewTicker(pollInterval)
	defer ticker.Stop()
	var found []AuditRecord
	for {
		records, next, err := l.read(mark, filters)
		if err != nil {
			return found, err
		}
		found, mark = append(found, records...), next
		if len(found) >= n {
			return found, nil
		}
		select {
		case <-ctx.Done():
			return found,
				fmt.Errorf("wait for %d matching requests in the audit log, %d were there: %w", n,
					len(found), context.Cause(ctx))
		case <-ticker.C:
		}
	}
}

func (l *AuditLog) open() (*os.File, error) {
	if l.path == "" {
		return nil, errors.New("read the audit log: the control plane was started without one")
	}
	f, err := os.Open(l.path)
	if err != nil {
		return nil, fmt.Errorf("read the audit log: %w", err)
	}
	return f, nil
}

// read also returns the mark after the records that it has read.
func (l *AuditLog) read(mark Mark, filters []Filter) ([]AuditRecord, Mark, error) {
	f, err := l.open()
	if err != nil {
		return nil, mark, err
	}
	defer f.Close()
	if _, err := f.Seek(mark.offset, io.SeekStart); err != nil {
		return nil, mark, fmt.Errorf("read the audit log: %w", err)
	}
	var records []AuditRecord
	in := bufio.NewReaderSize(f, 64<<10)
	for {
		line, err := in.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return records, mark, nil // the server is still writing this line
		}
		if err != nil {
			return nil, mark, fmt.Errorf("read the audit log: %w", err)
		}
		var event auditEvent
		if err := json.Unmarshal(line, &event); err != nil {
			return nil, mark,
				fmt.Errorf("read the audit log %s at byte %d: %w", l.path, mark.offset, err)
		}
		mark.offset += int64(len(line))
		if record := event.record(); passes(record, filters) {
			records = append(records, record)
		}
	}
}

// repair removes a record that a killed server has not written completely. Otherwise the next
// server would append its first record to the same line. It must not be called while a server runs.
func (l *AuditLog) repair() error {
	if l.path == "" {
		return nil
	}
	f, err := os.OpenFile(l.path, os.O_RDWR, 0)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("repair the audit log: %w", err)
	}
	defer f.Close()
	offset, err := endOfLastLine(f)
	if err == nil {
		err = f.Truncate(offset)
	}
	if err != nil {
		return fmt.Errorf("repair the audit log: %w", err)
	}
	return nil
}

// endOfLastLine is the offset after the last newline.
func endOfLastLine(f *os.File) (int64, error) {
	info, err := f.Stat()
	if err != nil {
		return 0, err
	}
	buffer := make([]byte, 4<<10)
	for end := info.Size(); end > 0; {
		begin := max(0, end-int64(len(buffer)))
		n, err := f.ReadAt(buffer[:end-begin], begin)
		if err != nil && !errors.Is(err, io.EOF) {
			return 0, err
		}
		if i := bytes.LastIndexByte(buffer[:n], '\n'); i >= 0 {
			return begin + int64(i) + 1, nil
		}
		end = begin
	}
	return 0, nil
}
