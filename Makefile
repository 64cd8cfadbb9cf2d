# `make` prints what there is.
SHELL := bash
.DEFAULT_GOAL := help
GO ?= go
SOURCE ?= sim:?assets=2000&seed=1
VERSION ?= $(shell git describe --tags --always --dirty)

.PHONY: help build run run-minio test servers bench-edge bench-edge-short race lint

help: ## print this list
	@grep -hE '^[a-z0-9-]+:.*## ' $(MAKEFILE_LIST) | sort | sed -E 's/^([a-z0-9-]+):.*## /\1\t/' | expand -t 18

build: ## put builder, edge and loadtest into bin/
	@mkdir -p bin
	$(GO) build -trimpath -o bin/ ./builder/cmd/builder ./edge/cmd/edge ./loadtest/cmd/loadtest

run: build ## the whole service on this machine: store, builder, edge, a key
	@$(GO) build -o bin/local ./deploy/local && exec bin/local --source '$(SOURCE)'

run-minio: build ## the same on a MinIO, built first if need be
	@$(GO) build -o bin/local ./deploy/local && exec bin/local --minio --source '$(SOURCE)'

bench-edge: build ## what an answer costs, beside bare fasthttp and nginx (some ten minutes)
	@$(GO) build -o bin/bench-edge ./edge/bench && bin/bench-edge --out edge/BENCHMARKS.out.md

bench-edge-short: build ## the same in a minute or two, without nginx and the large market
	@$(GO) build -o bin/bench-edge ./edge/bench && bin/bench-edge --short --rounds 7

test: servers ## all tests, the S3 exam against real servers included
	$(GO) test -shuffle=on -count=1 -timeout 20m ./...

servers: ## build the S3 servers that tests start (MinIO: about three minutes, once)
	@$(GO) run ./internal/testserver/prepare

race: ## the packages with goroutines under the race detector
	$(GO) test -race -short -shuffle=on -count=1 ./artifacts/... ./builder/... ./edge/...

lint: ## gofmt, vet and staticcheck
	@out="$$(gofmt -l $$(git ls-files '*.go'))"; if [ -n "$$out" ]; then echo "gofmt: $$out"; exit 1; fi
	$(GO) vet ./...
	$(GO) tool staticcheck ./...

.PHONY: kill-builder
kill-builder: ## kill hundreds of builders at every step, on a folder and on MinIO
	BUILDER_TEST_KILLS=400 $(GO) test -count=1 -timeout 60m -v -run 'TestKill$$' ./builder/cmd/builder

.PHONY: bench-builder
bench-builder: ## what a build costs at 20,000 and at 1,000,000 assets, beside the bounds
	$(GO) run ./builder/bench

.PHONY: dist
dist: ## release builds for linux and darwin, amd64 and arm64, with checksums, in dist/
	@rm -rf dist && mkdir -p dist
	@for os in linux darwin; do for arch in amd64 arm64; do \
		d=dist/marketdata-$(VERSION)-$$os-$$arch; mkdir -p $$d; \
		CGO_ENABLED=0 GOOS=$$os GOARCH=$$arch $(GO) build -trimpath -ldflags '-s -w' -o $$d/ ./builder/cmd/builder ./edge/cmd/edge ./loadtest/cmd/loadtest || exit 1; \
		cp README.md LICENSE CHANGELOG.md $$d/; \
		tar -C dist --sort=name --owner=0 --group=0 --numeric-owner --mtime='2026-01-01' -czf $$d.tar.gz marketdata-$(VERSION)-$$os-$$arch || exit 1; \
		rm -r $$d; echo $$d.tar.gz; \
	done; done
	@cd dist && sha256sum *.tar.gz > SHA256SUMS && cat SHA256SUMS

.PHONY: test-clients
test-clients: ## lint the OpenAPI document, check a TypeScript client made from it (node, npm)
	@command -v npm >/dev/null || { echo 'test-clients needs node 20 or later with npm: https://nodejs.org'; exit 1; }
	cd edge/openapi/clients/typescript && npm ci --no-audit --no-fund --ignore-scripts
	MARKETDATA_REQUIRE_CLIENTS=1 $(GO) test -count=1 ./edge/openapi/clients

.PHONY: stack stack-test loadtest
stack: build ## the service as in earnest: MinIO, builder, two edges, HAProxy with TLS and HTTP/2
	@$(GO) build -o bin/stack ./deploy/stack && exec bin/stack --source '$(SOURCE)'

stack-test: servers ## kill edges and the store behind HAProxy under load, at length
	STACK_TEST_LONG=1 $(GO) test -count=1 -v -run TestStack ./deploy/stack

loadtest: build ## load two edges for the better part of a minute, with the oracle; a report to open
	@$(GO) build -o bin/stack ./deploy/stack && exec bin/stack --source '$(SOURCE)' loadtest

.PHONY: test-pages
test-pages: ## look at the market board and the API reference in a headless Chromium
	MARKETDATA_REQUIRE_BROWSER=1 $(GO) test -count=1 ./edge/web

.PHONY: test-deploy
test-deploy: ## hold deploy/ against its readers' parsers and the programs (a module of its own: downloads Prometheus, Kubernetes' types and others)
	cd deploy/check && $(GO) vet ./... && $(GO) test -vet=off -shuffle=on -count=1 ./...

SOAK ?= 10m
.PHONY: soak
soak: build servers ## builder, edges and a MinIO for SOAK=10m while everything fails; every answer checked
	@$(GO) build -o bin/soak ./internal/soak && exec bin/soak --duration $(SOAK)

.PHONY: vuln
vuln: ## known vulnerabilities in what is used (asks vuln.go.dev; not in CI)
	$(GO) run golang.org/x/vuln/cmd/govulncheck@v1.8.0 ./...
