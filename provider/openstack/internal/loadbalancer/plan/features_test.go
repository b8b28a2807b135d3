package plan_test

import (
	"testing"

	"github.com/fxccm/fxccm/provider/openstack/internal/loadbalancer/desired"
	"github.com/fxccm/fxccm/provider/openstack/internal/loadbalancer/neutron"
	"github.com/fxccm/fxccm/provider/openstack/internal/loadbalancer/octavia"
	"github.com/fxccm/fxccm/provider/openstack/internal/loadbalancer/plan"
)

// features are the requests of users and operators, and changes of the cloud.
func features() []feature {
	var list []feature
	for _, group := range [][]feature{
		services(), listeners(), pools(), placements(), networks(),
		sharing(), troubles(), removals(),
	} {
		list = append(list, group...)
	}
	return list
}

func empty(*testing.T) *cloud { return fresh() }

func services() []feature {
	lb := shop().LoadBalancerName()
	return []feature{
		{"service", empty, []stage{
			{title: "a new Service", want: desire()},
			{title: "nothing has changed", want: desire()},
			{title: "a node is added", want: desire(nodes("node-1", "node-2", "node-3"))},
			{
				title: "a node is about to be removed",
				want: desire(nodes("node-1", "node-2", "node-3"),
					everyPort(func(_ int, p *octavia.Port) { p.Pool.Members[2].Weight = 0 })),
			},
			{title: "a node is removed", want: desire(nodes("node-1", "node-2"))},
			{title: "no node is left", want: desire(nodes())},
			gone("the Service is deleted", all()),
		}},
		{"ports", empty, []stage{
			{title: "two ports", want: desire(internal)},
			{title: "one is removed", want: desire(internal, onePort)},
			{title: "one is added", want: desire(internal)},
			{title: "one is changed, and has another node port", want: desire(internal, func(d *desired.State) { d.Ports[1] = tcp(1, 8443, lb, "node-1") })},
			{title: "they change places", want: desire(internal, func(d *desired.State) {
				d.Ports = []octavia.Port{
					tcp(0, 8443, lb, "node-1"),
					tcp(1, 80, lb, "node-1", "node-2"),
				}
			})},
			{
				title: "the same number, for another transport",
				want: desire(internal, func(d *desired.State) {
					d.Ports = []octavia.Port{
						tcp(0, 8443, lb, "node-1"),
						portOf(1, octavia.UDP, 80, lb, "node-1", "node-2"),
					}
				}),
			},
			{title: "no node ports", want: desire(internal, onePort, everyPort(func(_ int, p *octavia.Port) { p.Pool.Members = nil }))},
		}},
		{"cluster-name", empty, []stage{
			{title: "a Service", want: desire(onePort)},
			{
				title: "the cluster is renamed: names stay",
				want: desire(onePort, func(d *desired.State) {
					d.Identity.ClusterName = "production"
					d.LoadBalancer.Name, d.LoadBalancer.Description = d.Identity.LoadBalancerName(),
						d.Identity.LoadBalancerDescription()
					d.Ports[0].Listener.Tags = d.Identity.Tags()
				}),
			},
		}},
		{"serial", empty, []stage{
			{title: "a new Service of a provider that wants one thing at a time", want: desire(serial, monitored(octavia.MonitorTCP), onePort)},
			{title: "nodes change", want: desire(serial, monitored(octavia.MonitorTCP), onePort, nodes("node-2", "node-3"))},
			{
				title: "a node drains",
				want: desire(serial, monitored(octavia.MonitorTCP), onePort,
					nodes("node-2", "node-3"), everyPort(func(_ int, p *octavia.Port) {
						p.Pool.Members[1].Weight = 0
					})),
			},
			{
				title: "the members' subnet changes",
				want: desire(serial, monitored(octavia.MonitorTCP), onePort, nodes("node-2"),
					everyPort(func(_ int, p *octavia.Port) {
						p.Pool.Members[0].SubnetID = "subnet-nodes"
					})),
			},
		}},
	}
}

func listeners() []feature {
	headers := func(names ...string) func(*desired.State) {
		return func(d *desired.State) {
			protocols(octavia.HTTP, octavia.HTTP)(d)
			everyPort(func(_ int, p *octavia.Port) {
				p.Listener.InsertHeaders = map[string]string{}
				for _, name := range names {
					p.Listener.InsertHeaders[name] = "true"
				}
			})(d)
		}
	}
	certificate := func(ref string) func(*desired.State) {
		return func(d *desired.State) {
			protocols(octavia.TerminatedHTTPS, octavia.HTTP)(d)
			everyPort(func(_ int, p *octavia.Port) { p.Listener.TLSContainer = ref })(d)
		}
	}
	ranges := func(cidrs ...string) func(*desired.State) {
		return everyPort(func(_ int, p *octavia.Port) { p.Listener.AllowedCIDRs = cidrs })
	}
	timeouts := func(change func(*octavia.Timeouts)) func(*desired.State) {
		return everyPort(func(_ int, p *octavia.Port) {
			copied := *p.Listener.Timeouts
			change(&copied)
			p.Listener.Timeouts = &copied
		})
	}
	limit := func(n int) func(*desired.State) {
		return everyPort(func(_ int, p *octavia.Port) { p.Listener.ConnectionLimit = n })
	}
	return []feature{
		option("connection-limit", limit(100), limit(200)),
		option("timeout-client-data", timeouts(func(t *octavia.Timeouts) {
			t.ClientData = 1000
		}), timeouts(func(t *octavia.Timeouts) { t.ClientData = 2000 })),
		option("timeout-member-connect", timeouts(func(t *octavia.Timeouts) {
			t.MemberConnect = 1000
		}), timeouts(func(t *octavia.Timeouts) { t.MemberConnect = 2000 })),
		option("timeout-member-data", timeouts(func(t *octavia.Timeouts) {
			t.MemberData = 1000
		}), timeouts(func(t *octavia.Timeouts) { t.MemberData = 2000 })),
		option("timeout-tcp-inspect", timeouts(func(t *octavia.Timeouts) {
			t.TCPInspect = 1000
		}), timeouts(func(t *octavia.Timeouts) { t.TCPInspect = 2000 })),
		option("x-forwarded-for", headers("X-Forwarded-For"),
			headers("X-Forwarded-For", "X-Forwarded-Port")),
		option("x-forwarded-port", headers("X-Forwarded-Port"),
			headers("X-Forwarded-Port", "X-Forwarded-Proto")),
		option("x-forwarded-proto", headers("X-Forwarded-Proto"),
			headers("X-Forwarded-For", "X-Forwarded-Proto")),
		option("default-tls-container-ref", certificate("https://barbican/v1/containers/old"),
			certificate("https://barbican/v1/containers/new")),
		option("load-balancer-source-ranges", ranges("198.51.100.0/24"),
			ranges("192.0.2.0/24", "198.51.100.0/24")),
		option("listener-protocols", protocols(octavia.HTTP, octavia.HTTP),
			protocols(octavia.HTTPS, octavia.HTTPS)),
	}
}

func pools() []feature {
	algorithm := func(name string) func(*desired.State) {
		return everyPort(func(_ int, p *octavia.Port) { p.Pool.Algorithm = name })
	}
	affinity := everyPort(func(_ int, p *octavia.Port) { p.Pool.Persistence = "SOURCE_IP" })
	healthPort := func(port int) func(*desired.State) {
		return func(d *desired.State) {
			monitored(octavia.MonitorHTTP)(d)
			everyPort(func(_ int, p *octavia.Port) {
				for i := range p.Pool.Members {
					p.Pool.Members[i].MonitorPort = port
				}
			})(d)
		}
	}
	check := func(change func(*octavia.Monitor)) func(*desired.State) {
		return func(d *desired.State) {
			monitored(octavia.MonitorTCP)(d)
			everyPort(func(_ int, p *octavia.Port) { change(p.Pool.Monitor) })(d)
		}
	}
	subnet := func(id string) func(*desired.State) {
		return everyPort(func(_ int, p *octavia.Port) {
			for i := range p.Pool.Members {
				p.Pool.Members[i].SubnetID = id
			}
		})
	}
	return []feature{
		option("lb-method", algorithm("LEAST_CONNECTIONS"), algorithm("SOURCE_IP")),
		option("session-affinity", affinity, affinity),
		option("proxy-protocol", protocols(octavia.TCP, octavia.Proxy),
			protocols(octavia.TCP, octavia.ProxyV2), monitored(octavia.MonitorTCP)),
		option("enable-health-monitor", monitored(octavia.MonitorTCP),
			monitored(octavia.MonitorTCP)),
		option("external-traffic-policy", healthPort(32000), healthPort(32001),
			monitored(octavia.MonitorTCP)),
		option("health-monitor-delay", check(func(m *octavia.Monitor) {
			m.Delay = 10
		}), check(func(m *octavia.Monitor) { m.Delay = 20 }), monitored(octavia.MonitorTCP)),
		option("health-monitor-timeout", check(func(m *octavia.Monitor) {
			m.Timeout = 4
		}), check(func(m *octavia.Monitor) { m.Timeout = 5 }), monitored(octavia.MonitorTCP)),
		option("health-monitor-max-retries", check(func(m *octavia.Monitor) {
			m.MaxRetries = 4
		}), check(func(m *octavia.Monitor) { m.MaxRetries = 5 }), monitored(octavia.MonitorTCP)),
		option("health-monitor-max-retries-down", check(func(m *octavia.Monitor) {
			m.MaxRetriesDown = 4
		}), check(func(m *octavia.Monitor) {
			m.MaxRetriesDown = 5
		}), monitored(octavia.MonitorTCP)),
		option("member-subnet-id", subnet("subnet-nodes"), subnet("subnet-other")),
		option("node-selector", nodes("node-1"), nodes("node-3")),
	}
}

func placements() []feature {
	asking := func(change func(*octavia.LoadBalancer)) func(*desired.State) {
		return func(d *desired.State) { change(&d.LoadBalancer) }
	}
	// place is an immutable setting: with permission to recreate, and without.
	place := func(name string, one, other func(*octavia.LoadBalancer)) feature {
		return feature{name, empty, []stage{
			{title: "a new Service that asks for it", want: desire(onePort, asking(one))},
			{title: "it is changed", want: desire(onePort, asking(other))},
			{title: "it is changed, and the load balancer may be recreated", want: desire(onePort, asking(other), recreate)},
			{title: "it is not asked for any more", want: desire(onePort, recreate)},
		}}
	}
	ipv6 := func(d *desired.State) {
		internal(d)
		d.LoadBalancer.VIP = octavia.VIP{SubnetID: "subnet-6", Address: "2001:db8::5"}
		everyPort(func(_ int, p *octavia.Port) { p.Listener.AllowedCIDRs = []string{"::/0"} })(d)
	}
	ovn := func(d *desired.State) {
		d.LoadBalancer.Provider = octavia.ProviderOVN
		d.Features = desired.FeaturesOf(octavia.ProviderOVN, 27, false)
		everyPort(func(_ int, p *octavia.Port) {
			p.Listener.Timeouts, p.Listener.AllowedCIDRs, p.Pool.Algorithm = nil, nil,
				"SOURCE_IP_PORT"
		})(d)
	}
	return []feature{
		place("flavor-id", func(lb *octavia.LoadBalancer) { lb.FlavorID = "flavor-small" },
			func(lb *octavia.LoadBalancer) { lb.FlavorID = "flavor-large" }),
		place("availability-zone",
			func(lb *octavia.LoadBalancer) {
				lb.AvailabilityZone = "zone-1"
			}, func(lb *octavia.LoadBalancer) { lb.AvailabilityZone = "zone-2" }),
		place("subnet-id", func(*octavia.LoadBalancer) {},
			func(lb *octavia.LoadBalancer) { lb.VIP.SubnetID = "subnet-other" }),
		place("network-id", func(lb *octavia.LoadBalancer) {
			lb.VIP = octavia.VIP{NetworkID: "network-vip"}
		}, func(lb *octavia.LoadBalancer) { lb.VIP = octavia.VIP{NetworkID: "network-other"} }),
		place("port-id",
			func(lb *octavia.LoadBalancer) {
				lb.VIP = octavia.VIP{PortID: "port-one"}
			}, func(lb *octavia.LoadBalancer) { lb.VIP = octavia.VIP{PortID: "port-other"} }),
		place("additional-subnet-id", func(*octavia.LoadBalancer) {},
			func(lb *octavia.LoadBalancer) {
				lb.AdditionalVIPs = []octavia.VIP{{SubnetID: "subnet-6"}}
			}),
		{"internal-address", empty, []stage{
			{
				title: "an internal Service that asks for an address",
				want: desire(onePort, internal, asking(func(lb *octavia.LoadBalancer) {
					lb.VIP.Address = "10.0.0.7"
				})),
			},
			{title: "another is requested", want: desire(onePort, internal, asking(func(lb *octavia.LoadBalancer) { lb.VIP.Address = "10.0.0.8" }))},
			{
				title: "and the load balancer may be recreated",
				want: desire(onePort, internal, recreate, asking(func(lb *octavia.LoadBalancer) {
					lb.VIP.Address = "10.0.0.8"
				})),
			},
			{
				title: "another flavor is requested, but no address: the address stays",
				want: desire(onePort, internal, recreate, asking(func(lb *octavia.LoadBalancer) {
					lb.FlavorID = "flavor-large"
				})),
			},
		}},
		{"ipv6", empty, []stage{{title: "an IPv6 Service", want: desire(onePort, ipv6)}, {title: "nothing has changed", want: desire(onePort, ipv6)}}},
		{"ovn", empty, []stage{{title: "a Service of provider ovn", want: desire(onePort, ovn)}, {title: "nothing has changed", want: desire(onePort, ovn)}}},
		{"lb-provider", empty, []stage{
			{title: "a Service of the cloud's default provider", want: desire(onePort)},
			{title: "another provider is requested", want: desire(onePort, asking(func(lb *octavia.LoadBalancer) { lb.Provider = octavia.ProviderOVN }))},
			{
				title: "and the load balancer may be recreated",
				want: desire(onePort, recreate, asking(func(lb *octavia.LoadBalancer) {
					lb.Provider = octavia.ProviderOVN
				})),
			},
			{title: "what should be is decided again", want: desire(onePort, recreate, ovn)},
		}},
	}
}

func networks() []feature {
	subnets := func(ids ...string) func(*desired.State) {
		return func(d *desired.State) {
			wanted := *d.FloatingIP
			wanted.SubnetIDs = ids
			d.FloatingIP = &wanted
		}
	}
	rangesOfNodes := func(cidr string) func(*desired.State) {
		return func(d *desired.State) {
			guarded(d)
			d.SecurityGroup.Rules = []neutron.Rule{rule(30080, cidr)}
		}
	}
	users := func(c *cloud) { c.ips[0].Description, c.ips[0].Tags = "mine", nil }
	return []feature{
		{"internal", empty, []stage{
			{title: "an external Service", want: desire(onePort)},
			{title: "it becomes internal", want: desire(onePort, internal)},
			{title: "it becomes external", want: desire(onePort)},
			{title: "it becomes internal, but the floating IP was made by a user", want: desire(onePort, internal), damage: users},
		}},
		{"keep-floatingip", empty, []stage{
			{title: "an external Service", want: desire(onePort, keep)},
			{title: "it becomes internal", want: desire(onePort, keep, internal)},
			{title: "it becomes external again", want: desire(onePort, keep)},
			gone("it is deleted",
				plan.RemovalOptions{KeepFloatingIP: true, Cascade: true, Tags: true}),
		}},
		{"floating-subnet", empty, []stage{
			{title: "a Service that names two subnets", want: desire(onePort, subnets("subnet-a", "subnet-b"))},
			{title: "it names another: the floating IP stays", want: desire(onePort, subnets("subnet-c"))},
		}},
		{"load-balancer-ip", empty, []stage{
			{title: "a Service that asks for a free address", want: desire(onePort, asking("203.0.113.7"))},
			{title: "it asks for another free one", want: desire(onePort, asking("203.0.113.8"))},
			{
				title: "it asks for one that a user has made",
				want:  desire(onePort, asking("203.0.113.9")),
				damage: func(c *cloud) {
					c.ips = append(c.ips,
						neutron.FloatingIP{
							ID: "fip-user", Address: "203.0.113.9",
							NetworkID: "network-outside",
						})
				},
			},
			{
				title: "it asks for one that leads elsewhere",
				want:  desire(onePort, asking("203.0.113.10")),
				damage: func(c *cloud) {
					c.ips = append(c.ips,
						neutron.FloatingIP{
							ID: "fip-other", Address: "203.0.113.10",
							NetworkID: "network-outside", PortID: "port-other",
						})
				},
			},
			{title: "it asks for none: the user's stays", want: desire(onePort)},
		}},
		{"manage-security-groups", empty, []stage{
			{title: "a new Service", want: desire(onePort, guarded)},
			{title: "a port is added", want: desire(guarded)},
			{title: "a port is removed", want: desire(onePort, guarded)},
			{title: "a node is added and one is removed", want: desire(onePort, guarded, nodes("node-2", "node-3"))},
			{title: "it is switched off", want: desire(onePort, nodes("node-2", "node-3"))},
			{title: "it is switched on", want: desire(onePort, guarded, nodes("node-2", "node-3"))},
			gone("the Service is deleted", all()),
		}},
		{"security-group-source-ranges", empty, []stage{
			{title: "source ranges by rules", want: desire(onePort, rangesOfNodes("198.51.100.0/24"))},
			{title: "they change", want: desire(onePort, rangesOfNodes("192.0.2.0/24"))},
		}},
	}
}

func sharing() []feature {
	name := neighbor().LoadBalancerName()
	return []feature{
		{"shared", shared, []stage{
			{title: "a Service comes to another's load balancer", want: visiting(name)},
			{title: "nothing has changed", want: visiting(name)},
			{title: "a port is removed", want: visiting(name, onePort)},
			{title: "proxy protocol", want: visiting(name, onePort, protocols(octavia.TCP, octavia.Proxy))},
			gone("the Service is deleted", all()),
		}},
		{"shared-port-in-use", shared, []stage{
			{title: "a Service wants a port that the owner has", want: visiting(name, func(d *desired.State) { d.Ports[1] = tcp(1, 9000, name, "node-1") })},
		}},
		{"shared-owner-leaves", func(t *testing.T) *cloud {
			c := made(t, desire(onePort))
			guest := neighbor()
			l := tcp(0, 9000, c.lb.Name).Listener
			l.ID, l.Tags, l.PoolID, l.Status = "listener-guest", guest.Tags(), "pool-guest",
				octavia.Active
			c.listeners = append(c.listeners, l)
			c.pools = append(c.pools,
				octavia.Pool{
					ID: "pool-guest", Name: desired.PoolName(0, c.lb.Name),
					Protocol: octavia.TCP, Algorithm: "ROUND_ROBIN", Status: octavia.Active,
				})
			c.lb.Tags = append(c.lb.Tags, guest.LoadBalancerName(), guest.ServiceTag())
			return c
		}, []stage{gone("the owner is deleted, and a guest stays", all())}},
		{"shared-last-leaves", func(t *testing.T) *cloud {
			c := shared(t)
			c.carryOut(t, visiting(name))
			c.lb.Tags = shop().Tags()
			c.listeners, c.pools = c.listeners[1:], c.pools[1:]
			return c
		}, []stage{gone("the owner has gone before; the last one who used it goes", all())}},
		{"users", func(*testing.T) *cloud {
			c := fresh()
			c.role = plan.Guest
			c.lb = &octavia.LoadBalancer{
				ID: "lb-user", Name: "mine", Provider: "amphora",
				Status: octavia.Active,
				VIP:    octavia.VIP{Address: "10.0.0.9", PortID: "port-user", SubnetID: vipSubnet},
			}
			c.listeners = []octavia.Listener{{
				ID: "listener-user", Name: "listener_0_mine",
				Protocol: octavia.HTTP, Port: 8080, PoolID: "pool-user", ConnectionLimit: -1,
				Status: octavia.Active,
			}}
			c.pools = []octavia.Pool{{
				ID: "pool-user", Name: "pool_0_mine",
				Protocol: octavia.HTTP, Algorithm: "ROUND_ROBIN", Status: octavia.Active,
			}}
			c.ips = []neutron.FloatingIP{{
				ID: "fip-user", Address: "203.0.113.9",
				PortID: "port-user",
			}}
			return c
		}, []stage{
			{title: "a Service comes to a user's load balancer", want: visiting("mine", onePort)},
			gone("the Service is deleted", all()),
		}},
		{"takeover", func(t *testing.T) *cloud {
			c := made(t, desire(guarded, monitored(octavia.MonitorTCP)))
			c.byOCCM()
			return c
		}, []stage{
			{title: "what OCCM has made: only tags change", want: desire(guarded, monitored(octavia.MonitorTCP))},
			{title: "nothing has changed", want: desire(guarded, monitored(octavia.MonitorTCP))},
		}},
		{"other-cluster", func(t *testing.T) *cloud {
			c := made(t, desire())
			c.lb.Tags = stranger().Tags()
			return c
		}, []stage{
			{title: "a load balancer of the same name, of another cluster", want: desire()},
			gone("the Service is deleted", all()),
		}},
	}
}

func troubles() []feature {
	trouble := func(name string, want desired.State, stages ...stage) feature {
		for i := range stages {
			stages[i].want = want
		}
		return feature{name, func(t *testing.T) *cloud { return made(t, want) }, stages}
	}
	inError := func(c *cloud) { c.lb.Status = octavia.InError }
	return []feature{
		trouble("deleted-by-hand", desire(onePort, guarded, monitored(octavia.MonitorTCP)),
			stage{title: "the listener", damage: func(c *cloud) { c.listeners = nil }},
			stage{title: "the pool", damage: func(c *cloud) {
				c.pools, c.listeners[0].PoolID = nil, ""
			}},
			stage{title: "the health monitor", damage: func(c *cloud) { c.pools[0].Monitor = nil }},
			stage{title: "a member", damage: func(c *cloud) {
				c.pools[0].Members = c.pools[0].Members[:1]
			}},
			stage{title: "the floating IP", damage: func(c *cloud) { c.ips = nil }},
			stage{title: "the floating IP leads nowhere", damage: func(c *cloud) {
				c.ips[0].PortID = ""
			}},
			stage{title: "a rule", damage: func(c *cloud) { c.group.Rules = nil }},
			stage{title: "a node's security group", damage: func(c *cloud) {
				c.nodePorts[0].SecurityGroups = nil
			}},
			stage{title: "the load balancer", damage: func(c *cloud) {
				c.lb, c.listeners, c.pools, c.ips[0].PortID = nil, nil, nil, ""
			}},
		),
		trouble("in-error", desire(onePort, monitored(octavia.MonitorTCP)),
			stage{title: "the listener", damage: func(c *cloud) {
				c.listeners[0].Status = octavia.InError
			}},
			stage{title: "the pool, and a member is missing", damage: func(c *cloud) {
				c.pools[0].Status, c.pools[0].Members = octavia.InError, c.pools[0].Members[:1]
			}},
			stage{title: "the health monitor", damage: func(c *cloud) {
				c.pools[0].Monitor.Status = octavia.InError
			}},
			stage{title: "a member", damage: func(c *cloud) {
				c.pools[0].Members[0].Status = octavia.InError
			}},
			stage{title: "the load balancer", damage: inError},
		),
		trouble("in-error-recreate", desire(onePort, recreate),
			stage{title: "the load balancer may be recreated", damage: inError}),
		trouble("in-error-at-creation", desire(onePort),
			stage{title: "it has never served a client", damage: func(c *cloud) {
				inError(c)
				c.listeners[0].Status = octavia.PendingCreate
			}}),
		{"in-error-ovn", func(t *testing.T) *cloud {
			c := made(t, desire(onePort))
			inError(c)
			c.lb.Provider = octavia.ProviderOVN
			return c
		}, []stage{{title: "a provider that has no failover", want: desire(onePort)}}},
		{
			"in-error-shared", func(t *testing.T) *cloud {
				c := shared(t)
				inError(c)
				return c
			},
			[]stage{{
				title: "it is another Service's",
				want:  visiting(neighbor().LoadBalancerName()),
			}},
		},
	}
}

func removals() []feature {
	served := func(changes ...func(*desired.State)) func(*testing.T) *cloud {
		return func(t *testing.T) *cloud { return made(t, desire(changes...)) }
	}
	oneByOne := plan.RemovalOptions{Tags: true}
	unknown := plan.RemovalOptions{Cascade: true}
	return []feature{
		{"cascade-delete", served(monitored(octavia.MonitorTCP)), []stage{gone("without cascade", oneByOne)}},
		{"removal-load-balancer-gone", func(t *testing.T) *cloud {
			c := made(t, desire(guarded))
			c.lb, c.listeners, c.pools, c.ips[0].PortID = nil, nil, nil, ""
			return c
		}, []stage{gone("the load balancer is gone already", all())}},
		{"removal-tags-unknown", served(), []stage{gone("all is the Service's", unknown)}},
		{"removal-tags-unknown-others", func(t *testing.T) *cloud {
			c := made(t, desire())
			c.listeners = append(c.listeners,
				octavia.Listener{
					ID: "listener-user", Name: "mine", Protocol: octavia.TCP,
					Port: 22, Status: octavia.Active,
				})
			return c
		}, []stage{
			gone("a listener that may have any owner", unknown),
			gone("the cloud is known to have tags, so it is no Service's", all()),
		}},
		{"removal-in-error", func(t *testing.T) *cloud {
			c := made(t, desire())
			c.lb.Status = octavia.InError
			return c
		}, []stage{gone("nothing in it can be deleted by itself", oneByOne)}},
	}
}
