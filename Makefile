# symdepot: build, test, prove, measure. `make help` lists the targets.
SHELL := /bin/bash
GO    ?= go
BIN   := symdepot
CACHE := $(CURDIR)/.cache
FUZZTIME ?= 10s
PLATFORM ?= all
PLATFORMS ?= $(PLATFORM)
export SYMDEPOT_MATERIAL ?= $(CACHE)/material
export SYMDEPOT_PEERS ?= $(CACHE)/peers
# Evaluated when a recipe runs: make setup fetches it.
export SYMDEPOT_PYSYMSTORE ?= $(shell ls $(SYMDEPOT_PEERS)/pysymstore/bin/python 2>/dev/null)
export CGO_ENABLED ?= 0
# Compiled packages do not depend on the folder then: all clones share them.
export GOFLAGS := $(GOFLAGS) -trimpath

GOLANGCI    := github.com/golangci/golangci-lint/v2/cmd/golangci-lint@v2.15.0
GOVULNCHECK := golang.org/x/vuln/cmd/govulncheck@v1.8.0

.PHONY: house help build docs release test fresh vet unit unraced race fuzz fuzzday cross windows windowsthere lint man browser screens torture mutants bench setup clean
help: ## list the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*##/\t/' | expand -t 12

build: ## build ./symdepot for this machine
	$(GO) build -o $(BIN) ./cmd/symdepot

release: ## everything that is published, in dist/release, for all platforms, or for PLATFORM=linux/amd64 (PLATFORMS=linux/amd64,… for some); needs only Go and git (wixl for the MSI)
	$(GO) run ./packaging/release -out dist/release -platforms $(PLATFORMS)

man: ## man pages of all commands in dist/man
	$(GO) run ./cmd/symdepot man dist/man

docs: ## write the generated parts of docs anew; needs only Go
	$(GO) test -p 1 -count=1 -run 'Docs$$|^TestLinks$$' ./layout ./internal/run/config ./internal/serve/server ./internal/serve/web/api ./internal/serve/web/pages ./internal/run/command . -args -update-docs

setup: ## install the clients the tests use and fetch real files (needs a Debian-like system and root; elsewhere says what is missing)
	@scripts/setup

test: setup ## everything, in short forms, with the time that each step and package took
	@scripts/steps vet race+browser unraced+cross,fuzzday,windowsthere

fresh: ## the commands of README.md in a new Debian with Go and nothing else (an hour, 10 GB; needs root and debootstrap); goes on where it stopped
	@scripts/fresh

vet: ## go vet
	$(GO) vet ./...

unit: ## all tests, with the real clients that are installed; fuzz targets run their seeds
	$(GO) test -vet=off -count=1 -parallel 4 -timeout 10m ./...

unraced: ## what make unit runs, without the tests that scripts/race has run and noted in SYMDEPOT_RACED
	$(GO) test -vet=off -count=1 -parallel 4 -timeout 10m -exec $(CURDIR)/scripts/unraced $$(scripts/unraced -packages)

browser: ## the pages in Chromium, with axe-core, if they are installed; a module of its own
	cd test/browser && $(GO) vet . && $(GO) test -vet=off -count=1 -timeout 10m -parallel 3 .

screens: ## the pictures of the docs, and screenshots of all pages in dist/screens, by all tests of the pages: light, dark, on a phone; full, empty, error
	cd test/browser && SYMDEPOT_SCREENS=$(CURDIR)/dist/screens $(GO) test -count=1 -v .

race: ## the packages with goroutines under the race detector (needs a C compiler)
	@scripts/race

fuzz: ## every fuzz target for FUZZTIME (default 10s)
	@scripts/fuzz $(FUZZTIME)

fuzzday: ## a seventh of the fuzz targets for 4 seconds each, that of today: all have their turn within a week
	@scripts/fuzz -day 4s

cross: ## build for linux/arm64, darwin/arm64 and windows/amd64; go vet for darwin and windows
	@scripts/cross $(CACHE)/cross/$(BIN)

lint: ## go mod tidy, golangci-lint with .golangci.yml, govulncheck
	$(GO) mod tidy -diff
	cd test/browser && GOFLAGS= $(GO) mod tidy -diff
	cd test/uploads/pyroscope && GOFLAGS= $(GO) mod tidy -diff
	$(GO) run $(GOLANGCI) run ./...
	@scripts/vulncheck $(GOVULNCHECK)

windows: ## all tests of Windows under Wine 10; goes on where it stopped (an hour; builds the Wine if there is none, as root on a Debian-like amd64 system)
	@scripts/windows

windowsthere: ## a minute of the tests of Windows, if the Wine that make windows builds is there already
	@scripts/windows -if-there

torture: setup ## the long proofs, in parts; goes on where it stopped (half a day; scripts/torture -list)
	@scripts/torture

house: ## the figures of the structure: sizes, arrows that run back up, what reaches the fields of one struct, knots, long lines
	@$(GO) test -count=1 -run '^TestHouse$$' -v . | grep -vE '^(===|---|PASS|ok)'

mutants: setup ## shows that each part of make torture finds a fault that was made for it: test/mutants (15 minutes; needs what make torture needs)
	@scripts/mutants

bench: setup ## the ratios of BENCHMARKS.md, measured side by side; scripts/bench engines and scripts/bench keys are parts of their own
	@scripts/bench

bench-cold: ## cold storage on series of builds beside zstd and chunks; SRC=DIR is a checkout of glslang for two of them, SRC2=DIR one of esbuild (hours, 4 GB)
	@scripts/coldseries $(CACHE)/cold "$(SRC)" "$(SRC2)"
	@SYMDEPOT_COLD_SERIES=$(CACHE)/cold $(GO) test -count=1 -timeout 12h -v -run '^TestBenchBases$$' ./internal/depot/coldstore | grep -oE '[A-Z], (all|day).*|^(ok|FAIL|---).*'
	@SYMDEPOT_COLD_SERIES=$(CACHE)/cold $(GO) test -count=1 -timeout 12h -v -run '^TestBenchCold$$' ./internal/store/cold | grep -oE '[A-Z]: .*|^(ok|FAIL|---).*'

clean: ## remove what was built and fetched
	rm -rf $(CACHE) $(BIN)
