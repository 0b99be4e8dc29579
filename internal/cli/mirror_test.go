package cli

import (
	"bytes"
	"encoding/json"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"tailscope/api"
	"tailscope/hist"
	"tailscope/internal/mirror/live"
	"tailscope/internal/mirror/record"
)

func spread(seconds ...float64) *hist.Histogram {
	h := hist.New(hist.DefaultSchema)
	for _, s := range seconds {
		_ = h.Record(s)
	}
	return h
}

func sized(width, height int) func() (int, int) { return func() (int, int) { return width, height } }

// sessionState is a session in trouble of every kind.
func sessionState() api.MirrorState {
	none := api.Float(math.NaN())
	return api.MirrorState{
		Mode: "http", Listen: "127.0.0.1:8080",
		Primary: api.MirrorTarget{Name: "primary", Role: "primary", Servers: []api.MirrorServer{{URL: "http://a:8081"}}, Using: 1, Amplify: 1, Diverged: none},
		Shadows: []api.MirrorTarget{
			{Name: "control", Role: "control", Servers: []api.MirrorServer{{URL: "http://c:8081"}}, Using: 1, Amplify: 1, Diverged: none,
				Account: &api.MirrorAccount{Offered: 102_200, Mirrored: 102_200, Answered: 102_200, Paired: 102_190, Unpaired: 10, BufferBound: 1 << 26}},
			{Name: "candidate", Role: "candidate", Using: 2, Amplify: 2.5, Diverged: begin + 60, DivergedWhy: "POST /cart was not copied (queue full)",
				Servers: []api.MirrorServer{{URL: "http://b:8082"}, {URL: "http://b:8083", Down: "connection refused"}, {URL: "http://b:8084"}},
				Account: &api.MirrorAccount{Offered: 255_500, Queued: 12, Dropped: map[string]uint64{"queue_full": 1204, "refused": 3}, Mirrored: 254_281,
					Waiting: 7, Failed: map[string]uint64{"timed_out": 30, "reset": 30}, Answered: 254_214, Pairing: 4, Paired: 254_200, Unpaired: 10, Buffered: 48_128, BufferBound: 1 << 26}},
		},
		Requests: 102_400, Skipped: map[string]uint64{"unsafe": 190, "upgrade": 10}, Failed: map[string]uint64{"reset": 5},
		Settings: api.MirrorSettings{Share: 1},
		Differences: &api.MirrorDifferences{Compared: 1200, Skipped: map[string]uint64{"too_long": 3},
			Rows: []api.MirrorDifference{{Place: "body .price", Real: true}, {Place: "header date"}}},
		Recording: &api.MirrorRecording{Path: "session.rec", Requests: 102_400, Dropped: 8, Bytes: 12_345_678},
	}
}

func sessionFigures() live.Figures {
	return live.Figures{
		Durations: map[string]*hist.Histogram{"primary": spread(0.001, 0.0012, 0.014), "control": spread(0.0011, 0.0013, 0.015), "candidate": spread(0.002, 0.0021, 0.4)},
		Ratios: []live.Ratio{{Variant: "candidate", Against: "control", Hist: spread(1.6, 1.7, 1.8)}, {Variant: "candidate", Against: "primary", Hist: spread(9)},
			{Variant: "control", Against: "primary", Hist: spread(1.1)}},
	}
}

func TestMirrorPicture(t *testing.T) {
	at := time.Unix(begin, 0).UTC()
	v := &mirrorView{title: "mirror of http://a:8081 on 127.0.0.1:8080", began: at, size: sized(200, 50), terminal: true, w: &bytes.Buffer{}}
	quiet := sessionState()
	quiet.Requests = 90_000
	v.measure(moment{at: at.Add(750 * time.Second), state: quiet})
	m := moment{at: at.Add(751 * time.Second), state: sessionState(), figures: sessionFigures(), trouble: "what is measured waits: connection refused"}
	v.measure(m)
	golden(t, "mirror-picture.txt", v.picture(m))
	v.size = sized(80, 50)
	golden(t, "mirror-narrow.txt", v.picture(m))
	golden(t, "mirror-line.txt", v.short(m)+"\n")
	golden(t, "mirror-summary.txt", mirrorSummary(sessionState(), 751*time.Second, &api.MirrorVerdictResponse{Candidates: []api.MirrorVerdict{{
		Headline: "candidate is slower than control: the median request takes 1.7 times as long",
		Measures: []api.MirrorMeasure{{Sentence: "p99 is 2.1 times as high (1.9 to 2.4)"}, {}},
		Caveat:   "the reference answers clients",
	}}}))
}

// Clients chose what stands in a recording: none of it drives the terminal. Of
// one that ends in the middle what there is is told, and that it does.
func TestMirrorShow(t *testing.T) {
	file := filepath.Join(t.TempDir(), "session.rec")
	w, err := record.Create(file, record.Options{Header: record.Header{ID: "x", Name: "cache"}})
	if err != nil {
		t.Fatal(err)
	}
	e := w.Begin()
	e.Method, e.Target, e.Operation, e.Status = "GET", "/", "GET /\x1b[2J", 200
	if !w.Offer(e) {
		t.Fatal("there is no room")
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	show := func(code int) (string, string) {
		t.Helper()
		var out, errs bytes.Buffer
		if got := Run(t.Context(), []string{"mirror", "show", file}, nil, &out, &errs); got != code {
			t.Errorf("ends with %d, want %d: %s", got, code, errs.String())
		}
		return out.String(), errs.String()
	}
	out, _ := show(exitOK)
	if strings.Contains(out, "\x1b") || !strings.Contains(out, `1 GET /\x1b[2J`) || !strings.Contains(out, "requests  1") {
		t.Errorf("got\n%s", out)
	}
	info, err := os.Stat(file)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Fatalf("%v, %v", info, err)
	}
	if err := os.Truncate(file, info.Size()-5); err != nil {
		t.Fatal(err)
	}
	if out, errs := show(exitFailed); !strings.Contains(out, "requests  1") || !strings.Contains(errs, "ends in the middle") {
		t.Errorf("got\n%s%s", out, errs)
	}
}

// Of several candidates each finding says whose it is.
func TestMirrorSummaryNamesCandidates(t *testing.T) {
	got := mirrorSummary(sessionState(), time.Minute, &api.MirrorVerdictResponse{Candidates: []api.MirrorVerdict{
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
	at := time.Unix(begin, 0).UTC()
	v := &mirrorView{title: "mirror", began: at, size: sized(200, 50)}
	s := api.MirrorState{Mode: "http", Settings: api.MirrorSettings{Paused: true, Share: 0.5}, Shadows: []api.MirrorTarget{{Name: "candidate", Role: "candidate", Amplify: 1}}}
	m := moment{at: at, state: s}
	v.measure(m)
	golden(t, "mirror-nothing.txt", v.picture(m)+v.short(m)+"\n"+mirrorSummary(s, 0, nil))
}

// A sum that does not close is said, not hidden.
func TestMirrorSummaryChecksTheSums(t *testing.T) {
	s := sessionState()
	s.Shadows[0].Account.Offered++
	got := mirrorSummary(s, time.Second, nil)
	if !strings.Contains(got, "offered  102,201 = dropped 0 + mirrored 102,200\n  the sum does not close: the parts are 102,200\n") {
		t.Errorf("got\n%s", got)
	}
}

// On a terminal a frame takes the place of the one before it, other text goes
// above, and nothing is wider than the terminal.
func TestMirrorViewRedraws(t *testing.T) {
	var out bytes.Buffer
	at := time.Unix(begin, 0).UTC()
	v := &mirrorView{w: &out, terminal: true, size: sized(60, 12), title: "mirror of a server with a name that is longer than the terminal is wide", began: at}
	v.show(moment{at: at.Add(time.Second), state: sessionState()})
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
	v.show(moment{at: at.Add(2 * time.Second), state: sessionState()})
	if want := "\x1b[" + digits(float64(lines)) + "A\r\x1b[J"; !strings.HasPrefix(out.String(), want) {
		t.Errorf("begins with %q, want %q", out.String()[:20], want)
	}
	out.Reset()
	_, _ = v.Write([]byte("a line of the log\n"))
	if got := out.String(); !strings.Contains(got, "\x1b[Ja line of the log\nmirror of") {
		t.Errorf("got %q", got)
	}
	out.Reset()
	v.close()
	if got := out.String(); !strings.HasSuffix(got, "\x1b[J") {
		t.Errorf("the picture stays: %q", got)
	}
}

// Into a file goes a line every ten seconds, and when something changes.
func TestMirrorViewWritesLines(t *testing.T) {
	var out bytes.Buffer
	at := time.Unix(begin, 0).UTC()
	v := &mirrorView{w: &out, size: sized(60, 12), began: at}
	s := sessionState()
	for i := range 25 {
		if i == 13 {
			s.Settings.Share = 0.5
		}
		s.Requests += 100
		v.show(moment{at: at.Add(time.Duration(i+1) * time.Second), state: s})
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

func TestOTLPAddress(t *testing.T) {
	for _, c := range []struct{ to, listen, want, wantErr string }{
		{"http://127.0.0.1:7099", "127.0.0.1:4318", "http://127.0.0.1:4318", ""},
		{"http://localhost:7099", "127.0.0.1:4318", "http://127.0.0.1:4318", ""},
		{"http://tailscope:7099", "0.0.0.0:4318", "http://tailscope:4318", ""},
		{"https://tailscope/", "[::]:4318", "http://tailscope:4318", ""},
		{"http://[::1]:7099", "[::]:4318", "http://[::1]:4318", ""},
		{"http://tailscope:7099", "10.0.0.5:4318", "http://10.0.0.5:4318", ""},
		{"127.0.0.1:7099", "[::]:4318", "http://127.0.0.1:4318", ""},
		{"http://tailscope:7099", "127.0.0.1:4318", "", "start it with --otlp-http :4318"},
		{"http://tailscope:7099", "", "", "takes no OTLP over HTTP: start it with --otlp-http"},
	} {
		got, err := otlpAddress(c.to, c.listen)
		if got != c.want || (err == nil) != (c.wantErr == "") || err != nil && !strings.Contains(err.Error(), c.wantErr) {
			t.Errorf("%s, %s: got %q, %v", c.to, c.listen, got, err)
		}
	}
}

// What is wrong is said by the name of its flag, all of it at once, and ends with
// the code of wrong use.
func TestMirrorUsage(t *testing.T) {
	file := filepath.Join(t.TempDir(), "f.yaml")
	if err := os.WriteFile(file, []byte("mirror:\n  primary: http://a\n  candidte: http://b\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		args []string
		want []string
	}{
		{nil, []string{"--primary: ", "--candidate: ", "hint: "}},
		{[]string{"--primary", "a:1", "--candidate", "http://b", "--share", "50"}, []string{"--primary: \"a:1\" has no scheme", "--share: 50"}},
		{[]string{"--config", file}, []string{"f.yaml:3:3: unknown key mirror.candidte: did you mean mirror.candidate?"}},
		{[]string{"--primary", "http://a", "--candidate", "http://b", "--to", "tailscope:7099"}, []string{"mirror.to: \"tailscope:7099\" is not a URL"}},
		{[]string{"--share", "half"}, []string{`invalid argument "half" for "--share" flag`}},
		{[]string{"http://a"}, []string{"takes no arguments"}},
		{[]string{"show"}, []string{"needs a recording"}},
		{[]string{"set", "--pause", "--resume"}, []string{"write one of them"}},
	} {
		var out, errs bytes.Buffer
		code := Run(t.Context(), append([]string{"mirror"}, c.args...), nil, &out, &errs)
		for _, w := range c.want {
			if code != exitUsage || !strings.Contains(errs.String(), w) {
				t.Errorf("%q ends with %d:\n%s\nwant %q", c.args, code, errs.String(), w)
			}
		}
	}
	var out, errs bytes.Buffer
	if code := Run(t.Context(), []string{"mirror", "show", filepath.Join(t.TempDir(), "none")}, nil, &out, &errs); code != exitFailed || !strings.Contains(errs.String(), "hint: tailscope mirror --record FILE writes one") {
		t.Errorf("%d: %s", code, errs.String())
	}
}

// fakeSessions is a server with sessions, whose program makes every change at
// the second look.
type fakeSessions struct {
	*httptest.Server
	running []api.Experiment
	change  api.MirrorChange
	looks   int
}

func newFakeSessions(t *testing.T, ids ...string) *fakeSessions {
	s := &fakeSessions{}
	for _, id := range ids {
		state := sessionState()
		s.running = append(s.running, api.Experiment{ID: id, Kind: "mirror", Name: "new cache", State: "running", Mirror: &state})
	}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var body any = api.ExperimentsResponse{Experiments: s.running}
		if id, ok := strings.CutPrefix(r.URL.Path, "/api/v1/experiments/"); ok {
			if id != ids[0] {
				w.WriteHeader(http.StatusNotFound)
				return
			}
			x := &s.running[0]
			if r.Method == http.MethodPatch {
				if err := json.NewDecoder(r.Body).Decode(&s.change); err != nil {
					t.Error(err)
				}
				s.change.Number, s.looks = 7, 0
				body = s.change
			} else {
				if s.change.Stop { // it runs in the session's program, which has ended
					panic(http.ErrAbortHandler)
				}
				if s.looks++; s.looks == 2 && s.change.Number > 0 {
					x.Mirror.Applied = s.change.Number
					if s.change.Share != nil {
						x.Mirror.Settings.Share = *s.change.Share
					}
					x.Mirror.Settings.Paused = s.change.Paused != nil && *s.change.Paused
					for name, c := range s.change.Shadows {
						for i := range x.Mirror.Shadows {
							if x.Mirror.Shadows[i].Name == name {
								if c.Using != nil {
									x.Mirror.Shadows[i].Using = *c.Using
								}
								if c.Amplify != nil {
									x.Mirror.Shadows[i].Amplify = *c.Amplify
								}
							}
						}
					}
				}
				body = x
			}
		}
		_ = json.NewEncoder(w).Encode(body)
	}))
	t.Cleanup(s.Close)
	return s
}

func TestMirrorSet(t *testing.T) {
	for _, c := range []struct {
		args string
		code int
		sent string // the change, as JSON
		want string // in the output, or the error
	}{
		{"--share 0.5 --using candidate=3 --amplify 2", 0, `{"number":7,"share":0.5,"shadows":{"candidate":{"using":3,"amplify":2}}}`,
			"share 0.5; control uses 1 of 1 servers, 1 copies; candidate uses 3 of 3 servers, 2 copies"},
		{"one --pause", 0, `{"number":7,"paused":true}`, "share 1; paused; control"},
		{"one --resume --amplify control=3", 0, `{"number":7,"paused":false,"shadows":{"control":{"amplify":3}}}`, "control uses 1 of 1 servers, 3 copies"},
		{"one --stop", 0, `{"number":7,"stop":true}`, "ended, and with it the server"},
		{"one", 2, "", "nothing is to be changed"},
		{"one --using nobody=1", 2, "", `there is no shadow "nobody"; write one of control, candidate`},
		{"one --using 1.5", 2, "", `"1.5" is no such number`},
		{"one --share 50", 2, "", "write a number from 0 to 1"},
	} {
		s := newFakeSessions(t, "one")
		var out, errs bytes.Buffer
		args := append([]string{"mirror", "set", "--server", s.URL}, strings.Fields(c.args)...)
		code := Run(t.Context(), args, nil, &out, &errs)
		sent := ""
		if s.change.Number > 0 {
			b, err := json.Marshal(s.change)
			if err != nil {
				t.Fatal(err)
			}
			sent = string(b)
		}
		if code != c.code || sent != c.sent || !strings.Contains(out.String()+errs.String(), c.want) {
			t.Errorf("%s: %d, sent %s\n%s%s\nwant %d, %s, %q", c.args, code, sent, out.String(), errs.String(), c.code, c.sent, c.want)
		}
	}
	var out, errs bytes.Buffer
	if code := Run(t.Context(), []string{"mirror", "set", "--server", newFakeSessions(t, "one", "two").URL, "--pause"}, nil, &out, &errs); code != exitUsage || !strings.Contains(errs.String(), "one (new cache), two (new cache)") {
		t.Errorf("%d: %s", code, errs.String())
	}
	errs.Reset()
	if code := Run(t.Context(), []string{"mirror", "set", "--server", newFakeSessions(t).URL, "--pause"}, nil, &out, &errs); code != exitFailed || !strings.Contains(errs.String(), "no mirror session runs") {
		t.Errorf("%d: %s", code, errs.String())
	}
}
