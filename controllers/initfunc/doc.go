// Package initfunc runs controllers that were written for upstream's cloud-controller-manager, as
// they are, as controllers of a [ccm.Manager]. Each of them is an app.ControllerInitFuncConstructor
// of k8s.io/cloud-provider/app:
//
//	// before: app.NewCloudControllerManagerCommand(opts, cloud, constructors, aliases, fss, stop)
//	params.Controllers = initfunc.Controllers(constructors, aliases)
//
// # What an InitFunc is given
// All of it belongs to the term: each term builds it, and ends it before the lease is released.
//
//   - Its context, and ControllerContext.Stop, end with the term.
//   - The cloud is the term's: calls pass the fence, and panics come back as errors.
//   - Every client passes the fence. The ...OrDie methods of the client builder do not end the
//     process: a client that cannot be made ends the term while the InitFunc runs, and later is one
//     whose requests fail and say why.
//   - Typed informers are the term's shared ones, in ControllerContext and in CompletedConfig
//     alike. Metadata informers are the controller's own. A factory that an InitFunc starts itself
//     runs until the end of the term, whatever channel it was given.
//   - InformersStarted is closed when typed informers have synced and metadata informers have been
//     started. Upstream's cloud controller manager neither closes the one nor starts the other, so
//     that only a kube-controller-manager could wait for them.
//   - The RESTMapper asks the API server when a mapping is first wanted, every half a minute after
//     that, and when a kind is not known, so that a kind which was added is found.
//   - The recorder is the term's: what is recorded until the end of its drain is sent.
//   - The ComponentConfig holds the Manager's configuration. What that does not have keeps
//     upstream's default; see [WithComponentConfig].
//
// Not set are SecureServing, LoopbackClientConfig, Authentication, Authorization and
// WebhookSecureServing: a Manager listens on no port. For the same
// reason Generic.Debugging is off.
//
// All clients that the adapter makes for a controller, for its metadata informers and its
// RESTMapper too, have the identity that ControllerInitContext.ClientName names, or the
// controller's name if that is empty. An InitFunc may ask the client builder for others. With
// --use-service-account-credentials the names are ServiceAccounts in kube-system; upstream gives
// ControllerContext.ClientBuilder the identity of the manager even then, and only
// CompletedConfig.ClientBuilder the controller's.
//
// # What comes back
//
// The InitFunc is called when the term's controllers are built, one after the other, without
// --controller-start-interval in between. As with upstream, it must not wait for informers before
// it returns: they are started when all controllers have been built. A controller that it did not
// start is left out of the term. An error or a panic is one of [ccm.Controller].New, and ends the
// term unless the controller says otherwise. The controller that it returns can be
// controller.HealthCheckable, which becomes the controller's health check, and
// controller.Debuggable.
//
// # What the adapter cannot do
//
// An InitFunc starts goroutines of its own, and the adapter cannot wait for them. They have a
// context that ends, and for as long as they do not notice, the fence refuses what they do; but one
// that waits for nothing but a channel of its own is left behind, in each term.
//
// A panic in such a goroutine ends the process, but for panics in calls to the cloud. So does a
// klog.Fatal or os.Exit wherever it is. Of upstream's own packages (k8s.io/cloud-provider and
// k8s.io/controller-manager v0.37) the following do that, beside the command itself:
//
//   - route.New, if it is given no cluster CIDR; upstream's InitFunc for it returns an error before
//     that
//   - cloudprovider.RegisterCloudProvider, for a name that is taken, and
//     cloudprovider.InitCloudProvider, for a configuration file that cannot be opened
//   - the client builders of package clientbuilder, in their ...OrDie methods; they are not used
//     here, unless an InitFunc makes one
//
// Constructors of client-go with such a name, as metadata.NewForConfigOrDie, panic instead, which
// is an error when an InitFunc does it.
//
// # The four
//
// Constructors in app.DefaultInitFuncConstructors are upstream's node, node lifecycle, service and
// route controllers, which a Manager has under the same names, and which there ask the provider
// first: upstream's service controller leaves two work queues behind when the provider has no load
// balancers. Two controllers of one name are an error of [ccm.New], so leave the four out of a map
// that began as upstream's:
//
//	for _, name := range []string{
//		names.CloudNodeController, names.CloudNodeLifecycleController,
//		names.ServiceLBController, names.NodeRouteController,
//	} {
//		delete(constructors, name)
//	}
//
// To run another one in place of one of the four, give it a name of its own and turn the Manager's
// off:
//
//	upstreams := app.DefaultInitFuncConstructors[names.CloudNodeController]
//	own := initfunc.Controller("mycloud-node-controller", upstreams)
//	cfg.Controllers = []string{"*", "-" + names.CloudNodeController}
//
// # What is linked
//
// Package app is upstream's command. It brings the API server's machinery, and its import alone
// registers feature gates, metrics, the flag --version of pflag.CommandLine, the process's metrics
// of work queues, and what serves /debug on http.DefaultServeMux (net/http/pprof,
// golang.org/x/net/trace). So this is a package of its own, which no other of the library imports.
package initfunc
