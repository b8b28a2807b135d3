package cloudcontrollers

import (
	"k8s.io/apimachinery/pkg/labels"

	"github.com/fxccm/fxccm/internal/servicelb"
)

// ServiceLB builds the service-lb-controller: it keeps a load balancer for every Service of type
// LoadBalancer that the classes select, with the selected nodes as members. At most syncs calls for
// Services, and as many updates after changes of nodes, are in flight at once.
func ServiceLB(
	t Term, nodes labels.Selector, syncs int32, classes servicelb.Classes,
) (Run, error) {
	balancers, ok := t.Cloud().LoadBalancer()
	if !ok {
		return nil, notServed("load balancers")
	}
	client, err := t.Client(serviceClient)
	if err != nil {
		return nil, err
	}
	controller, err := servicelb.New(servicelb.Params{
		ClusterName: t.ClusterName(), Cloud: balancers, Classes: classes, Nodes: nodes,
		Client: client.CoreV1(), Informers: t.Informers(), Endpoints: t.EndpointInformers,
		Recorder: t.Recorder("service-controller"), Trouble: t.ReportTrouble, Syncs: int(syncs),
		Registry: t.Registerer(),
	})
	if err != nil {
		return nil, err
	}
	return counted(t, "service", controller.Run), nil
}
