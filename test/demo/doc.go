// Package demo holds the demo to what it promises of its index: minutes after it
// was made it is judged faster, while a mark at which nothing was done is judged
// no evidence.
//
// The plain tests judge what the shop's clock said in two recorded runs, by a
// clock of their own. The campaign runs the demo itself, for up to 15 minutes, and
// records it anew:
//
//	go test -tags campaign ./test/demo -record
//
// What it measures must not be what another test does to the machine: where that is
// allowed, it takes precedence over other programs.
//
// With the tag servers the examples of the help and of README are run beside a demo.
package demo
