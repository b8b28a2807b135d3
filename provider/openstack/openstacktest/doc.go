// Package openstacktest is an OpenStack cloud in memory for tests, in the manner of
// net/http/httptest: Keystone, Nova, Neutron, Octavia and Barbican, as far as a cloud controller
// manager uses them.
//
// A [Cloud] is one cloud. It listens on a loopback address, so that any client of OpenStack can use
// it over the wire. It begins with a project, a user, an application credential and a trust. A test
// adds other objects, and reads the results:
//
//	cloud := openstacktest.NewCloud()
//	defer cloud.Close()
//	cloud.AddServer(openstacktest.Server{Name: "node-1"})
//	conf := cloud.CloudConf("password")
//	// ... run a cloud controller manager with conf ...
//	cloud.LoadBalancers()
//
// # What it serves
//
// It follows the rules of the real services. Comments name the source of surprising rules. Each
// service refuses in its own form, with the status, the type and the text of the real one, as far
// as clients read them.
//
//   - Keystone v3, at /identity: logins by password (by ids, or by names and domain), token,
//     application credential (by id, or by name and user), and for a trust; scopes by project or
//     trust, or none; expiry ([WithTokenLife]), revocation ([Cloud.RevokeTokens],
//     [Cloud.ChangePassword]), also as late as the services
//     notice it ([WithTokenCache]); users and their roles, for an administrator, and application
//     credentials; the catalog with its regions and the interfaces public, internal and admin
//     ([WithRegion]).
//   - Nova v2.1, at /compute: servers in all their states, listed by name, status and project;
//     their addresses, which are those of Neutron's ports and floating IPs and those that a test
//     adds; flavors, even deleted and private ones; availability zones; microversions 2.1 to 2.96
//     ([WithComputeMicroversion]).
//   - Neutron v2.0, at /networking: networks, subnets, ports, routers with their extra routes,
//     floating IPs, security groups, trunks, tags, revisions, quotas of projects, extensions that
//     can be switched off.
//   - Octavia v2, at /load-balancer: load balancers with all that belongs to them and its states.
//   - Barbican v1, at /key-manager: containers and secrets, which clients only read.
//
// Each request is executed at once and alone: concurrent requests never see a partial change. Work
// that takes time in a real cloud takes the time of [WithProvisioning] here, by the clock of
// [WithClock]. [WithRelease] selects a release of OpenStack.
//
// The same calls in the same order produce the same cloud with the same IDs; only tokens and the
// port differ.
//
// # What it does not serve
//
// There is no data plane: the address of a load balancer accepts no connections. Policies are those
// of a default cloud for a member of a project and for an administrator; other roles have no
// effect. A login has no role in a domain or in the system, and there are no groups, federations or
// second factors. Nova has no images, volumes, keys, server groups or quotas, and does at once what
// a request asks for. A request to Neutron creates one resource, deletes no network, subnet or
// router, and changes no subports of a trunk. Octavia has no L7 policies and no statistics, lists
// no providers, flavors or zones, and supports only the certificates of TLS. Lists cannot be
// sorted, and their links lead only to the next page. Any other path is a 404, and the record has
// it as unknown.
//
// # How it misbehaves
//
// [WithLatency] delays each answer. [Cloud.Inject] lets chosen requests fail: an error in the form
// of the service or a proxy's page, before or after the request took effect; no answer, a closed
// connection, a body that is truncated or changed.
//
//	cloud.Inject(openstacktest.Fault{
//		Operation: "server_list", Status: 503, RetryAfter: time.Second, Times: 2,
//	})
//
// The methods of Cloud are actions of other clients and of the cloud itself:
// [Cloud.SetServerStatus], [Cloud.DeleteServer], [Cloud.SetRoutes] and so on.
//
// # What it remembers
//
// It records every request, without its secrets: [Cloud.Calls], [Cloud.Counts]. [Cloud.WaitForCall]
// waits for one without polling. The record keeps the last 100,000 ([WithCallLimit]).
//
// # Several processes
//
// Command openstack-simulator, in the folder cmd, is a Cloud as a process. With [WithAdmin], as
// there, other processes control it over HTTP. They need no login, and their requests are neither
// recorded nor subject to faults. All bodies are JSON; the answer to an invalid request has a
// status of 4xx and {"error": "a sentence"}.
//
//	GET    /_sim/calls?operation=pattern   [Call, ...]
//	DELETE /_sim/calls                     forget calls and counts
//	GET    /_sim/counts                    {"server_list": 3, ...}
//	GET    /_sim/faults                    [Fault, ...], with id and number of uses
//	POST   /_sim/faults                    body Fault; answers {"id": 1}
//	DELETE /_sim/faults/{id}
//	DELETE /_sim/faults
//	GET    /_sim/servers                   [Server, ...]
//	POST   /_sim/servers                   body Server; answers {"id": "..."}
//	PUT    /_sim/servers/{id}/status       body {"status": "SHUTOFF"}
//	DELETE /_sim/servers/{id}
//	PUT    /_sim/latency                   body {"latency": "50ms"}
//	PUT    /_sim/page-size                 body {"items": 100}
//	DELETE /_sim/tokens                    revoke all
//	GET    /_sim/cloud-conf                {"cloudConf": "..."}
//
// An example of a Fault is
//
//	{"operation": "server_*", "skip": 1, "times": 2, "status": 503, "retryAfter": "1s"}
//
// with the fields of the Go type that are not functions: service, operation, skip, times, delay,
// status, message, retryAfter, body, afterEffect, hang, drop and truncate.
package openstacktest
