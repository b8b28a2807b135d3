# fxccm: everything that is needed is built or fetched by these targets, into bin/ (ignored by git),
# and reused when it is there. Needs Go 1.26, make, gcc (for the race detector) and git; the tests also npm and Chromium.

SHELL := /bin/bash
GO    ?= go
BIN   := $(CURDIR)/bin
# The folder of the real OpenStack; another is given as LAB_DIR=..., by its whole path.
LAB_DIR ?= $(BIN)/openstack-lab
# The release of OpenStack in it: zed, 2025.1 or 2026.2.
RELEASE ?= zed
# openstack-cloud-controller-manager itself, which a test of the takeover runs.
OCCM        := $(BIN)/occm/openstack-cloud-controller-manager
OCCM_MODULE := k8s.io/cloud-provider-openstack

# Packages that a host links. They must build wherever a host does, and the program wherever a release has it.
LIBRARY   := ./ccm/... ./controllers/... ./fleet/... ./hosting/... ./options/... ./provider/... ./internal/...
PLATFORMS := linux/amd64 linux/arm64 darwin/arm64 windows/amd64

# Programs are built without the C library of the machine; only the race detector needs a C compiler. With one
# setting for all, no package is compiled twice.
export CGO_ENABLED = 0
# Without the folder of the checkout in them, another checkout on the machine can use what is compiled.
export GOFLAGS := $(GOFLAGS) -trimpath

# envtest's convention: a user who has etcd and kube-apiserver says where, and nothing is built.
export KUBEBUILDER_ASSETS ?=

.DEFAULT_GOAL := help

.PHONY: help
help: ## Show this help
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F':.*## ' '{printf "  make %-14s %s\n", $$1, $$2}'

.PHONY: demo
demo: ## See two replicas run a cluster on a simulated OpenStack (FLEET=1: three run many clusters; CHECK=1: verify and exit)
	@mkdir -p $(BIN) && date +%s >$(DEMO_TIMES)
	@$(MAKE) --no-print-directory controlplane
	@date +%s >>$(DEMO_TIMES)
	@$(MAKE) --no-print-directory $(if $(FLEET),program,programs)
	@date +%s >>$(DEMO_TIMES)
	@$(BIN)/fxccm-demo --binary $(BIN)/fxccm --embedded $(BIN)/fxccm-embedded $(if $(FLEET),--fleet) $(if $(CHECK),--check) \
	  || code=$$?; set -- $$(cat $(DEMO_TIMES)) $$(date +%s); \
	  echo "make demo: control plane $$(($$2 - $$1)) s (download or build), programs $$(($$3 - $$2)) s (build), demo $$(($$4 - $$3)) s"; \
	  exit $${code:-0}

# The seconds at which the parts of the last demo began.
DEMO_TIMES := $(BIN)/demo-times

.PHONY: playground
playground: controlplane program ## Run a control plane and a simulated OpenStack for the tutorial, until Ctrl-C
	@exec $(BIN)/fxccm-demo --playground $(BIN)/playground

.PHONY: program programs
program:
	@echo "build the program and the demo"
	@$(GO) build -o $(BIN)/fxccm ./cmd/fxccm
	@$(GO) build -o $(BIN)/fxccm-demo ./test/demo
programs: program
	@echo "build the host that embeds"
	@cd example/embedded && $(GO) build -o $(BIN)/fxccm-embedded .

# Packages that run without the race detector: there are processes in them, or nothing is concurrent.
WITHOUT_DETECTOR := ./test/program ./test/sideeffects/... ./test/deps ./test/demo ./cmd/... ./example/... ./deploy/... ./docs ./tools/... ./options ./provider/openstack/cloudconf \
  ./internal/nearest $(addprefix ./provider/openstack/internal/,namepattern pages loadbalancer/desired loadbalancer/settings) \
  ./test/drills/...
# Tests of thousands of requests, for which the detector needs up to ten times the CPU time, and tests of upstream's
# controllers, which have data races. They run without it; the other tests of their packages show the same code to the detector.
LARGE := ^(TestUpstreams_EachBehavior_HoldsOrFailsAsReported|TestAnySequence_Converges|TestClusters_AnySequence_EachIsServedAndTouchesItsOwn|$\
TestClusters_JoinOrLeaveIsInterrupted_NextPassRepairsIt|TestFailure_AfterEachRequest_IsMadeGood|$\
TestFaults_NoInstanceIsAbsent|TestNodes_ThousandAreInitialized_CostFewCalls|$\
TestNodes_StatusOfThousandIsRead_CostsFewCalls)$$
LARGE_IN := $(addprefix ./provider/openstack/internal/,loadbalancer instances) ./internal/nodes ./internal/servicelb
# Modules of their own, whose dependencies no host should see.
NESTED_LIBRARY := hosting/controllerruntime provider/huaweicloud
NESTED := test/thirdparty test/chart $(NESTED_LIBRARY) example/embedded test/clusterapi test/chart/monitoring tools/envtest tools/release tools/never test/gcfg test/bench

# The longest packages begin first. Those with processes, ports and real clocks may have a second try at a failed test,
# alone, and are reported as flaky. In all others, and in the drills of the promises, one failure counts.
FIRST := $(addprefix -first=,/test/providers/manager$$ /test/drills$$ /test/chart$$ /fleet$$ /test/thirdparty$$ /test/chart/commands$$ /test/providers/takeover$$ /test/e2e/ /hosting/pro)
REAL_CLOCKS := /(test/(e2e|providers|program|thirdparty|chart|clusterapi)|internal/(netfault|rbac)|ccm/ccmtest|ccm/serving|hosting|example|cmd|fleet)(/|$$)
AGAIN := -again='$(REAL_CLOCKS)'

LOGS := $(BIN)/logs
# gotestsum runs what testrun has built: $(call SHOW_TESTS,NAME) -flags of testrun run. It writes bin/logs/NAME.json and NAME.xml.
SHOW_TESTS = mkdir -p $(LOGS) && $(BIN)/gotestsum/gotestsum --format pkgname --format-hide-empty-pkg --hide-summary skipped \
  --jsonfile $(LOGS)/$(1).json --junitfile $(LOGS)/$(1).xml --rerun-fails=1 --rerun-fails-max-failures=5 --rerun-fails-run-root-test \
  --raw-command -- $(BIN)/testrun run

# Tests, and what they start, spend a tenth of their CPU time less if they collect garbage later.
test test-openstack test-packets: export GOGC ?= 400

.PHONY: test
test: controlplane programs browser $(OCCM) test-binaries ## Run all tests, on a real kube-apiserver and etcd
	$(call SHOW_TESTS,tests) -dir $(BIN)/tests $(FIRST) $(AGAIN) 3>&2
	@echo "==> the demos, checked"
	@$(MAKE) --no-print-directory demo CHECK=1
	@$(MAKE) --no-print-directory demo CHECK=1 FLEET=1

# All test binaries, before the first of them runs.
.PHONY: test-binaries
test-binaries: $(BIN)/gotestsum/gotestsum $(BIN)/testrun
	$(BIN)/testrun build -dir $(BIN)/tests -plain '$(WITHOUT_DETECTOR)' -large '$(LARGE_IN)' -large-tests '$(LARGE)' \
	  -modules '$(NESTED)' ./...

$(BIN)/testrun: $(wildcard tools/testrun/*.go)
	@$(GO) build -o $@ ./tools/testrun

$(BIN)/gotestsum/gotestsum: tools/gotestsum/go.mod tools/gotestsum/go.sum
	@echo "build gotestsum"
	@mkdir -p $(@D)
	@cd tools/gotestsum && $(GO) build -o $@ gotest.tools/gotestsum

.PHONY: check
check: controlplane $(OCCM) $(BIN)/lint/.built $(BIN)/gotestsum/gotestsum $(BIN)/testrun ## Check format, vet and tests of the packages that differ from a commit, and of those that import them (BASE=HEAD~3)
	@PLAIN='$(WITHOUT_DETECTOR)' LARGE_IN='$(LARGE_IN)' LARGE='$(LARGE)' MODULES='$(NESTED)' tools/check/run.sh $(BASE)
	@[ ! -e $(BIN)/check/plan.json ] || { $(call SHOW_TESTS,check) -dir $(BIN)/check $(FIRST) $(AGAIN) 3>&2; }

# How often, and which packages: those with processes, ports and real clocks.
STRESS_COUNT ?= 20
STRESS ?= $(REAL_CLOCKS)

.PHONY: test-stress
test-stress: controlplane programs browser $(OCCM) test-binaries ## Run the tests with real clocks 20 times on a busy machine (STRESS_COUNT=5, STRESS='/ccm/serving$$': another number, other packages)
	tools/stress/run.sh $(STRESS_COUNT) '$(STRESS)'

.PHONY: soak
soak: ## Run long random sequences of changes to load balancers, in about ten minutes
	$(GO) test -count=1 -timeout 60m ./provider/openstack/internal/loadbalancer -run AnySequence -sequences 1000

# The earlier commit whose program is one of the replicas of a fleet.
OTHER ?= HEAD~50

.PHONY: test-drills
test-drills: controlplane ## Run all drills of API server outages, in ten minutes, and write docs/evidence/drills.md
	FXCCM_DRILLS=all FXCCM_DRILLS_OTHER=$(OTHER) $(GO) test -v -count=1 -timeout 60m ./test/drills -update

# Minor versions of Kubernetes, or whole versions such as 1.34.2, that test-kubernetes runs on; SUITES are some of its suites.
VERSIONS ?= 1.31 1.34 1.36 1.37
SUITES   ?=

.PHONY: test-kubernetes
test-kubernetes: controlplane $(OCCM) ## Run the suites with an API server on older and newer Kubernetes (VERSIONS="1.31 1.34.2"), and write docs/evidence/kubernetes.md
	@$(GO) run ./tools/kubernetes -suites '$(SUITES)' $(VERSIONS)

.PHONY: compat
compat: ## Compile the library and the program with the previous and the next minor version of k8s.io, or its pre-release
	@tools/compat/run.sh $(LIBRARY) ./cmd/fxccm

# The suites of the provider on a lab, one at a time: OpenStack itself fills two cores with what one asks of it.
# $(call ON_LAB,NAME,SUITES,-flags of testrun run). The results of whole suites are recorded for make verified, also failures.
ON_LAB = export FXCCM_OPENSTACK_LAB=$(LAB_DIR) && \
  $(BIN)/testrun build -dir $(BIN)/tests-$(1) $(addprefix ./test/providers/,$(2)) && \
  { $(call SHOW_TESTS,$(1)) -dir $(BIN)/tests-$(1) -p 1 -parallel 6 -timeout 60m -again . $(3) 3>&2 || failed=$$?; \
  $(if $(3),,$(GO) run ./tools/verified -lab $(LAB_DIR) $(LOGS)/$(1).json && )exit $${failed:-0}; }
# What QUICK=1 runs: the APIs' rules without Octavia's long ones, and of the rest what does each kind of thing once.
ON_LAB_LONG  := ^TestLoadBalancer_(Changes|Operator|Refusals|VIP)$$
ON_LAB_QUICK := ^Test(Login|Addresses_TwoNetworks|Routes_LiveFromCreateToDelete|LoadBalancer_(ExternalService|PortsCome|OfTheUser)|FloatingIP_ComesAndGoes|Takeover)

.PHONY: test-openstack
test-openstack: controlplane programs $(OCCM) $(BIN)/gotestsum/gotestsum $(BIN)/testrun openstack-lab ## Run the suites of OpenStack's provider on a real OpenStack, which is brought up if it is not (QUICK=1: a part)
	@echo "==> what runs on the simulated OpenStack in make test, on the real one"
	$(call ON_LAB,api,api,$(if $(QUICK),-test.skip '$(ON_LAB_LONG)'))
	$(call ON_LAB,provider,$(if $(QUICK),openstack takeover,openstack manager takeover),$(if $(QUICK),-test.run '$(ON_LAB_QUICK)'))
	$(if $(filter-out zed,$(RELEASE)),@$(MAKE) --no-print-directory test-packets RELEASE=$(RELEASE))

.PHONY: test-packets
test-packets: controlplane $(OCCM) $(BIN)/gotestsum/gotestsum $(BIN)/testrun ## Send packets through load balancers of ovn, on a lab with RELEASE=2025.1
	@$(MAKE) --no-print-directory openstack-lab RELEASE=$(if $(filter-out zed,$(RELEASE)),$(RELEASE),2025.1)
	$(call ON_LAB,packets,packets)

.PHONY: verified
verified: ## Write docs/evidence/openstack-runs.md from the last runs of test-openstack and test-packets
	@$(GO) run ./tools/verified

# How long all fuzz targets together run, or how many inputs each gets; compiling them comes on top.
FUZZ_TIME ?= 10m

.PHONY: fuzz
fuzz: ## Run all fuzz targets of all modules, ten minutes in total (FUZZ_TIME=1m: another time; 1000x: so many inputs each)
	@GO=$(GO) tools/fuzz/run.sh $(FUZZ_TIME)

# The database of known vulnerabilities of Go modules.
VULN_DB ?= https://vuln.go.dev

.PHONY: vuln
vuln: $(BIN)/lint/.built ## Look for known vulnerabilities in what the code calls, where their database is reachable (VULN_DB=URL: another one)
	@curl -fsS --max-time 20 -o /dev/null $(VULN_DB)/index/db.json || \
	  { echo "vuln: nothing was checked, because the database $(VULN_DB) is not reachable"; exit 1; }
	@for module in . $(NESTED); do echo "==> vuln $$module"; \
	  (cd $$module && $(BIN)/lint/govulncheck -db $(VULN_DB) ./...) || exit 1; done
	@echo "vuln: ok"

.PHONY: lint
lint: $(BIN)/lint/.built $(BIN)/lint/never ## Check format, vet, staticcheck, the public API, what a library must never do, the language, and that it builds on every platform and with the neighboring k8s.io
	@unformatted=$$($(BIN)/lint/gofumpt -l $$(git ls-files -co --exclude-standard '*.go')); \
	  if [ -n "$$unformatted" ]; then echo "not gofumpt-ed:"; echo "$$unformatted"; exit 1; fi
	$(GO) vet ./...
	@for module in $(NESTED); do (cd $$module && $(GO) vet ./...) || exit 1; done
	$(BIN)/lint/staticcheck ./...
	$(GO) vet -vettool=$(BIN)/lint/never $(LIBRARY)
	@for module in $(NESTED_LIBRARY); do echo "$$module"; (cd $$module && $(BIN)/lint/staticcheck ./... && \
	  $(GO) vet -vettool=$(BIN)/lint/never ./...) || exit 1; done
	@$(GO) run ./tools/api -check
	@$(GO) run ./tools/language
	# The release compiles for them.
	@for platform in $(PLATFORMS); do echo "check types of library and program for $$platform"; \
	  $(BIN)/lint/never -platform $$platform $(LIBRARY) ./cmd/fxccm || exit 1; done
	@$(MAKE) --no-print-directory compat
	@echo "lint: ok"

$(BIN)/lint/.built: tools/lint/go.mod tools/lint/go.sum
	@echo "build the linters"
	@mkdir -p $(@D)
	cd tools/lint && $(GO) build -o $(@D)/ honnef.co/go/tools/cmd/staticcheck mvdan.cc/gofumpt golang.org/x/vuln/cmd/govulncheck
	@touch $@

$(BIN)/lint/never: $(shell find tools/never -name '*.go' -not -path '*/testdata/*') tools/never/go.sum
	@echo "build the check of what a library must never do"
	@mkdir -p $(@D)
	cd tools/never && $(GO) build -o $@ .

.PHONY: format
format: $(BIN)/lint/.built ## Format the code
	@$(BIN)/lint/gofumpt -w $$(git ls-files -co --exclude-standard '*.go')

.PHONY: bench
bench: controlplane ## Measure beside others, and write docs/evidence/benchmarks*.md (QUICK=1: write nothing; SCENARIOS=openstack: not all)
	cd test/bench && $(GO) build -trimpath -buildvcs=auto -o $(BIN)/bench/ . ./upstream ./fxccm ./fleet
	@FXCCM_OPENSTACK_LAB=$${FXCCM_OPENSTACK_LAB:-$(LAB_DIR)} $(BIN)/bench/bench $(if $(SCENARIOS),--scenarios=$(SCENARIOS)) \
	  $(if $(QUICK),--quick,--out $(CURDIR)/docs/evidence)

.PHONY: image
image: ## Build the OCI image for linux/amd64 and arm64, as bin/fxccm-image.tar (PUSH=registry.example.com/fxccm:v1: push it)
	@$(BUILD_RELEASE) && $(BIN)/release-tool image $(if $(PUSH),-push $(PUSH))

.PHONY: release
release: ## Build all files of a release into bin/release/VERSION (VERSION=v1.2.3, the tag of the commit; IMAGE=registry.example.com/fxccm: in the chart; PUSH=1: and publish it)
	@$(BUILD_RELEASE) && $(BIN)/release-tool all $(if $(IMAGE),-image $(IMAGE)) $(VERSION)
	@$(if $(PUSH),$(MAKE) --no-print-directory publish)

.PHONY: publish
publish: $(if $(SIGN),$(BIN)/cosign/cosign) ## Push image and chart of bin/release/VERSION (VERSION, IMAGE as for release; CHARTS=oci://registry.example.com/charts; SIGN=cosign.key or keyless)
	@$(BUILD_RELEASE) && $(BIN)/release-tool publish -image $(IMAGE) $(if $(CHARTS),-charts $(CHARTS)) $(if $(SIGN),-sign $(SIGN)) $(if $(OUTPUTS),-outputs $(OUTPUTS)) $(VERSION)

# The tool writes the image, with certificates of a module, so no variable may choose another code for it.
BUILD_RELEASE = cd tools/release && GOROOT= GOWORK=off GOFLAGS='-mod=readonly -trimpath' $(GO) build -o $(BIN)/release-tool . && cd $(CURDIR)

# Signs and verifies, in a release and in its tests.
$(BIN)/cosign/cosign: tools/cosign/go.mod tools/cosign/go.sum
	@echo "build cosign, which takes minutes"
	@mkdir -p $(@D)
	cd tools/cosign && $(GO) build -trimpath -ldflags='-s -w' -o $@ github.com/sigstore/cosign/v3/cmd/cosign

# Installs plugins of kubectl, in the tests of a release.
$(BIN)/krew/krew: tools/krew/go.mod tools/krew/go.sum
	@echo "build krew"
	@mkdir -p $(@D)
	cd tools/krew && $(GO) build -ldflags='-s -w' -o $(@D)/ sigs.k8s.io/krew/cmd/krew sigs.k8s.io/krew/cmd/validate-krew-manifest

# openstack-cloud-controller-manager itself with its RBAC rules.
.PHONY: occm
occm: $(OCCM) ## Build openstack-cloud-controller-manager, if it is not there, for the tests of the takeover

$(OCCM): tools/occm/go.mod tools/occm/go.sum
	@echo "build openstack-cloud-controller-manager, which takes minutes"
	@mkdir -p $(@D)
	@cd tools/occm && $(GO) mod download $(OCCM_MODULE) && \
	  install -m 644 $$($(GO) list -m -f '{{.Dir}}' $(OCCM_MODULE))/manifests/controller-manager/cloud-controller-manager-roles.yaml $(@D)/roles.yaml
	@set -o pipefail; cd tools/occm && version=$$($(GO) list -m -f '{{.Version}}' $(OCCM_MODULE)) && \
	  $(GO) build -v -ldflags="-s -w -X $(OCCM_MODULE)/pkg/version.Version=$$version -X k8s.io/component-base/version.gitVersion=$$version" \
	  -o $@ $(OCCM_MODULE)/cmd/openstack-cloud-controller-manager 2>&1 | \
	  awk '/^[^ #:]+$$/ { if (++n % 100 == 0) { print "occm: " n " packages compiled"; fflush() }; next } { print }'

.PHONY: controlplane
controlplane: ## Download etcd and kube-apiserver, or build them, if they are not there
	@tools/controlplane/build.sh

.PHONY: browser
browser: ## Install Chromium and fetch axe-core, if they are not there, for the tests of the status page and the site
	@tools/browser/install.sh $(BIN)/browser

.PHONY: screenshots
screenshots: browser controlplane ## Write the screenshots of the status page, of a Manager with troubles, into docs/images
	cd test/thirdparty && $(GO) test -count=1 -run EachSize ./page -update

.PHONY: site
site: ## Build the site of the documentation from docs into bin/site (SITE_BASE=/fxccm/: its path on the host)
	@tools/site/build.sh $(BIN)

.PHONY: test-site
test-site: site browser ## Test the site in Chromium: each page, its accessibility, and the search
	cd test/thirdparty && FXCCM_SITE=$(BIN)/site $(GO) test -count=1 -run TestSite ./page

.PHONY: openstack-lab
openstack-lab: ## Bring up a real OpenStack on this machine (Debian 12, as root; RELEASE=2025.1 or 2026.2: with packets, in a root of its own)
	@LAB_DIR=$(LAB_DIR) LAB_RELEASE=$(RELEASE) tools/openstack-lab/up.sh

.PHONY: openstack-lab-down
openstack-lab-down: ## Take it down (WIPE=1: and remove its data)
	@LAB_DIR=$(LAB_DIR) tools/openstack-lab/down.sh $(if $(WIPE),--wipe)

.PHONY: clean
clean: openstack-lab-down ## Remove what was built
	rm -rf $(BIN)
