package cloudconf

//go:generate env UPDATE_DOCS=1 go test -count=1 -run ^TestCloudConfPage_IsUpToDate$ .

import "time"

// table lists every option, in the order of the reference page.
func table() []section {
	return []section{global(), networking(), loadBalancer(), loadBalancerClass(), route(), metadata(), client(), instances()}
}

func global() section {
	return section{name: "Global", meaning: "Where the cloud is, and who logs in.", options: []option{
		text("auth-url", func(p place) *string { return &p.Global.AuthURL },
			"Keystone's URL.", keystoneURL()).inClouds("auth.auth_url").known("os-authURL"),
		text("user-id", func(p place) *string { return &p.Global.UserID },
			"The user, by id.", identifier()).inClouds("auth.user_id").known("os-userID"),
		text("username", func(p place) *string { return &p.Global.Username },
			"The user, by name. A name needs a domain.").inClouds("auth.username").known("user-name", "os-userName"),
		secret("password", func(p place) *Secret { return &p.Global.Password },
			"The user's password.").inClouds("auth.password").known("os-password"),
		text("tenant-id", func(p place) *string { return &p.Global.TenantID },
			"The project, by id.", identifier()).inClouds("auth.project_id").known("project-id", "os-projectID"),
		text("tenant-name", func(p place) *string { return &p.Global.TenantName },
			"The project, by name, if it is not given by id. A name needs a domain.").inClouds("auth.project_name").known("project-name", "os-projectName"),
		text("trust-id", func(p place) *string { return &p.Global.TrustID },
			"A trust to log in with. It takes the place of the project.", identifier()).inClouds("auth.trust_id").known("os-trustID"),
		text("trustee-id", func(p place) *string { return &p.Global.TrusteeID },
			"The user to whom the trust was given, by id, if that is not the user above.", identifier()).known("os-trusteeID"),
		secret("trustee-password", func(p place) *Secret { return &p.Global.TrusteePassword },
			"That user's password.").known("os-trusteePassword"),
		text("domain-id", func(p place) *string { return &p.Global.DomainID },
			"The domain of user and project, by id.", identifier()).inClouds("auth.domain_id").known("os-domainID"),
		text("domain-name", func(p place) *string { return &p.Global.DomainName },
			"The domain of user and project, by name.").inClouds("auth.domain_name").known("os-domainName"),
		text("tenant-domain-id", func(p place) *string { return &p.Global.TenantDomainID },
			"The domain of the project, by id, if it differs.", identifier()).inClouds("auth.project_domain_id").known("project-domain-id", "os-projectDomainID"),
		text("tenant-domain-name", func(p place) *string { return &p.Global.TenantDomainName },
			"The domain of the project, by name, if it differs.").inClouds("auth.project_domain_name").known("project-domain-name", "os-projectDomainName"),
		text("user-domain-id", func(p place) *string { return &p.Global.UserDomainID },
			"The domain of the user, by id, if it differs.", identifier()).inClouds("auth.user_domain_id").known("os-userDomainID"),
		text("user-domain-name", func(p place) *string { return &p.Global.UserDomainName },
			"The domain of the user, by name, if it differs.").inClouds("auth.user_domain_name").known("os-userDomainName"),
		text("application-credential-id", func(p place) *string { return &p.Global.ApplicationCredentialID },
			"An application credential, by id. It knows its user and its project.", identifier()).inClouds("auth.application_credential_id").known("os-applicationCredentialID"),
		text("application-credential-name", func(p place) *string { return &p.Global.ApplicationCredentialName },
			"An application credential, by name. It needs the user.").inClouds("auth.application_credential_name").known("os-applicationCredentialName"),
		secret("application-credential-secret", func(p place) *Secret { return &p.Global.ApplicationCredentialSecret },
			"The application credential's secret.").inClouds("auth.application_credential_secret").known("os-applicationCredentialSecret"),
		secret("token", func(p place) *Secret { return &p.Global.Token },
			"A token that Keystone has issued. It cannot be renewed: when it expires, everything fails until there is a new one.").inClouds("auth.token"),
		text("region", func(p place) *string { return &p.Global.Region },
			"The region whose services are used. It becomes the nodes' region. Empty if the cloud has one.").inClouds("region_name").known("os-region", "region-name"),
		word("os-endpoint-type", func(p place) *string { return &p.Global.EndpointType }, endpointType,
			"Which endpoints of the services are used. The long form, publicURL and so on, is known. Empty is public.",
			oneOf(Error, "", "public", "internal", "admin")).inClouds("endpoint_type").known("endpoint-type", "interface", "os-endpointType"),
		text("ca-file", func(p place) *string { return &p.Global.CAFile },
			"File with the authorities that the cloud's certificates are checked against. Empty: the system's.").inClouds("cacert").known("cacert", "os-certAuthorityPath"),
		text("cafilecontents", func(p place) *string { return &p.Global.CAFileContents },
			"The authorities themselves, if there is no ca-file. In a file it is one value in quotes, with \\n for the ends of its lines.", pem()).known("ca-file-contents", "os-certAuthority"),
		exactTruth("tls-insecure", func(p place) *bool { return &p.Global.TLSInsecure },
			`Leave the cloud's certificates unchecked. Nothing but "true" does so.`).inClouds("verify").known("insecure", "os-TLSInsecure"),
		text("cert-file", func(p place) *string { return &p.Global.CertFile },
			"File with the certificate that is shown to the cloud. It needs key-file.").inClouds("cert").known("os-clientCertPath"),
		text("key-file", func(p place) *string { return &p.Global.KeyFile },
			"File with that certificate's key.").inClouds("key").known("os-clientKeyPath"),
		truth("use-clouds", func(p place) *bool { return &p.Global.UseClouds },
			"Take from [clouds.yaml](#cloudsyaml) what is not set here.").known("os-useClouds"),
		text("clouds-file", func(p place) *string { return &p.Global.CloudsFile },
			"That file. Empty: it is searched for.").known("os-cloudsFile"),
		text("cloud", func(p place) *string { return &p.Global.Cloud },
			"The cloud in that file. Empty if it has one.").known("os-cloud"),
	}}
}

// endpointType shortens the form of the command line clients: publicURL.
func endpointType(written string) string {
	switch written {
	case "publicURL", "internalURL", "adminURL":
		return written[:len(written)-len("URL")]
	}
	return written
}

func networking() section {
	return section{name: "Networking", meaning: "Which addresses of an instance become addresses of its node.", options: []option{
		truth("ipv6-support-disabled", func(p place) *bool { return &p.Networking.IPv6SupportDisabled },
			"Leave out IPv6 addresses."),
		texts("public-network-name", func(p place) *[]string { return &p.Networking.PublicNetworkNames },
			"A network whose addresses are external ones.", noneEmpty()),
		texts("internal-network-name", func(p place) *[]string { return &p.Networking.InternalNetworkNames },
			"A network whose addresses are internal ones. If any is given, addresses in other networks are left out.", noneEmpty()),
		list("address-sort-order", func(p place) *[]string { return &p.Networking.AddressSortOrder },
			"CIDRs. Addresses in the first come first, and so on; the rest follows.", cidrs()),
	}}
}

func loadBalancer() section {
	return section{name: "LoadBalancer", meaning: "Defaults for Services of type LoadBalancer. Annotations of a Service can replace most of them.", options: []option{
		truth("enabled", func(p place) *bool { return &p.LoadBalancer.Enabled },
			"Serve Services of type LoadBalancer."),
		text("lb-version", func(p place) *string { return &p.LoadBalancer.LBVersion },
			"Deprecated: there is one version.", oneOf(Error, "", "v2")),
		text("subnet-id", func(p place) *string { return &p.LoadBalancer.SubnetID },
			"The subnet of load balancers' addresses, and of their members if member-subnet-id is empty.", uuidRule()),
		text("member-subnet-id", func(p place) *string { return &p.LoadBalancer.MemberSubnetID },
			"The subnet of load balancers' members.", uuidRule()),
		text("network-id", func(p place) *string { return &p.LoadBalancer.NetworkID },
			"The network of load balancers' addresses, if the subnet is not given.", uuidRule()),
		text("floating-network-id", func(p place) *string { return &p.LoadBalancer.FloatingNetworkID },
			"The network of floating IPs. Empty: the external network, if the project sees one.", uuidRule()),
		text("floating-subnet-id", func(p place) *string { return &p.LoadBalancer.FloatingSubnetID },
			"The subnet of floating IPs. It is in the floating network.", uuidRule()),
		text("floating-subnet", func(p place) *string { return &p.LoadBalancer.FloatingSubnet },
			"The subnets of floating IPs, by name: with wildcards or, after ~, as a regular expression; ! before it negates.", subnetPattern()),
		text("floating-subnet-tags", func(p place) *string { return &p.LoadBalancer.FloatingSubnetTags },
			"The subnets of floating IPs, by tags with commas between them: one of them or, after &, all; ! before it negates."),
		text("lb-method", func(p place) *string { return &p.LoadBalancer.LBMethod },
			"How a member is chosen. The ovn provider knows SOURCE_IP_PORT only.",
			oneOf(Mistake, "ROUND_ROBIN", "LEAST_CONNECTIONS", "SOURCE_IP", "SOURCE_IP_PORT")),
		text("lb-provider", func(p place) *string { return &p.LoadBalancer.LBProvider },
			"Octavia's provider. One that is not known is passed on with a warning.",
			oneOf(Warning, "amphora", "octavia", "ovn", "f5", "amphorav2")),
		truth("create-monitor", func(p place) *bool { return &p.LoadBalancer.CreateMonitor },
			"Have Octavia check the members' health. Services with externalTrafficPolicy: Local need it."),
		duration("monitor-delay", func(p place) *time.Duration { return &p.LoadBalancer.MonitorDelay },
			"Time between two checks of a member.", wholeSeconds()),
		duration("monitor-timeout", func(p place) *time.Duration { return &p.LoadBalancer.MonitorTimeout },
			"How long a member may take to answer. Shorter than monitor-delay.", wholeSeconds()),
		count("monitor-max-retries", func(p place) *int { return &p.LoadBalancer.MonitorMaxRetries },
			"How many good answers bring a member back.", between(Mistake, 1, 10)),
		count("monitor-max-retries-down", func(p place) *int { return &p.LoadBalancer.MonitorMaxRetriesDown },
			"How many failures take a member out.", between(Mistake, 1, 10)),
		truth("manage-security-groups", func(p place) *bool { return &p.LoadBalancer.ManageSecurityGroups },
			"Open the node ports by a security group for each Service."),
		truth("internal-lb", func(p place) *bool { return &p.LoadBalancer.InternalLB },
			"Give no load balancer a floating IP, whatever the annotations of a Service say."),
		text("node-selector", func(p place) *string { return &p.LoadBalancer.NodeSelector },
			"Labels of the nodes that become members, as key=value or key with commas between them.", labels()),
		truth("cascade-delete", func(p place) *bool { return &p.LoadBalancer.CascadeDelete },
			"Delete a load balancer and all its parts by one request."),
		text("flavor-id", func(p place) *string { return &p.LoadBalancer.FlavorID },
			"Octavia's flavor for load balancers.", uuidRule()),
		text("availability-zone", func(p place) *string { return &p.LoadBalancer.AvailabilityZone },
			"Octavia's availability zone for load balancers."),
		truth("enable-ingress-hostname", func(p place) *bool { return &p.LoadBalancer.EnableIngressHostname },
			"Give a Service with the PROXY protocol a host name, made of its address, instead of the address."),
		text("ingress-hostname-suffix", func(p place) *string { return &p.LoadBalancer.IngressHostnameSuffix },
			"What follows the address in that name.", domain()),
		number("max-shared-lb", func(p place) *int { return &p.LoadBalancer.MaxSharedLB },
			"How many Services may share a load balancer.", atLeast(Mistake, 1)),
		text("container-store", func(p place) *string { return &p.LoadBalancer.ContainerStore },
			"Where certificates of listeners are. In barbican they are looked for before they are used; elsewhere they are not.",
			oneOf(Mistake, "barbican", "external")),
		truth("provider-requires-serial-api-calls", func(p place) *bool { return &p.LoadBalancer.ProviderRequiresSerialAPICalls },
			"Make each part of a load balancer by a request of its own, for providers that can do no more at a time."),
		text("default-tls-container-ref", func(p place) *string { return &p.LoadBalancer.DefaultTLSContainerRef },
			"The certificate of all Services that name no other."),
		duration("drift-period", func(p place) *time.Duration { return &p.LoadBalancer.DriftPeriod },
			"How often load balancers are compared with what they should be, though nothing has changed in the cluster. 0: never.",
			between(Error, 0, 24*time.Hour)),
	}}
}

func loadBalancerClass() section {
	return section{
		name: "LoadBalancerClass", named: true,
		meaning: "Defaults for the Services whose annotation `loadbalancer.openstack.org/class` has this name. They take the place of those in [LoadBalancer].",
		options: []option{
			text("floating-network-id", func(p place) *string { return &p.class.FloatingNetworkID }, "As in [LoadBalancer].", uuidRule()),
			text("floating-subnet-id", func(p place) *string { return &p.class.FloatingSubnetID }, "As in [LoadBalancer].", uuidRule()),
			text("floating-subnet", func(p place) *string { return &p.class.FloatingSubnet }, "As in [LoadBalancer].", subnetPattern()),
			text("floating-subnet-tags", func(p place) *string { return &p.class.FloatingSubnetTags }, "As in [LoadBalancer]."),
			text("network-id", func(p place) *string { return &p.class.NetworkID }, "As in [LoadBalancer].", uuidRule()),
			text("subnet-id", func(p place) *string { return &p.class.SubnetID }, "As in [LoadBalancer].", uuidRule()),
			text("member-subnet-id", func(p place) *string { return &p.class.MemberSubnetID }, "As in [LoadBalancer].", uuidRule()),
		},
	}
}

func route() section {
	return section{name: "Route", meaning: "The routes to the pods, for network plugins that need them.", options: []option{
		text("router-id", func(p place) *string { return &p.Route.RouterID },
			"The router that gets the routes. Empty: there are none.", uuidRule()),
	}}
}

func metadata() section {
	return section{name: "Metadata", meaning: "What OCCM keeps here.", options: []option{
		text("search-order", func(p place) *string { return &p.Metadata.SearchOrder },
			"Checked and without effect, as in OCCM.", searchOrder()),
		duration("request-timeout", func(p place) *time.Duration { return &p.Metadata.RequestTimeout },
			"How long one attempt of one request to OpenStack may take, its answer included. 0 is the default.", atLeast(Mistake, time.Millisecond)),
	}}
}

func client() section {
	return section{name: "Client", own: true, meaning: "How requests are made.", options: []option{
		real("request-rate", func(p place) *float64 { return &p.Client.RequestRate },
			"How many requests are begun in a second, over time.", between(Error, 0.1, 100000)),
		number("request-burst", func(p place) *int { return &p.Client.RequestBurst },
			"How many requests are begun at once.", between(Error, 1, 100000)),
		number("max-retries", func(p place) *int { return &p.Client.MaxRetries },
			"How often a request is made again that was refused for the moment.", between(Error, 0, 100)),
	}}
}

func instances() section {
	return section{name: "Instances", own: true, meaning: "How servers are looked up.", options: []option{
		truth("regional", func(p place) *bool { return &p.Instances.Regional },
			"Write provider IDs with the region: `openstack://region/id` instead of `openstack:///id`."),
		duration("metadata-max-age", func(p place) *time.Duration { return &p.Instances.MetadataMaxAge },
			"How old what a node's addresses, type and zone are taken from may be.", between(Error, 0, time.Hour)),
		duration("status-max-age", func(p place) *time.Duration { return &p.Instances.StatusMaxAge },
			"How old what answers whether an instance exists or is shut down may be.", between(Error, 0, time.Hour)),
		duration("absence-confirmation", func(p place) *time.Duration { return &p.Instances.AbsenceConfirmation },
			"How far apart the two answers must be that an instance does not exist before its node is deleted.", between(Error, time.Second, time.Hour)),
		number("vanished-number", func(p place) *int { return &p.Instances.VanishedNumber },
			"If at least so many known instances are absent, and more than vanished-share, no node is deleted.", between(Error, 1, 1000000)),
		real("vanished-share", func(p place) *float64 { return &p.Instances.VanishedShare },
			"That share of the known instances.", between(Error, 0.0, 1)),
	}}
}
