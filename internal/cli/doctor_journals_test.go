package cli

import (
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"tailscope/internal/agg"
	"tailscope/internal/store"
	"tailscope/internal/store/pebblestore"
)

// killed is the data directory of a server that was killed: its store has
// generations 1 and 2 in its log, journals of 3 and 4 are not put yet.
func killed(t *testing.T) string {
	t.Helper()
	live, data := filepath.Join(t.TempDir(), "data"), filepath.Join(t.TempDir(), "data")
	st, err := pebblestore.Open(t.Context(), storeOptions(live))
	if err != nil {
		t.Fatal(err)
	}
	a, err := agg.Open(t.Context(), st, agg.Options{Writer: st.Writer(), Dir: filepath.Join(live, "journal"), FlushInterval: 24 * time.Hour, SyncInterval: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	observe := func(n int) {
		for i := range n {
			b := a.NewBatch()
			for range 10 {
				b.Observe(a.SpanTarget(&agg.SpanIdentity{Service: "s", Operation: fmt.Sprint(i)}), time.Now().UnixNano(), 1e6, 1)
			}
			if _, err := b.Commit(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
	}
	for range 2 {
		observe(20)
		if err := a.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	observe(30)
	if err := os.CopyFS(data, os.DirFS(live)); err != nil { // as a kill would leave it
		t.Fatal(err)
	}
	if err := a.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := st.Close(); err != nil {
		t.Fatal(err)
	}
	return data
}

// Doctor names what the next start reports, and as much. Each file that a start
// keeps in damaged/ has the reason beside it.
func TestDoctorSaysWhatTheStartSays(t *testing.T) {
	open := func(dir string) string { return glob(t, dir, "journal", "*.journal")[0] }
	for _, c := range []struct {
		what   string
		damage func(dir string) error
		lost   int64 // -1: not known
	}{
		{"newest journal removed", func(dir string) error { return os.Remove(open(dir)) }, 300},
		{"journal cut at a frame", func(dir string) error {
			b, err := os.ReadFile(open(dir))
			if err != nil {
				return err
			}
			at, last := 36, 0
			for at < len(b) {
				last = at
				at += 28 + int(binary.LittleEndian.Uint32(b[at:]))
			}
			return os.Truncate(open(dir), int64(last))
		}, 10},
		{"kept journals and the log removed", func(dir string) error {
			for _, f := range append(glob(t, dir, "journal", "*.stored"), glob(t, dir, "store", "*.log")...) {
				if err := os.Remove(f); err != nil {
					return err
				}
			}
			return nil
		}, -1},
		{"a kept journal and the log removed", func(dir string) error {
			for _, f := range append(glob(t, dir, "journal", "*2.stored"), glob(t, dir, "store", "*.log")...) {
				if err := os.Remove(f); err != nil {
					return err
				}
			}
			return nil
		}, 200},
		{"all journals removed", func(dir string) error { return os.RemoveAll(filepath.Join(dir, "journal")) }, -1},
		{"a journal is a directory", func(dir string) error {
			path := open(dir)
			if err := os.Remove(path); err != nil {
				return err
			}
			return os.Mkdir(path, 0o700)
		}, -1},
		{"a journal's first frame flipped", func(dir string) error {
			b, err := os.ReadFile(open(dir))
			if err != nil {
				return err
			}
			b[70] ^= 1
			return os.WriteFile(open(dir), b, 0o600)
		}, 10},
	} {
		dir := killed(t)
		if code, out, errs := command(t, "", "doctor", "--data", dir); code != exitOK || !strings.Contains(out, "everything is whole") {
			t.Fatalf("before: exit %d, %s%s", code, out, errs)
		}
		if err := c.damage(dir); err != nil {
			t.Fatal(c.what, err)
		}
		if code, out, errs := command(t, "", "doctor", "--data", dir); code != exitFailed || strings.Contains(out, "everything is whole") {
			t.Errorf("%s: exit %d, %s%s", c.what, code, out, errs)
		}
		found := journalDamage(t, dir)
		o := storeOptions(dir)
		st, err := pebblestore.Open(t.Context(), o)
		if err != nil {
			t.Fatal(err)
		}
		a, err := agg.Open(t.Context(), st, agg.Options{Writer: st.Writer(), Dir: filepath.Join(dir, "journal"), Remember: func(d store.Damage) error { return pebblestore.Remember(o, d) }})
		if err != nil {
			t.Fatal(err)
		}
		reported := a.Damage()
		if x, y := reasons(found), reasons(reported); !slices.Equal(x, y) || len(x) == 0 {
			t.Errorf("%s: doctor says\n%s\nthe start\n%s", c.what, strings.Join(x, "\n"), strings.Join(y, "\n"))
		}
		lost := int64(0)
		for _, d := range reported {
			if d.Observations < 0 {
				lost = -1
				break
			}
			lost += d.Observations
		}
		if lost != c.lost {
			t.Errorf("%s: %d are reported lost, want %d: %+v", c.what, lost, c.lost, reported)
		}
		for _, f := range glob(t, dir, "damaged", "*") {
			if strings.Contains(f, "generation-") && !strings.Contains(f, ".json") {
				if _, err := os.Stat(f + ".json"); err != nil {
					t.Errorf("%s: %v", c.what, err)
				}
			}
		}
		if err := a.Close(t.Context()); err != nil {
			t.Error(err)
		}
		if err := st.Close(); err != nil {
			t.Error(err)
		}
		if d := journalDamage(t, dir); len(d) > 0 {
			t.Errorf("%s: found again: %+v", c.what, d)
		}
	}
}

func journalDamage(t *testing.T, dir string) []store.Damage {
	t.Helper()
	r, err := pebblestore.Examine(t.Context(), storeOptions(dir))
	if err != nil {
		t.Fatal(err)
	}
	_, found, err := examineJournals(t.Context(), dir, storeOptions(dir), r)
	if err != nil {
		t.Fatal(err)
	}
	return found
}

func reasons(damage []store.Damage) (out []string) {
	for _, d := range damage {
		out = append(out, fmt.Sprintf("%s %s %d", d.Reason, d.Lost, d.Observations))
	}
	return out
}
