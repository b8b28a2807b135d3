// Package openstack is the cloud provider of OpenStack: nodes on Nova's servers, and routes on Neutron's routers.
//
// It reads the cloud.conf of openstack-cloud-controller-manager (OCCM), see package config, and finds the same servers, provider IDs,
// addresses and labels, so that it can go on with a cluster that OCCM has run. Where it differs is listed in
// docs/explanation/openstack.md.
//
// # What it asks of OpenStack
//
// Nova with compute API 2.1 (Queens or later is better: from microversion 2.47 on a server tells its flavor itself), and Neutron. The login
// needs the roles that OCCM's needs: to read servers, ports, networks and trunks, and for routes to change the router and the allowed
// address pairs of the nodes' ports.
//
// Nothing is asked before it is needed. If Keystone or a service is down, calls fail until it is back, and the controllers try again.
package openstack
