package process_test

import (
	"net/http/httptest"
	"testing"

	cloudprovider "k8s.io/cloud-provider"

	"github.com/fxccm/fxccm/ccm/ccmtest"
	"github.com/fxccm/fxccm/provider/fake"
)

// BenchmarkCall compares a call of a provider in a process of its own with one in this process. The
// cloud is in the process of the test for both, behind the same HTTP server.
func BenchmarkCall(b *testing.B) {
	for name, open := range places() {
		b.Run(name, func(b *testing.B) {
			cloud := newFakeCloud(b)
			instances, _ := open(b, cloud).InstancesV2()
			node := ccmtest.ReadyNode("node-1")
			for b.Loop() {
				if _, err := instances.InstanceMetadata(b.Context(), node); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkStart measures the time until a provider is built and initialized.
func BenchmarkStart(b *testing.B) {
	for name, open := range places() {
		b.Run(name, func(b *testing.B) {
			for range b.N {
				open(b, newFakeCloud(b)).Initialize(noServer{}, nil)
			}
		})
	}
}

func places() map[string]func(*testing.B, *fake.Cloud) cloudprovider.Interface {
	return map[string]func(*testing.B, *fake.Cloud) cloudprovider.Interface{
		"in process": dialed,
		"process": func(b *testing.B, cloud *fake.Cloud) cloudprovider.Interface {
			got, _ := openChild(b, cloud)
			return got
		},
	}
}

// dialed returns a provider of this process.
func dialed(b *testing.B, cloud *fake.Cloud) cloudprovider.Interface {
	server := httptest.NewServer(cloud.Handler())
	b.Cleanup(server.Close)
	client, err := fake.Dial(b.Context(), server.URL)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(client.Close)
	return client.Provider()
}
