package process

import (
	"strings"
	"testing"
)

func TestProvider_ProgramWithoutMain_IsRefused(t *testing.T) {
	if err := (Options{Name: "acme"}).check(false); err == nil ||
		!strings.Contains(err.Error(), "call process.Main first in main") {
		t.Errorf("a program whose child would be a copy of it: %v", err)
	}
	for _, other := range []struct {
		Options
		hasMain bool
	}{{Options{Name: "acme"}, true}, {Options{Name: "acme", Path: "/bin/acme"}, false}} {
		if err := other.check(other.hasMain); err != nil {
			t.Errorf("%+v: %v", other, err)
		}
	}
}
