// Package migrate is "fxccm migrate": it replaces openstack-cloud-controller-manager (OCCM) in a
// cluster by fxccm, and goes back. It runs on the machine of the cluster's administrator.
//
// A migration can be interrupted after each step. The cluster stores its progress: an annotation of
// OCCM's workload holds the previous value of the field that stopped it, the replicas of fxccm's
// Deployment show whether it runs, and a ConfigMap holds the previous state of OpenStack.
package migrate
