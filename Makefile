# `make` prints a list of the targets, in the order in which you need them.
SHELL := bash
.DEFAULT_GOAL := help
GO ?= go
SOURCE ?= sim:?assets=2000&seed=1
SERVER ?= none
SOAK ?= 10m
FUZZ ?= 3m
PYTHON ?= python3

.PHONY: $(shell sed -n 's/^\([a-z0-9-]*\):.*/\1/p' $(firstword $(MAKEFILE_LIST)))

help: ## print this list
	@awk -F ':.*## ' '/^##@ /{printf "\n%s\n", substr($$0, 5)} /^[a-z0-9-]+:.*## /{printf "  %-18s%s\n", $$1, $$2}' $(MAKEFILE_LIST)

##@ Run it

build: ## put builder, edge and loadtest into bin/; MCP=1 puts marketdata-mcp there, too, which lets assistants ask an edge (a module of its own)
	@test -e bin/edge || echo 'compiling for the first time takes up to two minutes'
	@mkdir -p bin
	$(GO) build -trimpath -o bin/ ./builder/cmd/builder ./edge/cmd/edge ./loadtest/cmd/loadtest
	$(if $(MCP),cd edge/openapi/clients/mcp && $(GO) build -trimpath -o $(CURDIR)/bin/marketdata-mcp .)

run: build ## the whole service on this machine: store, builder, edge, a board that is signed in; SOURCE=coinpaprika: is the real market, SOURCE=coingecko: with the ids that programs for CoinGecko know (COINGECKO_DEMO_API_KEY), SERVER=versitygw or minio keeps it in an S3 server
	@$(GO) build -o bin/demo ./internal/test/demo && exec bin/demo --server $(SERVER) --source '$(SOURCE)'

stack: build ## as in production: MinIO, builder, two edges, HAProxy with TLS and HTTP/2
	@$(GO) build -o bin/stack ./internal/test/stack && exec bin/stack --source '$(SOURCE)'

loadtest: build ## load that stack's edges for 45 s, every answer checked; a report to open. SLO='p99<20ms' looks for the highest rate at which that holds, in three minutes at most; PICTURE=1 writes loadtest/report.png of a load that was held (an idle machine, and Chromium)
	@$(GO) build -o bin/stack ./internal/test/stack && bin/stack --source '$(SOURCE)' loadtest $(if $(SLO),--slo '$(SLO)')
	@$(if $(PICTURE),$(DRAW))

# The window size contains a comma, which would end an argument of if.
DRAW = grep -q '>Held' .run/stack/report.html && $${CHROMIUM:-chromium-headless-shell} --headless --no-sandbox --hide-scrollbars \
	--window-size=1000,716 --screenshot=loadtest/report.png file://$(CURDIR)/.run/stack/report.html

##@ Before each change (CI runs these and test-deploy)

lint: ## gofmt, vet and staticcheck; lines of at most 120 columns, functions of at most 80 lines
	@out="$$(gofmt -l $$(git ls-files '*.go'))"; if [ -n "$$out" ]; then echo "gofmt: $$out"; exit 1; fi
	$(GO) vet ./...
	$(GO) tool staticcheck ./...
	cd edge/openapi/clients/go && $(GO) vet ./...
	cd edge/openapi/clients/mcp && $(GO) vet ./... && $(GO) tool -modfile=$(CURDIR)/go.mod staticcheck ./...
	$(GO) test -run TestFormat ./internal/test/docs

# The packages that take longest come first, so that none of them runs alone at the end. Lint
# has already run the vet checks of go test.
test: servers ## all tests, against real S3 servers too; four packages at a time, since some wait more than they compute
	$(GO) test -vet=off -p 4 -shuffle=on -count=1 -timeout 20m $(or $(PACKAGES_$(PART)),$(SYSTEMS) ./builder/... ./...)
	$(if $(filter units,$(PART)),,cd edge/openapi/clients/mcp && $(GO) test -vet=off -shuffle=on -count=1 ./...)

# CI runs these in separate jobs, PART=units and PART=systems. The packages in SYSTEMS start
# whole programs, browsers or servers.
SYSTEMS = ./internal/test/e2e ./edge ./internal/test/stack ./edge/web ./builder ./builder/cmd/... ./builder/upkeep \
	./edge/openapi/clients ./internal/test/soak ./internal/test/demo ./internal/test/docs ./internal/cmdline
PACKAGES_systems = $(SYSTEMS)
PACKAGES_units = $$(comm -23 <($(GO) list ./... | sort) <($(GO) list $(SYSTEMS) | sort))

servers: ## build the S3 servers that tests start (MinIO: about three minutes, once)
	@$(GO) run ./internal/test/testserver/prepare

# These packages are not tested under the race detector: whole programs and servers (SYSTEMS;
# their packages are tested individually), code that computes in one goroutine, and code that
# only tests use. New packages are included. (The nightly run covers whole edges and builds,
# stores in real servers, and the load tester's runs.)
RACELESS = /(artifacts/s3store|builder/(change|files|history|ledger|market|render|transparency|source(/(coin.*|postgres|sim))?)|\
	edge/(coding|coingecko|limit/redisstore|openapi.*|query|web)|loadtest(/(check|cmd/loadtest|oracle|pace|report|result|traffic))?|internal/(cmdline|model.*|test/.*|bench/.*)|deploy.*)$$
# CI leaves these tests to the nightly run: they are large, and the code that they test has
# one goroutine.
ALONE = |CostByRowsSent|SearchRows|KeySetBounds|FullSet
# By day, only code that serves, follows snapshots or publishes is tested, because CI has
# fifteen minutes.
RACEDAY = ./edge/server ./edge/snapshot ./edge/shards ./edge/respcache ./edge/reply ./builder/publish
race: ## what most goroutines share, under the race detector; at night all packages but some (RACELESS), whole programs too, and builds during others
	$(GO) test -vet=off -race -short -shuffle=on -count=1 -skip '^Test(Share|AgainstOracle$(ALONE))$$' $(or $(RACES),$(RACEDAY)) $(RACE)
	$(if $(RACE),$(GO) test -vet=off -race -short -shuffle=on -count=1 -run '^Test(Build|Race|Run|Lease|Collect|BackupBeside|RestoreBeside|StopInSwap)' ./builder ./builder/upkeep ./builder/cmd/...)

##@ When you touch it

test-deploy: ## check deploy/ with its readers' parsers (a module of its own: downloads Prometheus, Kubernetes' types and others)
	cd deploy/check && $(GO) vet ./... && $(GO) test -vet=off -shuffle=on -count=1 ./...

test-release: ## make a release twice, and one of every platform, and hold it against its readers' parsers (a module of its own: downloads nfpm, CycloneDX and others)
	cd deploy/release && $(GO) vet ./... && $(GO) test -vet=off -shuffle=on -count=1 -timeout 30m ./...

test-pages: ## the market board and the API reference in a headless Chromium, in the dark and on a phone too; SCREENSHOTS=1 writes edge/web/screenshots, of every state, and edge/coingecko/*.png with cointop, ticker 4, tmux and aha
	TEST_LONG=1 MARKETDATA_REQUIRE_BROWSER=1 $(if $(SCREENSHOTS),SCREENSHOTS=$(CURDIR)/edge/web/screenshots) $(GO) test -count=1 ./edge/web
	$(if $(SCREENSHOTS),SCREENSHOTS=$(CURDIR)/edge/coingecko $(GO) test -count=1 -run TestCoinGeckoPrograms ./internal/test/stack)

test-clients: servers ## lint the OpenAPI document; the clients, generated ones, Prism, the packages and the documentation's programs against running edges (npm, pip); DuckDB, ClickHouse, polars and rclone with the files of an edge (a module of its own; mounts the files, which takes root)
	@command -v npm >/dev/null || { echo 'test-clients needs node 20.3 or later with npm: https://nodejs.org'; exit 1; }
	@$(PYTHON) -c 'import setuptools, wheel, pip, tomllib' || { echo 'test-clients needs Python 3.11 or later with pip, setuptools and wheel (apt-get install python3-pip python3-setuptools python3-wheel), and PYTHON=/usr/bin/python3 when another one comes first'; exit 1; }
	cd edge/openapi/clients/typescript && npm ci --no-audit --no-fund --ignore-scripts
	MARKETDATA_REQUIRE_CLIENTS=1 PYTHON=$(PYTHON) $(GO) test -count=1 -timeout 30m -v ./edge/openapi/clients
	$(GO) test -count=1 -v -run TestCoinGeckoPrograms ./internal/test/stack
	cd edge/openapi/clients/mcp && MARKETDATA_REQUIRE_CLIENTS=1 $(GO) test -vet=off -count=1 -v ./...
	cd internal/test/duckdb && $(GO) vet ./... && $(GO) test -vet=off -count=1 ./...

##@ At night (what CI has no time for)

nightly: race test-long soak test-pages test-clients test-release fuzz ## all of this group, test-pages, test-clients and test-release, and known vulnerabilities in what is used (asks vuln.go.dev): some four hours; make -k nightly goes on after a failure
	$(GO) run golang.org/x/vuln/cmd/govulncheck@v1.8.0 ./...

nightly: SOAK = 1h
nightly: RACES = $$(comm -23 <($(GO) list ./... | grep -Ev '$(subst $() ,,$(RACELESS))' | sort) <($(GO) list $(SYSTEMS) | sort))
nightly: RACE = ./artifacts/s3store ./edge ./edge/limit/redisstore ./loadtest ./loadtest/check ./loadtest/cmd/loadtest # CI tests only parts of them
nightly: ALONE =

test-long: servers ## what tests make shorter by day: hundreds of killed builders, edges and the store killed behind HAProxy, an upgrade from 1.0.0 and back, 200 swaps and restarts, crowds, the model and all histories at length (two hours)
	@failed=0; run() { echo "TEST_LONG=1 go test $$*"; TEST_LONG=1 RAPID_CHECKS=100 $(GO) test -count=1 -timeout 120m "$$@" || failed=1; }; \
	run -v -run '^Test(Lease|Kill)$$' ./builder ./builder/cmd/builder; \
	run -v -run '^Test(Stack|Upgrade|Fleet.*|Restarts.*)$$' ./internal/test/stack; \
	run -v -run '^TestCrowd' ./edge/server; \
	run ./internal/test/e2e; run ./builder/upkeep; exit $$failed

soak: build servers ## builder, edges and a MinIO for SOAK=10m while everything fails; every answer checked
	@$(GO) build -o bin/soak ./internal/test/soak && exec bin/soak --duration $(SOAK)

fuzz: ## each fuzz target of every package for FUZZ=3m
	@targets="$$(set -o pipefail; $(GO) test -list '^Fuzz' ./... | awk '/^Fuzz/{names = names " " $$1} /^ok/{n = split(names, name); for (i = 1; i <= n; i++) print $$2, name[i]; names = ""}')" && \
	echo "$$targets" | { failed=0; while read -r package name; do echo "$$package $$name"; \
		$(GO) test -run '^$$' -fuzz "^$$name\$$" -fuzztime $(FUZZ) -fuzzminimizetime 5s "$$package" </dev/null || failed=1; done; exit $$failed; }

##@ Figures (on a machine that does nothing else; each writes a document)

bench-edge: build ## what an answer costs, compared with bare fasthttp and nginx (some forty minutes); SHORT=1: in ten to twenty minutes, without nginx and the large market, and writes nothing
	@$(GO) build -o bin/bench-edge ./internal/bench/edge && bin/bench-edge $(if $(SHORT),--short --rounds 7,--out edge/BENCHMARKS.md && $(FIGURES))

bench-builder: ## what a build costs at 20,000 and at 1,000,000 assets, compared with the bounds
	@$(GO) run ./internal/bench/builder --out builder/BENCHMARKS.md && $(FIGURES)

# The figures in the READMEs come from the documents of the last complete runs.
FIGURES = $(GO) test -count=1 ./internal/test/docs -run TestFigures -update

##@ Release

release: ## archives, deb, rpm, bill of materials and checksums in dist/, of what is committed; VERSION=1.1.0 MAINTAINER='NAME <ADDRESS>' HOMEPAGE=URL; PLATFORMS=linux/amd64 makes those of one
	@rm -rf dist && cd deploy/release && $(GO) run . -out ../../dist $(if $(MAINTAINER),-maintainer '$(MAINTAINER)') $(if $(HOMEPAGE),-homepage '$(HOMEPAGE)') $(if $(PLATFORMS),-platforms '$(PLATFORMS)') $(VERSION)
