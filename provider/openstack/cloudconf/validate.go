package cloudconf

// Validate checks a configuration, no matter where it came from. The error is a [Problems] with all
// reasons to refuse it; with strict, probable mistakes are among them, and otherwise among the
// warnings. Validate reads no files and sends no requests, so it does not know whether, for
// example, a network exists.
func Validate(c Config, strict bool) (warnings []Problem, err error) {
	return classify(problemsIn(c), strict)
}

// problemsIn returns all problems of a configuration.
func problemsIn(c Config) []Problem {
	problems := append(c.valueProblems(), c.regionProblems()...)
	check := func(g Global, l LoadBalancer, r Route, name string) {
		problems = append(problems, g.loginProblems(name)...)
		problems = append(problems, g.transportProblems(name)...)
		problems = append(problems, l.problems(r, name)...)
	}
	check(c.Global, c.LoadBalancer, c.Route, "")
	for _, name := range c.RegionNames()[1:] {
		in := c.Regions[name]
		check(in.Global, in.LoadBalancer, in.Route, name)
	}
	return problems
}

// valueProblems checks each value by itself.
func (c *Config) valueProblems() []Problem {
	var problems []Problem
	for _, section := range c.sections() {
		p := problemsOf{section: section.header()}
		for _, option := range section.options {
			for _, rule := range option.rules {
				if f := rule.check(); f != nil {
					p.add(f.severity, option.key, f.text)
				}
			}
		}
		problems = append(problems, p.problems...)
	}
	return problems
}

// transportProblems are those of a region, or of the default one if the name is empty.
func (g Global) transportProblems(region string) []Problem {
	p := problemsOf{section: header("Global", region)}
	if g.CertFile != "" && g.KeyFile == "" {
		p.add(asMistake, "cert-file", "has no effect without key-file")
	}
	if g.KeyFile != "" && g.CertFile == "" {
		p.add(asMistake, "key-file", "has no effect without cert-file")
	}
	if g.CAFile != "" && g.CAFileContents != "" {
		p.add(asMistake, "cafilecontents", "has no effect because ca-file is set")
	}
	if !g.UseClouds && (g.CloudsFile != "" || g.Cloud != "") {
		p.add(asMistake, "use-clouds", "is not set, so clouds-file and cloud have no effect")
	}
	return p.problems
}

func (l LoadBalancer) problems(r Route, region string) []Problem {
	p := problemsOf{section: header("LoadBalancer", region)}
	// https://docs.openstack.org/api-ref/load-balancer/v2/#create-health-monitor; Octavia accepts
	// such times all the same.
	if l.MonitorTimeout >= l.MonitorDelay {
		p.add(asWarning, "monitor-timeout", "should be shorter than monitor-delay; both are used")
	}
	if l.LBProvider == "ovn" && l.LBMethod != "SOURCE_IP_PORT" {
		p.add(asWarning, "lb-method",
			"must be SOURCE_IP_PORT, the only method that the ovn provider supports")
	}
	if l.MemberTarget == "pod" && len(l.PodRanges) == 0 && r.RouterID == "" {
		p.add(asMistake, "member-target", "is pod, but pod-ranges is empty and [Route] has no "+
			"router-id, so Services are refused")
	}
	return p.problems
}
