// Package registered runs any cloud provider that is registered with k8s.io/cloud-provider by name:
// that of every cloud controller manager that is built on upstream's framework. The host imports
// the package that registers the provider when the program starts:
//
//	import _ "k8s.io/cloud-provider-aws/pkg/providers/v1"
//
// and then
//
//	fx.New(ccm.Module, registered.Module("aws"), fx.Supply(cfg)).Run()
//
// Its configuration is the file of --cloud-config. The file is read in every term, so a change is
// taken up by the next one, and a mistake in it is a reason in the Manager's Status, until it is
// put right. Upstream's own way in, cloudprovider.InitCloudProvider, ends the process when the file
// cannot be read; it is not used.
//
// # What such a provider can rely on
//
// Upstream builds a provider once in a process; here it is built once a term. Its Initialize gets
// the term's clients, and a channel that is closed when the term ends: what it starts there is the
// term's, and has to end with it. SetInformers gets the term's informers. A Close() error, if it
// has one, is called after the term has drained. Work that a provider starts for the life of the
// process, in its factory or ignoring the channel, stays behind with each term.
//
// # What fxccm can do about it
//
// Every call of the provider passes the term's guard: it is refused when the term is over, its
// context ends with the term, and a panic becomes its error. A term is not over, and the lease not
// given back, before all of them have returned. The provider's own HTTP does not pass the term's
// fence, because a registered factory is handed nothing but its configuration: a request that the
// provider makes outside the calls it was given, or that it has not tied to their contexts, is out
// of reach. [ccm.ProviderEnv] has the transport for a provider that is written for it.
//
// # What cannot be kept from the host
//
//   - The registry is the process's. A name that is registered twice ends the process, while it
//     starts.
//   - A factory reads environment variables and credential files as it likes: Managers in one
//     process that use the same provider share these. Settings that differ between them must be in
//     the configuration file.
//   - Factories run one after another in the whole process, and with the registry locked. While one
//     hangs, no other Manager's registered provider can be built; its own term ends without
//     draining.
//   - os.Exit and klog.Fatal, in a factory or later, end the process. A factory's panic does not.
//   - The text of a factory's error is the provider's. It is shown in Status and in logs; some
//     parsers quote from the file they read.
package registered
