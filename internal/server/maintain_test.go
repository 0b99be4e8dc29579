package server

import (
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"tailscope/internal/series"
	"tailscope/internal/store"
	"tailscope/internal/store/pebblestore"
	"tailscope/internal/store/storetest"
)

// A start with the clock far ahead of the last maintenance keeps what is stored,
// and says so where problems are said.
func TestClockLeapIsSaid(t *testing.T) {
	cfg := testConfig(t.TempDir())
	slot := time.Now().Add(-500*24*time.Hour).Unix() / 10 * 10
	var elapsed time.Duration
	st, err := pebblestore.Open(t.Context(), pebblestore.Options{
		Dir: filepath.Join(cfg.Data, "store"), DamagedDir: filepath.Join(cfg.Data, "damaged"),
		LeapWait: leapWait, Elapsed: func() time.Duration { return elapsed },
	})
	if err != nil {
		t.Fatal(err)
	}
	b := &store.Batch{Writer: "w", Generation: 1, Resolution: series.Base,
		Series: []series.Series{storetest.Span(series.Full, "service", "a")},
		Points: []store.Point{{Slot: slot, Data: storetest.Dist(0.1, 0.2)}}}
	if err := st.Put(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	for range 2 * leapWait / time.Minute {
		if err := st.Maintain(t.Context(), time.Unix(slot, 0).Add(elapsed)); err != nil {
			t.Fatal(err)
		}
		elapsed += time.Minute
	}
	if err := st.Close(); err != nil {
		t.Fatal(err)
	}
	s := start(t, cfg)
	if err := s.store.Maintain(t.Context(), time.Now()); err != nil {
		t.Fatal(err)
	}
	if got := s.leapt(); got < 499*24*time.Hour || got > 501*24*time.Hour {
		t.Errorf("got a leap of %v, want one of 500 days", got)
	}
	code, body := get(t, "http://"+s.Addr()+"/readyz")
	if code != http.StatusOK || !strings.HasPrefix(body, "degraded\nclock: The clock is 499 days ahead of the last maintenance") || !strings.Contains(body, "in 60 minutes of running it is believed") {
		t.Errorf("/readyz answers %d %q, want degraded by a clock that is 499 days ahead", code, body)
	}
	if _, body := get(t, "http://"+s.Addr()+"/metrics"); !strings.Contains(body, "\ntailscope_problems{code=\"clock\"} 1\n") {
		t.Error("/metrics does not count the clock among the problems")
	}
	r, err := s.store.Query(t.Context(), store.Query{Family: series.SpanDuration, Start: slot - 60, End: slot + 60, Schema: 5})
	if err != nil || len(r.Groups) != 1 || r.Groups[0].Points[0].Hist.Count != 2 {
		t.Errorf("got %+v, %v, want the 2 observations that are stored", r, err)
	}
}

// Ordinary stops are not problems, and neither is a clock that is corrected by hours.
func TestClockProblem(t *testing.T) {
	const day = 24 * time.Hour
	for _, c := range []struct {
		leap  clockLeap
		leapt bool
		want  string // begins the text
	}{
		{clockLeap{}, false, ""},
		{clockLeap{Ahead: 60 * day}, true, ""}, // off for weeks
		{clockLeap{Ahead: 90 * day}, true, "The clock is 90 days ahead of the last maintenance of the store."},
		{clockLeap{Ahead: 23 * time.Hour, Running: true}, true, ""},
		{clockLeap{Ahead: 30 * day, Running: true}, true, "The clock is 30 days ahead of the time that has passed."},
	} {
		got := clockProblem(c.leap, c.leapt)
		if (len(got) == 1) != (c.want != "") || len(got) == 1 && (got[0].Code != problemClock || !strings.HasPrefix(got[0].Text, c.want)) {
			t.Errorf("%+v: got %+v, want %q", c.leap, got, c.want)
		}
	}
}
