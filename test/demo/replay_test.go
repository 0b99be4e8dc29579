package demo_test

import (
	"compress/gzip"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/labels"

	"tailscope/api"
	"tailscope/internal/judge"
	"tailscope/internal/judge/marks"
	"tailscope/internal/query/querytest"
	"tailscope/internal/series"
	"tailscope/internal/store"
	"tailscope/internal/store/storetest"
)

// recording returns the file of what the shop's own clock said of a run.
func recording(noChange bool) string {
	if noChange {
		return filepath.Join("testdata", "nothing-changed.csv.gz")
	}
	return filepath.Join("testdata", "index-added.csv.gz")
}

// replay judges the mark of a recorded run, four minutes after it by a clock of
// its own.
func replay(t *testing.T, noChange bool) (*api.MarkVerdict, *stopwatch) {
	t.Helper()
	f, err := os.Open(recording(noChange))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	watch, at, err := readStopwatch(z, time.Unix(querytest.Epoch, 0))
	if err != nil {
		t.Fatal(err)
	}
	w, st := querytest.NewWriter(), storetest.NewTwin()
	for operation, laps := range watch.took {
		for _, l := range laps {
			w.Span(l.end.Unix(), labels.FromStrings(series.LabelService, "shop", series.LabelOperation, operation, series.LabelKind, "server",
				series.LabelStatus, "ok", series.LabelComponent, series.ComponentApp), l.seconds)
		}
	}
	m := store.Mark{ID: "1", Name: "recorded", Time: at, Service: "shop"}
	now := at
	judge := marks.New(marks.Options{Around: marks.Around{Store: st}, Now: func() time.Time { return now }})
	if err := w.Put(t.Context(), st, 1); err != nil {
		t.Fatal(err)
	}
	if err := store.PutMark(t.Context(), st, m); err != nil {
		t.Fatal(err)
	}
	for _, now = range []time.Time{at, at.Add(4*time.Minute + 30*time.Second)} {
		if err := judge.Round(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	v, err := judge.Full(t.Context(), m)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%s: %s", v.State, v.Sentence)
	if len(v.Services) != 1 || v.Services[0].Service != "shop" {
		t.Fatalf("services %+v", v.Services)
	}
	return v, watch
}

// The index of a recorded run is judged faster, as it was when it ran.
func TestRecordedIndexIsJudgedFaster(t *testing.T) {
	v, watch := replay(t, false)
	judgedFaster(t, v, watch)
}

// A mark of a recorded run at which nothing was done is not evidence of a change.
func TestRecordedMarkWithoutChangeIsNoEvidence(t *testing.T) {
	v, _ := replay(t, true)
	if v.Verdict != judge.NoEvidence && v.Verdict != judge.Same || len(v.Services[0].Operations) > 0 {
		t.Errorf("judged %s: %s, %+v", v.Verdict, v.Sentence, v.Services[0].Operations)
	}
}
