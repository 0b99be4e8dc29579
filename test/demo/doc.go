// Package demo holds the demo to what it promises of its index: minutes after it
// was made it is judged faster, while a mark at which nothing was done is judged
// no evidence.
//
// The tests wait far more than they work. They are a package of their own, so
// that scripts/server-tests runs them beside all others, and both at once:
//
//	go test -tags servers ./test/demo
//
// What they measure must not be what another test does to the machine: where
// that is allowed, they take precedence over other programs.
package demo
