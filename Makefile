# `make` prints what there is.
SHELL := bash
.DEFAULT_GOAL := help
GO ?= go

.PHONY: help build test race lint fuzz

help: ## print this list
	@grep -hE '^[a-z0-9-]+:.*## ' $(MAKEFILE_LIST) | sort | sed -E 's/^([a-z0-9-]+):.*## /\1\t/' | expand -t 18

build: ## put builder, edge and loadtest into bin/
	@mkdir -p bin
	$(GO) build -trimpath -o bin/ ./builder/cmd/builder ./edge/cmd/edge ./loadtest/cmd/loadtest

test: ## all tests, the S3 exam against real servers included
	$(GO) test -shuffle=on -count=1 ./...

race: ## the packages with goroutines under the race detector
	$(GO) test -race -short -shuffle=on -count=1 ./artifacts/... ./builder/... ./edge/...

lint: ## gofmt, vet and staticcheck
	@out="$$(gofmt -l $$(git ls-files '*.go'))"; if [ -n "$$out" ]; then echo "gofmt: $$out"; exit 1; fi
	$(GO) vet ./...
	$(GO) tool staticcheck ./...
