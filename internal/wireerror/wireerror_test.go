package wireerror_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"testing"
	"time"

	cloudprovider "k8s.io/cloud-provider"
	"k8s.io/cloud-provider/api"

	"github.com/fxccm/fxccm/internal/wireerror"
)

// send carries an error as the fake cloud does.
func send(t *testing.T, err error) error {
	t.Helper()
	data, marshalErr := json.Marshal(wireerror.Encode(err))
	if marshalErr != nil {
		t.Fatal(marshalErr)
	}
	var got *wireerror.Error
	if err := json.Unmarshal(data, &got); err != nil {
		t.Fatal(err)
	}
	return got.Decode()
}

func TestError_Sentinel_ArrivesAsItself(t *testing.T) {
	for _, sent := range []error{
		nil, cloudprovider.InstanceNotFound, cloudprovider.NotImplemented,
		cloudprovider.ImplementedElsewhere, cloudprovider.DiskNotFound, context.Canceled,
		context.DeadlineExceeded,
	} {
		if got := send(t, sent); got != sent {
			t.Errorf("%v arrived as %v", sent, got)
		}
	}
}

func TestError_Wrapped_KeepsTextAndSentinels(t *testing.T) {
	sent := fmt.Errorf("list: %w", errors.Join(cloudprovider.InstanceNotFound,
		context.DeadlineExceeded, api.NewRetryError("busy", 3*time.Second)))
	got := send(t, sent)
	if got.Error() != sent.Error() {
		t.Errorf("text %q, want %q", got, sent)
	}
	for _, want := range []error{cloudprovider.InstanceNotFound, context.DeadlineExceeded} {
		if !errors.Is(got, want) {
			t.Errorf("errors.Is(%v, %v) is false", got, want)
		}
	}
	if errors.Is(got, context.Canceled) {
		t.Error("the error became context.Canceled")
	}
	retry, ok := errors.AsType[*api.RetryError](got)
	if !ok || retry.RetryAfter() != 3*time.Second || retry.Error() != "busy" {
		t.Errorf("retry error arrived as %v", retry)
	}
}

func TestError_FromANewerProgram_IsStillAnError(t *testing.T) {
	got := (&wireerror.Error{Sentinels: []string{"QuotaExceeded"}}).Decode()
	if got == nil || got.Error() != "QuotaExceeded" {
		t.Errorf("an unknown sentinel arrived as %v", got)
	}
}
