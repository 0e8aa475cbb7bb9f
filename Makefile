# symdepot: build, test, prove, measure. `make help` lists the targets.
SHELL := /bin/bash
GO    ?= go
BIN   := symdepot
CACHE := $(CURDIR)/.cache
FUZZTIME ?= 10s
export SYMDEPOT_MATERIAL ?= $(CACHE)/material
export SYMDEPOT_PEERS ?= $(CACHE)/peers
export CGO_ENABLED ?= 0

GOLANGCI    := github.com/golangci/golangci-lint/v2/cmd/golangci-lint@v2.15.0
GOVULNCHECK := golang.org/x/vuln/cmd/govulncheck@v1.8.0

.PHONY: help build test unit race fuzz scripts cross lint torture bench setup clean
help: ## list the targets
	@grep -hE '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*##/\t/' | expand -t 12

build: ## build ./symdepot for this machine
	$(GO) build -trimpath -o $(BIN) ./cmd/symdepot

setup: ## install the clients the tests use and fetch real files (needs a Debian-like system and root; elsewhere says what is missing)
	@scripts/setup

test: setup unit race fuzz cross ## everything, in short forms; how long that takes stands in BENCHMARKS.md

unit: ## all tests, with the real clients that are installed
	$(GO) vet ./...
	$(GO) test -timeout 10m ./...

race: ## the concurrent rooms under the race detector (needs a C compiler)
	@if command -v gcc >/dev/null || command -v clang >/dev/null; then \
	  CGO_ENABLED=1 $(GO) test -race -short -timeout 10m ./internal/... ; \
	else echo "race: skipped, the race detector needs a C compiler (gcc or clang)"; fi

fuzz: ## every fuzz target for FUZZTIME (default 10s)
	@scripts/fuzz $(FUZZTIME)

cross: ## build for linux, darwin and windows on amd64 and arm64
	@for t in linux darwin windows; do for a in amd64 arm64; do echo "build $$t/$$a"; \
	  GOOS=$$t GOARCH=$$a $(GO) build -o $(CACHE)/cross/$(BIN)-$$t-$$a ./cmd/symdepot || exit 1; done; \
	  GOOS=$$t GOARCH=amd64 $(GO) vet ./... || exit 1; done

lint: ## golangci-lint with .golangci.yml, then govulncheck
	$(GO) run $(GOLANGCI) run ./...
	@scripts/vulncheck $(GOVULNCHECK)

torture: setup ## the long proofs: kills, 30 processes, a soak, 5 minutes of fuzzing a target (hours)
	@scripts/torture

bench: setup ## the ratios of BENCHMARKS.md, measured side by side
	@scripts/bench

clean: ## remove what was built and fetched
	rm -rf $(CACHE) $(BIN)
