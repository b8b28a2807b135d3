package balancer

import "testing"

func TestObserved_FindsByID(t *testing.T) {
	o := Observed{
		Listeners: []Listener{{ID: "a"}, {ID: "b", Port: 2}},
		Pools:     []Pool{{ID: "a"}, {ID: "b", Name: "second"}},
	}
	if l, p := o.Listener("b"),
		o.Pool("b"); l == nil || l.Port != 2 || p == nil || p.Name != "second" {
		t.Errorf("listener %+v, pool %+v", l, p)
	}
	if l, p := o.Listener("c"), o.Pool("c"); l != nil || p != nil {
		t.Errorf("found what is not there: %+v, %+v", l, p)
	}
}

// Octavia takes no second member of the same address and port, whatever its subnet.
func TestMemberKey_IsAddressAndPort(t *testing.T) {
	m := Member{ID: "a", Name: "n1", Address: "10.0.0.1", Port: 30080, SubnetID: "s"}
	if got, want := m.Key(), (MemberKey{"10.0.0.1", 30080}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
}
