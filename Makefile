# fxccm: everything that is needed is built or fetched by these targets, into bin/ (ignored by git),
# and reused when it is there. Needs Go 1.26, make, gcc (for the race detector) and git; the tests also npm and Chromium.

SHELL := /bin/bash
GO    ?= go
BIN   := $(CURDIR)/bin
# The folder of the real OpenStack; another is given as LAB_DIR=..., by its whole path.
LAB_DIR ?= $(BIN)/openstack-lab

# Packages that a host links. They must build wherever a host does, and the program wherever a release has it.
LIBRARY   := ./ccm/... ./controllers/... ./fleet/... ./options/... ./provider/... ./internal/...
PLATFORMS := linux/amd64 linux/arm64 darwin/arm64 windows/amd64

# Programs are built without the C library of the machine; only the race detector needs a C compiler. With one
# setting for all, no package is compiled twice.
export CGO_ENABLED = 0

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
	@$(MAKE) --no-print-directory example
	@date +%s >>$(DEMO_TIMES)
	@$(BIN)/fxccm-demo --binary $(BIN)/fxccm --embedded $(BIN)/fxccm-embedded $(if $(FLEET),--fleet) $(if $(CHECK),--check) \
	  || code=$$?; set -- $$(cat $(DEMO_TIMES)) $$(date +%s); \
	  echo "make demo: control plane $$(($$2 - $$1)) s (download or build), programs $$(($$3 - $$2)) s (build), demo $$(($$4 - $$3)) s"; \
	  exit $${code:-0}

# The seconds at which the parts of the last demo began.
DEMO_TIMES := $(BIN)/demo-times

.PHONY: playground
playground: controlplane example ## Run a control plane and a simulated OpenStack for the tutorial, until Ctrl-C
	@exec $(BIN)/fxccm-demo --playground $(BIN)/playground

.PHONY: example
example:
	@echo "build the example binary, the host that embeds, and the demo"
	@$(GO) build -o $(BIN)/fxccm ./example
	@cd example/embedded && $(GO) build -o $(BIN)/fxccm-embedded .
	@$(GO) build -o $(BIN)/fxccm-demo ./test/demo

# Packages that run without the race detector. In the first line upstream's service controller races with itself
# (suite.RaceDetector); the longest comes first. In the others there are processes, or nothing is concurrent.
WITHOUT_DETECTOR := ./ccm/ccmtest/conformance ./test/providers/takeover ./test/providers/manager ./test/e2e/leaks ./test/e2e/openstack \
  ./test/program ./test/sideeffects/... ./test/deps ./test/demo ./example/... ./deploy/... ./docs ./tools/... ./options ./provider/openstack/cloudconf \
  $(addprefix ./provider/openstack/internal/,namepattern nearest pages loadbalancer/desired loadbalancer/plan loadbalancer/settings)
# Packages that begin first and go first, because their processes and outages take time.
DRILLS := ./test/drills/...
# The longest packages with the race detector; they begin first.
LONGEST := ./test/e2e/controllers ./fleet ./provider/program ./provider/process
# Tests of thousands of requests, for which the detector needs up to ten times the CPU time. They run without it;
# the other tests of their packages show the same code to the detector.
LARGE := ^(TestAnySequence_Converges|TestClusters_AnySequence_EachIsServedAndTouchesItsOwn|$\
TestClusters_JoinOrLeaveIsInterrupted_NextPassRepairsIt|TestFailure_AfterEachRequest_IsMadeGood|$\
TestFaults_NoInstanceIsAbsent|TestNodes_ThousandAreInitialized_CostFewCalls|$\
TestNodes_StatusOfThousandIsRead_CostsFewCalls)$$
# Modules of their own, whose dependencies no host should see.
NESTED_LIBRARY := hosting/controllerruntime provider/huaweicloud
NESTED := test/commands test/thirdparty test/chart $(NESTED_LIBRARY) example/embedded test/clusterapi test/chart/monitoring tools/envtest tools/release tools/never test/gcfg test/bench

# Without debug information the binaries of 100 packages link in two thirds of the time. `make lint` vets.
TEST := $(GO) test -vet=off -ldflags='-s -w'
# Tests, and what they start, spend a tenth of their CPU time less if they collect garbage later.
test: export GOGC ?= 400

.PHONY: test
test: controlplane example browser ## Run all tests, on a real kube-apiserver and etcd
	@$(MAKE) --no-print-directory -j 6 drills test-demos test-with-detector test-without-detector test-nested test-large

# The drills and the demos wait most of the time. The other parts get what these leave.
.PHONY: drills test-demos test-with-detector test-without-detector test-nested test-large
test-with-detector test-without-detector test-nested test-large: TEST := nice $(TEST)
drills:
	@echo "==> drills"
	$(TEST) -p 2 -timeout 15m $(DRILLS)
test-demos:
	@echo "==> the demos, checked"
	@$(MAKE) --no-print-directory demo CHECK=1
	@$(MAKE) --no-print-directory demo CHECK=1 FLEET=1
test-with-detector:
	@echo "==> tests with the race detector"
	# Else each process of a test, too, sleeps a second at its end.
	CGO_ENABLED=1 GORACE=atexit_sleep_ms=0 $(TEST) -race -p 3 -parallel 8 -timeout 40m -skip '$(LARGE)' $(LONGEST) \
	  $$($(GO) list ./... | grep -vxFf <($(GO) list $(WITHOUT_DETECTOR) $(DRILLS)))
test-without-detector:
	@echo "==> tests without the race detector"
	$(TEST) -p 3 -parallel 8 -timeout 40m $(WITHOUT_DETECTOR)
test-nested:
	@echo "==> nested modules"
	@printf '%s\n' $(NESTED) | xargs -P 2 -I{} sh -c "cd {} && $(TEST) -timeout 30m ./..."
test-large:
	@echo "==> tests of thousands of requests"
	$(TEST) -p 1 -parallel 8 -timeout 40m -run '$(LARGE)' ./provider/openstack/internal/{loadbalancer,instances}

.PHONY: soak
soak: ## Run long random sequences of changes to load balancers, in about ten minutes
	$(GO) test -count=1 -timeout 60m ./provider/openstack/internal/loadbalancer -run AnySequence -sequences 1000

# The earlier commit whose example is one of the replicas of a fleet.
OTHER ?= HEAD~50

.PHONY: test-drills
test-drills: controlplane ## Run all drills of API server outages, in ten minutes, and write docs/reference/drills.md
	FXCCM_DRILLS=all FXCCM_DRILLS_OTHER=$(OTHER) $(GO) test -v -count=1 -timeout 60m ./test/drills -update

# One package at a time: OpenStack itself fills two cores with what one asks of it.
ON_LAB := FXCCM_OPENSTACK_LAB=$(LAB_DIR) $(GO) test -count=1 -p 1 -parallel 6 -timeout 60m
# What QUICK=1 runs: all of the APIs' rules, and of the rest what does each kind of thing once.
ON_LAB_QUICK := ^Test(Login|Addresses_TwoNetworks|Routes_LiveFromCreateToDelete|LoadBalancer_(ExternalService|PortsCome|OfTheUser)|FloatingIP_ComesAndGoes|Takeover)

.PHONY: test-openstack
test-openstack: controlplane example openstack-lab ## Run the suites of OpenStack's provider on a real OpenStack, which is brought up if it is not (QUICK=1: a part)
	@echo "==> what runs on the simulated OpenStack in make test, on the real one"
	$(ON_LAB) ./test/providers/api
	$(ON_LAB) $(if $(QUICK),-run '$(ON_LAB_QUICK)') ./test/providers/openstack ./test/providers/manager ./test/providers/takeover

.PHONY: lint
lint: $(BIN)/lint/.built $(BIN)/lint/never ## Check format, vet, staticcheck, the public API, what a library must never do, the language, and that it builds on every platform
	@unformatted=$$($(BIN)/lint/gofumpt -l $$(git ls-files -co --exclude-standard '*.go')); \
	  if [ -n "$$unformatted" ]; then echo "not gofumpt-ed:"; echo "$$unformatted"; exit 1; fi
	$(GO) vet ./...
	@for module in $(NESTED); do (cd $$module && $(GO) vet ./...) || exit 1; done
	$(BIN)/lint/staticcheck ./...
	# Folders below cmd are programs of their own.
	$(GO) vet -vettool=$(BIN)/lint/never $$($(GO) list $(LIBRARY) | grep -v /cmd/)
	@for module in $(NESTED_LIBRARY); do echo "$$module"; (cd $$module && $(BIN)/lint/staticcheck ./... && \
	  $(GO) vet -vettool=$(BIN)/lint/never ./...) || exit 1; done
	@$(GO) run ./tools/api -check
	@$(GO) run ./tools/language
	@for platform in $(PLATFORMS); do echo "build library and program for $$platform"; \
	  GOOS=$${platform%/*} GOARCH=$${platform#*/} $(GO) build -ldflags='-s -w' $(LIBRARY) ./example || exit 1; done
	# The files that are not built on Linux.
	GOOS=windows $(GO) vet -vettool=$(BIN)/lint/never $$($(GO) list -f '{{if .IgnoredGoFiles}}{{.ImportPath}}{{end}}' $(LIBRARY) | grep -v /cmd/)
	@echo "lint: ok"

$(BIN)/lint/.built: tools/lint/go.mod tools/lint/go.sum
	@echo "build the linters"
	@mkdir -p $(@D)
	cd tools/lint && $(GO) build -o $(@D)/ honnef.co/go/tools/cmd/staticcheck mvdan.cc/gofumpt
	@touch $@

$(BIN)/lint/never: $(shell find tools/never -name '*.go' -not -path '*/testdata/*') tools/never/go.sum
	@echo "build the check of what a library must never do"
	@mkdir -p $(@D)
	cd tools/never && $(GO) build -o $@ .

.PHONY: format
format: $(BIN)/lint/.built ## Format the code
	@$(BIN)/lint/gofumpt -w $$(git ls-files -co --exclude-standard '*.go')

.PHONY: bench
bench: controlplane ## Measure beside others, and write docs/benchmarks*.md (QUICK=1: write nothing; SCENARIOS=openstack: not all)
	cd test/bench && $(GO) build -trimpath -buildvcs=auto -o $(BIN)/bench/ . ./upstream ./fxccm ./fleet
	@FXCCM_OPENSTACK_LAB=$${FXCCM_OPENSTACK_LAB:-$(LAB_DIR)} $(BIN)/bench/bench $(if $(SCENARIOS),--scenarios=$(SCENARIOS)) \
	  $(if $(QUICK),--quick,--out $(CURDIR)/docs)

.PHONY: image
image: ## Build the OCI image for linux/amd64 and arm64, as bin/fxccm-image.tar (PUSH=registry.example.com/fxccm:v1: push it)
	@$(BUILD_RELEASE) && $(BIN)/release-tool image $(if $(PUSH),-push $(PUSH))

.PHONY: release
release: ## Build all files of a release into bin/release/VERSION (VERSION=v1.2.3, the tag of the commit; IMAGE=registry.example.com/fxccm: in the chart)
	@$(BUILD_RELEASE) && $(BIN)/release-tool all $(if $(IMAGE),-image $(IMAGE)) $(VERSION)

BUILD_RELEASE = cd tools/release && $(GO) build -o $(BIN)/release-tool . && cd $(CURDIR)

.PHONY: controlplane
controlplane: ## Download etcd and kube-apiserver, or build them, if they are not there
	@tools/controlplane/build.sh

.PHONY: browser
browser: ## Install Chromium and fetch axe-core, if they are not there, for the tests of the status page
	@tools/browser/install.sh $(BIN)/browser

.PHONY: screenshots
screenshots: browser ## Write the screenshots of the status page into docs/images
	cd test/thirdparty && $(GO) test -count=1 -run EachSize ./page -update

.PHONY: openstack-lab
openstack-lab: ## Bring up a real OpenStack on this machine (Debian 12, as root: it installs packages)
	@LAB_DIR=$(LAB_DIR) tools/openstack-lab/up.sh

.PHONY: openstack-lab-down
openstack-lab-down: ## Take it down (WIPE=1: and remove its data)
	@LAB_DIR=$(LAB_DIR) tools/openstack-lab/down.sh $(if $(WIPE),--wipe)

.PHONY: clean
clean: openstack-lab-down ## Remove what was built
	rm -rf $(BIN)
