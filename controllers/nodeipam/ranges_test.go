package nodeipam

import (
	"net/netip"
	"slices"
	"testing"

	"github.com/fxccm/fxccm/internal/cloudcontrollers"
)

// Each case takes all ranges after the ranges in use have been counted.
func TestRanges_WithRangesInUse_YieldsTheOthersInOrder(t *testing.T) {
	for name, c := range map[string]struct {
		cluster string
		bits    int
		inUse   []string
		want    []string
	}{
		"IPv4": {
			"10.0.0.0/14", 16, nil,
			[]string{"10.0.0.0/16", "10.1.0.0/16", "10.2.0.0/16", "10.3.0.0/16"},
		},
		"IPv6 across the middle of the address": {
			"fd00:0:0:fffe::/63", 65,
			[]string{"fd00:0:0:fffe::/65"},
			[]string{"fd00:0:0:fffe:8000::/65", "fd00:0:0:ffff::/65", "fd00:0:0:ffff:8000::/65"},
		},
		"one range": {"10.9.8.0/24", 24, nil, []string{"10.9.8.0/24"}},
		"smaller, equal and larger ranges in use": {
			"10.244.8.0/21", 24,
			[]string{"10.244.9.17/32", "10.244.11.0/24", "10.244.12.0/23"},
			[]string{"10.244.8.0/24", "10.244.10.0/24", "10.244.14.0/24", "10.244.15.0/24"},
		},
		"in use outside and in the other family": {
			"10.244.0.0/23", 24,
			[]string{"10.96.0.0/12", "fd00::/8"},
			[]string{"10.244.0.0/24", "10.244.1.0/24"},
		},
		"all in use": {"10.244.0.0/16", 24, []string{"10.0.0.0/8"}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRanges(cloudcontrollers.NodeRange{
				Cluster: netip.MustParsePrefix(c.cluster), Bits: c.bits,
			})
			for _, used := range c.inUse {
				r.change(netip.MustParsePrefix(used), 1)
			}
			if r.free != len(c.want) {
				t.Errorf("%d ranges are free, want %d", r.free, len(c.want))
			}
			if got := takeAll(r); !slices.Equal(got, c.want) {
				t.Errorf("taken: %v, want %v", got, c.want)
			}
		})
	}
}

func TestRanges_SharedRange_IsFreeAfterTheLastUser(t *testing.T) {
	r := newRanges(cloudcontrollers.NodeRange{
		Cluster: netip.MustParsePrefix("10.244.0.0/23"), Bits: 24,
	})
	shared := netip.MustParsePrefix("10.244.0.0/24")
	if overlaps, isShared := r.change(shared, 1); !overlaps || isShared {
		t.Errorf("first user: overlaps %t, shared %t; want true, false", overlaps, isShared)
	}
	if overlaps, isShared := r.change(shared, 1); !overlaps || !isShared {
		t.Errorf("second user: overlaps %t, shared %t; want true, true", overlaps, isShared)
	}
	r.change(shared, -1)
	if got := takeAll(r); !slices.Equal(got, []string{"10.244.1.0/24"}) {
		t.Errorf("with one user left, taken: %v", got)
	}
	r.change(shared, -1)
	if got := takeAll(r); !slices.Equal(got, []string{"10.244.0.0/24"}) {
		t.Errorf("without users, taken: %v", got)
	}
}

// A released range rests until the others have been used.
func TestRanges_ReleasedRange_IsTakenLast(t *testing.T) {
	r := newRanges(cloudcontrollers.NodeRange{
		Cluster: netip.MustParsePrefix("10.244.0.0/22"), Bits: 24,
	})
	first, _ := r.take()
	r.change(first, -1)
	want := []string{"10.244.1.0/24", "10.244.2.0/24", "10.244.3.0/24", "10.244.0.0/24"}
	if got := takeAll(r); !slices.Equal(got, want) {
		t.Errorf("taken: %v, want %v", got, want)
	}
}

func takeAll(r *ranges) []string {
	var taken []string
	for {
		prefix, ok := r.take()
		if !ok {
			return taken
		}
		taken = append(taken, prefix.String())
	}
}
