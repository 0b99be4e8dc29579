package server

import (
	"io/fs"
	"os"
	"path/filepath"
	"testing"
)

// Everything a server keeps is readable by its owner only, also what an older
// version left readable by others.
func TestDataIsReadableByItsOwnerOnly(t *testing.T) {
	data := filepath.Join(t.TempDir(), "data")
	run := func() {
		s, err := Start(t.Context(), Settings{Config: testConfig(data), Version: "test"})
		if err != nil {
			t.Fatal(err)
		}
		stop(t, s)
	}
	run()
	seen := 0
	walk := func(visit func(path string, info fs.FileInfo)) {
		err := filepath.Walk(data, func(path string, info fs.FileInfo, err error) error {
			if err == nil {
				visit(path, info)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	open := func(path string, info fs.FileInfo) {
		if err := os.Chmod(path, info.Mode().Perm()|0o055); err != nil {
			t.Fatal(err)
		}
	}
	closed := func(path string, info fs.FileInfo) {
		seen++
		if info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s has mode %v", path, info.Mode())
		}
	}
	walk(closed)
	walk(open)
	run()
	walk(closed)
	if seen < 10 {
		t.Errorf("only %d files and directories", seen)
	}
}
