package chstore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"tailscope/internal/store"
)

// table is a table of the schema. Sharded tables are on every node: in a cluster under the
// name with _local, and under the plain name as a Distributed table over all of them, for
// people; the program asks each shard for itself. Other tables are on the first node
// alone.
type table struct {
	name    string
	columns string // in order, with types
	order   string // keys within a partition
	part    string // partitions, which expire one by one
	sharded bool
	by      string // of sharded ones: which shard a row is on
	granule int    // rows that are read at least; 0 is ClickHouse's default
}

// byID spreads rows by the first half of an identity.
const byID = "reinterpretAsUInt64(id)"

// tables are those of version schemaVersion. There are no LowCardinality, codecs or TTL:
// the oldest dialect that is supported, 18.16, has none of them.
var tables = []table{
	{name: "log", columns: `kind String, era UInt64, txn FixedString(16), op UInt8, keys Array(String), vals Array(String), ifs Array(UInt64), base UInt64, revision UInt64`,
		order: "kind", part: "kind"},
	{name: "puts", columns: `writer String, generation UInt64, put UInt64, first Int64, last Int64`,
		order: "writer, generation, put", part: "intDiv(last, 2592000)"},
	{name: "state", columns: `writer String, key String, put UInt64, value String`,
		order: "writer, key, put", part: "tuple()"},
	{name: "points", columns: `resolution UInt16, part Int32, family String, view UInt8, block Int32, id FixedString(16), kind UInt8, slot Int64, put UInt64,
		form UInt64, count UInt64, flags UInt8, nanos Int64, rest Float64, low Float64, high Float64, squares Float64, error Float64, zero UInt64,
		buckets Array(Int32), counts Array(UInt64), latest Float64, latestms Int64`,
		order: "family, view, block, id, kind, slot, put", part: "resolution, part", sharded: true, by: byID, granule: 2048},
	{name: "series", columns: `day Int32, family String, view UInt8, id FixedString(16), kind UInt8, names Array(String), values Array(String), put UInt64`,
		order: "family, view, day, id, kind, put", part: "intDiv(day, 30)", sharded: true, by: byID},
	{name: "samples", columns: `part Int32, family String, id FixedString(16), kind UInt8, ms Int64, value Float64, put UInt64`,
		order: "family, id, kind, ms, put", part: "part", sharded: true, by: byID},
	{name: "cuts", columns: `family String, id FixedString(16), kind UInt8, cut Int64`,
		order: "family, id, kind, cut", part: "tuple()", sharded: true, by: byID},
	{name: "traces", columns: `part Int32, id FixedString(16), version UInt64, data String,
		spans Array(FixedString(8)), services Array(String), operations Array(String), tenants Array(String), failed Array(UInt8), why Array(UInt8), starts Array(Int64), durations Array(Int64)`,
		order: "id, version", part: "part", sharded: true, by: byID, granule: 256},
	{name: "requests", columns: `part Int32, service String, operation String, tenant String, start Int64, duration Int64, failed UInt8, why UInt8, id FixedString(16), span FixedString(8), version UInt64`,
		order: "service, start, id, span, version", part: "part", sharded: true, by: byID},
}

// schemaVersion is the version of the tables that this program writes. Version 2 has the
// tables of version 1, and folds epochs, which a program of version 1 would not read.
const schemaVersion = 2

// columnsOf returns the names of a table's columns, in parentheses, as an INSERT has them.
func columnsOf(name string) string {
	i := slices.IndexFunc(tables, func(t table) bool { return t.name == name })
	var names []string
	for c := range strings.SplitSeq(tables[i].columns, ",") {
		n, _, _ := strings.Cut(strings.TrimSpace(c), " ")
		names = append(names, n)
	}
	return "(" + strings.Join(names, ", ") + ")"
}

// createTable returns the statement that creates a table on one node, if it is not there.
func (s *Store) createTable(t *table) string {
	engine := "MergeTree()"
	name := t.name
	if t.sharded {
		name = s.localName(t.name)
		if s.address.replicated {
			// The macros are those of the node's own configuration, as documented by ClickHouse.
			engine = "ReplicatedMergeTree('/clickhouse/tables/{shard}/" + s.address.database + "/" + name + "', '{replica}')"
		}
	}
	q := "CREATE TABLE IF NOT EXISTS " + s.qualified(name) + " (" + t.columns + ") ENGINE = " + engine +
		" PARTITION BY (" + t.part + ") ORDER BY (" + t.order + ")"
	if t.granule > 0 {
		q += " SETTINGS index_granularity = " + strconv.Itoa(t.granule)
	}
	return q
}

// createDistributed returns the statement that creates what people read a sharded table of
// a cluster by.
func (s *Store) createDistributed(t *table) string {
	return "CREATE TABLE IF NOT EXISTS " + s.qualified(t.name) + " AS " + s.qualified(s.localName(t.name)) +
		" ENGINE = Distributed(" + s.address.cluster + ", " + s.address.database + ", " + s.localName(t.name) + ", " + t.by + ")"
}

// qualified returns a table's name with the database.
func (s *Store) qualified(table string) string { return s.address.database + "." + table }

// localName returns the name under which a node has its part of a sharded table.
func (s *Store) localName(table string) string {
	if s.address.cluster == "" {
		return table
	}
	return table + "_local"
}

// local returns the qualified name under which a node has its part of a sharded table.
func (s *Store) local(table string) string { return s.qualified(s.localName(table)) }

// ensureSchema creates what is missing and migrates what is older. It may be interrupted
// at any point, and run by several servers at once: every statement says IF NOT EXISTS, and
// the version is written last. It deletes nothing.
func (s *Store) ensureSchema(ctx context.Context) error {
	first := s.first()
	for _, n := range s.nodes() {
		if err := s.client.exec(ctx, n, "CREATE DATABASE IF NOT EXISTS "+s.address.database); err != nil {
			return err
		}
	}
	version, err := s.readVersion(ctx)
	if err != nil {
		return err
	}
	if version > schemaVersion {
		return fmt.Errorf("database %s has tables of version %d, this program writes version %d: start the newer program: %w", s.address.database, version, schemaVersion, store.ErrVersion)
	}
	if version == schemaVersion {
		return s.checkTables(ctx)
	}
	if away := s.absent.list(); len(away) > 0 {
		return fmt.Errorf("the tables of database %s are not there yet, and are created on all hosts: %w: start it, or leave it out of the address", s.address.database, away[0].err)
	}
	if err := s.checkFirst(ctx); err != nil {
		return err
	}
	if err := s.client.exec(ctx, first, "CREATE TABLE IF NOT EXISTS "+s.qualified("versions")+" (version UInt32, layout String) ENGINE = MergeTree() PARTITION BY tuple() ORDER BY version"); err != nil {
		return fmt.Errorf("create table versions: %w", err)
	}
	for _, n := range s.nodes() {
		for i := range tables {
			t := &tables[i]
			if !t.sharded && n != first {
				continue
			}
			if err := s.client.exec(ctx, n, s.createTable(t)); err != nil {
				return fmt.Errorf("create table %s: %w", t.name, err)
			}
			if t.sharded && s.address.cluster != "" {
				if err := s.client.exec(ctx, n, s.createDistributed(t)); err != nil {
					return fmt.Errorf("create table %s over the cluster: %w", t.name, err)
				}
			}
		}
	}
	layout := s.layout()
	return s.client.insert(ctx, first, s.qualified("versions"), "(version, layout)", appendString(appendUint32(nil, schemaVersion), layout))
}

// checkSchema returns an error unless the tables are there, and of schemaVersion.
func (s *Store) checkSchema(ctx context.Context) error {
	version, err := s.readVersion(ctx)
	switch {
	case err != nil:
		return err
	case version == 0:
		return fmt.Errorf("database %s has no tables of Tailscope: give the address that servers have", s.address.database)
	case version != schemaVersion:
		return fmt.Errorf("database %s has tables of version %d, this program reads version %d: use the program of its servers: %w", s.address.database, version, schemaVersion, store.ErrVersion)
	}
	return s.checkTables(ctx)
}

// layout is what the tables depend on beside their version: rows are where a change of it
// would not look for them.
func (s *Store) layout() string {
	if s.address.cluster == "" {
		return "one node"
	}
	return fmt.Sprintf("cluster %s, %d shards", s.address.cluster, len(s.shards))
}

// readVersion returns the version of the tables that are there, or 0.
func (s *Store) readVersion(ctx context.Context) (uint32, error) {
	have, err := s.tablesOn(ctx, s.first())
	if err != nil || !slices.Contains(have, "versions") {
		return 0, err
	}
	r, err := s.client.read(ctx, s.first(), "SELECT version, layout FROM "+s.qualified("versions")+" ORDER BY version DESC LIMIT 1")
	if err != nil {
		return 0, fmt.Errorf("read the version of the tables: %w", err)
	}
	if !r.next() {
		return 0, nil
	}
	version, layout := r.uint32(), r.string()
	if r.err == nil && layout != s.layout() {
		return 0, fmt.Errorf("the tables of database %s were made for %q, the address gives %q: rows would not be found: give the address that they were made with, or another database", s.address.database, layout, s.layout())
	}
	return version, r.err
}

// tablesOn returns the names of the tables that a node has.
func (s *Store) tablesOn(ctx context.Context, n *node) ([]string, error) {
	r, err := s.client.read(ctx, n, "SELECT name FROM system.tables WHERE database = "+quote(s.address.database))
	if err != nil {
		return nil, fmt.Errorf("list the tables: %w", err)
	}
	var have []string
	for r.next() {
		have = append(have, r.string())
	}
	return have, r.err
}

// checkFirst finds that another node was named first before, or that the first host was
// replaced by an empty one: its log would not be read, and the numbers that it has given would
// be given again, to rows that other nodes still have.
func (s *Store) checkFirst(ctx context.Context) error {
	had, err := s.tablesOn(ctx, s.first())
	if err != nil {
		return err
	}
	for _, n := range s.nodes() {
		if n == s.first() {
			continue
		}
		have, err := s.tablesOn(ctx, n)
		if err != nil {
			return err
		}
		if slices.Contains(have, "versions") || slices.Contains(have, "log") {
			return fmt.Errorf("node %s has been the first host of database %s: name it first", n.host, s.address.database)
		}
		if slices.Contains(had, "log") || !slices.Contains(have, s.localName("points")) {
			continue
		}
		r, err := s.client.read(ctx, n, "SELECT toUInt64(count()) FROM "+s.local("points"))
		if err != nil {
			return fmt.Errorf("count the rows of %s: %w", n.host, err)
		}
		if rows := r.uint64(); rows > 0 || r.err != nil {
			return errors.Join(r.err, fmt.Errorf("node %s, the first host, has no log of database %s, and node %s has %d rows of it: the first host was emptied or replaced, and would give the numbers of these rows again: put its data back, or name another database", s.first().host, s.address.database, n.host, rows))
		}
	}
	return nil
}

// checkTables finds a node without its tables, as one that was replaced is.
func (s *Store) checkTables(ctx context.Context) error {
	for _, n := range s.nodes() {
		if err := s.checkNode(ctx, n); err != nil {
			return err
		}
	}
	return nil
}

func (s *Store) checkNode(ctx context.Context, n *node) error {
	have, err := s.tablesOn(ctx, n)
	if err != nil {
		return err
	}
	for i := range tables {
		t := &tables[i]
		if (t.sharded || n == s.first()) && !slices.Contains(have, s.tableOn(t)) {
			return fmt.Errorf("node %s lacks the table %s, which it had: restore the node, or delete the row of table versions on %s to begin the node anew without its rows", n.host, s.tableOn(t), s.first().host)
		}
	}
	return nil
}

// tableOn returns the name of a table on a node.
func (s *Store) tableOn(t *table) string {
	if t.sharded {
		return s.localName(t.name)
	}
	return t.name
}
