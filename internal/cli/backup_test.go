package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"tailscope/internal/guard/check/event"
	"tailscope/internal/guard/check/spec"
	"tailscope/internal/guard/notify"
	"tailscope/internal/server"
	"tailscope/internal/store"
	"tailscope/internal/store/pebblestore"
)

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// treeOf returns every file below a directory with its content, and every link.
func treeOf(t *testing.T, root string) map[string]string {
	t.Helper()
	out := map[string]string{}
	must(t, filepath.WalkDir(root, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		out[path] = e.Type().String()
		if e.Type().IsRegular() {
			b, err := os.ReadFile(path)
			out[path] += string(b)
			return err
		}
		return nil
	}))
	return out
}

// A directory that holds anything but a backup of the same store is refused,
// and nothing is changed.
func TestBackupTargetIsRefused(t *testing.T) {
	copyTree := func(t *testing.T, from, to string) { must(t, os.CopyFS(to, os.DirFS(from))) }
	backUp := func(t *testing.T, data, to string) {
		if code, out, errs := command(t, "", "backup", "--data", data, "--to", to); code != exitOK {
			t.Fatalf("exit %d, %s%s", code, out, errs)
		}
	}
	for _, c := range []struct {
		name string
		make func(t *testing.T, dir, live string) (data, to string)
		said string
	}{
		{"swapped arguments", func(t *testing.T, dir, live string) (string, string) {
			backUp(t, live, dir+"/bk")
			return dir + "/bk", live
		}, "is a backup, not a data directory"},
		{"the data directory of a server", func(t *testing.T, dir, live string) (string, string) {
			other, s := dataDir(t)
			t.Cleanup(func() { s.Close() })
			return other, live
		}, "and no backup"},
		{"a data directory without an identity", func(t *testing.T, dir, live string) (string, string) {
			old, s := dataDir(t)
			must(t, s.Close())
			must(t, os.Remove(old+"/store/IDENTITY"))
			copyTree(t, old, dir+"/old")
			return live, dir + "/old"
		}, "and no backup"},
		{"the data directory through a link", func(t *testing.T, dir, live string) (string, string) {
			must(t, os.Symlink(live, dir+"/link"))
			return dir + "/link", live
		}, "lies in the data directory"},
		{"in a part of the data directory that a link names", func(t *testing.T, dir, live string) (string, string) {
			must(t, os.Mkdir(dir+"/data", 0o700))
			must(t, os.Symlink(live+"/store", dir+"/data/store"))
			return dir + "/data", live + "/store/backup"
		}, "lies in the data directory"},
		{"a backup whose store is a link to the data", func(t *testing.T, dir, live string) (string, string) {
			backUp(t, live, dir+"/bk")
			must(t, os.RemoveAll(dir+"/bk/store"))
			must(t, os.Symlink(live+"/store", dir+"/bk/store"))
			return live, dir + "/bk"
		}, "lies in the data directory"},
		{"a backup of another store", func(t *testing.T, dir, live string) (string, string) {
			other, s := dataDir(t)
			must(t, s.Close())
			backUp(t, other, dir+"/bk")
			return live, dir + "/bk"
		}, "holds a backup of store"},
		{"the rest of a backup of another store", func(t *testing.T, dir, live string) (string, string) {
			must(t, os.Mkdir(dir+"/bk", 0o700))
			must(t, os.WriteFile(dir+"/bk/"+backupMark, formatMark("0123456789abcdef"), 0o600))
			return live, dir + "/bk"
		}, "the rest of a backup of another store"},
		{"a backup that a server runs on", func(t *testing.T, dir, live string) (string, string) {
			backUp(t, live, dir+"/bk")
			must(t, os.Rename(dir+"/bk/"+backupList, live+"/"+backupList))
			copyTree(t, live, dir+"/data")
			must(t, os.Remove(dir+"/data/"+backupList))
			return dir + "/data", live
		}, "a server runs on"},
		{"a backup that a server ran on", func(t *testing.T, dir, live string) (string, string) {
			backUp(t, live, dir+"/bk")
			copyTree(t, live, dir+"/ran")
			must(t, os.Rename(dir+"/bk/"+backupList, dir+"/ran/"+backupList))
			return live, dir + "/ran"
		}, "until a server ran on it"},
		{"a list that does not decode", func(t *testing.T, dir, live string) (string, string) {
			must(t, os.Mkdir(dir+"/bk", 0o700))
			must(t, os.WriteFile(dir+"/bk/"+backupList, []byte("{"), 0o600))
			return live, dir + "/bk"
		}, "corrupt"},
		{"a directory with a file", func(t *testing.T, dir, live string) (string, string) {
			must(t, os.Mkdir(dir+"/to", 0o700))
			must(t, os.WriteFile(dir+"/to/file", nil, 0o600))
			return live, dir + "/to"
		}, "holds file and no backup"},
		{"nothing to back up", func(t *testing.T, dir, live string) (string, string) {
			must(t, os.Mkdir(dir+"/none", 0o700))
			return dir + "/none", dir + "/to"
		}, "holds no store"},
		{"a link to nothing", func(t *testing.T, dir, live string) (string, string) {
			must(t, os.Symlink(dir+"/none", dir+"/to"))
			return live, dir + "/to"
		}, "is a link to a directory that does not exist"},
	} {
		t.Run(c.name, func(t *testing.T) {
			live, s := dataDir(t)
			defer s.Close()
			writeJournal(t, live)
			dir := t.TempDir()
			data, to := c.make(t, dir, live)
			before := []map[string]string{treeOf(t, live), treeOf(t, dir)}
			code, out, errs := command(t, "", "backup", "--data", data, "--to", to)
			if code != exitUsage || !strings.Contains(errs, c.said) || strings.Count(errs, "hint: ") != 1 || strings.Contains(errs, "doctor") {
				t.Errorf("exit %d, %s%s", code, out, errs)
			}
			for i, now := range []map[string]string{treeOf(t, live), treeOf(t, dir)} {
				if !maps.Equal(now, before[i]) {
					t.Errorf("files changed: %q, were %q", slices.Sorted(maps.Keys(now)), slices.Sorted(maps.Keys(before[i])))
				}
			}
		})
	}
}

// A second backup at the same time is refused.
func TestBackupsExcludeEachOther(t *testing.T) {
	data, s := dataDir(t)
	defer s.Close()
	to := t.TempDir()
	unlock, err := lockBackup(vfs.Default, to)
	must(t, err)
	if code, _, _ := command(t, "", "backup", "--data", data, "--to", to); code == exitOK || len(glob(t, to, "*")) != 1 {
		t.Errorf("exit %d, %q", code, glob(t, to, "*"))
	}
	must(t, unlock())
	if code, _, errs := command(t, "", "backup", "--data", data, "--to", to); code != exitOK {
		t.Errorf("exit %d, %s", code, errs)
	}
}

// A backup of format 1, whose files all lie under their names, verifies, and
// the next one is added to it.
func TestBackupOfFormat1(t *testing.T) {
	data, s := dataDir(t)
	writeJournal(t, data)
	must(t, s.Close())
	to := filepath.Join(t.TempDir(), "kept")
	if code, _, errs := command(t, "", "backup", "--data", data, "--to", to); code != exitOK {
		t.Fatal(errs)
	}
	b, err := os.ReadFile(filepath.Join(to, backupList))
	must(t, err)
	must(t, os.MkdirAll(filepath.Join(to, "journal"), 0o700))
	for _, part := range []string{"store", "journal"} {
		for _, f := range glob(t, to, "backup-*", part, "*") {
			must(t, os.Rename(f, filepath.Join(to, part, filepath.Base(f))))
		}
	}
	must(t, os.RemoveAll(glob(t, to, "backup-*")[0]))
	b = bytes.Replace(b, []byte(`"format": 2`), []byte(`"format": 1`), 1)
	lines := slices.DeleteFunc(strings.Split(string(b), "\n"), func(l string) bool {
		return strings.Contains(l, `"at"`) || strings.Contains(l, `"store": "`)
	})
	must(t, os.WriteFile(filepath.Join(to, backupList), []byte(strings.Join(lines, "\n")), 0o600))
	for range 2 {
		if code, _, errs := command(t, "", "restore", "--from", to, "--verify"); code != exitOK {
			t.Fatal(errs)
		}
		if code, out, errs := command(t, "", "backup", "--data", data, "--to", to); code != exitOK || !strings.Contains(out, " 0 tables copied") {
			t.Fatalf("exit %d, %s%s", code, out, errs)
		}
	}
	if left := slices.Concat(glob(t, to, "journal"), glob(t, to, "store", "[^0-9]*")); len(left) > 0 {
		t.Errorf("left of format 1: %q", left)
	}
}

// stopAfter makes a file system on which every write fails from the nth on, as
// if the program had been killed.
func stopAfter(fsys vfs.FS, n int64) (stopping vfs.FS, stopped func() bool) {
	var seen atomic.Int64
	return errorfs.Wrap(fsys, errorfs.InjectorFunc(func(op errorfs.Op) error {
		if op.Kind.ReadOrWrite() == errorfs.OpIsWrite && seen.Add(1) > n {
			return errors.New("stopped")
		}
		return nil
	})), func() bool { return seen.Load() > n }
}

func memStore(t *testing.T, fsys vfs.FS, dir string) *pebblestore.Store {
	t.Helper()
	s, err := pebblestore.Open(t.Context(), pebblestore.Options{FS: fsys, Dir: dir})
	must(t, err)
	return s
}

func cloned(t *testing.T, fsys vfs.FS, dirs ...string) *vfs.MemFS {
	t.Helper()
	out := vfs.NewCrashableMem()
	for _, dir := range dirs {
		_, err := vfs.Clone(fsys, out, dir, dir, vfs.CloneSync)
		must(t, err)
	}
	must(t, pebblestore.SyncDir(out, "/"))
	return out
}

func writeMem(t *testing.T, fsys vfs.FS, path, content string) {
	t.Helper()
	must(t, fsys.MkdirAll(fsys.PathDir(path), 0o700))
	must(t, pebblestore.WriteFile(fsys, path, []byte(content)))
}

func putMarks(t *testing.T, s *pebblestore.Store, from, to int) {
	t.Helper()
	for i := from; i < to; i++ {
		must(t, store.PutMark(t.Context(), s, store.Mark{ID: fmt.Sprint(i), Time: time.Unix(int64(i), 0), Name: "deploy"}))
	}
	must(t, s.Compact(t.Context()))
}

// verified checks a backup, and returns its list.
func verified(t *testing.T, fsys vfs.FS) backupContents {
	t.Helper()
	var errs bytes.Buffer
	if err := restore(context.Background(), fsys, "/kept", "", "", true, streams{out: new(bytes.Buffer), err: &errs}); err != nil {
		t.Fatalf("%v\n%s", err, errs.String())
	}
	c, err := readBackup(fsys, "/kept")
	must(t, err)
	return c
}

// Wherever a backup is stopped, by a kill or by a loss of power, the one before
// it is whole, or the new one is; and the next one ends it and leaves nothing.
func TestBackupStoppedAnywhere(t *testing.T) {
	ctx, mem := t.Context(), vfs.NewMem()
	s := memStore(t, mem, "/data/store")
	putMarks(t, s, 0, 20)
	writeMem(t, mem, "/data/journal/acknowledged", "1")
	writeMem(t, mem, "/data/journal/generation-1.journal", "one")
	writeMem(t, mem, "/data/journal/generation-2.journal", "two")
	writeMem(t, mem, "/data/receivers/a.spool", "a")
	first := cloned(t, mem, "/data")
	_, _, err := makeBackup(ctx, mem, "/data", "/kept", "")
	must(t, err)
	old, err := pebblestore.ReadFile(mem, "/kept/"+backupList)
	must(t, err)
	putMarks(t, s, 20, 40)
	must(t, s.Close())
	must(t, mem.Remove("/data/journal/generation-1.journal"))
	must(t, mem.Remove("/data/receivers/a.spool"))
	writeMem(t, mem, "/data/journal/acknowledged", "2")
	writeMem(t, mem, "/data/journal/generation-2.journal", "two and more")
	writeMem(t, mem, "/data/journal/generation-3.journal", "three")
	second := cloned(t, mem, "/data", "/kept")

	for _, c := range []struct {
		name string
		from *vfs.MemFS
		old  string // the list before
	}{{"first", first, ""}, {"incremental", second, string(old)}} {
		t.Run(c.name, func(t *testing.T) {
			whole, n := false, int64(0)
			for kept := 0; !whole; n++ {
				disk := cloned(t, c.from, "/data", "/kept")
				fsys, stopped := stopAfter(disk, n)
				_, _, err := makeBackup(ctx, fsys, "/data", "/kept", "")
				if whole = !stopped(); whole != (err == nil) {
					t.Fatalf("stopped after %d writes: %v", n, err)
				}
				for _, left := range []*vfs.MemFS{disk, disk.CrashClone(vfs.CrashCloneCfg{})} {
					b, err := pebblestore.ReadFile(left, "/kept/"+backupList)
					switch {
					case err == nil:
						verified(t, left)
						if string(b) == c.old {
							kept++
						}
					case c.old != "" || !errors.Is(err, fs.ErrNotExist):
						t.Fatalf("after %d writes: %v", n, err)
					}
					// A killed program holds no lock.
					again := cloned(t, left, "/data", "/kept")
					if _, _, err := makeBackup(ctx, again, "/data", "/kept", ""); err != nil {
						t.Fatalf("after %d writes: the next backup: %v", n, err)
					}
					list := verified(t, again)
					if have, want := memFiles(t, again, "/kept"), len(list.Files)+2; len(have) != want {
						t.Fatalf("after %d writes: %d files, want %d: %q", n, len(have), want, have)
					}
				}
				if whole && c.old != "" && kept < 10 {
					t.Errorf("the backup before was there %d times", kept)
				}
			}
			t.Logf("stopped after each of %d writes", n-1)
		})
	}
}

func memFiles(t *testing.T, fsys vfs.FS, dir string) (out []string) {
	t.Helper()
	names, err := fsys.List(dir)
	must(t, err)
	for _, n := range names {
		path := fsys.PathJoin(dir, n)
		info, err := fsys.Stat(path)
		must(t, err)
		if info.IsDir() {
			out = append(out, memFiles(t, fsys, path)...)
		} else {
			out = append(out, path)
		}
	}
	return out
}

// Wherever a restore is stopped, no server starts on what is not whole, and
// the next restore into the same directory ends it.
func TestRestoreStoppedAnywhere(t *testing.T) {
	ctx, mem := t.Context(), vfs.NewMem()
	s := memStore(t, mem, "/data/store")
	putMarks(t, s, 0, 20)
	writeMem(t, mem, "/data/journal/generation-2.journal", "two")
	_, _, err := makeBackup(ctx, mem, "/data", "/kept", "")
	must(t, err)
	must(t, s.Close())
	quiet := streams{out: new(bytes.Buffer), err: new(bytes.Buffer)}
	marks := func(fsys vfs.FS) int {
		s, err := pebblestore.Open(ctx, pebblestore.Options{FS: fsys, Dir: "/back/store"})
		if err != nil {
			return -1
		}
		defer s.Close()
		all, err := store.Marks(ctx, s, time.Unix(0, 0), time.Unix(1000, 0))
		must(t, err)
		return len(all)
	}
	refused, n := 0, int64(0)
	for whole := false; !whole; n++ {
		disk := cloned(t, mem, "/kept")
		fsys, stopped := stopAfter(disk, n)
		err := restore(ctx, fsys, "/kept", "/back", "", false, quiet)
		if whole = !stopped(); whole != (err == nil) {
			t.Fatalf("stopped after %d writes: %v", n, err)
		}
		for _, left := range []*vfs.MemFS{disk, disk.CrashClone(vfs.CrashCloneCfg{})} {
			if names, _ := left.List("/back/store"); len(names) > 0 {
				switch got := marks(cloned(t, left, "/back")); got {
				case -1:
					refused++
				case 20:
					continue // the store is whole
				default:
					t.Fatalf("after %d writes a server starts with %d of 20 marks", n, got)
				}
			}
			again := cloned(t, left, "/kept", "/back")
			if err := restore(ctx, again, "/kept", "/back", "", false, quiet); err != nil {
				t.Fatalf("after %d writes: the next restore: %v", n, err)
			}
			if got := marks(again); got != 20 {
				t.Fatalf("after %d writes: %d of 20 marks restored", n, got)
			}
			if _, err := again.Stat("/back/" + server.RestoringDir); err == nil {
				t.Fatalf("after %d writes: %s is left", n, server.RestoringDir)
			}
		}
	}
	if refused == 0 {
		t.Error("no start was refused")
	}
}

// A restore into ClickHouse goes on until it has ended, whatever it has moved into place, and
// not once it has.
func TestRestoreIntoClickHouseGoesOn(t *testing.T) {
	mem := vfs.NewMem()
	for _, name := range []string{"LOCK", "journal/generation-2.journal", server.NameFile, server.RestoringDir + "/whole/store/000001.log"} {
		writeMem(t, mem, "/back/"+name, "")
	}
	must(t, restorable(mem, "/back"))
	must(t, removeMoved(mem, "/back"))
	left, err := mem.List("/back")
	must(t, err)
	if slices.Sort(left); !slices.Equal(left, []string{server.RestoringDir, "LOCK"}) {
		t.Errorf("before it goes on there are %q", left)
	}
	writeMem(t, mem, "/back/"+server.NameFile, "")
	must(t, mem.RemoveAll("/back/"+server.RestoringDir))
	if err := restorable(mem, "/back"); err == nil {
		t.Error("a restore over a server's directory is not refused")
	}
}

// A directory that exists stays: it may be a mount point, or a link names it.
// Nothing is written beside it.
func TestRestoreIntoDirectoryThatExists(t *testing.T) {
	data, s := dataDir(t)
	kept := filepath.Join(t.TempDir(), "kept")
	if code, _, errs := command(t, "", "backup", "--data", data, "--to", kept); code != exitOK {
		t.Fatal(errs)
	}
	must(t, s.Close())
	for _, way := range []string{"by name", "by a link", "by .", "with lost+found"} {
		t.Run(way, func(t *testing.T) {
			dir := t.TempDir()
			into, arg := dir+"/into", dir+"/into"
			must(t, os.Mkdir(into, 0o700))
			want := []string{into}
			switch way {
			case "by a link":
				arg = dir + "/link"
				must(t, os.Symlink(into, arg))
				want = append(want, arg)
			case "by .":
				arg = "."
				t.Chdir(into)
			case "with lost+found":
				must(t, os.Mkdir(into+"/lost+found", 0o700))
			}
			before, err := os.Stat(into)
			must(t, err)
			if code, _, errs := command(t, "", "restore", "--from", kept, "--data", arg); code != exitOK {
				t.Fatalf("exit %d, %s", code, errs)
			}
			if after, err := os.Stat(into); err != nil || !os.SameFile(before, after) {
				t.Error("the directory was replaced")
			}
			if got := glob(t, dir, "*"); !slices.Equal(got, want) {
				t.Errorf("there are %q, want %q", got, want)
			}
			if left := glob(t, into, ".restor*"); len(left) > 0 {
				t.Errorf("left: %q", left)
			}
			if n := marksOf(t, into); n != 50 {
				t.Errorf("%d marks restored, want 50", n)
			}
		})
	}
}

// A backup is not served, repaired or backed up in the place of a data directory.
func TestBackupIsNotADataDirectory(t *testing.T) {
	data, st := dataDir(t)
	if err := st.Close(); err != nil {
		t.Fatal(err)
	}
	to := filepath.Join(t.TempDir(), "backup")
	if code, _, errs := command(t, "", "backup", "--data", data, "--to", to); code != 0 {
		t.Fatal(errs)
	}
	for _, args := range [][]string{
		{"serve", "--listen", "127.0.0.1:0", "--otlp-grpc", "", "--otlp-http", ""}, {"doctor"}, {"doctor", "--repair", "--yes"}, {"backup", "--to", data},
	} {
		before := glob(t, to, "*", "*")
		code, _, errs := command(t, "", append(args, "--data", to)...)
		if code != exitUsage || !strings.Contains(errs, to+" is a backup, not a data directory") {
			t.Errorf("%s: exit code %d, %s", args, code, errs)
		}
		if after := glob(t, to, "*", "*"); !slices.Equal(before, after) {
			t.Errorf("%s: changed the backup from %s to %s", args, before, after)
		}
	}
}

// What a store has lost stays in its backup until the loss is acknowledged.
func TestBackupOutlivesALoss(t *testing.T) {
	data, st := dataDir(t)
	if err := st.Close(); err != nil {
		t.Fatal(err)
	}
	to := filepath.Join(t.TempDir(), "backup")
	backUp := func(wantCode int, want string) {
		t.Helper()
		if code, out, errs := command(t, "", "backup", "--data", data, "--to", to); code != wantCode || !strings.Contains(out+errs, want) {
			t.Fatalf("exit code %d, %s%s", code, out, errs)
		}
	}
	backUp(exitOK, "copied")
	if err := os.Remove(glob(t, data, "store", "*.sst")[0]); err != nil {
		t.Fatal(err)
	}
	if n := marksOf(t, data); n != 0 { // a start that puts the loss on record
		t.Fatalf("%d marks are there without their table", n)
	}
	backUp(exitFailed, "hint: put the backup back with tailscope restore")
	again := filepath.Join(t.TempDir(), "again")
	if code, _, errs := command(t, "", "restore", "--from", to, "--data", again); code != exitOK || marksOf(t, again) != 50 {
		t.Fatalf("exit code %d, %d marks restored, %s", code, marksOf(t, again), errs)
	}
	if code, _, errs := command(t, "", "doctor", "--data", data, "--repair", "--yes"); code != exitOK {
		t.Fatal(errs)
	}
	backUp(exitOK, "copied")
}

// A backup holds what receivers have not taken, in directories of their own; and what
// a user keeps beside it is left alone.
func TestBackupOfSpools(t *testing.T) {
	ctx, mem := t.Context(), vfs.NewMem()
	s := memStore(t, mem, "/data/store")
	putMarks(t, s, 0, 3)
	must(t, s.Close())
	writeMem(t, mem, "/data/receivers/r-mail/events/0000000000000001.spool", "waits")
	_, _, err := makeBackup(ctx, mem, "/data", "/kept", "")
	must(t, err)
	writeMem(t, mem, "/kept/backup-of-march/BACKUP.json", "mine")
	_, _, err = makeBackup(ctx, mem, "/data", "/kept", "")
	must(t, err)
	if b, err := pebblestore.ReadFile(mem, "/kept/backup-of-march/BACKUP.json"); err != nil || string(b) != "mine" {
		t.Errorf("what a user keeps there: %q %v", b, err)
	}
	verified(t, mem)
	must(t, restore(ctx, mem, "/kept", "/new", "", true, streams{out: new(bytes.Buffer), err: new(bytes.Buffer)}))
	if b, err := pebblestore.ReadFile(mem, "/new/receivers/r-mail/events/0000000000000001.spool"); err != nil || string(b) != "waits" {
		t.Errorf("the spool after the restore: %q %v", b, err)
	}
}

// What waits for receivers is not lost on the way into ClickHouse, whose servers would drop it.
func TestWaitingMessagesAreNotMoved(t *testing.T) {
	data, s := dataDir(t)
	must(t, s.Close())
	hook := spec.Receiver{Webhook: &spec.Webhook{URL: spec.Text{Plain: "http://127.0.0.1:1"}}}
	n, err := notify.Open(t.Context(), notify.Options{Dir: filepath.Join(data, "receivers"), Receivers: map[string]spec.Receiver{"hook": hook}, Logger: slog.New(slog.DiscardHandler)})
	must(t, err)
	opened := event.Event{Incident: "i", Seq: 1, Kind: event.Opened, To: event.Critical, Time: time.Now()}
	must(t, n.Events(t.Context(), []string{"hook"}, []event.Event{opened}))
	must(t, n.Close(t.Context()))
	kept, moved := filepath.Join(t.TempDir(), "kept"), filepath.Join(t.TempDir(), "moved")
	if code, out, errs := command(t, "", "backup", "--data", data, "--to", kept); code != exitOK {
		t.Fatalf("exit %d, %s%s", code, out, errs)
	}
	before := treeOf(t, kept)
	code, _, errs := command(t, "", "restore", "--from", kept, "--data", moved, "--store", "clickhouse://127.0.0.1:1/moved")
	if code != exitUsage || !strings.Contains(errs, "holds 1 message for receivers") || !strings.Contains(errs, "restore it without --store") {
		t.Errorf("exit %d, %s", code, errs)
	}
	if !maps.Equal(treeOf(t, kept), before) {
		t.Error("the backup has changed")
	}
}

// Observations of a journal that are lost and counted are a loss as any other: the
// journals of the backup before may be the only copy.
func TestBackupIsLeftWhenAJournalLost(t *testing.T) {
	ctx, mem := t.Context(), vfs.NewMem()
	s := memStore(t, mem, "/data/store")
	putMarks(t, s, 0, 3)
	must(t, s.Close())
	writeMem(t, mem, "/data/journal/generation-00000000000000000007.journal", "whole")
	_, _, err := makeBackup(ctx, mem, "/data", "/kept", "")
	must(t, err)
	before := slices.Sorted(slices.Values(memFiles(t, mem, "/kept")))
	o := storeOptions("/data")
	o.FS = mem
	must(t, pebblestore.Remember(o, store.Damage{Part: "journal", File: "/data/journal/generation-00000000000000000007.journal", Reason: "the journal is missing", Observations: 5}))
	must(t, mem.Remove("/data/journal/generation-00000000000000000007.journal"))
	if _, _, err = makeBackup(ctx, mem, "/data", "/kept", ""); !errors.Is(err, errLoss) {
		t.Errorf("got %v, want the backup to be left as it is", err)
	}
	if after := slices.Sorted(slices.Values(memFiles(t, mem, "/kept"))); !slices.Equal(before, after) {
		t.Errorf("files before %q, after %q", before, after)
	}
}
