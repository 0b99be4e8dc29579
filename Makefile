# make build      bin/tailscope, with the page in it
# make release    static programs of every platform and SHA256SUMS, in bin/release
# make image      and an OCI archive of the Linux ones, without a daemon or root
# make demo       build it and run the demo
# make test       every test that needs nothing but Go and Node
# make test-all   every test there is, once: linters, the race detector, real servers, a browser
# make lint       gofmt, vet, staticcheck
# make fuzz-short every fuzzer for ten seconds
# make bench      the benchmarks beside their peers, in minutes
# make verdicts   whole servers asked what changed, in 100 worlds a case; goes on where it was stopped
# make campaign   what takes hours; writes benchmarks/results

SHELL       := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := build

VERSION     ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo devel)
STATICCHECK := honnef.co/go/tools/cmd/staticcheck@v0.8.1
PAGE        := $(shell find ui/src ui/public ui/index.html ui/package.json ui/package-lock.json ui/*.config.* ui/tsconfig.json -type f 2>/dev/null)
FUZZTIME    ?= 10s

.PHONY: build release image demo test test-go test-page test-all lint fuzz-short bench verdicts campaign clean

build: ui/dist/index.html
	go build -tags grpcnotrace -ldflags '-X tailscope/internal/cli.version=$(VERSION)' -o bin/tailscope ./cmd/tailscope

ui/node_modules/.package-lock.json: ui/package.json ui/package-lock.json
	cd ui && npm ci --no-audit --no-fund
	touch $@

ui/dist/index.html: ui/node_modules/.package-lock.json $(PAGE)
	cd ui && npm run build
	touch $@

release: ui/dist/index.html
	VERSION=$(VERSION) scripts/release

image: release
	VERSION=$(VERSION) scripts/image/build

demo: build
	bin/tailscope demo

test: test-go test-page

test-go:
	go build ./...
	go test -timeout 30m ./...
	go -C benchmarks test -timeout 30m ./...

test-page: ui/node_modules/.package-lock.json
	cd ui && npm run check && npm test -- --testTimeout 60000

test-all:
	scripts/test-all

lint:
	@test -z "$$(gofmt -l $$(git ls-files '*.go'))" || { gofmt -l $$(git ls-files '*.go'); echo 'hint: gofmt -w the files above' >&2; exit 1; }
	go vet ./...
	go vet -tags servers,campaign ./test/... ./internal/store/chstore
	go -C test/clickhouse vet .
	go -C benchmarks vet ./...
	go run $(STATICCHECK) ./...
	cd benchmarks && go run $(STATICCHECK) ./...

fuzz-short:
	FUZZTIME=$(FUZZTIME) scripts/fuzz

bench:
	go -C benchmarks run ./cmd/bench all -quick -o ''

# What was played belongs to one revision: another begins anew.
verdicts:
	dir=bin/verdicts-$$(git rev-parse --short HEAD); mkdir -p $$dir; go -C benchmarks run ./cmd/bench verdicts -keep $(CURDIR)/$$dir

campaign: image
	VERSION=$(VERSION) scripts/release-test
	go -C benchmarks run ./cmd/bench all
	go test -tags campaign -count 1 -timeout 1h ./test/demo ./test/deploy
	go test -tags servers -count 1 -timeout 2h ./test/e2e ./internal/agg
	go test -tags servers,campaign -count 1 -timeout 1h ./internal/store/chstore
	go test -tags servers,campaign -count 1 -timeout 1h -run TestSeveral ./test/faults
	TAILSCOPE_TEST_CLICKHOUSE=current go test -tags servers,campaign -count 1 -timeout 1h ./internal/store/chstore
	FUZZTIME=10m scripts/fuzz

clean:
	rm -rf bin ui/dist/assets ui/dist/index.html
