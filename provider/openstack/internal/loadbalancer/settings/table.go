package settings

//go:generate env UPDATE_DOCS=1 go test -count=1 -run ^TestPage_IsUpToDate$ .

import (
	"cmp"
	"math"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/fxccm/fxccm/provider/openstack/cloudconf"
)

// From Octavia's API (octavia/api/v2/types/health_monitor.py).
const leastRetries, mostRetries = 1, 10

// A section is a part of the reference page.
type section struct {
	title string
	rows  []row
}

// sections list every annotation and field, in the order of the reference page. The class comes
// first: the others depend on it.
func sections() []section {
	return []section{
		{"Where the load balancer is", place()},
		{"Floating IP", floatingIP()},
		{"Kind of load balancer", appliance()},
		{"Listeners", listeners()},
		{"Members", members()},
		{"Health monitors", monitors()},
		{"Status and sharing", status()},
		{"Fields of the Service", fields()},
	}
}

// table is built once: every reconcile reads it.
var table = sync.OnceValue(func() []row {
	var all []row
	for _, s := range sections() {
		all = append(all, s.rows...)
	}
	return all
})

func place() []row {
	return []row{
		special{entry: entry{
			name: AnnotationRegion, typ: "name", limits: "of a region of cloud.conf",
			fatal: true, later: never, own: true,
			meaning: "The region of the load balancer, whose nodes are its members. The default is the default region.",
		}},
		special{entry: entry{
			name: annotationClass, typ: "name", limits: "of a section [LoadBalancerClass]",
			fatal: true, later: "as what it sets",
			meaning: "The class whose options take the place of those in [LoadBalancer]. Annotations beat both.",
		}, take: (*reader).chooseClass},
		setting[bool]{
			entry: entry{
				name: annotationInternal, option: "internal-lb", later: atOnce,
				meaning: "No floating IP. With `internal-lb = true` in cloud.conf no Service has one, whatever it says.",
			},
			kind: truth(), at: func(s *Settings) *bool { return &s.Internal },
			conf: func(c cloudconf.LoadBalancer) bool { return c.InternalLB },
		},
		setting[string]{
			entry: entry{
				name: Prefix + "subnet-id", option: "subnet-id", ofClass: true, later: newBalancer,
				meaning: "The subnet of the load balancer's address. If neither it nor the network is given: that of the nodes.",
			},
			kind: uuidKind(), at: func(s *Settings) *string { return &s.SubnetID },
			conf: func(c cloudconf.LoadBalancer) string { return c.SubnetID },
		},
		setting[string]{
			entry: entry{
				name: Prefix + "network-id", option: "network-id", ofClass: true,
				later:   newBalancer,
				meaning: "The network of the load balancer's address.",
			},
			kind: uuidKind(), at: func(s *Settings) *string { return &s.NetworkID },
			conf: func(c cloudconf.LoadBalancer) string { return c.NetworkID },
		},
		setting[string]{
			entry: entry{
				name: Prefix + "port-id", later: newBalancer,
				meaning: "An existing port of Neutron's that becomes the load balancer's. Subnet and network are then those of the port.",
			},
			kind: uuidKind(), at: func(s *Settings) *string { return &s.PortID },
		},
		setting[string]{
			entry: entry{
				name: Prefix + "additional-subnet-id", own: true, later: newBalancer,
				meaning: "The subnet of the second address of a dual-stack Service. Empty: one of the second family in the load balancer's network.",
			},
			kind: uuidKind(), at: func(s *Settings) *string { return &s.AdditionalSubnetID },
		},
	}
}

func floatingIP() []row {
	return []row{
		setting[string]{
			entry: entry{
				name: Prefix + "floating-network-id", option: "floating-network-id", ofClass: true,
				later:   newFloatingIP,
				meaning: "The network of the floating IP.",
				empty:   "The external network that the project sees, as if no option named one.",
			},
			kind: uuidKind(), at: func(s *Settings) *string { return &s.FloatingNetworkID },
			conf: func(c cloudconf.LoadBalancer) string { return c.FloatingNetworkID },
		},
		setting[string]{
			entry: entry{
				name: annotationFloatingSubnetID, option: "floating-subnet-id", ofClass: true,
				later:   newFloatingIP,
				meaning: "The subnet of the floating IP, in its network. Any of the floating-subnet annotations overrides class and cloud.conf for all three; within one source, the id precedes the others.",
			},
			kind: uuidKind(), at: func(s *Settings) *string { return &s.FloatingSubnetID },
			conf: func(c cloudconf.LoadBalancer) string { return c.FloatingSubnetID },
		},
		setting[string]{
			entry: entry{
				name: annotationFloatingSubnet, option: "floating-subnet", ofClass: true,
				later:   newFloatingIP,
				meaning: "The subnets of the floating IP, by name: with wildcards or, after `~`, as a regular expression; `!` before it negates. They are tried one after the other. Only those that the project sees can be found by name or tags; of an external network of others that is not shared it sees none, and the id must be given.",
			},
			kind: subnetPattern(), at: func(s *Settings) *string { return &s.FloatingSubnet },
			conf: func(c cloudconf.LoadBalancer) string { return c.FloatingSubnet },
		},
		setting[string]{
			entry: entry{
				name: annotationFloatingSubnetTags, option: "floating-subnet-tags", ofClass: true,
				later:   newFloatingIP,
				meaning: "The subnets of the floating IP, by tags with commas between them: one of them or, after `&`, all; `!` before it negates.",
			},
			kind: text(), at: func(s *Settings) *string { return &s.FloatingSubnetTags },
			conf: func(c cloudconf.LoadBalancer) string { return c.FloatingSubnetTags },
		},
		setting[bool]{
			entry: entry{
				name: Prefix + "keep-floatingip", later: atDetaching,
				meaning: "The floating IP stays when the Service goes or becomes internal.",
			},
			kind: truth(), at: func(s *Settings) *bool { return &s.KeepFloatingIP },
		},
	}
}

func appliance() []row {
	return []row{
		setting[string]{
			entry: entry{
				name: Prefix + "lb-provider", option: "lb-provider", own: true, later: newBalancer,
				meaning: "Octavia's provider.", empty: "The cloud's default.",
			},
			kind: text(), at: func(s *Settings) *string { return &s.Provider },
			conf: func(c cloudconf.LoadBalancer) string { return c.LBProvider },
		},
		setting[string]{
			entry: entry{
				name: Prefix + "flavor-id", option: "flavor-id", later: newBalancer,
				meaning: "Octavia's flavor.", empty: "None.",
			},
			kind: uuidKind(), at: func(s *Settings) *string { return &s.FlavorID },
			conf: func(c cloudconf.LoadBalancer) string { return c.FlavorID },
		},
		setting[string]{
			entry: entry{
				name: Prefix + "availability-zone", option: "availability-zone", later: newBalancer,
				meaning: "Octavia's availability zone.", empty: "None.",
			},
			kind: text(), at: func(s *Settings) *string { return &s.AvailabilityZone },
			conf: func(c cloudconf.LoadBalancer) string { return c.AvailabilityZone },
		},
		setting[bool]{
			entry: entry{
				name: Prefix + "recreate", own: true, later: atOnce,
				meaning: "When something immutable changes, the load balancer is deleted and created again. Connections break, and an address that the Service does not request can change.",
			},
			kind: truth(), at: func(s *Settings) *bool { return &s.Recreate },
		},
	}
}

func listeners() []row {
	flag := func(name, meaning string, at func(*Settings) *bool) setting[bool] {
		return setting[bool]{entry: entry{
			name: Prefix + name, later: listenersAnew,
			meaning: meaning,
		}, kind: truth(), at: at}
	}
	timeout := func(name, meaning string, otherwise int, at func(*Settings) *int) setting[int] {
		return setting[int]{
			entry: entry{name: Prefix + name, later: atOnce, meaning: meaning},
			kind:  milliseconds(), otherwise: otherwise, at: at,
		}
	}
	isOwn := func(s setting[bool]) setting[bool] {
		s.own = true
		return s
	}
	return []row{
		setting[ListenerProtocols]{
			entry: entry{
				name: Prefix + "listener-protocols", own: true, later: listenersAnew,
				meaning: "Protocols of single ports, with commas between them. A port is named as in the Service, or by number. A TCP port can have `TCP`, `HTTP`, `HTTPS` (passed through) or `TERMINATED_HTTPS`, others their own. The ports that are not named have `TERMINATED_HTTPS` with a certificate, `HTTP` with an inserted header, and else their own; UDP and SCTP ports always their own.",
			},
			kind: listenerProtocols(), at: func(s *Settings) *ListenerProtocols {
				return &s.ListenerProtocols
			},
		},
		setting[string]{
			entry: entry{
				name: annotationTLSContainer, option: "default-tls-container-ref",
				later:   firstOrLast,
				meaning: "The certificate, by its reference in the key manager. TCP ports become `TERMINATED_HTTPS`. With `container-store = barbican` in cloud.conf it must be a container or a secret of Barbican.",
				empty:   "None.",
			},
			kind: tlsContainer(), at: func(s *Settings) *string { return &s.TLSContainer },
			conf: func(c cloudconf.LoadBalancer) string { return c.DefaultTLSContainerRef },
		},
		flag("x-forwarded-for", "Insert the client's address as a header. TCP ports become `HTTP`.",
			func(s *Settings) *bool { return &s.XForwardedFor }),
		isOwn(
			flag("x-forwarded-port",
				"Insert the listener's port as a header. TCP ports become `HTTP`.",
				func(s *Settings) *bool { return &s.XForwardedPort })),
		isOwn(
			flag("x-forwarded-proto",
				"Insert `http` or `https` as a header. TCP ports become `HTTP`.",
				func(s *Settings) *bool { return &s.XForwardedProto })),
		setting[string]{
			entry: entry{
				name: Prefix + "proxy-protocol", later: poolsAnew,
				meaning: "Tell members the client's address by the PROXY protocol; `true` is version 1. Only TCP ports have it.",
			},
			kind: proxyProtocol(), at: func(s *Settings) *string { return &s.ProxyProtocol },
		},
		special{entry: entry{
			name: v1.AnnotationLoadBalancerSourceRangesKey, typ: "CIDRs",
			limits: "with commas between them", fatal: true, later: atOnce,
			meaning: "The clients that may connect, if " + fieldSourceRanges + " is empty.",
		}},
		setting[int]{
			entry: entry{
				name: Prefix + "connection-limit", later: atOnce,
				meaning: "How many connections each listener has at a time; -1 is any number.",
			},
			kind: number(-1, math.MaxInt32), otherwise: -1, at: func(s *Settings) *int {
				return &s.ConnectionLimit
			},
		},
		timeout("timeout-client-data", "How long a client may be silent.", 50000,
			func(s *Settings) *int { return &s.TimeoutClientData }),
		timeout("timeout-member-connect", "How long a member may take to accept a connection.",
			5000, func(s *Settings) *int { return &s.TimeoutMemberConnect }),
		timeout("timeout-member-data", "How long a member may be silent.", 50000,
			func(s *Settings) *int { return &s.TimeoutMemberData }),
		timeout("timeout-tcp-inspect", "How long to wait for more packets to inspect.", 0,
			func(s *Settings) *int { return &s.TimeoutTCPInspect }),
	}
}

func members() []row {
	return []row{
		setting[string]{
			entry: entry{
				name: Prefix + "lb-method", option: "lb-method", later: atOnce,
				meaning: "How a member is chosen. Unless an annotation or cloud.conf names another than `ROUND_ROBIN`, the ovn provider uses `SOURCE_IP_PORT`.",
				empty:   "`ROUND_ROBIN`, or what the ovn provider has.",
			},
			kind: algorithm(), at: func(s *Settings) *string { return &s.Algorithm },
			conf: func(c cloudconf.LoadBalancer) string {
				if c.LBMethod == cloudconf.Default().LoadBalancer.LBMethod {
					return ""
				}
				return c.LBMethod
			},
		},
		setting[NodeSelector]{
			entry: entry{
				name: Prefix + "node-selector", option: "node-selector", later: atOnce,
				meaning: "Which nodes become members: those with all of these labels, as `key=value`, or `key` for any value, with commas between them.",
				empty:   "All nodes.",
			},
			kind: nodeSelector(), at: func(s *Settings) *NodeSelector { return &s.NodeSelector },
			conf: func(c cloudconf.LoadBalancer) NodeSelector {
				return ParseNodeSelector(c.NodeSelector)
			},
		},
		setting[string]{
			entry: entry{
				name: Prefix + "member-subnet-id", option: "member-subnet-id", ofClass: true,
				later:   membersAnew,
				meaning: "The subnet of the members. If no source gives it: `subnet-id` of cloud.conf, or else that of the load balancer.",
			},
			kind: uuidKind(), at: func(s *Settings) *string { return &s.MemberSubnetID },
			conf: func(c cloudconf.LoadBalancer) string {
				return cmp.Or(c.MemberSubnetID, c.SubnetID)
			},
		},
	}
}

func monitors() []row {
	preset := cloudconf.Default().LoadBalancer
	return []row{
		setting[bool]{
			entry: entry{
				name: Prefix + "enable-health-monitor", option: "create-monitor", later: atOnce,
				meaning: "Have Octavia check the members. A Service with `externalTrafficPolicy: Local` needs it: without it, nodes that have no endpoint get connections.",
			},
			kind: truth(), at: func(s *Settings) *bool { return &s.Monitor },
			conf: func(c cloudconf.LoadBalancer) bool { return c.CreateMonitor },
		},
		setting[time.Duration]{
			entry: entry{
				name: annotationHealthMonitorDelay, option: "monitor-delay", later: atOnce,
				meaning: "Time between two checks of a member.",
			},
			kind: seconds(), at: func(s *Settings) *time.Duration { return &s.MonitorDelay },
			conf: func(c cloudconf.LoadBalancer) time.Duration {
				delay, _ := monitorTimes(c)
				return delay
			},
		},
		setting[time.Duration]{
			entry: entry{
				name: annotationHealthMonitorTimeout, option: "monitor-timeout", later: atOnce,
				meaning: "How long a member may take to answer: not longer than the delay, else both have their defaults.",
			},
			kind: seconds(), at: func(s *Settings) *time.Duration { return &s.MonitorTimeout },
			conf: func(c cloudconf.LoadBalancer) time.Duration {
				_, timeout := monitorTimes(c)
				return timeout
			},
		},
		setting[int]{
			entry: entry{
				name: Prefix + "health-monitor-max-retries", option: "monitor-max-retries",
				later:   atOnce,
				meaning: "How many good answers bring a member back.",
			},
			kind: number(leastRetries, mostRetries), at: func(s *Settings) *int {
				return &s.MonitorMaxRetries
			},
			conf: func(c cloudconf.LoadBalancer) int {
				return retries(c.MonitorMaxRetries, preset.MonitorMaxRetries)
			},
		},
		setting[int]{
			entry: entry{
				name:   Prefix + "health-monitor-max-retries-down",
				option: "monitor-max-retries-down", later: atOnce,
				meaning: "How many failures take a member out.",
			},
			kind: number(leastRetries, mostRetries), at: func(s *Settings) *int {
				return &s.MonitorMaxRetriesDown
			},
			conf: func(c cloudconf.LoadBalancer) int {
				return retries(c.MonitorMaxRetriesDown, preset.MonitorMaxRetriesDown)
			},
		},
	}
}

func status() []row {
	return []row{
		setting[string]{
			entry: entry{
				name: Prefix + "hostname", later: atOnce,
				meaning: "The Service's status shows this instead of an address.",
			},
			kind: hostname(), at: func(s *Settings) *string { return &s.Hostname },
		},
		setting[string]{
			entry: entry{
				name: AnnotationLoadBalancerID, later: never,
				meaning: "The load balancer. fxccm writes it here. Set it before creation to reuse an existing load balancer: that of another Service, of this cluster or another one, up to `max-shared-lb` of cloud.conf, or one of the user's own.",
			},
			kind: uuidKind(), at: func(s *Settings) *string { return &s.LoadBalancerID },
		},
		special{entry: entry{
			name: AnnotationLoadBalancerAddress, typ: "address", later: notRead,
			meaning: "The floating IP, or else the load balancer's address. It is written here, and not read.",
		}},
		special{entry: entry{
			name: AnnotationLoadBalancerRegion, typ: "name", later: never, own: true,
			meaning: "The region that has the load balancer, if cloud.conf has several. fxccm writes it here.",
		}},
	}
}

func fields() []row {
	return []row{
		special{entry: entry{
			name: fieldSourceRanges, typ: "CIDRs", fatal: true, later: atOnce,
			meaning: "The clients that may connect. Empty: all, unless the annotation `" +
				v1.AnnotationLoadBalancerSourceRangesKey + "` is there.",
		}, take: (*reader).takeSourceRanges},
		special{entry: entry{
			name: fieldAddress, typ: "IP address", fatal: true,
			later:   "the floating IP: yes; else " + newBalancer,
			meaning: "The requested address: the floating IP of an external IPv4 Service, the load balancer's of others.",
		}, take: (*reader).takeAddress},
	}
}
