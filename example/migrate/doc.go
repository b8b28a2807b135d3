// Package migrate is "fxccm migrate": it replaces openstack-cloud-controller-manager (OCCM) in a
// cluster by fxccm, and goes back. It runs on the machine of the cluster's administrator.
//
// A migration can be interrupted after each step. The cluster itself says how far it has come:
// an annotation of OCCM's workload holds the field that stopped it, the replicas of fxccm's
// Deployment say whether it runs, and a ConfigMap holds the state of OpenStack before.
package migrate
