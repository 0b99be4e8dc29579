// Package chstore keeps points in ClickHouse: the store of several servers.
//
// The idea: a distribution is a sum of counts, and ClickHouse adds up where the data lies.
// So a row is a series in a slot with its buckets, and a question is one statement for each
// shard, which selects, groups and adds up; only sums travel. What ClickHouse lacks is a
// transaction, and the store has one of its own, the log.
//
// # The log
//
// All that must be decided between servers is decided by the order of the rows of one
// table, which everybody who reads them agrees on (changelog.go): the commits of
// generations, how far slots are rolled up, records. Each server holds what the rows come
// to and reads those that were added before it answers.
//
// # Numbers
//
// Each insertion of rows has a number that is used once, and the log says which numbers
// count (meta.go). So a batch is inserted on all shards and then committed by one row of the
// log; what fails before that row leaves rows that nobody reads, and a retry comes under
// another number. Questions need not remove repeated rows, as none that count are repeated,
// and never depend on merges.
//
// A number belongs to a generation of a writer, so a row's address is the family, view,
// series, resolution, slot, writer and generation. Who puts a generation again replaces what
// it had put at the same address, as in every store (putrows.go).
//
// # Tiers
//
// Slots of 10 s are added up to 1 min, 10 min and 1 h by the program, in steps (rollup.go),
// on each shard by one statement for a tier. What arrives later is put in its own slot and
// added to every tier that has passed it, by Put, as in package pebblestore. A step and a
// commit cannot miss each other, since both are rows of the log: a commit that placed its
// points by another state of the tiers is void.
//
// # Tables
//
// Rows of points lie by family and view, in blocks of 360 slots, in which each series is in
// order of time: so a question reads its series and its hours. Series with their labels are
// listed by the day. Partitions expire whole. The tables, and what an operator does with
// them, are described in docs/clickhouse.md.
//
// # Shards
//
// A series, and a trace, is on the shard that its identity chooses. The log, what generations
// have put, and the writers' state are on the node that the address names first.
package chstore
