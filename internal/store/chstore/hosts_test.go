package chstore

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"testing"

	"tailscope/internal/store"
)

// An insertion waits for most of the replicas that are named, also while it is not known which
// shard an absent one is of.
func TestNamedReplicas(t *testing.T) {
	for _, c := range []struct{ used, absent, members, want int }{
		{1, 0, 1, 1}, {3, 0, 3, 3}, {2, 0, 3, 2},
		{2, 1, 3, 3}, // the one that is absent is named
		{3, 1, 3, 3}, // it is of another shard
		{2, 2, 3, 3}, // one of two is of another shard
		{1, 2, 5, 3}, {1, 1, 1, 1},
	} {
		if got := namedReplicas(c.used, c.absent, c.members); got != c.want {
			t.Errorf("%d used, %d absent, %d in the cluster: got %d, want %d", c.used, c.absent, c.members, got, c.want)
		}
	}
}

// The replica that the address names first is asked first, whenever it came.
func TestReplicasAreInOrder(t *testing.T) {
	s := &Store{}
	s.makeShards([][]string{{"x:9000", "y:9000"}})
	hosts := []string{"a:8123", "b:8123"}
	s.shards[0].add(&node{host: "b:8123"}, hosts)
	s.shards[0].add(&node{host: "a:8123"}, hosts)
	var got []string
	for _, n := range s.nodes() {
		got = append(got, n.host)
	}
	if !slices.Equal(got, hosts) {
		t.Errorf("got %v, want %v", got, hosts)
	}
	if n := s.replica(0, 3); n.host != "b:8123" {
		t.Errorf("replica 3 of two is %s, want the second", n.host)
	}
}

// What a node knows is asked once, and is set by how many replicas its shard has.
func TestSettingsAreLearnedOnce(t *testing.T) {
	var known []byte
	for _, name := range []string{"max_query_size", "insert_quorum", "select_sequential_consistency"} {
		known = appendString(known, name)
	}
	c, a, n := clientOf(answer{200, "", string(known), nil})
	s := &Store{client: c}
	if _, err := s.meet(t.Context(), n); err != nil || len(a.seen) != 1 {
		t.Fatalf("%d statements, %v, want one", len(a.seen), err)
	}
	for replicas, want := range map[int]string{1: "", 2: "2", 3: "2", 5: "3"} {
		n.set(replicas)
		got := *n.settings.Load()
		if got.Get("insert_quorum") != want || got.Has("select_sequential_consistency") != (replicas > 1) || !got.Has("max_query_size") || got.Has("insert_quorum_timeout") {
			t.Errorf("one of %d replicas: got %v, want a quorum of %q", replicas, got, want)
		}
	}
}

// A host is away if it gives no answer or says that it is busy, not if its answer is wrong.
func TestIsAway(t *testing.T) {
	for _, c := range []struct {
		err  error
		away bool
	}{
		{&awayError{errors.New("connection refused")}, true},
		{fmt.Errorf("did not answer within 1m: %w", context.DeadlineExceeded), true},
		{fmt.Errorf("answer: %w", io.ErrUnexpectedEOF), true},
		{fmt.Errorf("answer: %w", &net.OpError{Op: "read", Err: errors.New("reset")}), true},
		{&databaseError{code: codeTooManyQueries}, true},
		{&databaseError{code: 516, text: "authentication failed"}, false},
		{errors.New("it knows no cluster"), false},
		{fmt.Errorf("cut short: %w", store.ErrCorrupt), false},
		{nil, false},
	} {
		if got := isAway(t.Context(), c.err); got != c.away {
			t.Errorf("%v: got %v, want %v", c.err, got, c.away)
		}
	}
}
