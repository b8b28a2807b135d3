package program_test

import (
	"context"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
)

// stubVariable has the address of a cloud. It makes the test binary a program with a controller.
const stubVariable = "FXCCM_TEST_PROGRAM"

// runStub is the program: it continually adds a field to a ConfigMap and sends a request to the
// cloud.
func runStub(cloud string) error {
	flags := flag.NewFlagSet("stub", flag.ContinueOnError)
	kubeconfig := flags.String("kubeconfig", "", "")
	port := flags.String("secure-port", "", "")
	mode := flags.String("mode", "", "")
	if err := flags.Parse(os.Args[1:]); err != nil {
		return err
	}
	if *mode == "exits" {
		return fmt.Errorf("no such zone")
	}
	terminated := make(chan os.Signal, 1)
	signal.Notify(terminated, syscall.SIGTERM)
	config, err := clientcmd.BuildConfigFromFlags("", *kubeconfig)
	if err != nil {
		return err
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	if err := send(http.MethodPost, fmt.Sprintf("%s/started?pid=%d&token=%s&incluster=%s", cloud,
		os.Getpid(), config.BearerToken, os.Getenv("KUBERNETES_SERVICE_HOST"))); err != nil {
		return err
	}
	go serveHealth(*port, cloud)
	for {
		select {
		case <-terminated:
			if *mode != "stubborn" {
				fmt.Println("terminated")
				return send(http.MethodPost, cloud+"/stopped")
			}
		default:
		}
		// A failure does not matter, because the controller never ends.
		_, _ = client.CoreV1().ConfigMaps(metav1.NamespaceDefault).Create(context.Background(),
			&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{GenerateName: "stub-"}},
			metav1.CreateOptions{})
		_ = send(http.MethodPost, cloud+"/work")
		time.Sleep(10 * time.Millisecond)
	}
}

// serveHealth reports the health of the cloud.
func serveHealth(port, cloud string) {
	err := http.ListenAndServe("127.0.0.1:"+port, http.HandlerFunc(
		func(w http.ResponseWriter, _ *http.Request) {
			if err := send(http.MethodGet, cloud+"/health"); err != nil {
				http.Error(w, err.Error(), http.StatusInternalServerError)
			}
		}))
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}

func send(method, url string) error {
	request, err := http.NewRequest(method, url, strings.NewReader(""))
	if err != nil {
		return err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s", url, response.Status)
	}
	_, err = io.Copy(io.Discard, response.Body)
	return err
}
