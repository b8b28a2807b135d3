package routes

import "testing"

func TestParseDestination_EachCIDR_IsCanonicalOrRefused(t *testing.T) {
	for cidr, want := range map[string]string{
		"10.244.1.0/24": "10.244.1.0/24", "10.244.1.9/24": "10.244.1.0/24",
		"FD00:0::/64": "fd00::/64",
		"10.244.1.0":  "", "": "", "10.244.1.0/33": "", "x/24": "", "::ffff:10.0.0.0/120": "",
	} {
		got, err := parseDestination(cidr)
		if want == "" && err == nil || want != "" && (err != nil || got.String() != want) {
			t.Errorf("%q is read as %v, %v; want %q", cidr, got, err, want)
		}
	}
}

func FuzzParseName(f *testing.F) {
	for _, name := range []string{
		"10.244.1.0/24 via 10.0.0.1", "fd00::/64 via fd00::1", " via ",
		"", "10.0.0.1/8 via fe80::1%eth0",
	} {
		f.Add(name)
	}
	f.Fuzz(func(t *testing.T, name string) {
		r, err := parseName(name)
		if err != nil {
			return
		}
		if again, err := parseName(r.String()); err != nil || again != r {
			t.Errorf("%q is read as %s, and that as %v, %v", name, r, again, err)
		}
	})
}
