package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"tailscope/internal/store"
	"tailscope/internal/store/pebblestore"
)

// command runs a command line and returns its exit code and what it wrote.
func command(t *testing.T, in string, args ...string) (code int, out, errs string) {
	t.Helper()
	var o, e bytes.Buffer
	code = Run(t.Context(), args, strings.NewReader(in), &o, &e)
	return code, o.String(), e.String()
}

// dataDir is the data directory of a server that has stopped.
func dataDir(t *testing.T) (data string, s *pebblestore.Store) {
	t.Helper()
	data = filepath.Join(t.TempDir(), "data")
	s, err := pebblestore.Open(t.Context(), storeOptions(data))
	if err != nil {
		t.Fatal(err)
	}
	for i := range 50 {
		if err := store.PutMark(t.Context(), s, store.Mark{ID: fmt.Sprint(i), Time: time.Unix(int64(i), 0), Name: "deploy"}); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Compact(t.Context()); err != nil {
		t.Fatal(err)
	}
	return data, s
}

func glob(t *testing.T, pattern ...string) []string {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(pattern...))
	if err != nil {
		t.Fatal(err)
	}
	return names
}

func marksOf(t *testing.T, data string) int {
	t.Helper()
	s, err := pebblestore.Open(t.Context(), storeOptions(data))
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	marks, err := store.Marks(context.Background(), s, time.Unix(0, 0), time.Unix(1000, 0))
	if err != nil {
		t.Fatal(err)
	}
	return len(marks)
}

func TestDoctor(t *testing.T) {
	data, s := dataDir(t)
	if code, _, errs := command(t, "", "doctor", data); code != exitInUse || !strings.Contains(errs, fmt.Sprintf("in use by a running server (pid %d)", os.Getpid())) || !strings.Contains(errs, "hint: ask its /readyz, or stop it") {
		t.Errorf("of a running server: exit %d, %s", code, errs)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if code, out, errs := command(t, "", "doctor", "--data", data); code != exitOK || !strings.Contains(out, "everything is whole") {
		t.Errorf("whole: exit %d, %s%s", code, out, errs)
	}
	if code, _, _ := command(t, "", "doctor", "--data", filepath.Join(data, "none")); code != exitUsage {
		t.Errorf("no store: exit %d, want %d", code, exitUsage)
	}
	if code, _, _ := command(t, "", "doctor", "--data", data, "--yes"); code != exitUsage {
		t.Errorf("--yes alone: exit %d, want %d", code, exitUsage)
	}
	marker := glob(t, data, "store", "marker.manifest.*")[0]
	if err := os.Remove(marker); err != nil {
		t.Fatal(err)
	}
	if code, _, errs := command(t, "", "serve", "--data", data, "--listen", "127.0.0.1:0", "--otlp-grpc", "127.0.0.1:0", "--otlp-http", "127.0.0.1:0"); code != exitFailed || !strings.Contains(errs, "tailscope doctor --data "+data) {
		t.Errorf("serve: exit %d, %s", code, errs)
	}
	code, out, _ := command(t, "", "doctor", "--data", data, "--json")
	var found examined
	if err := json.Unmarshal([]byte(out), &found); err != nil || code != exitFailed || found.Whole || found.Starts || len(found.Findings) != 1 || found.Findings[0].Repair == "" {
		t.Errorf("as JSON: exit %d, %v, %s", code, err, out)
	}
	if code, out, errs := command(t, "no\n", "doctor", "--data", data, "--repair"); code != exitFailed || !strings.Contains(errs, "nothing was changed") || !strings.Contains(out, "marker") || len(glob(t, data, "store", "marker.manifest.*")) > 0 {
		t.Errorf("without consent: exit %d, %s%s", code, out, errs)
	}
	if code, out, errs := command(t, "y\n", "doctor", "--data", data, "--repair"); code != exitOK || !strings.Contains(out, "everything is whole") {
		t.Errorf("with consent: exit %d, %s%s", code, out, errs)
	}
	if n := marksOf(t, data); n != 50 {
		t.Errorf("%d marks after the repair, want 50", n)
	}
	// What a start has found and put aside is said until it is acknowledged.
	if err := os.Remove(glob(t, data, "store", "*.sst")[0]); err != nil {
		t.Fatal(err)
	}
	marksOf(t, data)
	if code, out, errs := command(t, "", "doctor", "--data", data); code != exitFailed || !strings.Contains(out, "found before: ") {
		t.Errorf("after a start: exit %d, %s%s", code, out, errs)
	}
	if code, out, errs := command(t, "", "doctor", "--data", data, "--repair", "--yes"); code != exitOK || !strings.Contains(out, "everything is whole") {
		t.Errorf("acknowledged: exit %d, %s%s", code, out, errs)
	}
}

// A journal that does not read is named; the server replays what is whole of it.
func TestDoctorNamesDamagedJournals(t *testing.T) {
	data, s := dataDir(t)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	writeJournal(t, data)
	code, out, errs := command(t, "", "doctor", "--data", data)
	if code != exitFailed || !strings.Contains(out, "generation-00000000000000000007.journal") || !strings.Contains(out, "1 journals") {
		t.Errorf("exit %d, %s%s", code, out, errs)
	}
}

// A start goes on without what doctor then must name: a log, the whole store.
func TestDoctorNamesWhatIsGone(t *testing.T) {
	data, s := dataDir(t)
	if err := store.PutMark(t.Context(), s, store.Mark{ID: "late", Time: time.Unix(1, 0), Name: "deploy"}); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	for _, path := range glob(t, data, "store", "*.log") {
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
	}
	if code, out, errs := command(t, "", "doctor", "--data", data); code != exitFailed || !strings.Contains(out, "a log of the store is missing") {
		t.Errorf("without logs: exit %d, %s%s", code, out, errs)
	}
	writeJournal(t, data)
	if err := os.RemoveAll(filepath.Join(data, "store")); err != nil {
		t.Fatal(err)
	}
	if code, out, errs := command(t, "", "doctor", "--data", data); code != exitFailed || !strings.Contains(out, "the store is gone") || !strings.Contains(out, "1 journals") {
		t.Errorf("without a store: exit %d, %s%s", code, out, errs)
	}
}

func writeJournal(t *testing.T, data string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Join(data, "journal"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(data, "journal", "generation-00000000000000000007.journal"), []byte("kept as it is, though it is not a journal that can be read"), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestBackupAndRestore(t *testing.T) {
	data, s := dataDir(t)
	writeJournal(t, data)
	kept := filepath.Join(t.TempDir(), "kept")
	if code, out, errs := command(t, "", "backup", "--data", data, "--to", kept); code != exitOK || strings.Contains(out, " 0 tables copied") {
		t.Fatalf("backup of a running store: exit %d, %s%s", code, out, errs)
	}
	if code, out, errs := command(t, "", "backup", "--data", data, "--to", kept); code != exitOK || !strings.Contains(out, " 0 tables copied") {
		t.Errorf("a second backup: exit %d, %s%s", code, out, errs)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	code, out, errs := command(t, "", "restore", "--from", kept, "--verify")
	if want := regexp.MustCompile(`all of its \d+ files are whole: [1-9]\d* tables? with [\d,]+ keys, \d+ journals? with [\d,]+ observations?\nkeys of the tables, by what they hold:\n(.*\n)* +[\d,]+  marks\n`); code != exitOK || !want.MatchString(out) {
		t.Errorf("verify: exit %d, %s%s, want %v", code, out, errs, want)
	}
	if code, _, errs := command(t, "", "restore", "--from", kept, "--data", data); code != exitUsage || !strings.Contains(errs, "not empty") {
		t.Errorf("restore over data: exit %d, %s", code, errs)
	}
	again := filepath.Join(t.TempDir(), "again")
	if code, out, errs := command(t, "", "restore", "--from", kept, "--verify", "--data", again); code != exitOK {
		t.Fatalf("restore: exit %d, %s%s", code, out, errs)
	}
	if b, err := os.ReadFile(filepath.Join(again, "journal", "generation-00000000000000000007.journal")); err != nil || !strings.HasPrefix(string(b), "kept as it is") {
		t.Errorf("the journal: %q %v", b, err)
	}
	if n := marksOf(t, again); n != 50 {
		t.Errorf("%d marks restored, want 50", n)
	}
	for _, dir := range []string{kept, again} {
		err := filepath.Walk(dir, func(path string, info os.FileInfo, err error) error {
			if err == nil && info.Mode().Perm()&0o077 != 0 {
				t.Errorf("%s has mode %v", path, info.Mode())
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	// Whatever is damaged is named, and nothing is written.
	for _, damage := range []struct {
		file string
		how  func(path string, b []byte) error
		said string
	}{
		{"store/*.sst", func(p string, b []byte) error { b[len(b)/2] ^= 1; return os.WriteFile(p, b, 0o600) }, "checksum"},
		{"backup-*/store/MANIFEST-*", func(p string, b []byte) error { return os.WriteFile(p, b[:len(b)-1], 0o600) }, "bytes"},
		{"backup-*/journal/*", func(p string, _ []byte) error { return os.Remove(p) }, "missing"},
	} {
		path := glob(t, kept, damage.file)[0]
		b, err := os.ReadFile(path)
		if err == nil {
			err = damage.how(path, bytes.Clone(b))
		}
		if err != nil {
			t.Fatal(err)
		}
		other := filepath.Join(t.TempDir(), "other")
		code, _, errs := command(t, "", "restore", "--from", kept, "--data", other)
		if _, err := os.Stat(other); code != exitFailed || !strings.Contains(errs, path) || !strings.Contains(errs, damage.said) || err == nil {
			t.Errorf("%s: exit %d, %s", damage.file, code, errs)
		}
		if err := os.WriteFile(path, b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if code, _, errs := command(t, "", "backup", "--data", data, "--to", filepath.Join(data, "in")); code != exitUsage {
		t.Errorf("into the data directory: exit %d, %s", code, errs)
	}
}
