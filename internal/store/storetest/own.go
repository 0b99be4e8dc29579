package storetest

import (
	"context"
	"errors"
	"strings"
	"testing"

	"tailscope/internal/store"
)

// testOwnRecords has two servers on one store write under the same keys.
func testOwnRecords(t *testing.T, st store.Store) {
	ctx := context.Background()
	put := func(r store.Records, key, value string) {
		t.Helper()
		check(t, second1(r.PutRecords(ctx, "checks", anyway(key, value)...)))
	}
	list := func(r store.Records) string {
		t.Helper()
		var out []string
		check(t, r.ListRecords(ctx, "checks", "c", func(x store.Record) error {
			out = append(out, x.Key+"="+string(x.Value))
			return nil
		}))
		return strings.Join(out, " ")
	}
	put(st, "c1", "old") // of the time before stores were shared
	put(st, "d", "beside")
	a := must(store.OwnRecords(ctx, st, "a"))(t)
	b := must(store.OwnRecords(ctx, st, "b"))(t)
	equal(t, "the first has what there was", list(a), "c1=old")
	equal(t, "the second begins with nothing", list(b), "")
	put(a, "c1", "of a")
	put(b, "c1", "of b")
	put(b, "c2", "of b")
	for range 2 { // also after a restart
		equal(t, "of a", list(a), "c1=of a")
		equal(t, "of b", list(b), "c1=of b c2=of b")
		equal(t, "one of b", string(must(b.GetRecord(ctx, "checks", "c1"))(t).Value), "of b")
		equal(t, "its key", must(b.GetRecord(ctx, "checks", "c1"))(t).Key, "c1")
		if _, err := a.GetRecord(ctx, "checks", "c2"); !errors.Is(err, store.ErrNoRecord) {
			t.Errorf("a finds what is b's: %v", err)
		}
		a, b = must(store.OwnRecords(ctx, st, "a"))(t), must(store.OwnRecords(ctx, st, "b"))(t)
	}
	put(b, "c1", "")
	equal(t, "of a after b has deleted", list(a), "c1=of a")
	if _, err := a.PutRecords(ctx, "checks", anyway("@b/c2", "no")...); err == nil {
		t.Error("a writes under a key of b: want an error")
	}
	equal(t, "of b in the end", list(b), "c2=of b")
}
