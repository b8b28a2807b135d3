package fleet

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"testing"
	"testing/synctest"
	"time"
)

// endless is a connection whose peer sends without an end.
type endless struct{ net.Conn }

func (endless) Read(p []byte) (int, error) { return len(p), nil }
func (endless) Close() error               { return nil }

func TestWireLimit_PeerSendsWithoutAnEnd_IsReadAtTheRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		wire := &wireLimit{}
		dial := wire.dial(func(context.Context, string, string) (net.Conn, error) {
			return endless{}, nil
		})
		conn, err := dial(t.Context(), "tcp", "")
		if err != nil {
			t.Fatal(err)
		}
		const rate = 1 << 10
		wire.set(rate) // the connection is open already
		total, begun := 0, time.Now()
		for total < minWireBurst+100*wireFactor*rate {
			n, err := conn.Read(make([]byte, 1<<20))
			if err != nil {
				t.Fatal(err)
			}
			total += n
		}
		if took := time.Since(begun); took < 100*time.Second || took > 200*time.Second {
			t.Errorf("%d bytes took %s", total, took)
		}
		read := make(chan error, 1)
		go func() {
			_, err := conn.Read(make([]byte, 1<<20))
			read <- err
		}()
		synctest.Wait()
		if err := conn.Close(); err != nil {
			t.Fatal(err)
		}
		if err := <-read; !errors.Is(err, net.ErrClosed) {
			t.Errorf("the error of a read that waits is %v", err)
		}
	})
}

// A part of gzip without content is 23 bytes that only the transport reads.
func TestMeter_CompressedPartsAreEmpty_ConnectionIsReadSlowly(t *testing.T) {
	var part bytes.Buffer
	if err := gzip.NewWriter(&part).Close(); err != nil {
		t.Fatal(err)
	}
	parts := bytes.Repeat(part.Bytes(), 1000)
	m := newMetered(t, Limits{BytesPerSecond: 1 << 10},
		func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", jsonType)
			w.Header().Set("Content-Encoding", "gzip")
			for sent := 0; sent < 32<<20; sent += len(parts) {
				if _, err := w.Write(parts); err != nil {
					return
				}
			}
		})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet,
		m.url+"/api/v1/nodes?watch=true", nil)
	if err != nil {
		t.Fatal(err)
	}
	response, err := m.RoundTrip(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	defer time.AfterFunc(5*time.Second, cancel).Stop()
	n, err := io.Copy(io.Discard, response.Body)
	if !errors.Is(err, context.Canceled) {
		t.Errorf("all was read at once: %d bytes, %v", n, err)
	}
}
