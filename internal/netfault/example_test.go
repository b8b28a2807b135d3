package netfault_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/fxccm/fxccm/internal/netfault"
)

func ExampleListenAPI() {
	// In a test this would be the RESTConfig of a controlplane.ControlPlane.
	cluster := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"kind":"NodeList","apiVersion":"v1","metadata":{},"items":[]}`)
	}))
	defer cluster.Close()

	proxy, err := netfault.ListenAPI(&rest.Config{Host: cluster.URL})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = proxy.Close() }()
	client, err := kubernetes.NewForConfig(proxy.RESTConfig())
	if err != nil {
		fmt.Println(err)
		return
	}
	list := func() error {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		_, err := client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
		return err
	}

	for _, fault := range []netfault.Fault{
		netfault.Pass(), netfault.BlackHole(), netfault.Refuse(),
		netfault.Pass(),
	} {
		if err := proxy.Set(fault); err != nil {
			fmt.Println(err)
		}
		fmt.Printf("%s: reached: %t\n", fault, list() == nil)
	}
	// Output:
	// pass: reached: true
	// black hole: reached: false
	// refuse: reached: false
	// pass: reached: true
}
