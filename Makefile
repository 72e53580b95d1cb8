# Every target runs on a machine with Go, gcc and (test-all) node with npm.
# Two packages at a time: the suites are made for two cores.

GO       ?= go
PARALLEL ?= -p 2
TIMEOUT  ?= 10m
BIN      := bin

LINT_VERSION := v2.15.0
LINT         := $(BIN)/golangci-lint-$(LINT_VERSION)
NATS_VERSION := v0.5.1
NATS         := $(BIN)/nats-$(NATS_VERSION)
HELM_VERSION := v3.22.0
HELM         := $(BIN)/helm-$(HELM_VERSION)
KUBECTL_VALIDATE_VERSION := v0.0.4
KUBECTL_VALIDATE         := $(BIN)/kubectl-validate-$(KUBECTL_VALIDATE_VERSION)
NATS_SERVER_VERSION := $(shell sed -n 's|.*github.com/nats-io/nats-server/v2 \(v[^ ]*\).*|\1|p' go.mod)
NATS_SERVER         := $(BIN)/nats-server-$(NATS_SERVER_VERSION)
KEDA_VERSION       := v2.21.0
PROMETHEUS_VERSION := v0.85.0
CRDS               := $(BIN)/crds-keda-$(KEDA_VERSION)-prometheus-$(PROMETHEUS_VERSION)

TOXIPROXY_VERSION := v2.5.0
TOXIPROXY         := $(BIN)/toxiproxy-$(TOXIPROXY_VERSION)

.PHONY: help build image demo test test-all chaos lint bench conformance clean

help: ## list the targets
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' $(MAKEFILE_LIST)

build: ## bin/crumb
	$(GO) build -o $(BIN)/crumb ./cmd/crumb

image: containers ## crumbmesh, crumbmesh/publisher, and crumbmesh/toolexec FROM $TOOLS if given, with buildah and no registry
	deploy/image/build crumbmesh crumb publisher $(if $(TOOLS),toolexec)

demo: ## the example end to end, without a network
	$(GO) run -tags slim ./cmd/crumb demo

test: ## everything that needs Go only
	$(GO) test -race $(PARALLEL) -timeout $(TIMEOUT) ./...

# The suites behind the tag e2e only: `test` has run the rest. Only their packages
# are built, and their names begin with TestE2E (internal/archtest holds both), so
# that -run leaves out what a tagged build contains as well.
E2E = $(filter-out $(COMPOSE)/ $(CHAOS)/,$(sort $(dir $(shell git ls-files --cached --others --exclude-standard '*_test.go' | xargs grep -l '^//go:build e2e'))))
# A module of its own, for what reads compose files.
COMPOSE = test/compose
# Has the machine for itself: `chaos`.
CHAOS = test/chaos

test-all: asyncapi containers $(NATS) $(HELM) $(KUBECTL_VALIDATE) $(CRDS) $(NATS_SERVER) promtool ## the suites that need more than Go
	NATS_CLI=$(abspath $(NATS)) HELM=$(abspath $(HELM)) KUBECTL_VALIDATE=$(abspath $(KUBECTL_VALIDATE)) CRDS=$(abspath $(CRDS)) \
		$(GO) test -race -tags e2e -run '^TestE2E' $(PARALLEL) -timeout 15m $(addprefix ./,$(E2E))
	cd $(COMPOSE) && NATS_CLI=$(abspath $(NATS)) NATS_SERVER=$(abspath $(NATS_SERVER)) $(GO) test -race -tags e2e -timeout 15m ./...
	$(MAKE) chaos

# SEED plans the same again, 0 something new; RUNS are those of each scenario; REPORT writes docs/chaos.md.
SEED ?= 2026
chaos: $(TOXIPROXY) ## kill, pause, cut off and restart a mesh of processes under load (docs/chaos.md); six minutes, needs root
	@command -v ip >/dev/null || { apt-get update && apt-get install -y --no-install-recommends iproute2; }
ifdef REPORT
	TOXIPROXY=$(abspath $(TOXIPROXY)) $(GO) run ./$(CHAOS) -seed $(SEED) $(if $(RUNS),-runs $(RUNS)) -report docs/chaos.md
else
	TOXIPROXY=$(abspath $(TOXIPROXY)) CHAOS_SEED=$(SEED) CHAOS_RUNS=$(RUNS) \
		$(GO) test -race -tags e2e -run '^TestE2E' -v -count 1 -timeout 15m ./$(CHAOS)
endif

# What builds and runs images, from the system's packages.
CONTAINERS := buildah podman runc busybox

.PHONY: containers
containers:
	@for p in $(CONTAINERS); do command -v $$p >/dev/null || exec sh -c 'apt-get update && \
		apt-get install -y --no-install-recommends buildah podman runc busybox-static'; done

.PHONY: promtool
promtool: # checks and tests the alert rules, from the system's package prometheus
	@command -v promtool >/dev/null || { apt-get update && apt-get install -y --no-install-recommends prometheus; }

.PHONY: asyncapi
asyncapi: ## schemas/asyncapi.yaml with the official parser
	cd test/asyncapi && npm ci --no-audit --no-fund && npm test

lint: $(LINT) ## golangci-lint, vet, gofmt, tidy modules
	@test -z "$$(gofmt -l $$(git ls-files '*.go'))" || { echo "gofmt these:"; gofmt -l $$(git ls-files '*.go'); exit 1; }
	$(GO) vet -tags e2e ./...
	$(GO) mod tidy -diff
	cd $(COMPOSE) && $(GO) vet -tags e2e ./... && $(GO) mod tidy -diff
	$(LINT) run --timeout 10m --concurrency 2

bench: ## what a run costs (docs/performance.md); timings belong here, never to a test
	$(GO) run ./bench

conformance: ## write docs/conformance.md again from the tests
	$(GO) test ./internal/conformance -run TestTable_IsFresh -update

clean: ## what the targets above made
	rm -rf $(BIN) test/asyncapi/node_modules

# Tools are installed by version into bin/, never through go.mod.
$(LINT):
	GOBIN=$(abspath $(BIN)) $(GO) install github.com/golangci/golangci-lint/v2/cmd/golangci-lint@$(LINT_VERSION)
	mv $(BIN)/golangci-lint $@

# The server that the product is tested with, as a process.
$(NATS_SERVER):
	$(GO) build -o $@ github.com/nats-io/nats-server/v2

$(HELM):
	GOBIN=$(abspath $(BIN)) $(GO) install helm.sh/helm/v3/cmd/helm@$(HELM_VERSION)
	mv $(BIN)/helm $@

$(KUBECTL_VALIDATE):
	GOBIN=$(abspath $(BIN)) $(GO) install sigs.k8s.io/kubectl-validate@$(KUBECTL_VALIDATE_VERSION)
	mv $(BIN)/kubectl-validate $@

# The definitions of the operators' kinds, from the operators' own modules.
$(CRDS):
	mkdir -p $@.new
	install -m 644 "$$($(GO) mod download -json github.com/kedacore/keda/v2@$(KEDA_VERSION) | sed -n 's/.*"Dir": "\(.*\)".*/\1/p')"/config/crd/bases/*.yaml $@.new
	install -m 644 "$$($(GO) mod download -json github.com/prometheus-operator/prometheus-operator@$(PROMETHEUS_VERSION) | sed -n 's/.*"Dir": "\(.*\)".*/\1/p')"/example/prometheus-operator-crd/monitoring.coreos.com_podmonitors.yaml $@.new
	mv $@.new $@

$(TOXIPROXY):
	GOBIN=$(abspath $(BIN)) $(GO) install github.com/Shopify/toxiproxy/v2/cmd/server@$(TOXIPROXY_VERSION)
	mv $(BIN)/server $@

$(NATS):
	GOBIN=$(abspath $(BIN)) $(GO) install github.com/nats-io/natscli/nats@$(NATS_VERSION)
	mv $(BIN)/nats $@
