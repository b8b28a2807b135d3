package process

import (
	"bytes"
	"encoding/binary"
	"encoding/gob"
	"errors"
	"io"
	"math"
	"reflect"
	"runtime"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/fxccm/fxccm/ccm/status"
	"github.com/fxccm/fxccm/internal/wireerror"
)

// pipe is one direction of a connection.
type pipe struct{ bytes.Buffer }

func fromChild(data []byte) *link {
	p := &pipe{}
	_, _ = p.Write(data)
	return newLink(p, maxFromHost, maxFromChild)
}

func framed(t testing.TB, m any) []byte {
	t.Helper()
	var frame bytes.Buffer
	frame.Write(make([]byte, frameHeader))
	if err := gob.NewEncoder(&frame).Encode(m); err != nil {
		t.Fatal(err)
	}
	binary.BigEndian.PutUint32(frame.Bytes(), uint32(frame.Len()-frameHeader))
	return frame.Bytes()
}

// allocated returns the memory that f has allocated in bytes.
func allocated(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

func TestLink_HostileChild_CannotGrowTheMemoryOfTheHost(t *testing.T) {
	huge := make([]byte, frameHeader+10)
	binary.BigEndian.PutUint32(huge, 1<<32-1)
	claimed := make([]byte, frameHeader+10)
	binary.BigEndian.PutUint32(claimed, maxFromChild)
	text := framed(t, message{Subject: strings.Repeat("x", maxFromChild)})
	empty := results{LoadBalancers: make([]status.LoadBalancer, maxListed+1)}
	for name, test := range map[string]struct {
		data []byte
		most uint64
	}{
		"a length above the limit":   {huge, 1 << 20},
		"a length without a message": {claimed, 1 << 20},
		"a message of another type":  {framed(t, strings.Repeat("x", 1000)), 1 << 20},
		"empty elements":             {framed(t, message{Kind: answer, Results: empty}), 64 << 20},
		"a text above the limit":     {text, 1 << 20},
		"two values in one message":  {double(framed(t, message{Kind: answer})), 1 << 20},
		"empty addresses": {
			framed(t, message{Results: results{Addresses: make([]v1.NodeAddress, maxFromChild/2)}}),
			512 << 20,
		},
		"types that are not messages": {framed(t, struct{ A, B, C []map[string]string }{}), 1 << 20},
	} {
		t.Run(name, func(t *testing.T) {
			var err error
			// Other goroutines allocate, too.
			got := uint64(math.MaxUint64)
			for range 5 {
				link := fromChild(test.data)
				got = min(got, allocated(func() { _, err = link.receive() }))
			}
			if err == nil && name != "empty addresses" {
				t.Error("the message is accepted")
			}
			if got > test.most {
				t.Errorf("%d bytes on the wire become %d in memory, want %d at most",
					len(test.data), got, test.most)
			}
		})
	}
}

func double(frame []byte) []byte {
	twice := append(bytes.Clone(frame), frame[frameHeader:]...)
	binary.BigEndian.PutUint32(twice, uint32(len(twice)-frameHeader))
	return twice
}

func TestLink_AnswerAboveTheLimit_IsAnErrorOfTheCall(t *testing.T) {
	p := &pipe{}
	c := &child{link: newLink(p, maxFromChild, maxFromHost), ends: make(chan error, 1)}
	c.reply(message{
		Kind: answer, ID: 7, Results: results{Text: strings.Repeat("x", maxFromChild)},
	})
	m, err := newLink(p, maxFromHost, maxFromChild).receive()
	if err != nil || m.ID != 7 || m.Kind != answer || m.Err == nil ||
		!strings.Contains(m.Err.Decode().Error(), "too large") {
		t.Errorf("the host receives %+v, %v, want an error for call 7", m, err)
	}
	select {
	case err := <-c.ends:
		t.Errorf("the child ends: %v", err)
	default:
	}
}

// FuzzLink checks that a message of the child is refused, or is the same after another passage.
func FuzzLink(f *testing.F) {
	for _, m := range []message{
		{},
		{Kind: answer, ID: 1, Err: wireerror.Encode(errors.New("x"))},
		{Kind: trouble, Subject: "quota", Time: time.Unix(1, 0)},
		{Kind: answer, Results: results{
			Names: []string{"a"}, LoadBalancers: []status.LoadBalancer{{Service: "s"}},
		}},
	} {
		f.Add(framed(f, m))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		m, err := fromChild(data).receive()
		if err != nil {
			return
		}
		_ = m.Err.Decode()
		p := &pipe{}
		if err := newLink(p, maxFromHost, maxFromChild).send(m); err != nil {
			t.Fatalf("a received message cannot be sent: %v", err)
		}
		again, err := newLink(p, maxFromHost, maxFromHost).receive()
		if err != nil && !errors.Is(err, io.EOF) || again.ID != m.ID || again.Kind != m.Kind ||
			!reflect.DeepEqual(again.Err, m.Err) {
			t.Errorf("%+v becomes %+v, %v", m, again, err)
		}
	})
}
