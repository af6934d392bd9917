# Two commands do everything on a fresh machine with Go: `make demo` and
# `make test`. `make help` lists the others.

GO        ?= go
BIN       := bin
VERSION   := $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)
# Pinned: a new release of a linter must not turn an old commit red.
GOFUMPT     := $(GO) run mvdan.cc/gofumpt@v0.12.0
STATICCHECK := $(GO) run honnef.co/go/tools/cmd/staticcheck@v0.8.2
OPA_VERSION  = $(shell $(GO) list -m -f '{{.Version}}' github.com/open-policy-agent/opa)

.PHONY: help build demo demo-host demo-codex codex test lint fmt bench soak generate clean

help: ## list the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 12

build: ## build bin/regent, and bin/regent-hook for harnesses
	@mkdir -p $(BIN)
	$(GO) build -trimpath -ldflags '-X main.version=$(VERSION)' -o $(BIN)/regent ./cmd/regent
	CGO_ENABLED=0 $(GO) build -trimpath -ldflags '-s -w' -o $(BIN)/regent-hook ./cmd/regent-hook

demo: build ## the daemon on examples/quickstart: ask, answer, edit a rule live
	@PATH="$(CURDIR)/$(BIN):$$PATH" sh examples/quickstart/demo.sh

demo-host: build ## a small host of an agent beside the daemon, in examples/native-host
	$(GO) build -trimpath -o $(BIN)/native-host ./examples/native-host
	@PATH="$(CURDIR)/$(BIN):$$PATH" sh examples/native-host/demo.sh

demo-codex: build ## the real Codex, with a scripted model, governed by examples/codex
	$(GO) build -trimpath -o $(BIN)/scripted-model ./examples/codex/model
	@PATH="$(CURDIR)/$(BIN):$$PATH" REGENT_DEMO_CODEX="$$($(GO) run ./harness/codex/codextest/install newest)" sh examples/codex/demo.sh

codex: ## bring the versions of Codex that the tests run with, by npm
	$(GO) run ./harness/codex/codextest/install

test: ## run every test, with the race detector, and the bounds on size without
	@if command -v npm >/dev/null; then \
	  npm ci --prefix examples/reviewer-node --no-audit --no-fund --silent || echo "npm cannot fetch its packages: the plugin in Node is not tested"; \
	else echo "npm is missing: the plugin in Node is not tested"; fi
	$(GO) run ./harness/codex/codextest/install
	$(GO) test -run 'Allocations$$|^TestMany' ./rego ./gate
	$(GO) test -race -timeout 20m ./...

lint: ## vet, gofumpt, staticcheck, and the checks that live in tests
	$(GO) vet ./...
	@unformatted="$$($(GOFUMPT) -l .)"; if [ -n "$$unformatted" ]; then \
	  echo "not formatted (make fmt):"; echo "$$unformatted"; exit 1; fi
	$(STATICCHECK) ./...
	$(GO) test -count=1 -run '^(TestLayers|TestShippedPolicies)' . ./policies_test

fmt: ## format Go and Rego
	$(GOFUMPT) -w .
	$(GO) test -count=1 -run '^TestShippedPoliciesAreFormatted$$' ./policies_test -update

bench: $(BIN)/opa-$(OPA_VERSION) ## measure; prints ratios, not times
	REGENT_BENCH_OPA="$(CURDIR)/$(BIN)/opa-$(OPA_VERSION)" $(GO) test -p 1 -run '^$$' -bench . -benchmem ./rego/... ./gate/... ./harness/... ./plugin/... ./server/... ./cmd/regent

# The server that goal 1 is measured against, of the version that is embedded.
$(BIN)/opa-%:
	@mkdir -p $(BIN)
	GOBIN="$(CURDIR)/$(BIN)" $(GO) install github.com/open-policy-agent/opa@$*
	mv $(BIN)/opa $@

soak: ## long fuzzing, SOAK for each target, hundreds of kills, and thousands of random lives
	REGENT_TEST_LEDGER_KILLS=300 $(GO) test -race -count=1 -timeout 60m -run Killed ./gate/ledger
	REGENT_TEST_DAEMON_KILLS=300 $(GO) test -race -count=1 -timeout 60m -run Killed ./cmd/regent
	$(GO) test -race -count=1 -timeout 60m -run '^TestLifecycle' ./harness/native -rapid.checks=2000
	@for target in $$(grep -rlE '^func Fuzz' --include='*_test.go' . | xargs -n1 dirname | sort -u); do \
	  for f in $$(grep -hoE '^func Fuzz[A-Za-z0-9_]*' $$target/*_test.go | sed 's/func //'); do \
	    echo "$$target $$f"; $(GO) test -run '^$$' -fuzz "^$$f\$$" -fuzztime $(or $(SOAK),60s) $$target || exit 1; \
	  done; done

generate: ## write the schemas from the Go types, and Go from the plugin protocol
	$(GO) test -count=1 -run '^TestSchemas$$' ./rego -update
	$(GO) test -count=1 -run '^TestGeneratedFiles$$' ./plugin/pluginpb -update

clean: ## remove what was built
	rm -rf $(BIN)
