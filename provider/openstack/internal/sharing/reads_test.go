package sharing

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/utils/clock"
)

// waitingRead reads until the test answers. ended receives the cause when the read is canceled.
type waitingRead struct {
	begun, ended chan struct{}
	answer       chan string
}

func (w *waitingRead) read(ctx context.Context) (any, error) {
	w.begun <- struct{}{}
	select {
	case value := <-w.answer:
		return value, nil
	case <-ctx.Done():
		w.ended <- struct{}{}
		return nil, ctx.Err()
	}
}

func TestReads_CallersLeave_CancelsItWithTheLast(t *testing.T) {
	for _, staying := range []int{0, 1} {
		synctest.Test(t, func(t *testing.T) {
			r := NewReads(clock.RealClock{}, nil)
			defer r.Close()
			w := &waitingRead{
				begun: make(chan struct{}, 9), ended: make(chan struct{}, 9),
				answer: make(chan string, 1),
			}
			ctx, cancel := context.WithCancel(t.Context())
			type result struct {
				value any
				err   error
			}
			results := make(chan result, 3)
			for i := range 3 {
				of := t.Context()
				if i >= staying {
					of = ctx
				}
				go func() {
					value, _, err := r.Read(of, "key", time.Now().Add(-time.Hour), w.read)
					results <- result{value, err}
				}()
			}
			<-w.begun
			cancel()
			for range 3 - staying {
				if call := <-results; !errors.Is(call.err, context.Canceled) {
					t.Errorf("a caller that left got %v", call.err)
				}
			}
			if staying == 0 {
				<-w.ended
				return
			}
			synctest.Wait()
			w.answer <- "ports"
			if call := <-results; call.err != nil || call.value != "ports" {
				t.Errorf("the caller that stays got %v, %v", call.value, call.err)
			}
			if len(w.begun)+len(w.ended) > 0 {
				t.Error("the read was canceled or begun again")
			}
		})
	}
}

func TestReads_Newer_NeverAnswersWithAnEarlierRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := NewReads(clock.RealClock{}, nil)
		defer r.Close()
		var count int
		get := func(age time.Duration) (int, time.Duration) {
			read := func(context.Context) (any, error) {
				time.Sleep(10 * time.Second)
				if count++; count == 3 {
					return nil, errors.New("unavailable")
				}
				return count, nil
			}
			value, begun, err := r.Read(t.Context(), "key", time.Now().Add(-age), read)
			if err != nil {
				return 0, 0
			}
			return value.(int), time.Since(begun).Truncate(time.Second)
		}
		for i, c := range []struct {
			age, pause time.Duration
			want       int
			old        time.Duration
		}{
			{age: time.Minute, want: 1, old: 10 * time.Second},
			{age: 10 * time.Second, want: 1, old: 10 * time.Second},
			{age: 9 * time.Second, want: 2, old: 10 * time.Second},
			{age: time.Minute, pause: 20 * time.Second, want: 2, old: 30 * time.Second},
			{age: 0, want: 0}, // fails, and the last result stays
			{age: time.Minute, want: 2, old: 40 * time.Second},
		} {
			time.Sleep(c.pause)
			if got, old := get(c.age); got != c.want || old != c.old {
				t.Errorf("read %d: got %d of %s ago, want %d of %s ago", i, got, old, c.want, c.old)
			}
		}
	})
}
