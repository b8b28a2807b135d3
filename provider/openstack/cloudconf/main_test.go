package cloudconf

import (
	"errors"
	"strings"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// login is what a cloud.conf cannot do without.
const login = "[Global]\nauth-url = https://keystone.example:5000/v3\nuser-id = u1\npassword = " +
	"hunter2\ntenant-id = p1\n"

// told are problems in a line each.
func told(problems []Problem) string {
	var all []string
	for _, p := range problems {
		all = append(all, p.String())
	}
	return strings.Join(all, "\n")
}

// refused are what an error tells.
func refused(t *testing.T, err error) Problems {
	t.Helper()
	var problems Problems
	if err != nil && !errors.As(err, &problems) {
		t.Fatalf("the error is %T, want Problems: %v", err, err)
	}
	return problems
}
