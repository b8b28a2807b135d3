package endpoints

import (
	"fmt"
	"io"
	"net/http"
	"runtime"
	"runtime/pprof"
	"runtime/trace"
	"strconv"
	"time"
)

// installProfiles serves the profiles for `go tool pprof` and `go tool trace`. net/http/pprof is
// not used, because its import registers handlers on http.DefaultServeMux, which a host may serve
// in public. Unlike net/http/pprof, the handlers do not show the host's command line.
func installProfiles(mux *http.ServeMux) {
	mux.HandleFunc("GET /debug/pprof", func(w http.ResponseWriter, _ *http.Request) {
		// Relative: the host may have stripped a prefix.
		w.Header().Set("Location", "pprof/")
		w.WriteHeader(http.StatusMovedPermanently)
	})
	mux.HandleFunc("GET /debug/pprof/{$}", listProfiles)
	mux.HandleFunc("GET /debug/pprof/profile",
		recording(30*time.Second, pprof.StartCPUProfile, pprof.StopCPUProfile))
	mux.HandleFunc("GET /debug/pprof/trace", recording(time.Second, trace.Start, trace.Stop))
	mux.HandleFunc("GET /debug/pprof/{profile}", writeProfile)
}

func listProfiles(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	fmt.Fprintln(w, "profile?seconds=30: CPU\ntrace?seconds=1: execution trace")
	for _, p := range pprof.Profiles() {
		fmt.Fprintf(w, "%s: %d\n", p.Name(), p.Count())
	}
}

// recording serves a recording of ?seconds, or of the default length. A process can make only one
// recording of a kind at a time.
func recording(
	defaultLength time.Duration, start func(io.Writer) error, stop func(),
) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		length := defaultLength
		if text := r.URL.Query().Get("seconds"); text != "" {
			seconds, err := strconv.ParseFloat(text, 64)
			if err != nil || !(seconds > 0 && seconds <= 3600) {
				reason := fmt.Sprintf("seconds=%q is not a number above 0 and up to 3600", text)
				http.Error(w, reason, http.StatusBadRequest)
				return
			}
			length = time.Duration(seconds * float64(time.Second))
		}
		if r.Method == http.MethodHead {
			return
		}
		w.Header().Set("Content-Type", "application/octet-stream")
		if err := start(w); err != nil {
			http.Error(w, err.Error(), http.StatusConflict)
			return
		}
		defer stop()
		timer := time.NewTimer(length)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-r.Context().Done():
		}
	}
}

func writeProfile(w http.ResponseWriter, r *http.Request) {
	name, query := r.PathValue("profile"), r.URL.Query()
	profile := pprof.Lookup(name)
	if profile == nil {
		http.NotFound(w, r)
		return
	}
	if query.Has("seconds") {
		http.Error(w, "profile "+name+" is a snapshot; seconds is for profile and trace",
			http.StatusBadRequest)
		return
	}
	debug := 0
	if text := query.Get("debug"); text != "" {
		var err error
		if debug, err = strconv.Atoi(text); err != nil {
			http.Error(w, fmt.Sprintf("debug=%q is not a number", text), http.StatusBadRequest)
			return
		}
	}
	if name == "heap" && query.Get("gc") == "1" {
		runtime.GC()
	}
	w.Header().Set("Content-Type", "application/octet-stream")
	if debug > 0 {
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	}
	_ = profile.WriteTo(w, debug) // an error means that the client is gone
}
