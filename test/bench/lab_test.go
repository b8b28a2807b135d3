package main

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/fxccm/fxccm/test/internal/project"
)

func TestLab_NotUp_IsAnErrorOnlyIfItIsNamed(t *testing.T) {
	up := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer up.Close()
	folder := t.TempDir()
	lab := func(address string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(folder, "lab.json"),
			[]byte(`{"auth_url": "`+address+`"}`), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	check := func(why string, there bool) {
		t.Helper()
		for _, asked := range []bool{false, true} {
			got, err := withoutLab(t.Context(),
				settings{scenarios: []string{"start", labScenario}, asked: asked})
			if slices.Contains(got, labScenario) != there || (err != nil) != (asked && !there) {
				t.Errorf("%s, asked for %v: measured are %q, %v", why, asked, got, err)
			}
			if err != nil && !strings.Contains(err.Error(), "make openstack-lab") {
				t.Errorf("%s: the error does not tell what to do: %v", why, err)
			}
		}
	}
	t.Setenv(project.LabVariable, "")
	check("no folder is named", false)
	t.Setenv(project.LabVariable, folder)
	check("nothing is in the folder", false)
	lab(up.URL)
	check("Keystone answers", true)
	up.Close()
	check("Keystone does not answer", false)
}
