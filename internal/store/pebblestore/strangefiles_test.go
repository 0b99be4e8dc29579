package pebblestore

import (
	"fmt"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// What is not ours in the directory of damaged files neither keeps a server from
// starting nor is written over.
func TestStrangeFilesInDamaged(t *testing.T) {
	fs := vfs.NewMem()
	check(t, fs.MkdirAll("damaged/old.json", 0o700))
	check(t, writeWhole(fs, "damaged/notes.json", []byte("what we did about it")))
	o := Options{Dir: "data", FS: fs, DamagedDir: "damaged"}
	known, err := KnownDamage(o)
	check(t, err)
	if len(known) != 1 {
		t.Errorf("known: %+v", known)
	}
	check(t, AcknowledgeDamage(o, nil))
	if known, err = KnownDamage(o); err != nil || len(known) > 0 {
		t.Errorf("known after it was acknowledged: %+v %v", known, err)
	}
	found := false
	for _, n := range files(t, fs, "damaged", "", "") {
		b, err := readWhole(fs, "damaged/"+n)
		found = found || err == nil && string(b) == "what we did about it"
	}
	if !found {
		t.Error(fmt.Sprint("the note is gone: ", files(t, fs, "damaged", "", "")))
	}
}
