package chstore

import (
	"testing"
	"time"
)

// An epoch that had ended is present again where a program that knows of no end committed from
// it: it is not folded.
func TestPresentEpochsAreNotFolded(t *testing.T) {
	metaOf := func(w writerMeta) *meta {
		return &meta{epochs: 5, writers: map[string]*writerMeta{"w": &w, "other": {Epochs: []epochMeta{{3, 1}, {4, 1}}}}}
	}
	epochs := []epochMeta{{5, 10}}
	seen := seenEpochs{meta: metaOf(writerMeta{Epochs: epochs, Ended: true})}
	for _, c := range []struct {
		name   string
		now    writerMeta
		folded bool
		listed int
	}{
		{"as it was", writerMeta{Epochs: epochs, Ended: true}, true, 2},
		{"present again", writerMeta{Epochs: []epochMeta{{5, 11}}}, false, 1},
		{"another is present", writerMeta{Epochs: []epochMeta{{5, 11}, {6, 1}}}, true, 2},
	} {
		m := metaOf(c.now)
		out, listed := seen.ended(m)
		if out.has(numberOf(5, 11)) != c.folded || listed != c.listed || !out.has(numberOf(3, 1)) || out.has(numberOf(4, 1)) || m.hasPresent(out) {
			t.Errorf("%s: %s are folded, %d listed; present are %v", c.name, encodeMeta(out), listed, m.present())
		}
		if !m.hasPresent(putNumbers{allOf(1, 6)}) {
			t.Errorf("%s: none of %v is present", c.name, m.present())
		}
	}
}

// A writer is gone a day after its last commit. Of one whose records have no moment that is not known.
func TestGone(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	ago := func(d time.Duration) int64 { return now.Add(-d).Unix() }
	for _, c := range []struct {
		name string
		w    writerMeta
		of   uint64
		want bool
	}{
		{"a day ago", writerMeta{At: ago(goneAfter)}, 7, true},
		{"a minute less", writerMeta{At: ago(goneAfter - time.Minute)}, 7, false},
		{"committed since", writerMeta{At: ago(goneAfter)}, 8, false},
		{"ended", writerMeta{At: ago(goneAfter), Ended: true}, 7, false},
		{"of an earlier program", writerMeta{}, 7, false},
	} {
		c.w.Epochs = []epochMeta{{5, 10}}
		m := &meta{writers: map[string]*writerMeta{"w": &c.w}, of: map[string]uint64{prefixWriter + "w": c.of}}
		seen := seenEpochs{meta: &meta{of: map[string]uint64{prefixWriter + "w": 7}}}
		if got := seen.gone(m, "w", now); got != c.want {
			t.Errorf("%s: gone is %v, want %v", c.name, got, c.want)
		}
	}
}
