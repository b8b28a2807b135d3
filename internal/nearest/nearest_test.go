package nearest

import (
	"strings"
	"testing"
)

func TestName_IsTheOneThatDiffersLeast(t *testing.T) {
	names := []string{"", "subnet-id", "network-id", "flavor-id", "x"}
	for word, want := range map[string]string{
		"subnet-id":               "subnet-id",
		"SUBNETID":                "subnet-id",
		"netwrok-id":              "network-id",
		"flavour-id":              "flavor-id",
		"y":                       "x",
		"":                        "x",
		"something-else":          "",
		strings.Repeat("x", 1000): "",
	} {
		if got := Name(word, names); got != want {
			t.Errorf("for %.20q it takes %q, want %q", word, got, want)
		}
	}
}

func TestIsClose_IsOneEditOrOtherSeparators(t *testing.T) {
	for word, want := range map[string]bool{
		"port-id": true, "Port_ID": true, "portId": true, "prt-id": true, "port-idx": true,
		"pt-id": false, "ports-ids": false, "": false, strings.Repeat("x", 1000): false,
	} {
		if got := IsClose(word, "port-id"); got != want {
			t.Errorf("%.20q is close: %t, want %t", word, got, want)
		}
	}
}
