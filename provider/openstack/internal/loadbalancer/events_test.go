package loadbalancer

import (
	"slices"
	"testing"
)

func TestNotices_AreSaidWhenTheyBecomeSo_AndNotAgain(t *testing.T) {
	n := events{}
	bad, worse := notice{"Bad", "a is bad", true}, notice{"Bad", "b is bad", true}
	waits := notice{"Waiting", "for Octavia", false}
	steps := []struct {
		about topic
		now   []notice
		want  []notice
	}{
		{aboutSettings, []notice{bad, bad}, []notice{bad}},
		{aboutSettings, []notice{bad}, nil},
		{aboutWaiting, []notice{waits}, []notice{waits}},
		{aboutSettings, []notice{worse, bad}, []notice{worse}},
		{aboutSettings, nil, nil},
		{aboutSettings, []notice{bad}, []notice{bad}},
		{aboutWaiting, []notice{waits}, nil},
	}
	for i, step := range steps {
		if got := n.update(step.about, step.now); !slices.Equal(got, step.want) {
			t.Errorf("step %d: new are %v, want %v", i, got, step.want)
		}
	}
}
