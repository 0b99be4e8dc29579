// Package checks runs the whole program with a file of checks: a source that goes
// bad, receivers that go away, and a server that is killed in the middle.
//
// The tests are behind the build tag servers, since they build and start the
// program:
//
//	go test -tags servers ./test/checks
package checks
