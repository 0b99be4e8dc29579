package liveview

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"tailscope/api"
	"tailscope/hist"
	"tailscope/internal/experiment/mirror/live"
	"tailscope/internal/report"
	"tailscope/internal/report/reporttest"
)

func spread(seconds ...float64) *hist.Histogram {
	h := hist.New(hist.DefaultSchema)
	for _, s := range seconds {
		_ = h.Record(s)
	}
	return h
}

func sized(width, height int) func() (int, int) { return func() (int, int) { return width, height } }

func sessionFigures() live.Figures {
	return live.Figures{
		Durations: map[string]*hist.Histogram{"primary": spread(0.001, 0.0012, 0.014), "control": spread(0.0011, 0.0013, 0.015), "candidate": spread(0.002, 0.0021, 0.4)},
		Ratios: []live.Ratio{{Variant: "candidate", Against: "control", Hist: spread(1.6, 1.7, 1.8)}, {Variant: "candidate", Against: "primary", Hist: spread(9)},
			{Variant: "control", Against: "primary", Hist: spread(1.1)}},
	}
}

func TestMirrorPicture(t *testing.T) {
	at := time.Unix(reporttest.Begin, 0).UTC()
	v := &Mirror{Title: "mirror of http://a:8081 on 127.0.0.1:8080", began: at, size: sized(200, 50), terminal: true, w: &bytes.Buffer{}}
	quiet := reporttest.Session()
	quiet.Requests = 90_000
	v.measure(Moment{At: at.Add(750 * time.Second), State: quiet})
	m := Moment{At: at.Add(751 * time.Second), State: reporttest.Session(), Figures: sessionFigures(), Trouble: "what is measured waits: connection refused"}
	v.measure(m)
	reporttest.Golden(t, "mirror-picture.txt", v.picture(m))
	v.size = sized(80, 50)
	reporttest.Golden(t, "mirror-narrow.txt", v.picture(m))
	reporttest.Golden(t, "mirror-line.txt", v.short(m)+"\n")
	reporttest.Golden(t, "mirror-summary.txt", MirrorSummary(reporttest.Session(), 751*time.Second, &api.MirrorVerdictResponse{Candidates: []api.MirrorVerdict{{
		Headline: "candidate is slower than control: the median request takes 1.7 times as long",
		Measures: []api.MirrorMeasure{{Sentence: "p99 is 2.1 times as high (1.9 to 2.4)"}, {}},
		Caveat:   "the reference answers clients",
	}}}))
}

// Of several candidates each finding says whose it is.
func TestMirrorSummaryNamesCandidates(t *testing.T) {
	got := MirrorSummary(reporttest.Session(), time.Minute, &api.MirrorVerdictResponse{Candidates: []api.MirrorVerdict{
		{Candidate: "old", Headline: "p99 is 10 % slower"}, {Candidate: "new", Headline: "p99 is 20 % slower"},
	}})
	for _, want := range []string{"\nold: p99 is 10 % slower\n", "\nnew: p99 is 20 % slower\n"} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is not in\n%s", want, got)
		}
	}
}

// At the beginning there is nothing to divide by, and no target has figures.
func TestMirrorPictureOfNothing(t *testing.T) {
	at := time.Unix(reporttest.Begin, 0).UTC()
	v := &Mirror{Title: "mirror", began: at, size: sized(200, 50)}
	s := api.MirrorState{Mode: "http", Settings: api.MirrorSettings{Paused: true, Share: 0.5}, Shadows: []api.MirrorTarget{{Name: "candidate", Role: "candidate", Amplify: 1}}}
	m := Moment{At: at, State: s}
	v.measure(m)
	reporttest.Golden(t, "mirror-nothing.txt", v.picture(m)+v.short(m)+"\n"+MirrorSummary(s, 0, nil))
}

// A sum that does not close is said, not hidden.
func TestMirrorSummaryChecksTheSums(t *testing.T) {
	s := reporttest.Session()
	s.Shadows[0].Account.Offered++
	got := MirrorSummary(s, time.Second, nil)
	if !strings.Contains(got, "offered  102,201 = dropped 0 + mirrored 102,200\n  the sum does not close: the parts are 102,200\n") {
		t.Errorf("got\n%s", got)
	}
}

// On a terminal a frame takes the place of the one before it, other text goes
// above, and nothing is wider than the terminal.
func TestMirrorViewRedraws(t *testing.T) {
	var out bytes.Buffer
	at := time.Unix(reporttest.Begin, 0).UTC()
	v := &Mirror{w: &out, terminal: true, size: sized(60, 12), Title: "mirror of a server with a name that is longer than the terminal is wide", began: at}
	v.Show(Moment{At: at.Add(time.Second), State: reporttest.Session()})
	first := out.String()
	lines := strings.Count(first, "\n")
	if lines != 11 {
		t.Errorf("%d lines on a terminal of 12:\n%s", lines, first)
	}
	for line := range strings.Lines(first) {
		if n := len([]rune(strings.TrimSuffix(line, "\n"))); n > 59 {
			t.Errorf("%d characters: %s", n, line)
		}
	}
	out.Reset()
	v.Show(Moment{At: at.Add(2 * time.Second), State: reporttest.Session()})
	if want := "\x1b[" + report.Digits(float64(lines)) + "A\r\x1b[J"; !strings.HasPrefix(out.String(), want) {
		t.Errorf("begins with %q, want %q", out.String()[:20], want)
	}
	out.Reset()
	_, _ = v.Write([]byte("a line of the log\n"))
	if got := out.String(); !strings.Contains(got, "\x1b[Ja line of the log\nmirror of") {
		t.Errorf("got %q", got)
	}
	out.Reset()
	v.Close()
	if got := out.String(); !strings.HasSuffix(got, "\x1b[J") {
		t.Errorf("the picture stays: %q", got)
	}
}

// Into a file goes a line every ten seconds, and when something changes.
func TestMirrorViewWritesLines(t *testing.T) {
	var out bytes.Buffer
	at := time.Unix(reporttest.Begin, 0).UTC()
	v := &Mirror{w: &out, size: sized(60, 12), began: at}
	s := reporttest.Session()
	for i := range 25 {
		if i == 13 {
			s.Settings.Share = 0.5
		}
		s.Requests += 100
		v.Show(Moment{At: at.Add(time.Duration(i+1) * time.Second), State: s})
	}
	var times []string
	for line := range strings.Lines(out.String()) {
		times = append(times, strings.Fields(line)[0])
	}
	if got := strings.Join(times, " "); got != "12:00:01 12:00:11 12:00:14 12:00:24" {
		t.Errorf("lines at %s\n%s", got, out.String())
	}
	if !strings.Contains(out.String(), "12:00:11  100 requests/s") {
		t.Errorf("the rate is not that of the time since the last line:\n%s", out.String())
	}
}
