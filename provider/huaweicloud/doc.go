// Package huaweicloud is the cloud provider for Huawei Cloud: nodes on ECS instances, and Services
// of type LoadBalancer on dedicated ELB load balancers with EIPs. It is a module of its own,
// because Huawei's SDK is large. [Provider] adds it to ccm.Params or to an fx app; see its example.
//
// Nodes are named by the ID of their ECS instance, or have it as their provider ID, without a
// prefix: kubelet --hostname-override=$INSTANCE_ID --provider-id=$INSTANCE_ID.
//
// Every object that the provider creates carries the mark of its Service and cluster, so it finds
// its objects again without any record in Kubernetes, and never changes those of others.
// docs/how-to/run-on-huawei-cloud.md has the settings, the annotations and the limits.
package huaweicloud
