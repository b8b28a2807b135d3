// Package process runs a cloud provider in a process of its own, one for each term.
//
// A provider that was written for a process that dies with its lease may panic in its second term,
// write to the cloud after its term, or end the process. In a process of its own it cannot harm the
// host, and it cannot act after the term: fxccm kills it when leadership is lost.
//
// The program of the child is the host's own, unless [Options].Path names another one. Its main
// function begins with a call of [Main] with the provider. In the host the call returns at once; in
// a child it serves the provider until the term has ended. The host gives [Provider], with the name
// of that provider, to its Manager.
//
// # How a term ends
//
//   - Leadership is lost: the child is killed at once. The term has drained when the child is dead.
//   - The term is stopped: the stop channel of Initialize is closed, calls in flight are canceled,
//     the provider's goroutines have half a second, Close is called, and the child ends. It is
//     killed after two seconds.
//   - The child ends by itself: the term ends, and its error has the last lines of the child's
//     output. A new term follows after a pause.
//   - The host is killed: Linux kills the child with it (PR_SET_PDEATHSIG). The programs that the
//     child has started continue; see the limits.
//   - The host is frozen, or the connection ends: the child ends, and kills the programs that it
//     has started. If the host is frozen, it does so when leadership expires by its own clock.
//
// # What the child has
//
// The API server is served to it on a loopback address with a token of the term; the term's fence
// checks the requests. Flags, environment, metrics registry and package variables are its own.
// Arguments of [Options].Args are os.Args[1:] of the child; a provider's New may parse them. Each
// line of its output is logged with the provider's name. Its resident memory is
// fxccm_provider_process_resident_memory_bytes in the host's registry, on Linux.
//
// Messages are encoded by encoding/gob on one socket. net/rpc can neither cancel a call nor keep
// the order of messages nor let the child report a problem, so it is not used.
//
// # Limits
//
// A host and a child that are frozen together, such as in a frozen cgroup, send the rest of a
// request when they thaw. A provider that finds the API server by itself, such as with a kubeconfig
// of its own, bypasses the fence until it is killed. Programs that it starts are killed with it,
// unless they leave its process group. They also survive a host that is killed (SIGKILL, out of
// memory), because Linux then kills only the child; a provider should start them with
// SysProcAttr.Pdeathsig. The metrics of the child are not served. Informers of the child have their
// own cache. It needs Linux.
package process
