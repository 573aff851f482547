# hermes-host: `make run` is all it takes to try it; `make help` lists the rest.
# Only Go is needed. Node, where it is installed, lets `make test` run the
# end-to-end tests against real MCP servers and clients from npm.

GO      ?= go
PREFIX  ?= $(HOME)/.local
EXE     := $(shell $(GO) env GOEXE)
TOOL    := $(GO) tool -modfile=internal/tools/go.mod
# Run from shared/, which buf takes for its module.
BUF     := $(GO) tool -modfile=../internal/tools/buf.mod buf
PEERS   := internal/e2e/testdata/peers
BINS    := hermes-host hermes-transport-stdio hermes-transport-http hermes-transport-sse
SYSTEMS := linux/amd64 linux/arm64 darwin/amd64 darwin/arm64 windows/amd64 windows/arm64

# The version comes from the repository; a copy without one builds as "devel".
VCS  := $(shell git rev-parse HEAD >/dev/null 2>&1 && echo auto || echo false)
# The race detector needs a C compiler.
RACE := $(if $(filter 1,$(shell $(GO) env CGO_ENABLED)),-race)

.PHONY: help run build install test peers mutate chaos bench lint proto cross clean
.DEFAULT_GOAL := build

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  %-9s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

run: build ## build and run with ./config.hcl; ARGS="..." adds arguments
	@exec bin/hermes-host$(EXE) run $(ARGS)

build: ## build the host and its plugins into bin/
	@mkdir -p bin
	$(GO) build -trimpath -buildvcs=$(VCS) -o bin/hermes-host$(EXE) ./cmd/hermes-host
	$(GO) build -trimpath -buildvcs=$(VCS) -o bin/hermes-transport-stdio$(EXE) ./plugins/stdio
	$(GO) build -trimpath -buildvcs=$(VCS) -o bin/hermes-transport-http$(EXE) ./plugins/http
	$(GO) build -trimpath -buildvcs=$(VCS) -o bin/hermes-transport-sse$(EXE) ./plugins/sse

install: build ## install into PREFIX (~/.local)
	install -d $(DESTDIR)$(PREFIX)/bin $(DESTDIR)$(PREFIX)/share/hermes-host
	for b in $(BINS); do install -m 755 bin/$$b$(EXE) $(DESTDIR)$(PREFIX)/bin/ || exit 1; done
	install -m 644 config.hcl $(DESTDIR)$(PREFIX)/share/hermes-host/config.hcl

test: peers ## run all tests; ARGS="..." adds arguments for go test
	$(GO) test $(RACE) $(ARGS) ./...

# The peers of the end-to-end tests. Without npm those tests skip, and say so.
peers: ## install the npm packages that the end-to-end tests use
	@if command -v npm >/dev/null; then $(MAKE) --no-print-directory $(PEERS)/node_modules/.installed; \
	else echo "npm is not installed: the end-to-end tests with npm's MCP servers and clients will be skipped"; fi

$(PEERS)/node_modules/.installed: $(PEERS)/package.json $(PEERS)/package-lock.json
	cd $(PEERS) && npm install
	@touch $@

mutate: ## break supervisor and breaker on purpose: the tests must notice
	$(GO) run ./internal/mutate $(ARGS)

chaos: ## break servers under load, and judge what the host made of it
	$(GO) run ./internal/chaos $(ARGS)

bench: ## measure calls through the host against direct ones
	$(GO) run ./internal/bench $(ARGS)

lint: ## gofmt, go vet, staticcheck, buf lint
	@unformatted=$$(git ls-files '*.go' | xargs gofmt -l); \
	if [ -n "$$unformatted" ]; then echo "gofmt would change:"; echo "$$unformatted"; exit 1; fi
	$(GO) vet ./...
	$(TOOL) staticcheck ./...
	cd shared && $(BUF) lint

proto: ## generate shared/transportpb from shared/transport.proto
	cd shared && $(BUF) generate --template buf.gen.yaml .

# Nothing of this runs, so it is compiled without optimisation, which is faster.
cross: ## build for every system that is supported; vet, tests included, for each kind
	@for s in $(SYSTEMS); do echo "building for $$s"; \
	GOOS=$${s%/*} GOARCH=$${s#*/} CGO_ENABLED=0 $(GO) build -gcflags='all=-N -l' ./... || exit 1; done
	@for s in darwin/arm64 windows/amd64; do echo "vetting for $$s"; \
	GOOS=$${s%/*} GOARCH=$${s#*/} CGO_ENABLED=0 $(GO) vet -gcflags='all=-N -l' ./... || exit 1; done

clean: ## remove what was built
	rm -rf bin dist
