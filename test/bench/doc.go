// Program bench measures fxccm beside upstream's own cloud controller manager: on one machine, in
// one run, on the same real API server and the same fake cloud, each in a process of its own. It
// prints a table, and writes it as a page of the documentation.
//
// A trial is one measurement: the cluster and the cloud are emptied, the API server is left to
// settle, the work is created, and then the process under test is started. All times
// come from a watch on the API server.
//
// On a simulated OpenStack fxccm is measured alone: what counts there is how often it asks, which
// the cloud records.
package main
