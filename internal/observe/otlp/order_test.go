package otlp

import (
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"tailscope/internal/observe/semconv"
)

// TestKeyOrder: a predicted key gives what looking it up gives, in any order of any keys, with
// more orders than are remembered, and without memory of its own.
func TestKeyOrder(t *testing.T) {
	keys, err := semconv.NewKeys(nil, []string{strings.Repeat("x", maxOrderedKey), strings.Repeat("x", maxOrderedKey+1)})
	if err != nil {
		t.Fatal(err)
	}
	list := append([]string{"", "a", "b", strings.Repeat("x", maxOrderedKey), strings.Repeat("x", maxOrderedKey+1), strings.Repeat("y", 120)}, someKeys...)
	for i := range 100 {
		list = append(list, fmt.Sprint("app.attribute.", i))
	}
	var p keyOrder
	rapid.Check(t, func(t *rapid.T) {
		span := rapid.SliceOfN(rapid.SampledFrom(list), 0, 40)
		for _, of := range rapid.SliceOfN(span, 1, 20).Draw(t, "spans") {
			for range rapid.IntRange(1, 3).Draw(t, "times") {
				p.begin(0)
				for _, key := range of {
					slot, rank := p.find(keys, beginning(key))
					if s, r := keys.Find(key); slot != s || rank != r {
						t.Fatalf("%q in %q: slot %d of rank %d, want %d of %d", key, of, slot, rank, s, r)
					}
				}
			}
		}
	})
	bytes := make([][]byte, len(list))
	for i := range list {
		bytes[i] = beginning(list[i])
	}
	n := 0
	if allocs := testing.AllocsPerRun(100, func() {
		p.begin(0)
		for range 50 {
			p.find(keys, bytes[n%len(bytes)])
			n += 7
		}
	}); allocs > 0 {
		t.Errorf("%v allocations", allocs)
	}
}

// TestKeyOrderFollows: the keys of two shapes in turn are predicted after each came once.
func TestKeyOrderFollows(t *testing.T) {
	keys, err := semconv.NewKeys(nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	var p keyOrder
	spans := [][]string{{"http.request.method", "http.route", "app.cart"}, {"db.system.name", "db.operation.name", "server.address", "tenant.id"}, {"db.system.name", "db.operation.name", "db.collection.name", "tenant.id"}}
	for round := range 3 {
		for _, of := range spans {
			p.begin(0)
			for _, key := range of {
				before := p.used
				p.find(keys, beginning(key))
				if round > 0 && p.used != before {
					t.Errorf("%q of %q was not predicted", key, of)
				}
			}
		}
	}
}

// beginning returns how a KeyValue begins.
func beginning(key string) []byte {
	return append(append([]byte{1<<3 | bytesT, byte(len(key))}, key...), 2<<3|bytesT)
}
