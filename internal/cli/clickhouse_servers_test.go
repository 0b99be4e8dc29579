//go:build servers

package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"tailscope/internal/server"
	"tailscope/internal/store/pebblestore"
	"tailscope/internal/store/storetest"
	"tailscope/test/program"
)

// A server's data is moved from a directory into ClickHouse and back by backup and restore:
// with the server's name and the directories of receivers, into an empty database only. A
// restore that was interrupted at its end is ended by the same command.
func TestMoveToClickHouse(t *testing.T) {
	c, err := program.StartClickHouse(t.Context(), 1)
	must(t, err)
	t.Cleanup(func() { must(t, c.Close()) })
	address := c.Address("moved")
	dir := t.TempDir()
	open := func(data string) *pebblestore.Store {
		o := storeOptions(data)
		o.ID = 0x0123456789abcdef
		s, err := pebblestore.Open(t.Context(), o)
		must(t, err)
		return s
	}
	data := filepath.Join(dir, "data")
	s := open(data)
	storetest.Everything(t, s)
	must(t, s.Close())
	waits := filepath.Join("receivers", "ops", "1.json")
	must(t, os.MkdirAll(filepath.Join(data, filepath.Dir(waits)), 0o700))
	must(t, os.WriteFile(filepath.Join(data, waits), []byte("{}"), 0o600))
	run := func(want int, args ...string) string {
		t.Helper()
		code, out, errs := command(t, "", args...)
		if code != want {
			t.Fatalf("%s: exit %d, want %d: %s%s", args, code, want, out, errs)
		}
		return errs
	}
	backup, moved := filepath.Join(dir, "backup"), filepath.Join(dir, "moved")
	run(exitOK, "backup", "--data", data, "--to", backup)
	restored := []string{"restore", "--from", backup, "--data", moved, "--store", address}
	run(exitOK, restored...)
	isMoved := func() {
		t.Helper()
		if b, err := os.ReadFile(filepath.Join(moved, waits)); err != nil || string(b) != "{}" {
			t.Errorf("what waits for a receiver: got %q, %v", b, err)
		}
		if name, err := server.ReadName(moved); err != nil || name != storetest.CopiedServer {
			t.Errorf("got the name %q, %v, want %s", name, err, storetest.CopiedServer)
		}
		if _, err := os.Stat(filepath.Join(moved, server.RestoringDir)); !os.IsNotExist(err) {
			t.Errorf("the rest of the restore: got %v", err)
		}
	}
	isMoved()
	run(exitUsage, restored...) // the directory is not empty
	other := filepath.Join(dir, "other")
	if said := run(exitUsage, "restore", "--from", backup, "--data", other, "--store", address); !strings.Contains(said, "empty database") {
		t.Errorf("into a database that is not empty: %s", said)
	}
	if _, err := os.Stat(other); !os.IsNotExist(err) {
		t.Errorf("a restore that is refused has written: %v", err)
	}
	must(t, os.MkdirAll(filepath.Join(moved, server.RestoringDir, "whole"), 0o700))
	run(exitOK, restored...)
	isMoved()

	again, back := filepath.Join(dir, "again"), filepath.Join(dir, "back")
	for range 2 { // the first makes no database either
		if said := run(exitFailed, "backup", "--data", moved, "--store", c.Address("none"), "--to", again); !strings.Contains(said, "no tables of Tailscope") {
			t.Errorf("a backup of a database that is not there: %s", said)
		}
	}
	for range 2 { // the second takes the place of the first
		run(exitOK, "backup", "--data", moved, "--store", address, "--to", again)
	}
	run(exitOK, "restore", "--verify", "--from", again, "--data", back)
	s, copied := open(data), open(back)
	if got := copied.Writer(); got != storetest.CopiedServer {
		t.Errorf("the server is %s, want %s", got, storetest.CopiedServer)
	}
	storetest.SameAnswers(t, copied, s)
	must(t, s.Close())
	must(t, copied.Close())
	if _, err := os.Stat(filepath.Join(back, waits)); !os.IsNotExist(err) {
		t.Errorf("what waits for a receiver, which the store has too: %v", err)
	}
}
