// Package faults holds Tailscope against an account of its own of what was
// acknowledged, while processes are killed, disks fill up and lose writes, and
// files are damaged.
//
// The Ledger knows nothing of the product: senders write down each request
// before they send it, and what came back. After every fault and restart
//
//	acknowledged ≤ stored ≤ acknowledged + unanswered
//
// has to hold for each line of the ledger: a series and, for spans, a slot.
// A request that was refused must not be stored.
//
// Virtual rounds (Virtual) run the aggregator over the store in this process, on a
// file system in memory that can lose what was not synced, tear a write, fail
// or fill up at any call: thousands of rounds in minutes. Real rounds (Real) run
// the program itself and talk to it over the network. Each round has a seed of
// its own; the operations and the fault follow from it. The background work of
// the store does not, so a rare failure may take several runs of its seed.
package faults
