package cloudconf

//go:generate env UPDATE_DOCS=1 go test -count=1 -run ^TestCloudConfPage_IsUpToDate$ .

import (
	"maps"
	"slices"
	"time"
)

// table lists every option in the order of the reference page, bound to the fields of c. The
// options of load balancer classes are bound to an empty class.
func table(c *Config) []section {
	return []section{
		global(&c.Global), networking(&c.Networking), loadBalancer(&c.LoadBalancer),
		loadBalancerClass(&LoadBalancerClass{}), route(&c.Route), metadata(&c.Metadata),
		client(&c.Client), instances(&c.Instances),
	}
}

// sections lists every option of c, with a section for each load balancer class, and those of the
// regions.
func (c *Config) sections() []section {
	var all []section
	for _, s := range table(c) {
		if !s.named {
			all = append(all, s)
			continue
		}
		for _, name := range slices.Sorted(maps.Keys(c.LoadBalancerClasses)) {
			class := c.LoadBalancerClasses[name]
			named := loadBalancerClass(&class)
			named.instance = name
			all = append(all, named)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(c.Regions)) {
		region := c.Regions[name]
		all = append(all, region.sections(name)...)
	}
	return all
}

func global(g *Global) section {
	return section{
		name: "Global", regional: true, meaning: "The address of the cloud and the login.",
		options: []option{
			text("auth-url", &g.AuthURL,
				"The URL of Keystone.", keystoneURL()).inClouds("auth.auth_url").
				known("os-authURL"),
			text("user-id", &g.UserID,
				"The ID of the user.", identifier()).inClouds("auth.user_id").known("os-userID"),
			text("username", &g.Username,
				"The name of the user. It needs a domain.").inClouds("auth.username").
				known("user-name", "os-userName"),
			secret("password", &g.Password,
				"The password of the user.").inClouds("auth.password").known("os-password"),
			text("tenant-id", &g.TenantID,
				"The ID of the project.", identifier()).inClouds("auth.project_id").
				known("project-id", "os-projectID"),
			text("tenant-name", &g.TenantName,
				"The name of the project, if the ID is not set. It needs a domain.").
				inClouds("auth.project_name").known("project-name", "os-projectName"),
			text("trust-id", &g.TrustID,
				"The ID of a trust to log in with. It replaces the project.", identifier()).
				inClouds("auth.trust_id").known("os-trustID"),
			text("trustee-id", &g.TrusteeID,
				"The ID of the trustee, if it is not the user above.", identifier()).
				known("os-trusteeID"),
			secret("trustee-password", &g.TrusteePassword,
				"The password of the trustee.").known("os-trusteePassword"),
			text("domain-id", &g.DomainID,
				"The ID of the domain of user and project.", identifier()).
				inClouds("auth.domain_id").known("os-domainID"),
			text("domain-name", &g.DomainName,
				"The name of the domain of user and project.").inClouds("auth.domain_name").
				known("os-domainName"),
			text("tenant-domain-id", &g.TenantDomainID,
				"The ID of the project's domain, if it differs.", identifier()).
				inClouds("auth.project_domain_id").
				known("project-domain-id", "os-projectDomainID"),
			text("tenant-domain-name", &g.TenantDomainName,
				"The name of the project's domain, if it differs.").
				inClouds("auth.project_domain_name").
				known("project-domain-name", "os-projectDomainName"),
			text("user-domain-id", &g.UserDomainID,
				"The ID of the user's domain, if it differs.", identifier()).
				inClouds("auth.user_domain_id").known("os-userDomainID"),
			text("user-domain-name", &g.UserDomainName,
				"The name of the user's domain, if it differs.").inClouds("auth.user_domain_name").
				known("os-userDomainName"),
			text("application-credential-id", &g.ApplicationCredentialID,
				"The ID of an application credential. User and project are not needed.",
				identifier()).inClouds("auth.application_credential_id").
				known("os-applicationCredentialID"),
			text("application-credential-name", &g.ApplicationCredentialName,
				"The name of an application credential. It needs the user.").
				inClouds("auth.application_credential_name").known("os-applicationCredentialName"),
			secret("application-credential-secret", &g.ApplicationCredentialSecret,
				"The secret of the application credential.").
				inClouds("auth.application_credential_secret").
				known("os-applicationCredentialSecret"),
			secret("token", &g.Token,
				"A token issued by Keystone. It cannot be renewed: when it expires, all "+
					"requests fail until a new one is set.").inClouds("auth.token"),
			text("region", &g.Region,
				"The region of the services, and of the nodes. It may be empty if the cloud has "+
					"one region.").inClouds("region_name").known("os-region", "region-name"),
			word("os-endpoint-type", &g.EndpointType, endpointType,
				"The interface of the service endpoints. The long form, such as publicURL, is "+
					"accepted. Empty means public.",
				oneOf(asError, "", "public", "internal", "admin")).inClouds("endpoint_type").
				known("endpoint-type", "interface", "os-endpointType"),
			text("compute-endpoint-override", &g.ComputeEndpoint,
				"The address of Nova, in place of the one in Keystone's catalog. It may include "+
					"the API version. OCCM has none of the four overrides.",
				httpURL()).inClouds("compute_endpoint_override"),
			text("network-endpoint-override", &g.NetworkEndpoint,
				"The address of Neutron.", httpURL()).inClouds("network_endpoint_override"),
			text("load-balancer-endpoint-override", &g.LoadBalancerEndpoint,
				"The address of Octavia.", httpURL()).inClouds("load_balancer_endpoint_override"),
			text("key-manager-endpoint-override", &g.KeyManagerEndpoint,
				"The address of Barbican.", httpURL()).inClouds("key_manager_endpoint_override"),
			text("ca-file", &g.CAFile,
				"File with the CA certificates of the cloud. Empty: those of the system.").
				inClouds("cacert").known("cacert", "os-certAuthorityPath"),
			text("cafilecontents", &g.CAFileContents,
				"The CA certificates as text, if ca-file is empty: one value in quotes, with "+
					"\\n between lines.", pem()).known("ca-file-contents", "os-certAuthority"),
			exactTruth("tls-insecure", &g.TLSInsecure,
				`Do not verify the certificates of the cloud. Only "true" has this effect.`).
				inClouds("verify").known("insecure", "os-TLSInsecure"),
			text("cert-file", &g.CertFile,
				"File with the client certificate. It needs key-file.").inClouds("cert").
				known("os-clientCertPath"),
			text("key-file", &g.KeyFile,
				"File with the key of the client certificate.").inClouds("key").
				known("os-clientKeyPath"),
			truth("use-clouds", &g.UseClouds,
				"Fill options that are not set here from [clouds.yaml](#cloudsyaml).").
				known("os-useClouds"),
			text("clouds-file", &g.CloudsFile,
				"The path of clouds.yaml. Empty: search the default directories.").
				known("os-cloudsFile"),
			text("cloud", &g.Cloud,
				"The name of the cloud in clouds.yaml. It may be empty if there is only one.").
				known("os-cloud"),
		},
	}
}

// endpointType accepts the long form of the command line clients: publicURL.
func endpointType(written string) string {
	switch written {
	case "publicURL", "internalURL", "adminURL":
		return written[:len(written)-len("URL")]
	}
	return written
}

func networking(n *Networking) section {
	return section{
		name: "Networking", regional: true,
		meaning: "The addresses of an instance that become addresses of its node.",
		options: []option{
			truth("ipv6-support-disabled", &n.IPv6SupportDisabled, "Omit IPv6 addresses."),
			texts("public-network-name", &n.PublicNetworkNames,
				"A network whose addresses become ExternalIPs.", noneEmpty()),
			texts("internal-network-name", &n.InternalNetworkNames,
				"A network whose addresses become InternalIPs. If any is set, addresses in "+
					"other networks are omitted, and those of a new node have the order of the "+
					"networks.", noneEmpty()),
			list("address-sort-order", &n.AddressSortOrder,
				"CIDRs that sort a node's addresses: those in the first CIDR come first, those in none last.",
				cidrs(mistake("must be comma-separated CIDRs; other items are ignored"))),
		},
	}
}

func loadBalancer(l *LoadBalancer) section {
	return section{
		name: "LoadBalancer", regional: true,
		meaning: "Defaults for Services of type LoadBalancer. Annotations of a Service override " +
			"most of them.", options: []option{
			truth("enabled", &l.Enabled, "Serve Services of type LoadBalancer."),
			text("lb-version", &l.LBVersion,
				"Deprecated: only one version exists.", oneOf(asError, "", "v2")).
				withoutEffect("only one version of Octavia's API exists"),
			text("subnet-id", &l.SubnetID,
				"The subnet of VIPs, and of members if member-subnet-id is empty.", uuidRule()),
			text("member-subnet-id", &l.MemberSubnetID,
				"The subnet of members that are nodes.", uuidRule()),
			text("network-id", &l.NetworkID,
				"The network of VIPs, if subnet-id is empty.", uuidRule()),
			text("floating-network-id", &l.FloatingNetworkID,
				"The network of floating IPs. Empty: the external network, if the project has "+
					"access to one.", uuidRule()),
			text("floating-subnet-id", &l.FloatingSubnetID,
				"The subnet of floating IPs. It must be in the floating network.", uuidRule()),
			text("floating-subnet", &l.FloatingSubnet,
				"The subnets of floating IPs, as a name pattern: wildcards, or a regular "+
					"expression after ~; a leading ! negates.", subnetPattern()),
			text("floating-subnet-tags", &l.FloatingSubnetTags,
				"The subnets of floating IPs, as comma-separated tags: any of them or, after &, "+
					"all; a leading ! negates."),
			text("lb-method", &l.LBMethod,
				"The load balancing algorithm. The ovn provider supports only SOURCE_IP_PORT.",
				oneOf(asMistake, "ROUND_ROBIN", "LEAST_CONNECTIONS", "SOURCE_IP",
					"SOURCE_IP_PORT")),
			text("lb-provider", &l.LBProvider,
				"The Octavia provider. Empty: Octavia's default. An unknown one is passed to "+
					"Octavia with a warning.",
				oneOf(asWarning, "", "amphora", "octavia", "ovn", "f5", "amphorav2")),
			truth("create-monitor", &l.CreateMonitor,
				"Create health monitors. Services with externalTrafficPolicy: Local need them."),
			duration("monitor-delay", &l.MonitorDelay,
				"Interval between health checks of a member.", wholeSeconds()),
			duration("monitor-timeout", &l.MonitorTimeout,
				"Timeout of a health check. It should be shorter than monitor-delay: otherwise "+
					"fxccm warns, and uses both.",
				wholeSeconds()),
			count("monitor-max-retries", &l.MonitorMaxRetries,
				"Successful checks before a member is online again.", between(asMistake, 1, 10)),
			count("monitor-max-retries-down", &l.MonitorMaxRetriesDown,
				"Failed checks before a member is taken offline.", between(asMistake, 1, 10)),
			truth("manage-security-groups", &l.ManageSecurityGroups,
				"Create a security group for each Service that opens its node ports, or the "+
					"target ports of pods that are members, at the nodes."),
			truth("internal-lb", &l.InternalLB,
				"Create load balancers without floating IPs, even if annotations request one."),
			text("node-selector", &l.NodeSelector,
				"Labels of the nodes that become members: comma-separated key=value or key.",
				labels()),
			truth("cascade-delete", &l.CascadeDelete,
				"Delete a load balancer and its children with one request."),
			text("flavor-id", &l.FlavorID, "The Octavia flavor of load balancers.", uuidRule()),
			text("availability-zone", &l.AvailabilityZone,
				"The Octavia availability zone of load balancers."),
			truth("enable-ingress-hostname", &l.EnableIngressHostname,
				"Put a host name made from the address, instead of the address, in the status "+
					"of Services with the PROXY protocol."),
			text("ingress-hostname-suffix", &l.IngressHostnameSuffix,
				"The suffix of that host name.", domain()),
			number("max-shared-lb", &l.MaxSharedLB,
				"The maximum number of Services that share a load balancer by the annotation "+
					"load-balancer-id. Services with share-as do not count: each of them agrees "+
					"to share, so max-shared-listeners limits them.",
				atLeast(asMistake, 1)),
			text("container-store", &l.ContainerStore,
				"The store of listener certificates. Only certificates in barbican are checked "+
					"before use.", oneOf(asMistake, "barbican", "external")),
			truth("provider-requires-serial-api-calls", &l.ProviderRequiresSerialAPICalls,
				"Create each object of a load balancer with its own request, for providers that "+
					"need this."),
			text("default-tls-container-ref", &l.DefaultTLSContainerRef,
				"The certificate of Services that name no other."),
			text("allowed-annotations", &l.AllowedAnnotations,
				"The annotations that users may set, of those whose value is an object of the "+
					"cloud: names without the prefix, with commas between them; load-balancer-ip "+
					"stands for spec.loadBalancerIP. A Service with another one is refused, and "+
					"nothing is changed. Set it to none if users are not trusted.",
				annotationNames()),
			number("max-shared-listeners", &l.MaxSharedListeners,
				"The maximum number of listeners of a load balancer that Services join by the "+
					"name of share-as. A Service that has more ports has a load balancer alone.",
				atLeast(asError, 1)),
			text("share-as", &l.ShareAs,
				"The name by which the Services of a namespace share load balancers if their "+
					"annotation share-as names no other: sharing by default. The annotation with "+
					"an empty value shares none. Empty: a Service shares only by its annotation.",
				shareName()),
			duration("drift-period", &l.DriftPeriod,
				"Interval at which load balancers are checked for drift without a change in the "+
					"cluster. 0 disables the check.", between(asError, 0, 24*time.Hour)),
			text("member-target", &l.MemberTarget,
				"The members of load balancers: nodes at their node ports, or pods. auto is pod if "+
					"a range of the Service's first IP family is reached, and otherwise node.",
				oneOf(asError, memberTargets()...)),
			list("pod-ranges", &l.PodRanges,
				"The CIDRs of pod addresses that the router of the load balancers' subnet leads "+
					"to, and whose packets the nodes' ports accept, by another component than "+
					"fxccm, such as BGP. Not given: those of --cluster-cidr, if fxccm writes "+
					"routes ([Route] router-id) to that router, or leaves that to another route "+
					"controller (--controllers=*,-node-route-controller). Pods are members only "+
					"in these ranges, and at addresses of their nodes.",
				cidrs(wrong("must be comma-separated CIDRs"))),
			truth("provider-needs-no-node-ports", &l.ProviderNeedsNoNodePorts,
				"Octavia's provider forwards to a node at the port of the Service, such as "+
					"through a tunnel. Nodes are then members at that port if it has no node port "+
					"(allocateLoadBalancerNodePorts: false). Otherwise such a port has no members."),
		},
	}
}

// memberTargets are the values of member-target. Empty: the default, or what [LoadBalancer] has.
func memberTargets() []string { return []string{"", "node", "pod", "auto"} }

func loadBalancerClass(class *LoadBalancerClass) section {
	return section{
		name: "LoadBalancerClass", named: true,
		meaning: "Defaults for the Services whose annotation `loadbalancer.openstack.org/class` " +
			"has this name. They override [LoadBalancer].",
		options: []option{
			text("floating-network-id", &class.FloatingNetworkID,
				"As in [LoadBalancer].", uuidRule()),
			text("floating-subnet-id", &class.FloatingSubnetID,
				"As in [LoadBalancer].", uuidRule()),
			text("floating-subnet", &class.FloatingSubnet,
				"As in [LoadBalancer].", subnetPattern()),
			text("floating-subnet-tags", &class.FloatingSubnetTags, "As in [LoadBalancer]."),
			text("network-id", &class.NetworkID, "As in [LoadBalancer].", uuidRule()),
			text("subnet-id", &class.SubnetID, "As in [LoadBalancer].", uuidRule()),
			text("member-subnet-id", &class.MemberSubnetID, "As in [LoadBalancer].", uuidRule()),
			text("member-target", &class.MemberTarget, "As in [LoadBalancer].",
				oneOf(asError, memberTargets()...)),
			text("allowed-annotations", &class.AllowedAnnotations,
				"As in [LoadBalancer], for the Services of this class.", annotationNames()),
			list("namespaces", &class.Namespaces,
				"The namespaces whose Services may use the class. Empty: all."),
			text("share-as", &class.ShareAs, "As in [LoadBalancer].", shareName()),
			truth("share-across-namespaces", &class.ShareAcrossNamespaces,
				"Services of the class with the same name in share-as share load balancers "+
					"also if they are in several namespaces. The namespaces must trust each "+
					"other: a Service can take a port that another one has released, at the same "+
					"address."),
		},
	}
}

func route(r *Route) section {
	return section{
		name: "Route", regional: true,
		meaning: "The routes to the pods, for network plugins that need them.", options: []option{
			text("router-id", &r.RouterID,
				"The ID of the router that gets the routes. Empty: the provider serves no "+
					"routes.", uuidRule()),
		},
	}
}

func metadata(m *Metadata) section {
	return section{name: "Metadata", meaning: "Other options of OCCM.", options: []option{
		text("search-order", &m.SearchOrder,
			"Validated, but without effect, as in OCCM.", searchOrder()).
			withoutEffect("fxccm asks Nova, and reads no metadata of its own machine"),
		duration("request-timeout", &m.RequestTimeout,
			"Timeout of one attempt of one request to OpenStack, including the response body. 0 "+
				"means the default.", atLeast(asMistake, time.Millisecond)),
	}}
}

func client(c *Client) section {
	return section{
		name: "Client", own: true,
		meaning: "Limits of requests to OpenStack.", options: []option{
			real("request-rate", &c.RequestRate,
				"Average number of requests per second.", between(asError, 0.1, 100000)),
			number("request-burst", &c.RequestBurst,
				"Number of requests that may start at once.", between(asError, 1, 100000)),
			number("max-retries", &c.MaxRetries,
				"Maximum number of retries of a request after a transient failure.",
				between(asError, 0, 100)),
		},
	}
}

func instances(i *Instances) section {
	return section{name: "Instances", own: true, meaning: "Lookups of servers.", options: []option{
		truth("regional", &i.Regional,
			"Write provider IDs with the region: `openstack://region/id` instead of "+
				"`openstack:///id`."),
		duration("metadata-max-age", &i.MetadataMaxAge,
			"Maximum age of cached data for a node's addresses, type and zone.",
			between(asError, 0, time.Hour)),
		duration("status-max-age", &i.StatusMaxAge,
			"Maximum age of cached data that says whether an instance exists or is shut down.",
			between(asError, 0, time.Hour)),
		duration("absence-confirmation", &i.AbsenceConfirmation,
			"Minimum time between the two responses that confirm that an instance does not "+
				"exist, before its node is deleted.", between(asError, time.Second, time.Hour)),
		number("vanished-number", &i.VanishedNumber,
			"Mass deletion guard: if at least this many known instances are absent, and more "+
				"than vanished-share, no node is deleted. Nodes that are marked for removal do "+
				"not count, and are deleted.", between(asError, 1, 1000000)),
		real("vanished-share", &i.VanishedShare,
			"Mass deletion guard: the share of absent instances among the known ones.",
			between(asError, 0.0, 1)),
		list("removal-taints", &i.RemovalTaints,
			"Keys of taints, without value and effect, that mark a node for removal, besides "+
				"those of the cluster autoscaler and Karpenter. Such a node gets no new "+
				"connections.", taintKeys()),
	}}
}
