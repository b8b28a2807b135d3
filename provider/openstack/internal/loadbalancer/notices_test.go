package loadbalancer

import (
	"slices"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/record"
)

func TestNotices_AreSaidWhenTheyBecomeSo_AndNotAgain(t *testing.T) {
	recorder := record.NewFakeRecorder(10)
	n := notices{recorder: recorder}
	service := &v1.Service{}
	bad, worse := notice{"Bad", "a is bad", true}, notice{"Bad", "b is bad", true}
	waits := notice{"Waiting", "for Octavia", false}
	steps := []struct {
		about topic
		now   []notice
		want  []string
	}{
		{aboutSettings, []notice{bad, bad}, []string{"Warning Bad a is bad"}},
		{aboutSettings, []notice{bad}, nil},
		{aboutWaiting, []notice{waits}, []string{"Normal Waiting for Octavia"}},
		{aboutSettings, []notice{worse, bad}, []string{"Warning Bad b is bad"}},
		{aboutSettings, nil, nil},
		{aboutSettings, []notice{bad}, []string{"Warning Bad a is bad"}},
		{aboutWaiting, []notice{waits}, nil},
	}
	for i, step := range steps {
		n.say(service, step.about, step.now...)
		var got []string
		for len(recorder.Events) > 0 {
			got = append(got, <-recorder.Events)
		}
		if !slices.Equal(got, step.want) {
			t.Errorf("step %d: events %q, want %q", i, got, step.want)
		}
	}
	n.forget(service.UID)
	if len(n.said) > 0 {
		t.Error("a Service that was forgotten is remembered")
	}
}
