package otlp

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"

	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"
)

const (
	defaultEndpoint = "http://localhost:4318"
	defaultTimeout  = 10 * time.Second
	// firstPause is the pause before the first repetition of a request. It doubles.
	firstPause = time.Second
)

// client sends spans by HTTP. It is an otlptrace.Client. OpenTelemetry's own one links gRPC, whose
// debugging pages have templates: with these the linker keeps every method of the program.
type client struct {
	http     *http.Client
	endpoint string
	// headers may have credentials.
	headers      http.Header
	timeout      time.Duration
	isCompressed bool
}

// newClient reads the environment.
func newClient() (*client, error) {
	c := &client{timeout: defaultTimeout}
	if name, protocol := ofTraces("PROTOCOL"); protocol != "" && protocol != "http/protobuf" {
		return nil, fmt.Errorf("%s=%s is not supported: want http/protobuf, which collectors "+
			"receive at port 4318", name, protocol)
	}
	var err error
	if c.endpoint, err = endpoint(); err != nil {
		return nil, err
	}
	if c.headers, err = headers(); err != nil {
		return nil, err
	}
	if name, text := ofTraces("TIMEOUT"); text != "" {
		milliseconds, err := strconv.Atoi(text)
		if err != nil || milliseconds <= 0 {
			return nil, fmt.Errorf("%s=%s: want a number of milliseconds", name, text)
		}
		c.timeout = time.Duration(milliseconds) * time.Millisecond
	}
	switch name, method := ofTraces("COMPRESSION"); method {
	case "", "none":
	case "gzip":
		c.isCompressed = true
	default:
		return nil, fmt.Errorf("%s=%s is not supported: want gzip or none", name, method)
	}
	settings, err := tlsSettings()
	if err != nil {
		return nil, err
	}
	transport := &http.Transport{
		Proxy: http.ProxyFromEnvironment, TLSClientConfig: settings, ForceAttemptHTTP2: true,
		MaxIdleConnsPerHost: 1, IdleConnTimeout: 90 * time.Second,
	}
	c.http = &http.Client{
		Transport: transport,
		// A header with credentials is for one server.
		CheckRedirect: func(*http.Request, []*http.Request) error {
			return http.ErrUseLastResponse
		},
	}
	return c, nil
}

// endpoint returns the URL for traces. The error does not quote it, because it may have a password.
func endpoint() (string, error) {
	name, text := ofTraces("ENDPOINT")
	if text == "" {
		text = defaultEndpoint
	}
	parsed, err := url.Parse(text)
	if err != nil || parsed.Host == "" || parsed.Scheme != "http" && parsed.Scheme != "https" {
		return "", fmt.Errorf("%s: want a URL such as %s", name, defaultEndpoint)
	}
	if name == "OTEL_EXPORTER_OTLP_ENDPOINT" {
		parsed = parsed.JoinPath("v1/traces")
	}
	return parsed.String(), nil
}

// headers are pairs such as "api-key=secret,tenant=a%20b".
func headers() (http.Header, error) {
	all := http.Header{}
	name, text := ofTraces("HEADERS")
	for pair := range strings.SplitSeq(text, ",") {
		if strings.TrimSpace(pair) == "" {
			continue
		}
		key, value, isPair := strings.Cut(pair, "=")
		value, err := url.PathUnescape(strings.TrimSpace(value))
		if key = strings.TrimSpace(key); !isPair || key == "" || err != nil {
			return nil, fmt.Errorf("%s: want pairs such as key=value,key=value", name)
		}
		all.Set(key, value)
	}
	return all, nil
}

// tlsSettings are the certificate of the server's authority, and that of the client.
func tlsSettings() (*tls.Config, error) {
	settings := &tls.Config{MinVersion: tls.VersionTLS12}
	if name, path := ofTraces("CERTIFICATE"); path != "" {
		data, err := os.ReadFile(path)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		settings.RootCAs = x509.NewCertPool()
		if !settings.RootCAs.AppendCertsFromPEM(data) {
			return nil, fmt.Errorf("%s: %s has no certificate in PEM", name, path)
		}
	}
	name, certificate := ofTraces("CLIENT_CERTIFICATE")
	_, key := ofTraces("CLIENT_KEY")
	if certificate == "" && key == "" {
		return settings, nil
	}
	pair, err := tls.LoadX509KeyPair(certificate, key)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	settings.Certificates = []tls.Certificate{pair}
	return settings, nil
}

// String is what the SDK logs of a client: nothing secret.
func (c *client) String() string { return "OTLP over HTTP" }

// Start implements otlptrace.Client.
func (c *client) Start(context.Context) error { return nil }

// Stop implements otlptrace.Client.
func (c *client) Stop(context.Context) error {
	c.http.CloseIdleConnections()
	return nil
}

// UploadTraces implements otlptrace.Client. It repeats the request within the timeout while the
// receiver is busy or does not answer.
func (c *client) UploadTraces(ctx context.Context, spans []*tracepb.ResourceSpans) error {
	// Its encoding is the same as that of ExportTraceServiceRequest, whose package links gRPC.
	body, err := proto.Marshal(&tracepb.TracesData{ResourceSpans: spans})
	if err != nil {
		return err
	}
	if c.isCompressed {
		body = compress(body)
	}
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	for pause := firstPause; ; pause *= 2 {
		isTemporary, after, err := c.send(ctx, body)
		if err == nil || !isTemporary || ctx.Err() != nil {
			return err
		}
		select {
		case <-time.After(max(pause, after)):
		case <-ctx.Done():
			return err
		}
	}
}

func compress(body []byte) []byte {
	var compressed bytes.Buffer
	w := gzip.NewWriter(&compressed)
	_, _ = w.Write(body) // a buffer returns no errors
	_ = w.Close()
	return compressed.Bytes()
}

// send sends a request once. after is the pause that the receiver wants.
func (c *client) send(
	ctx context.Context, body []byte,
) (isTemporary bool, after time.Duration, _ error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.endpoint, bytes.NewReader(body))
	if err != nil {
		return false, 0, err
	}
	req.Header = c.headers.Clone()
	req.Header.Set("Content-Type", "application/x-protobuf")
	if c.isCompressed {
		req.Header.Set("Content-Encoding", "gzip")
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return true, 0, cause(err)
	}
	defer func() { _ = resp.Body.Close() }()
	// Read to its end, a body leaves the connection for the next request.
	_, _ = io.Copy(io.Discard, io.LimitReader(resp.Body, 64<<10))
	switch resp.StatusCode {
	case http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable,
		http.StatusGatewayTimeout:
		seconds, _ := strconv.Atoi(resp.Header.Get("Retry-After"))
		return true, time.Duration(seconds) * time.Second,
			errors.New("the receiver of traces answers " + resp.Status)
	}
	if resp.StatusCode < 200 || resp.StatusCode > 299 {
		return false, 0, errors.New("the receiver of traces answers " + resp.Status)
	}
	return false, 0, nil
}

// cause returns the error of a request without what is secret or changes: the URL may have
// credentials, and a connection has another port each time.
func cause(err error) error {
	if request, ok := errors.AsType[*url.Error](err); ok {
		err = request.Err
	}
	if op, ok := errors.AsType[*net.OpError](err); ok && op.Addr != nil {
		err = fmt.Errorf("%s %s: %w", op.Op, op.Addr, op.Err)
	}
	return fmt.Errorf("the receiver of traces does not answer: %w", err)
}
