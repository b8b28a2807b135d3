package cloudcontrollers_test

import (
	"strings"
	"testing"

	"github.com/fxccm/fxccm/internal/cloudcontrollers"
)

func TestParseClusterCIDRs_EachList_IsReadAsUpstreamDoes(t *testing.T) {
	for list, want := range map[string]string{
		"10.244.0.0/16":                     "10.244.0.0/16",
		"10.244.3.7/16":                     "10.244.0.0/16",
		"10.244.0.0/16,fd00:10:244::/56":    "10.244.0.0/16 fd00:10:244::/56",
		" fd00:10:244::/56 , 10.244.0.0/16": "fd00:10:244::/56 10.244.0.0/16",
	} {
		cidrs, err := cloudcontrollers.ParseClusterCIDRs(list)
		if err != nil {
			t.Errorf("%q: %v", list, err)
			continue
		}
		var got []string
		for _, cidr := range cidrs {
			got = append(got, cidr.String())
		}
		if joined := strings.Join(got, " "); joined != want {
			t.Errorf("%q: got %s, want %s", list, joined, want)
		}
	}
}

func TestParseClusterCIDRs_InvalidList_ErrorNamesTheBrokenRule(t *testing.T) {
	for list, want := range map[string]string{
		"":                            "empty",
		"  ":                          "empty",
		"10.244.0.0":                  `"10.244.0.0" is not a CIDR`,
		"10.244.0.0/16,":              `"" is not a CIDR`,
		"10.1.0.0/16,10.2.0.0/16":     "one IP family",
		"fd00::/56,fd01::/56":         "one IP family",
		"10.1.0.0/16,fd00::/56,::/64": "3 CIDRs",
	} {
		if _, err := cloudcontrollers.ParseClusterCIDRs(list); err == nil ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("%q: want an error that says %q, got: %v", list, want, err)
		}
	}
}

// For any input, upstream's route controller must get one network, or two of different families, or
// an error.
func FuzzParseClusterCIDRs(f *testing.F) {
	for _, seed := range []string{
		"10.244.0.0/16", "10.244.0.0/16,fd00::/56",
		"::ffff:10.0.0.0/112,10.0.0.0/8", ",", "010.1.2.3/8",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, list string) {
		cidrs, err := cloudcontrollers.ParseClusterCIDRs(list)
		if err != nil {
			if len(cidrs) > 0 {
				t.Errorf("%q: %v with an error: %v", list, cidrs, err)
			}
			return
		}
		if len(cidrs) < 1 || len(cidrs) > 2 {
			t.Fatalf("%q: %d networks", list, len(cidrs))
		}
		for _, cidr := range cidrs {
			if cidr == nil || len(cidr.IP) != len(cidr.Mask) {
				t.Errorf("%q: malformed network %v", list, cidr)
			}
		}
		if len(cidrs) == 2 && len(cidrs[0].Mask) == len(cidrs[1].Mask) {
			t.Errorf("%q: %v and %v are of one family", list, cidrs[0], cidrs[1])
		}
	})
}
