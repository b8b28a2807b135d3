package main

import (
	"fmt"
	"net/http"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/informers"
)

// serveNodes is a page of the host that counts the nodes. The informers run for as long as the
// process, whoever leads. The caches of controller-runtime and the cloud controller manager share
// them, so that nodes and Services are watched and kept once.
func serveNodes(mux *http.ServeMux, factory informers.SharedInformerFactory) {
	nodes := factory.Core().V1().Nodes().Lister()
	mux.HandleFunc("GET /nodes", func(w http.ResponseWriter, _ *http.Request) {
		all, err := nodes.List(labels.Everything())
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		_, _ = fmt.Fprintln(w, len(all)) // it fails when the client has gone
	})
}
