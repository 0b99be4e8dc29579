// Package e2e runs the whole program as its users do: a `tailscope serve`
// process on a directory of its own, real clients sending to it (the
// OpenTelemetry SDKs of Python and Go, telemetrygen, a Collector in between),
// and the HTTP API telling what arrived. What is asserted is exact: every
// count, and every quantile within the error the API itself states.
//
// The tests are behind the build tag servers, since they install and build
// what they need (Python packages from their registry, Go modules of
// benchmarks/peers) into a cache directory:
//
//	go test -tags servers ./test/e2e
//
// Each is bounded in time and logs the figures it saw. Those that mostly wait run in
// parallel, and beside other tests (scripts/server-tests). Those that measure time,
// memory or cost do not, nor do those that use an address which was free a moment ago.
package e2e
