package controlplane_test

import (
	"context"
	"fmt"
	"log"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/fxccm/fxccm/ccm/ccmtest/controlplane"
)

// A suite shares one control plane and counts at the wire what a program has done.
func Example() {
	ctx := context.Background()
	cp, err := controlplane.Start(ctx, controlplane.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer func() {
		if err := cp.Stop(ctx); err != nil {
			log.Print(err)
		}
	}()

	mark := cp.Audit().Mark()

	// The program under test would do this.
	client := kubernetes.NewForConfigOrDie(cp.RESTConfig())
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node-1"}}
	if _, err := client.CoreV1().Nodes().Create(ctx, node, metav1.CreateOptions{}); err != nil {
		log.Print(err)
	}

	writes, err := cp.Audit().Wait(ctx, mark, 1, controlplane.Mutating())
	if err != nil {
		log.Print(err)
	}
	for _, w := range writes {
		fmt.Println(w.Verb, w.ResourcePath(), w.Name, w.Code)
	}
	// This prints: create nodes node-1 201
}
