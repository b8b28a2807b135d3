// Package drills runs outages of the API server against real processes, in each situation in which
// a term may be, and in each topology in which the library is used:
//
//	outage x situation x topology
//
// One such combination is a cell. A cell has its own cluster, which is a part of a kube-apiserver
// (package test/internal/endpoint), a cloud, and one or two processes. Each process reaches the API
// server through its own proxy of package netfault, which causes the outage. The cell shows that
//
//   - no mutating call, to the cloud or the API server, is made after the fence of a term has
//     closed,
//   - no two terms act at once,
//   - the processes live,
//   - the cloud controller manager leads again within seconds of the end of the outage, and new
//     work is done,
//   - the processes have no more goroutines and connections than before.
//
// The evidence is the API server's audit log, the cloud's record, and from the logs of the
// processes only the times at which their fences closed.
//
// The drills also prove at the wire what the library promises of a term and its fence:
//
//	I1  After the fence has closed, nothing of the term changes anything.
//	        TestLeaseTaken_QueuedAndInFlightWork_MakesNoCalls,
//	        TestCloudInterrupted_PendingWriteOfTheOldTerm_NeverArrives, and the outages
//	I2  The fence also closes by the clock.
//	        TestFrozenLeader_ChangesNothingWhenItWakes, and the outages
//	I3  No two terms of one lease act at once.
//	        TestKilledLeaders_NeverTwoTermsAtOnceAndNothingIsLostOrMadeTwice, the outages, and
//	        the lease drills
//	I4  The lease is not released while a call is in flight.
//	        test/e2e/controllers: TestLeadership_LeaseIsKeptWhileACallIsInFlight
//	I5  Nothing leaks, and no work is lost.
//	        The outages, and test/e2e/leaks
//	I6  Nothing in the library ends the process or writes a global.
//	        The processes survive all of these. See tools/never and test/sideeffects.
//	I7  A panic of a provider is an error of the call.
//	        TestProviderPanics_TheCallFailsAndTheProcessLives
//	I8  A drain timeout is reported, the lease expires, and the host's policy decides.
//	        TestProvider_IgnoresItsCancellation_TheProcessEndsBeforeAnotherLeads
//
// A plain "go test" runs cells in which each outage, each situation and each topology occurs.
// FXCCM_DRILLS=all runs all cells, which takes ten minutes, and -update writes the result to
// docs/evidence/drills.md; "make test-drills" does both.
//
// The fleet drills run replicas of a fleet that come, freeze and die, with clocks that are an hour
// wrong, and clusters with hostile API servers. FXCCM_DRILLS_OTHER names a commit, whose example
// one of the replicas runs.
//
// The lease drills delete and edit the lease of two replicas whose controllers call the cloud and
// write to the API server as fast as they can.
//
// The drills need Linux, because they freeze processes.
package drills
