package openstacktest_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack"
	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/servers"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/fxccm/fxccm/provider/openstack/openstacktest"
)

// computeOf is a client of the cloud's Nova.
func computeOf(ctx context.Context, cloud *openstacktest.Cloud) *gophercloud.ServiceClient {
	c := cloud.Credentials()
	provider, err := openstack.AuthenticatedClient(ctx, gophercloud.AuthOptions{
		IdentityEndpoint: c.AuthURL, UserID: c.UserID, Password: c.Password, AllowReauth: true,
		Scope: &gophercloud.AuthScope{ProjectID: c.ProjectID},
	})
	if err != nil {
		panic(err)
	}
	client, err := openstack.NewComputeV2(provider, gophercloud.EndpointOpts{Region: c.Region})
	if err != nil {
		panic(err)
	}
	client.Microversion = "2.47"
	return client
}

func Example() {
	ctx := context.Background()
	cloud := openstacktest.NewCloud()
	defer cloud.Close()
	id := cloud.AddServer(openstacktest.Server{Name: "node-1", AvailabilityZone: "az-1"})

	node, err := servers.Get(ctx, computeOf(ctx, cloud), id).Extract()
	fmt.Println(node.Name, node.Status, node.AvailabilityZone, node.Flavor["original_name"], err)

	for _, call := range cloud.Calls() {
		fmt.Println(call.Service, call.Operation, call.Status)
	}
	// Output:
	// node-1 ACTIVE az-1 m1.small <nil>
	// identity token_create 201
	// compute server_get 200
}

func ExampleCloud_Inject() {
	ctx := context.Background()
	cloud := openstacktest.NewCloud()
	defer cloud.Close()
	id := cloud.AddServer(openstacktest.Server{Name: "node-1"})
	client := computeOf(ctx, cloud)

	cloud.Inject(openstacktest.Fault{
		Operation: "server_get", Status: http.StatusServiceUnavailable,
		Times: 1,
	})
	for range 2 {
		_, err := servers.Get(ctx, client, id).Extract()
		fmt.Println(gophercloud.ResponseCodeIs(err, http.StatusServiceUnavailable), err == nil)
	}
	// Output:
	// true false
	// false true
}

func ExampleCloud_WaitForCall() {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	cloud := openstacktest.NewCloud()
	defer cloud.Close()
	client := computeOf(ctx, cloud)

	cloud.Inject(openstacktest.Fault{Operation: "server_list", Hang: true})
	listing, stop := context.WithCancel(ctx)
	done := make(chan error)
	go func() {
		_, err := servers.List(client, nil).AllPages(listing)
		done <- err
	}()

	call, err := cloud.WaitForCall(ctx,
		func(c openstacktest.Call) bool { return c.Operation == "server_list" })
	fmt.Println(call.Operation, "is in flight:", err == nil)
	stop()
	fmt.Println(<-done != nil)
	// Output:
	// server_list is in flight: true
	// true
}

func ExampleWithProvisioning() {
	ctx := context.Background()
	clock := clocktesting.NewFakePassiveClock(time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC))
	cloud := openstacktest.NewCloud(openstacktest.WithClock(clock),
		openstacktest.WithProvisioning(time.Minute))
	defer cloud.Close()
	client := computeOf(ctx, cloud)

	made, err := servers.Create(ctx, client,
		servers.CreateOpts{Name: "node-1", FlavorRef: "1", Networks: "none"}, nil).Extract()
	if err != nil {
		panic(err)
	}
	for range 2 {
		node, err := servers.Get(ctx, client, made.ID).Extract()
		fmt.Println(node.Status, err)
		clock.SetTime(clock.Now().Add(time.Minute))
	}
	// Output:
	// BUILD <nil>
	// ACTIVE <nil>
}

func ExampleCloud_CloudConf() {
	cloud := openstacktest.NewCloud(openstacktest.WithRegion("here"))
	defer cloud.Close()
	text := cloud.CloudConf("application-credential")
	for line := range strings.Lines(text) {
		key, _, _ := strings.Cut(line, " ")
		fmt.Println(strings.TrimSpace(key))
	}
	// Output:
	// [Global]
	// auth-url
	// region
	// application-credential-id
	// application-credential-secret
}

func ExampleCloud_AddProject() {
	cloud := openstacktest.NewCloud()
	defer cloud.Close()
	other := cloud.AddProject(openstacktest.Project{Name: "other", Domain: "corp"})
	cloud.AddServer(openstacktest.Server{Name: "theirs", ProjectID: other.ProjectID})
	fmt.Println(other.Username, other.DomainName, other.ProjectID != cloud.Credentials().ProjectID)
	// Output:
	// other-user corp true
}
