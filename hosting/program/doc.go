// Package program runs a whole cloud controller manager, a program that was not built with fxccm,
// as the provider of a Manager. The program may be of any Kubernetes version, or of another
// framework.
//
// The Manager elects and fences; the program controls. Each term starts the program, without an
// election of its own and with a kubeconfig for the term. The provider serves no interface, so the
// Manager runs none of the four cloud controllers.
//
// # How a term begins and ends
//
//   - The term is ready when the program is healthy; see [Options].HealthURL.
//   - Leadership is lost: the program is killed at once, with the programs that it has started. The
//     term has drained when they are dead.
//   - The term is stopped: the program gets SIGTERM, and is killed after two seconds.
//   - The program ends by itself: the term ends, and its error has the last lines of the program's
//     output. A new term follows after a pause.
//   - The program is unhealthy: [status.Manager].Troubles and the metric fxccm_cloud_trouble show
//     it. After [Options].HealthTimeout the term ends as if the program had ended, because a
//     program that does not work should not keep the lease. A kubelet restarts it in the same way.
//   - The host is killed: Linux kills the program with it (PR_SET_PDEATHSIG). Programs that it has
//     started continue.
//
// # What the program has
//
// Its kubeconfig is a file in memory without a name in the file system. Other processes of the same
// user and of root can read it, by /proc or as a debugger (ptrace), as they can read the memory of
// the program. It names a loopback address and has a token, which is refused after the term. The
// term's fence checks the requests, which the API server receives with the credentials of the host.
// Each line of the program's output is logged with the provider's name. Its memory is
// fxccm_provider_process_resident_memory_bytes.
//
// # Limits
//
// A host that is frozen without its program cannot end it: requests to the API server stop, but
// requests to the cloud continue until the host thaws. Package process does not have this limit.
// The flag --use-service-account-credentials of upstream does not work, because the tokens of other
// accounts do not belong to the term. The program's metrics are not served by the host. It needs
// Linux.
package program
