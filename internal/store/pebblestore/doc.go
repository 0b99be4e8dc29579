// Package pebblestore keeps points in an embedded Pebble LSM: the default store.
//
// The idea: what is written together, what is read together and what expires
// together must each lie together, and these are three different orders.
//
//   - Fresh points arrive slot by slot, so they are written slot-major, in
//     chunks of about a hundred series (chunk.go).
//   - Questions are about one family in one view, so that pair, a scope, comes
//     before the slot in the key, and a question about a service's totals never
//     walks over its tenants. When a partition (ten minutes of base slots) is over,
//     its scopes are settled: rewritten into runs that are series-major and in
//     order of labels (run.go).
//   - Data expires by tier and age, so tier and partition come first, and
//     retention is a range delete (maintain.go).
//
// Series are numbered per scope and day by a columnar label index (index.go)
// that all tiers of the day share.
//
// # Tiers
//
// Slots of 10 s are rolled up to 1 min, 10 min and 1 h as soon as the longer
// slot is over. Each tier has a watermark: the slots before it have been made
// from the finer tier, once. What arrives later is put in its own slot and, in
// the same batch, added to every tier that has passed it, as a chunk of its
// own; since merging does not depend on order nothing is ever recomputed, and
// it does not matter whether the finer slots still exist.
//
// # Addresses
//
// A repeated (series, slot, writer, generation) replaces what it put before
// until the slot has been rolled up or settled. From then on an address is
// final: putting it again changes nothing.
//
// # Raw samples
//
// Raw samples of number series lie in hours, which settle into runs like the
// slots of a tier. How many a series keeps is bounded (bound.go): where a series
// has enough newer ones its samples of an hour go, and the hour is written anew
// once half of it is to go, so a slow series keeps nobody else's. Beside each run
// a tally (tally.go) counts its samples, and says whose are gone: what comes late
// for these is dropped, and Samples says where some are.
//
// # Kept traces
//
// A trace (traces.go) is a body, under its id in the hour of its latest request,
// and each of its requests is listed three times in the hour it started: under
// its operation, under its service, and among all, slowest first, the failed
// apart (tracekeys.go). So the slowest of a week are found from the heads of
// 168 hours' lists and no body is read. An hour expires as one range deletion;
// ids are found by the day. Each hour's bytes are counted when they are written.
//
// # Records
//
// A record (records.go) lies under its kind and key, with its revision before its
// value. The last revision given is written with each write. They have no part in
// tiers, and never expire.
//
// # Locks
//
// One mutex orders everything that writes points: Put, and the commits of
// Maintain. Another orders what writes traces, a third what writes records. Queries take no part: each reads
// from one Pebble snapshot.
package pebblestore
