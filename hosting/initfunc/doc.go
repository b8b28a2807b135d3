// Package initfunc runs controllers that were written for upstream's cloud-controller-manager as
// controllers of a [ccm.Manager], without changes. Each of them is an
// app.ControllerInitFuncConstructor of k8s.io/cloud-provider/app:
//
//	// before: app.NewCloudControllerManagerCommand(opts, cloud, constructors, aliases, fss, stop)
//	params.Controllers = initfunc.Controllers(constructors, aliases)
//
// # The input of an InitFunc
//
// The whole input belongs to a term: each term builds it, and ends it before the lease is released.
//
//   - Its context, and ControllerContext.Stop, end with the term.
//   - The cloud is the term's: the fence checks calls, and panics are returned as errors.
//   - The fence checks every client. The ...OrDie methods of the client builder do not end the
//     process: if a client cannot be made while the InitFunc runs, the term ends. Later, the
//     requests of such a client fail with the reason.
//   - Typed informers are the term's shared informers, both in ControllerContext and in
//     CompletedConfig. Metadata informers belong to the controller. A factory that an InitFunc
//     starts itself runs until the end of the term, whatever channel it was given.
//   - InformersStarted is closed when typed informers have synced and metadata informers have been
//     started. Upstream's cloud controller manager does not close InformersStarted and does not
//     start metadata informers. Only kube-controller-manager does.
//   - The RESTMapper reads the API server's discovery at its first use, and every 30 seconds after
//     that. It also reads it for an unknown kind, so that it finds a kind that was added.
//   - The recorder is the term's: events that are recorded until the end of the drain are sent.
//   - The ComponentConfig contains the Manager's configuration. Fields that the Manager's
//     configuration does not have keep upstream's defaults; see [WithComponentConfig].
//
// SecureServing, LoopbackClientConfig, Authentication, Authorization and WebhookSecureServing are
// not set, and Generic.Debugging is off, because a Manager listens on no port.
//
// All clients that the adapter makes for a controller have the identity
// ControllerInitContext.ClientName, or the controller's name if that is empty. This includes the
// clients of its metadata informers and its RESTMapper. An InitFunc may request further clients
// from the client builder. With --use-service-account-credentials the names are ServiceAccounts in
// kube-system. Upstream's ControllerContext.ClientBuilder keeps the manager's identity even then,
// and only CompletedConfig.ClientBuilder has the controller's.
//
// # The result of an InitFunc
//
// The InitFunc is called when the term's controllers are built, one after the other, without
// --controller-start-interval in between. As with upstream, it must not wait for informers before
// it returns, because they are started when all controllers have been built. A controller that the
// InitFunc did not start is skipped in this term. An error or a panic counts as one of
// [ccm.Controller].New, and ends the term unless the controller has RestartOnFailure. The
// controller that the InitFunc returns may be a controller.HealthCheckable, for the health check,
// and a controller.Debuggable.
//
// # Limits of the adapter
//
// An InitFunc starts goroutines for which the adapter cannot wait. Their context ends with the
// term, and the fence refuses their later calls. But a goroutine that waits only for its own
// channel is left behind, in each term.
//
// A panic in such a goroutine ends the process, except for panics in calls to the cloud. A
// klog.Fatal or os.Exit ends the process anywhere. In upstream's packages (k8s.io/cloud-provider
// and k8s.io/controller-manager v0.37) the following functions do that, in addition to the command
// itself:
//
//   - route.New without a cluster CIDR; upstream's InitFunc for it returns an error before that
//   - cloudprovider.RegisterCloudProvider for a name in use, and cloudprovider.InitCloudProvider
//     for a configuration file that cannot be opened
//   - the ...OrDie methods of the client builders of package clientbuilder, which only an InitFunc
//     could make
//
// Constructors of client-go with such a name, as metadata.NewForConfigOrDie, panic instead. In an
// InitFunc the panic becomes an error.
//
// # Upstream's four controllers
//
// The constructors in app.DefaultInitFuncConstructors are upstream's node, node lifecycle, service
// and route controllers. A Manager has controllers of the same names, and checks the provider
// first: upstream's service controller leaves two work queues behind if the provider does not serve
// load balancers. Two controllers of one name are an error of [ccm.New], so delete the
// four from a copy of upstream's map:
//
//	for _, name := range []string{
//		names.CloudNodeController, names.CloudNodeLifecycleController,
//		names.ServiceLBController, names.NodeRouteController,
//	} {
//		delete(constructors, name)
//	}
//
// To replace one of the four, give the other controller its own name, and turn the Manager's
// controller off:
//
//	upstreams := app.DefaultInitFuncConstructors[names.CloudNodeController]
//	own := initfunc.Controller("mycloud-node-controller", upstreams)
//	cfg.Controllers = []string{"*", "-" + names.CloudNodeController}
//
// # Linked packages
//
// Package app is upstream's command. It links the API server's libraries. Its import alone
// registers feature gates, metrics, the flag --version of pflag.CommandLine and the process's
// metrics of work queues, and adds handlers of /debug to http.DefaultServeMux (net/http/pprof,
// golang.org/x/net/trace). Therefore no other package of the library imports this one.
package initfunc
