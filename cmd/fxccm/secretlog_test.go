package main

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
)

func TestProgram_AtTheHighestVerbosity_LogsNoTokenOfItsClients(t *testing.T) {
	w := newWorld(t)
	accounts := w.client.CoreV1().ServiceAccounts("default")
	if _, err := accounts.Create(t.Context(), &v1.ServiceAccount{
		ObjectMeta: metav1.ObjectMeta{Name: "metrics-reader"},
	}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	token, err := accounts.CreateToken(t.Context(), "metrics-reader",
		&authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	p := w.launch(t, "--v=10", "--vmodule=request=10")
	p.awaitAnswer("/readyz", http.StatusOK)
	// Until the port has read how to authenticate, it refuses all clients with 503.
	p.eventually("the token is authenticated", func() (string, bool) {
		code, body, err := p.get("/metrics", &rest.Config{BearerToken: token.Status.Token})
		return fmt.Sprintf("%d %s %v", code, body, err), code == http.StatusForbidden
	})

	p.Kill()
	logged := p.Output.String()
	if !strings.Contains(logged, "Verbosity lowered") {
		t.Errorf("the log does not say that the verbosity was lowered:\n%.2000s", logged)
	}
	for _, part := range strings.Split(token.Status.Token, ".") {
		if strings.Contains(logged, part) {
			t.Errorf("the log has a part of the token: %s", part)
		}
	}
	if strings.Contains(logged, "Body") {
		t.Error("the log has bodies of requests")
	}
}
