// Package registered runs cloud providers that were written for k8s.io/cloud-provider, inside the
// host's process.
//
// # What fxccm cannot fence
//
// A provider in the host's process is ordinary Go code, so the fence has limits:
//
//   - A goroutine that the provider starts and that ignores the end of its term may still write to
//     the cloud with the provider's own HTTP client, after the term has been reported drained.
//   - A provider that makes clients of the API server itself, such as from a kubeconfig, bypasses
//     the fence with them.
//   - A panic in such a goroutine ends the host's process, as do os.Exit and klog.Fatal. A panic in
//     a factory or in a call does not.
//   - A call that ignores its context holds up the drain, and the Manager stays degraded until the
//     call returns.
//   - Environment variables, flags, metrics registries and global variables belong to the process:
//     all Managers share them.
//
// A provider with one of these habits needs a process of its own.
//
// # Three ways in
//
//   - [Provider] and [Module]: a provider that registers itself by name when its package is
//     imported.
//   - [Factory]: a provider with a constructor that takes a lister, a CIDR or a client.
//   - [Shared]: a provider of either kind that can exist only once in a process, because it owns a
//     port or writes global variables.
//
// # A registered provider
//
// The host imports the package that registers the provider when the program starts:
//
//	import _ "k8s.io/cloud-provider-aws/pkg/providers/v1"
//
// and then
//
//	fx.New(ccm.Module, registered.Module("aws"), fx.Supply(cfg)).Run()
//
// Its configuration is the file of --cloud-config. Each term reads the file, so the next term uses
// a change, and Status shows the reason while the file has a mistake. Upstream's function
// cloudprovider.InitCloudProvider ends the process when the file cannot be read; this package does
// not use it.
//
//   - The registry belongs to the process. A name that is registered twice ends the process while
//     it starts.
//   - Factories run one after another in the whole process, because the registry is locked
//     meanwhile. While one hangs, no other Manager's registered provider can be built, and its own
//     term ends without draining.
//   - The text of a factory's error is the provider's. Status and logs show it; some parsers quote
//     from the file that they read.
//
// # What a provider can rely on
//
// Upstream builds a provider once in a process; here it is built once a term, except with [Shared].
// Its Initialize gets the term's clients, and a channel that is closed when the term ends. The work
// that Initialize starts must end with that channel. SetInformers gets the term's informers. A
// method Close() error, if it exists, is called after the term has drained.
//
// Every call of the provider is checked by the term's guard: it is refused when the term is over,
// its context ends with the term, and a panic becomes its error. The lease is not released before
// all calls have returned. The provider's own HTTP is checked by the term's fence only if the
// provider uses the Transport of [ccm.ProviderEnv].
package registered
