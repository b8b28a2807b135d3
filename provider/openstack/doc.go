// Package openstack is the cloud provider for OpenStack: nodes on Nova's servers, Services of type
// LoadBalancer on Octavia, and routes on Neutron's routers. [Module] adds it to an fx app,
// [Provider] to ccm.Params; see their examples.
//
// It reads the cloud.conf of openstack-cloud-controller-manager (OCCM), see package cloudconf, and
// the same annotations of Services. It finds the same servers, addresses and labels, and creates
// load balancers with the same names, so it takes over a cluster from OCCM without a change to its
// traffic. docs/explanation/openstack.md and docs/explanation/openstack-load-balancers.md list the
// differences.
//
// # What it needs
//
// Nova with compute API 2.1 or later, and Neutron. From 2.47 (Queens) on a server names its flavor
// itself, which saves a request. Load balancers need Octavia with API 2.0 or later: from 2.5 on it
// has tags, without which load balancers cannot be shared. Barbican is used only for certificates
// that a Service names. A login needs the roles that OCCM's needs: to read servers, ports, networks
// and trunks; to write load balancers and floating IPs, and security groups if it manages them; for
// routes, to change the router and the allowed address pairs of the nodes' ports.
//
// # When OpenStack is down
//
// The provider sends no request before it is needed, and no failure of OpenStack ends a term. Calls
// fail until the service is back, and the controllers repeat them. The provider reports a failed
// login and services that do not answer, under their names, such as "Keystone" and "Octavia", with
// ccm.ProviderEnv.ReportTrouble; under "cloud.conf" a failed reload of it, under "instances" a
// suspicious mass absence of them, under "quota" an exhausted one, and under names such as
// "permission to patch services for OpenStack" a missing right of the API server.
//
// Package openstacktest simulates all of these services for tests.
package openstack
