// Package pebblestore keeps points in an embedded Pebble LSM: the default store.
//
// The idea: what is written together, what is read together and what expires together
// must each lie together, and these are three different orders.
//
//   - Fresh points arrive slot by slot, so they are written slot-major, in chunks of
//     about a hundred series (chunk.go).
//   - Questions are about one family in one view. That pair, a scope, comes before the
//     slot in the key, so that a question about a service's totals never reads its
//     tenants. When a partition (ten minutes of base slots) is over, its scopes are
//     compacted: rewritten into runs that are series-major and in order of labels
//     (run.go). Old data that comes a whole partition at a time is written as runs at
//     once (putruns.go).
//   - Data expires by tier and age, so tier and partition come first, and retention is a
//     range deletion (expire.go).
//
// Series are numbered per scope and day by a columnar label index (index.go) that all
// tiers of the day share.
//
// # Tiers
//
// Slots of 10 s are rolled up to 1 min, 10 min and 1 h as soon as the longer slot is
// over. Each tier has a watermark: the slots before it have been made from the finer
// tier, once. What arrives later is put in its own slot and, in the same batch, added to
// every tier that has passed it, as a chunk of its own. Merging does not depend on
// order, so nothing is ever recomputed, and the finer slots need not exist any more.
//
// # Addresses
//
// A repeated (series, slot, writer, generation) replaces what it put before until the
// slot has been rolled up or compacted. From then on an address is final: putting it
// again changes nothing.
//
// # Raw samples
//
// Raw samples of number series lie in hours, which are compacted into runs like the
// slots of a tier. Their number per series is bounded (bound.go): where a series has
// enough newer ones its samples of an hour are dropped, and the hour is rewritten once
// half of it is to go, so that a slow series does not keep the samples of others. Beside
// each run a tally (tally.go) counts its samples, and lists the series whose samples
// were dropped: late samples of these are dropped, and Samples reports where some were.
//
// # Kept traces
//
// A trace (traces.go) is a body, under its id in the hour of its latest request. Each of
// its requests is listed three times in the hour it started: under its operation, under
// its service, and among all, slowest first, failed ones separately (tracekeys.go). So
// the slowest of a week are found from the heads of 168 hours' lists without reading a
// body. An hour expires as one range deletion; ids are found by the day. Each hour's
// bytes are counted when they are written.
//
// # Records
//
// A record (records.go) lies under its kind and key, with its revision before its value.
// The last revision given is written with each write. Records are not in tiers, and
// never expire.
//
// # Locks
//
// One mutex orders everything that writes points: Put, and the commits of Maintain.
// Another orders the writes of traces, a third those of records. Queries take no lock:
// each reads from one Pebble snapshot.
package pebblestore
