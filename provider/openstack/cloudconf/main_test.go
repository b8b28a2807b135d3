package cloudconf

import (
	"errors"
	"strings"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// login holds the required options of a cloud.conf.
const login = "[Global]\nauth-url = https://keystone.example:5000/v3\nuser-id = u1\npassword = " +
	"hunter2\ntenant-id = p1\n"

// told returns the problems, one a line.
func told(problems []Problem) string {
	var all []string
	for _, p := range problems {
		all = append(all, p.String())
	}
	return strings.Join(all, "\n")
}

// refused returns the problems of an error.
func refused(t *testing.T, err error) Problems {
	t.Helper()
	var problems Problems
	if err != nil && !errors.As(err, &problems) {
		t.Fatalf("the error is %T, want Problems: %v", err, err)
	}
	return problems
}
