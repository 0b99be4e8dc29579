//go:build servers

package chstore

import (
	"fmt"
	"strings"
	"testing"

	"tailscope/api"
	"tailscope/internal/series"
	"tailscope/internal/store"
	"tailscope/internal/store/storetest"
)

// Examine finds what is wrong with three real nodes, and changes nothing.
func TestExamine(t *testing.T) {
	ctx := t.Context()
	c := nodes(t, 3)
	o := on(t, c)
	// examine returns the findings, and whether records can be read.
	examine := func(o Options) (found []api.ClusterFinding, records bool) {
		t.Helper()
		e, err := Examine(ctx, o)
		if err != nil {
			t.Fatal(err)
		}
		if len(e.Nodes) != 3 {
			t.Fatalf("%d nodes", len(e.Nodes))
		}
		records = e.Records != nil
		if records {
			if err := e.Records.ListRecords(ctx, "cluster", "", func(store.Record) error { return nil }); err != nil {
				t.Errorf("records: %v", err)
			}
		}
		if err := e.Close(); err != nil {
			t.Fatal(err)
		}
		return e.Findings, records
	}
	// only checks that there is one finding, of a node by its number or of all, with the text.
	only := func(what string, o Options, node int, text string) {
		t.Helper()
		found, _ := examine(o)
		where := ""
		if node >= 0 {
			where = c.Nodes[node].HTTP
		}
		if len(found) != 1 || found[0].Where != where || !strings.Contains(found[0].What, text) || found[0].Next == "" {
			t.Errorf("%s: found %+v, want %q at %q", what, found, text, where)
		}
	}
	only("an empty database", o, 0, "has no tables of Tailscope")

	s := open(t, o)
	defer s.Close()
	b := &store.Batch{Writer: "w", Generation: 1, Resolution: series.Base}
	for i := range 30 {
		b.Series = append(b.Series, storetest.Span(series.Full, "tenant", string(rune('a'+i))))
		b.Points = append(b.Points, store.Point{Series: uint32(i), Slot: storetest.T0, Data: storetest.Dist(0.5)})
	}
	if err := s.Put(ctx, b); err != nil {
		t.Fatal(err)
	}
	if found, records := examine(o); len(found) > 0 || !records {
		t.Errorf("nothing is wrong: found %+v, records %v", found, records)
	}

	replicated := o
	replicated.Address += "&replicated=true"
	found, _ := examine(replicated)
	for i, n := range c.Nodes {
		if len(found) != 3 || found[i].Where != n.HTTP || !strings.Contains(found[i].What, "no Keeper") {
			t.Fatalf("replicated without Keeper: found %+v", found)
		}
	}
	other := o
	other.Address = strings.Replace(o.Address, "cluster=tailscope", "cluster=nobody", 1)
	if found, _ := examine(other); len(found) != 3 || !strings.Contains(found[0].What, "knows no cluster nobody") {
		t.Errorf("another cluster: found %+v", found)
	}

	run := func(node int, statement string) {
		t.Helper()
		if err := s.client.exec(ctx, s.replicas(node)[0], statement); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.client.insert(ctx, s.first(), s.qualified("versions"), "(version, layout)", appendString(appendUint32(nil, schemaVersion+1), s.layout())); err != nil {
		t.Fatal(err)
	}
	only("a newer version", o, 0, fmt.Sprintf("tables are of version %d, this program writes version %d", schemaVersion+1, schemaVersion))
	run(0, "ALTER TABLE "+s.qualified("versions")+" DROP PARTITION tuple()")
	if err := s.client.insert(ctx, s.first(), s.qualified("versions"), "(version, layout)", appendString(appendUint32(nil, schemaVersion), s.layout())); err != nil {
		t.Fatal(err)
	}
	run(1, "DROP TABLE "+s.local("samples"))
	only("a table is gone", o, 1, "lacks the table samples_local")
	run(1, s.createTable(&tables[5]))

	c.Nodes[2].Kill()
	only("a shard is away", o, 2, "does not answer")
	if err := c.Restart(ctx, c.Nodes[2]); err != nil {
		t.Fatal(err)
	}

	// An empty node in the place of the first host would give the numbers again that rows
	// on the other shards have.
	run(0, "DROP DATABASE "+s.address.database)
	only("the first host was emptied", o, 0, "was emptied or replaced")
	if again, err := Open(ctx, o); err == nil || !strings.Contains(err.Error(), "was emptied or replaced") {
		t.Errorf("a server starts on it: %v", err)
		if err == nil {
			again.Close()
		}
	}
}
