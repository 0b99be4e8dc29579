package httpapi

import (
	"context"
	"encoding/json"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"tailscope/api"
	"tailscope/internal/store/pebblestore"
)

// A question that meets a damaged block is answered with the file, the time that
// it holds, and the next step, in one line; others are answered.
func TestDamagedBlock(t *testing.T) {
	ctx, whole := context.Background(), vfs.NewMem()
	open := func(fs vfs.FS) *pebblestore.Store {
		t.Helper()
		st, err := pebblestore.Open(ctx, pebblestore.Options{Dir: "data/store", FS: fs, MinFreeBytes: -1})
		if err != nil {
			t.Fatal(err)
		}
		return st
	}
	st := open(whole)
	filled(t, st)
	if err := st.WriteTables(ctx); err != nil {
		t.Fatal(err)
	}
	if err := st.Close(); err != nil {
		t.Fatal(err)
	}
	names, err := whole.List("data/store")
	if err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(names, func(n string) bool { return strings.HasSuffix(n, ".sst") })
	f, err := whole.Open("data/store/" + names[i])
	if err != nil {
		t.Fatal(err)
	}
	table, err := io.ReadAll(f)
	if err != nil {
		t.Fatal(err)
	}
	f.Close()
	damaged := 0
	for at := len(table) / 5; at < len(table)*4/5; at += len(table) / 10 {
		fs := vfs.NewMem()
		if _, err := vfs.Clone(whole, fs, "data", "data"); err != nil {
			t.Fatal(err)
		}
		b := slices.Clone(table)
		b[at] ^= 0x10
		w, err := fs.Create("data/store/"+names[i], vfs.WriteCategoryUnspecified)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write(b); err != nil {
			t.Fatal(err)
		}
		w.Close()
		st := open(fs)
		srv := serve(t, Options{Store: st})
		for _, path := range []string{"/api/v1/heatmap?start=now-1h", "/api/v1/services?start=now-1h", "/prometheus/api/v1/query_range?query=rate(span_duration_seconds[1m])&start=1778313600&end=1778317200&step=10"} {
			status, body := fetch(t, srv, path)
			if status == 200 {
				continue
			}
			message := ""
			if strings.HasPrefix(path, "/api") {
				var e api.Error
				if err := json.Unmarshal([]byte(body), &e); err != nil || e.Error.Code != "damaged" {
					t.Errorf("byte %d, %s: %s %v", at, path, body, err)
				}
				message = e.Error.Message
			} else {
				var e struct{ Error string }
				if err := json.Unmarshal([]byte(body), &e); err != nil {
					t.Errorf("byte %d, %s: %s %v", at, path, body, err)
				}
				message = e.Error
			}
			for _, want := range []string{names[i], "2026-05-09T", "checksum mismatch", "tailscope doctor --repair"} {
				if !strings.Contains(message, want) {
					t.Errorf("byte %d, %s: %q does not hold %q", at, path, message, want)
				}
			}
			if status != 500 || strings.ContainsAny(message, "\n<") {
				t.Errorf("byte %d, %s: status %d, %q", at, path, status, message)
			}
			damaged++
		}
		if status, body := fetch(t, srv, "/api/v1/heatmap?start=now-30h&end=now-26h"); status != 200 {
			t.Errorf("byte %d: another day: status %d: %s", at, status, body)
		}
		if err := st.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if damaged < 3 {
		t.Errorf("%d questions met the damage, want 3 at least", damaged)
	}
}
