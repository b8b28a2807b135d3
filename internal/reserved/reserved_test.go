package reserved

import (
	"net/netip"
	"testing"
)

func TestHas_EachAddress_InEachNotation(t *testing.T) {
	for address, want := range map[string]bool{
		"127.0.0.1": true, "127.9.9.9": true, "0.0.0.0": true, "0.0.0.1": true,
		"169.254.169.254": true, "224.0.0.1": true, "240.0.0.1": true, "255.255.255.255": true,
		"::": true, "::1": true, "fe80::1%eth0": true, "ff02::1": true,
		"::ffff:127.0.0.1": true, "::ffff:169.254.169.254": true, "::127.0.0.1": true,
		"64:ff9b::7f00:1": true, "64:ff9b::a9fe:a9fe": true, "64:ff9b:1::7f00:1": true,
		"2002:7f00:1::": true, "2002:a9fe:a9fe::1": true,
		"168.63.129.16": true, "100.100.100.200": true, "192.0.0.192": true,
		"fd00:ec2::254": true, "fd00:ec2::23": true, "fd20:ce::254": true, "fd00:42::42": true,
		"10.2.0.1": false, "192.168.0.1": false, "192.0.2.1": false, "100.100.100.201": false,
		"fd00::1": false, "fd00:42::43": false, "2001:db8::1": false, "64:ff9b::10.2.2.3": false,
	} {
		if got := Has(netip.MustParseAddr(address)); got != want {
			t.Errorf("%s: %t, want %t", address, got, want)
		}
	}
}
