package pebblestore

import (
	"bytes"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"tailscope/internal/store"
)

// keyRange is the range of keys from from to to, both inclusive, of a table.
type keyRange struct{ from, to []byte }

// A keyArea is a part of the keys with a name for messages.
type keyArea struct {
	prefix []byte
	name   string
	timed  bool  // a time follows the prefix
	length int64 // in seconds, from that time on
}

// recordKinds names the known kinds of records.
var recordKinds = []struct{ kind, name string }{
	{"accesslog", "how far access logs were read"},
	{"changes", "decisions about changes"},
	{"checks", "states and incidents of checks"},
	{"experiment-details", "reports of experiments"},
	{"experiments", "experiments"},
	{store.KindMarks, "marks"},
	{"settings", "settings"},
	{"verdicts", "verdicts of marks"},
}

// otherRecords is the area of every kind, and names kinds that recordKinds lacks.
var otherRecords = keyArea{[]byte{tableRecord}, "records", false, 0}

var keyAreas = func() []keyArea {
	out := []keyArea{
		{[]byte{tableMeta}, "how far rollups and expiry have come", false, 0},
		{[]byte{tableFamily}, "the names of families", false, 0},
		{[]byte{tableWriter}, "the last generation of each writer", false, 0},
		{[]byte{tableState}, "state of writers (running totals, names of tenants)", false, 0},
		{[]byte{tableMark}, "marks as older versions kept them", false, 0},
		{[]byte{tableMarkID}, "ids of marks as older versions kept them", false, 0},
	}
	for _, k := range recordKinds {
		out = append(out, keyArea{recordKey(k.kind, ""), k.name, false, 0})
	}
	out = append(out, otherRecords, keyArea{[]byte{tableIndex}, "labels of series", true, secondsPerDay})
	for tier := range numTiers {
		name := fmt.Sprintf("slots of %v", time.Duration(tierSlot[tier])*time.Second)
		if tier == tierSamples {
			name = "raw samples"
		}
		out = append(out, keyArea{tierPrefix(nil, tier), name, true, tierPart[tier]})
	}
	return append(out,
		keyArea{[]byte{tableTrace}, "kept traces", true, tracePart},
		keyArea{[]byte{tableTraceID}, "ids of kept traces", true, secondsPerDay},
		keyArea{[]byte{tableTraceEntry}, "lists of kept traces", true, tracePart})
}()

// span returns the times of the area that the range may touch; a zero time is unbounded.
func (r keyRange) span(a keyArea) (from, to time.Time, touched bool) {
	if bytes.Compare(r.to, a.prefix) < 0 {
		return from, to, false
	}
	if end := prefixEnd(a.prefix); end != nil && bytes.Compare(r.from, end) >= 0 {
		return from, to, false
	}
	if !a.timed {
		return from, to, true
	}
	at := func(key []byte) (int64, bool) {
		if bytes.HasPrefix(key, a.prefix) && len(key) >= len(a.prefix)+4 {
			return readTime(key[len(a.prefix):]), true
		}
		return 0, false
	}
	if t, ok := at(r.from); ok {
		from = time.Unix(t, 0).UTC()
	}
	if t, ok := at(r.to); ok {
		to = time.Unix(t+a.length, 0).UTC()
	}
	return from, to, true
}

// String lists what the range may hold, in words.
func (r keyRange) String() string { return r.words(nil) }

// words is String with the names of families where they are few. names maps numbers of
// families to names.
func (r keyRange) words(names map[uint32]string) string {
	var out []string
	kinds := 0
	for _, a := range keyAreas {
		from, to, ok := r.span(a)
		switch {
		case !ok || a.name == otherRecords.name && kinds > 0:
			continue
		case a.prefix[0] == tableRecord:
			kinds++
		}
		s := a.name
		if !from.IsZero() {
			s += " from " + from.Format(time.RFC3339)
		}
		if !to.IsZero() {
			s += " until " + to.Format(time.RFC3339)
		}
		out = append(out, s+r.families(a, names))
	}
	if len(out) == 0 {
		return "nothing known"
	}
	return strings.Join(out, ", ")
}

// maxFamilies bounds how many families are named.
const maxFamilies = 5

// families lists the families of an area that the range may touch, or "" if they are
// many.
func (r keyRange) families(a keyArea, names map[uint32]string) string {
	if a.prefix[0] != tableIndex && a.prefix[0] != tablePoints {
		return ""
	}
	first, last := uint32(0), uint32(math.MaxUint32)
	if n := len(a.prefix) + 8; len(r.from) >= n && len(r.to) >= n && bytes.HasPrefix(r.from, a.prefix) && bytes.Equal(r.from[:n-4], r.to[:n-4]) {
		first, last = readUint32(r.from[n-4:])>>2, readUint32(r.to[n-4:])>>2
	}
	var out []string
	for number, name := range names {
		if number >= first && number <= last {
			out = append(out, name)
		}
	}
	if len(out) == 0 || len(out) > maxFamilies {
		return ""
	}
	slices.Sort(out)
	return " of " + strings.Join(out, " and ")
}

// familyNames reads the names of families of a store that is not running, as far as
// tables and logs can be read.
func familyNames(fsys vfs.FS, dir string, m *manifest, logs []*walLog) map[uint32]string {
	names := map[uint32]string{}
	eachStored(fsys, dir, m, logs, []byte{tableFamily}, func(key, value []byte) {
		r := reader{b: value}
		if number := uint32(r.uvarint()); r.err == nil {
			names[number] = string(key[1:])
		}
	})
	return names
}

// back describes what may have reappeared in an older state, if the range held its
// deletion or replacement.
func (r keyRange) back() string {
	if bytes.Compare(r.from, []byte{tableRecord + 1}) < 0 && bytes.Compare(r.to, []byte{tableState}) >= 0 {
		return "; marks that were deleted, and records and running totals that were replaced, may be back as they were"
	}
	return ""
}

// times returns the range of time of all timed areas in the range, or zero times if one
// is unbounded.
func (r keyRange) times() (from, to time.Time) {
	openFrom, openTo := false, false
	for _, a := range keyAreas {
		f, t, ok := r.span(a)
		if !ok || !a.timed {
			continue
		}
		if openFrom = openFrom || f.IsZero(); from.IsZero() || f.Before(from) {
			from = f
		}
		if openTo = openTo || t.IsZero(); t.After(to) {
			to = t
		}
	}
	if openFrom {
		from = time.Time{}
	}
	if openTo {
		to = time.Time{}
	}
	return from, to
}
