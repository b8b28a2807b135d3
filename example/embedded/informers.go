package main

import (
	"fmt"
	"net/http"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/informers"
)

// serveNodes is a page of the host that counts the nodes. The informers run as long as the process,
// with or without leadership. Controller-runtime's cache and the cloud controller manager share
// them, so each kind is watched and stored once.
func serveNodes(mux *http.ServeMux, factory informers.SharedInformerFactory) {
	nodes := factory.Core().V1().Nodes().Lister()
	mux.HandleFunc("GET /nodes", func(w http.ResponseWriter, _ *http.Request) {
		all, err := nodes.List(labels.Everything())
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		_, _ = fmt.Fprintln(w, len(all)) // it fails if the client has disconnected
	})
}
