package cloudconf

// Validate tells all that is wrong or surprising in a configuration, whoever has made it. [Classify] says what is to be refused.
// What only the cloud knows, such as whether a network exists, is not looked at, nor are the files that it names.
func Validate(c Config) []Problem {
	problems := c.valueProblems()
	problems = append(problems, c.Global.loginProblems()...)
	problems = append(problems, c.Global.transportProblems()...)
	return append(problems, c.LoadBalancer.problems()...)
}

// valueProblems are those of each value for itself.
func (c *Config) valueProblems() []Problem {
	var problems []Problem
	for _, section := range table() {
		places := section.places(c)
		for _, name := range names(places) {
			p := problemsOf{section: header(section.name, name)}
			for _, option := range section.options {
				for _, rule := range option.rules {
					if f := rule.judge(places[name]); f != nil {
						p.add(f.severity, option.key, f.text)
					}
				}
			}
			problems = append(problems, p.problems...)
		}
	}
	return problems
}

func (g Global) transportProblems() []Problem {
	p := problemsOf{section: header("Global", "")}
	if g.CertFile != "" && g.KeyFile == "" {
		p.add(Mistake, "cert-file", "has no effect without key-file")
	}
	if g.KeyFile != "" && g.CertFile == "" {
		p.add(Mistake, "key-file", "has no effect without cert-file")
	}
	if g.CAFile != "" && g.CAFileContents != "" {
		p.add(Mistake, "cafilecontents", "has no effect beside ca-file")
	}
	if !g.UseClouds && (g.CloudsFile != "" || g.Cloud != "") {
		p.add(Mistake, "use-clouds", "is not set; without it, clouds-file and cloud have no effect")
	}
	return p.problems
}

func (l LoadBalancer) problems() []Problem {
	p := problemsOf{section: header("LoadBalancer", "")}
	// https://docs.openstack.org/api-ref/load-balancer/v2/#create-health-monitor
	if l.MonitorTimeout >= l.MonitorDelay {
		p.add(Mistake, "monitor-timeout", "must be less than monitor-delay")
	}
	if l.LBProvider == "ovn" && l.LBMethod != "SOURCE_IP_PORT" {
		p.add(Warning, "lb-method", "must be SOURCE_IP_PORT for the ovn provider, which knows no other")
	}
	return p.problems
}
