package instances

import (
	"testing"
	"time"
)

func TestMemory_NewerResponse_ReplacesOlder(t *testing.T) {
	at := func(seconds int) time.Time { return time.Unix(1000+int64(seconds), 0) }
	one := &server{ID: "a", Name: "n", Status: "ACTIVE"}
	for _, c := range []struct {
		name string
		tell func(*memory)
		want bool
	}{
		{"404 after the list was requested, recorded before it came", func(m *memory) {
			m.putServer("a", nil, at(2))
			m.putList([]*server{one}, at(1), 1, anyServer)
		}, false},
		{"listed after it was denied", func(m *memory) {
			m.putServer("a", nil, at(1))
			m.putList([]*server{one}, at(2), 1, anyServer)
		}, true},
		{"an old list does not replace a new one", func(m *memory) {
			m.putList([]*server{one}, at(2), 1, anyServer)
			m.putList(nil, at(1), 1, anyServer)
		}, true},
		{"a list that lacks it does not deny it", func(m *memory) {
			m.putServer("a", one, at(1))
			m.putList(nil, at(2), 1, anyServer)
		}, true},
	} {
		m := newMemory()
		c.tell(&m)
		got, ok := m.answer(&question{id: "a", found: at(0), missing: at(0)})
		if !ok || (len(got.servers) == 1) != c.want {
			t.Errorf("%s: %+v, %t; want found = %t", c.name, got, ok, c.want)
		}
	}
}

func TestMemory_OldResponses_AreNotUsed(t *testing.T) {
	at := func(seconds int) time.Time { return time.Unix(1000+int64(seconds), 0) }
	one := &server{ID: "a", Name: "n", Status: "ACTIVE"}
	m := newMemory()
	m.putServer("a", one, at(1))
	m.putNamed("gone", nil, at(1))
	m.putList([]*server{one}, at(1), 1, anyServer)
	for _, c := range []struct {
		q    question
		want bool
	}{
		{question{id: "a", found: at(1)}, true},
		{question{id: "a", found: at(2)}, false},
		{question{name: "n", found: at(1)}, true},
		{question{name: "n", found: at(2)}, false},
		{question{name: "gone", missing: at(1)}, true},
		{question{name: "gone", missing: at(2)}, false},
		{question{list: true, found: at(1)}, true},
		{question{list: true, found: at(2)}, false},
		{question{id: "unknown"}, false},
		{question{id: "a", found: at(1), ports: true}, false},
	} {
		if _, ok := m.answer(&c.q); ok != c.want {
			t.Errorf("question %+v: answered = %t, want %t", c.q, ok, c.want)
		}
	}
	m.forget(at(5))
	if len(m.byID)+len(m.byName)+len(m.list.servers) != 0 || m.list.calls != 1 {
		t.Errorf("memory %+v, want nothing but what a list costs", m)
	}
}

func anyServer(*server) bool { return true }
