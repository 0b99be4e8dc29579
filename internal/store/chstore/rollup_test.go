package chstore

import (
	"io"
	"testing"

	"tailscope/internal/series"
	"tailscope/internal/store/storetest"
)

// An answer that is lost does not have another replica add up the same rows under the same
// number.
func TestRollUpIsSentOnce(t *testing.T) {
	c, a, n := clientOf(answer{err: io.ErrUnexpectedEOF}, answer{200, "", "", nil})
	s := &Store{client: c, address: address{database: "ts", cluster: "main", hosts: []string{n.host, "replica:8123"}}}
	s.makeShards([][]string{{"a:9000", "replica:9000"}})
	for _, n := range []*node{n, {host: "replica:8123"}} {
		s.shards[0].add(n, s.address.hosts)
	}
	m := &meta{writers: map[string]*writerMeta{"w": {First: storetest.T0, Last: storetest.T0 + 10}}, tiers: tiersMeta{Plan: &plan{Step: 1}}}
	for k := range m.tiers.Ready {
		m.tiers.Ready[k] = storetest.T0 + 2*int64(series.Hour)
	}
	if err := s.addUp(t.Context(), m); err == nil || len(a.seen) != 1 {
		t.Errorf("sent %d times, %v, want once and an error", len(a.seen), err)
	}
}
