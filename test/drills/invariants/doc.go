// Package invariants proves at the wire what the library promises of a term and its fence. Its
// tests run the example binary as processes, against a real kube-apiserver and etcd, under exactly
// the RBAC rules it is shipped with; the cloud is a process of its own that the replicas share. The
// evidence is the API server's audit log and the cloud's record, never a report of the library.
//
//	I1  After the fence has closed, nothing of the term changes anything.
//	        TestLeaseTaken_QueuedAndInFlightWork_MakesNoCalls
//	        TestRenewalsFail_RequestsEndWithTheTerm
//	I2  The fence also closes by the clock.
//	        TestFrozenLeader_ChangesNothingWhenItWakes
//	        and the outages of package drills
//	I3  No two terms of one lease act at once.
//	        TestKilledLeaders_NeverTwoTermsAtOnceAndNothingIsLostOrMadeTwice
//	        and, by wantOneTermAtATime, every test with more than one replica
//	I4  The lease is not released while a call is in flight.
//	        TestGracefulStop_HandsOverWithoutCallsInFlight
//	        test/e2e/controllers: TestLeadership_DrainTimeoutKeepsTheLease
//	I5  Nothing leaks, and no work is lost.
//	        TestStormOfErrors_NoWorkIsLostAndNothingLeaks
//	I6  Nothing in the library ends the process or writes a global.
//	        The processes survive all of these. See tools/never and test/sideeffects.
//	I7  A panic of a provider is an error of the call.
//	        TestProviderPanics_TheCallFailsAndTheProcessLives
//	I8  A drain timeout is reported, the lease expires, and the host's policy decides.
//	        test/drills: TestProvider_IgnoresItsCancellation_TheProcessEndsBeforeAnotherLeads
//
// # When the fence has closed
//
// Where possible, a test does not need the time at which the fence closed: all workers wait for the
// cloud, so that no request is being sent, and the count of new requests begins before leadership
// is lost. Otherwise the closing time is the time of the log line "Term ends", which the process
// writes right after the fence has closed, never before.
//
// The user agent of a request begins with the name of its replica; the caller of a call to the
// cloud is identity and term. All processes read the clock of the machine.
//
// The tests need Linux, because they freeze processes, and read /proc.
package invariants
