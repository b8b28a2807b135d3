package endpoints

import (
	"cmp"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/go-logr/logr"

	"github.com/fxccm/fxccm/ccm"
)

// health serves checks under a name like the components of Kubernetes. /<name> returns 200 and
// "ok", or 500 and a list. ?verbose always lists, ?exclude=check skips a check, and /<name>/<check>
// is one check.
//
// The list withholds the reason of a failure, because it is public; the path of the check shows the
// reason.
type health struct {
	name   string
	checks []ccm.Check
	log    logr.Logger
}

// passed returns the line of a check that has passed.
func passed(c ccm.Check) string {
	if c.Detail == nil {
		return "ok"
	}
	return cmp.Or(strings.Join(strings.Fields(c.Detail()), " "), "ok")
}

func (h health) install(mux *http.ServeMux) {
	mux.HandleFunc("GET /"+h.name, h.all)
	// The host chooses a controller's name, which may contain slashes.
	mux.HandleFunc("GET /"+h.name+"/{check...}", h.one)
}

func (h health) all(w http.ResponseWriter, r *http.Request) {
	exclude := r.URL.Query()["exclude"]
	var list strings.Builder
	failed := false
	for _, check := range h.checks {
		if slices.Contains(exclude, check.Name) {
			exclude = slices.DeleteFunc(slices.Clone(exclude), func(name string) bool {
				return name == check.Name
			})
			fmt.Fprintf(&list, "[+]%s excluded: ok\n", check.Name)
			continue
		}
		if err := check.Check(r); err != nil {
			failed = true
			h.log.V(2).Info("Health check failed",
				"endpoint", h.name, "check", check.Name, "reason", err.Error())
			fmt.Fprintf(&list, "[-]%s failed: reason withheld\n", check.Name)
			continue
		}
		fmt.Fprintf(&list, "[+]%s %s\n", check.Name, passed(check))
	}
	if len(exclude) > 0 {
		fmt.Fprintf(&list, "warn: some health checks cannot be excluded: no matches for %s\n",
			quoted(exclude))
	}
	if failed {
		http.Error(w, list.String()+h.name+" check failed", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	if !r.URL.Query().Has("verbose") {
		fmt.Fprint(w, "ok")
		return
	}
	fmt.Fprintf(w, "%s%s check passed\n", list.String(), h.name)
}

func (h health) one(w http.ResponseWriter, r *http.Request) {
	name := r.PathValue("check")
	i := slices.IndexFunc(h.checks, func(c ccm.Check) bool { return c.Name == name })
	if i < 0 {
		http.NotFound(w, r)
		return
	}
	if err := h.checks[i].Check(r); err != nil {
		http.Error(w, "internal server error: "+err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	fmt.Fprint(w, passed(h.checks[i]))
}

func quoted(names []string) string {
	out := make([]string, 0, len(names))
	for _, name := range names {
		out = append(out, fmt.Sprintf("%q", name))
	}
	slices.Sort(out)
	return strings.Join(slices.Compact(out), ",")
}
