package logbook

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"tailscope/api"
	"tailscope/internal/judge/legs/legstest"
	"tailscope/internal/query"
	"tailscope/internal/store"
	"tailscope/internal/store/storetest"
)

func benchReport() api.SessionReport {
	nan := api.Float(math.NaN())
	b := &api.BenchResult{
		Format: 1, Name: "search at 500/s", Target: "http://127.0.0.1:8983", Service: "solr", Variant: "docs4", Start: api.Float(epoch), End: nan,
		Plan: api.BenchPlan{Arrivals: "poisson", Protocol: "HTTP/1.1", Connections: 64, Duration: 30}, Asked: 500, Rate: 499.5, Valid: true,
		Headline: "p99 38.1 ms at 500 requests/s",
	}
	b.Latency = api.BenchLatency{Count: 100, Quantiles: map[string]api.Float{"0.99": 0.0381}, Bounds: []api.Float{0.01, 0.02, 0.04}, Counts: []uint64{60, 40}}
	for i := range 40 {
		b.Queries = append(b.Queries, api.BenchQuery{Name: fmt.Sprint("q", i), Latency: b.Latency})
		b.Timeline = append(b.Timeline, api.BenchSlot{Time: api.Float(epoch + int64(i)), Width: 1, Due: 500, P99: 0.03})
	}
	return api.SessionReport{Kind: KindBench, Name: b.Name, Service: b.Service, Start: api.Float(epoch), Bench: b}
}

func experimentReport() api.SessionReport {
	x := &api.Experiment{
		Format: 1, Name: "nginx workers", Hypothesis: "more workers than cores only queue", Service: "nginx", Design: "sweep", Variable: "workers",
		Settings: []api.ExperimentSetting{{Name: "workers=8", Control: true, Values: map[string]string{"workers": "8"}, X: 8}, {Name: "workers=24", Values: map[string]string{"workers": "24"}, X: 24}},
		Start:    api.Float(epoch), End: api.Float(math.NaN()), Stopping: api.ExperimentStopping{Rule: "precision", Measure: "p99", Planned: 12, Done: 3},
		File: "experiment: nginx workers\n", Files: map[string]string{"nginx.yaml": "scenario: nginx\n"}, Verdict: "slower", Headline: "24 workers: p99 9 % slower",
		Progress: "round 4 of 12",
	}
	x.Environment.Configuration = map[string]string{"nginx.conf": "worker_processes 8;"}
	for i := range 6 {
		x.Rounds = append(x.Rounds, api.ExperimentRun{Round: 1 + i/2, Order: 1 + i%2, Setting: x.Settings[i%2].Name, Start: api.Float(epoch), Valid: true,
			Figures: map[string]map[string]api.Float{"": {"p99": 0.01, "rate": 500}, "term": {"p75": 0.008, "p99": 0.01}}})
	}
	x.Rows = []api.ExperimentRow{{Setting: "workers=24", Query: "term", Verdict: "slower", Lead: "p99", Measures: []api.ExperimentMeasure{{Name: "p99", Effect: 1.09, Low: 1.04, High: 1.14}}}}
	return api.SessionReport{Kind: KindExperiment, Name: x.Name, Service: x.Service, Start: api.Float(epoch), Experiment: x}
}

// What is long of a report is written at most every ten seconds and at its
// beginning and end, is not in lists, and not in memory when it is over.
func TestTheLogBook(t *testing.T) {
	ctx, c, st := t.Context(), newClock(), &counting{Store: storetest.NewTwin()}
	o := Options{Store: st, Now: c.read}
	r := New(o)
	for i := range 30 {
		p := experimentReport()
		p.Experiment.Stopping.Done = i
		if _, err := r.Report(ctx, "t1", p); err != nil {
			t.Fatal(err)
		}
		c.forward(time.Second)
	}
	if st.puts != 2*3 { // the record and the details, at 0, 10 and 20 s
		t.Errorf("written %d times in 30 s", st.puts)
	}
	// A server that was killed has it as it was at most ten seconds before.
	x, err := New(o).Get(ctx, "t1")
	if err != nil || x.Experiment == nil || x.Experiment.Stopping.Done < 19 || len(x.Experiment.Rounds) != 6 || x.Experiment.File == "" || x.Headline != "24 workers: p99 9 % slower" {
		t.Fatalf("after it was killed: %+v, %v", x, err)
	}
	last := experimentReport()
	last.Ended, last.Experiment.Stopping.Done, last.Experiment.End = true, 30, api.Float(epoch+30)
	if _, err := r.Report(ctx, "t1", last); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Report(ctx, "b1", benchReport()); err != nil {
		t.Fatal(err)
	}
	if err := r.Round(ctx); err != nil {
		t.Fatal(err)
	}
	if e := r.known["t1"]; e.whole != nil || e.wholeBytes != 0 {
		t.Error("the whole report of one that is over stays in memory")
	}
	for _, r := range []*Registry{r, New(o)} {
		list, err := r.List(ctx, ListRequest{Start: time.Unix(0, 0), End: time.Unix(1<<40, 0)})
		if err != nil || list.Total != 2 {
			t.Fatalf("%d listed, %v", list.Total, err)
		}
		b, _ := json.Marshal(list)
		if len(b) > 8<<10 || strings.Contains(string(b), "null,null") || strings.Contains(string(b), `:null,"invalid`) {
			t.Errorf("a list of %d bytes: %s", len(b), b)
		}
		for _, x := range list.Sessions {
			switch {
			case x.Experiment != nil && (x.Experiment.File != "" || len(x.Experiment.Rounds) > 0 || len(x.Experiment.Settings) != 2):
				t.Errorf("listed: %+v", x.Experiment)
			case x.Bench != nil && (len(x.Bench.Queries) > 0 || len(x.Bench.Latency.Counts) > 0 || x.Bench.Latency.Quantiles["0.99"] != 0.0381):
				t.Errorf("listed: %+v", x.Bench)
			}
		}
		x, err := r.Get(ctx, "t1")
		if err != nil || x.State != Ended || x.Experiment.Stopping.Done != 30 || x.Experiment.Files["nginx.yaml"] == "" {
			t.Errorf("%+v, %v", x, err)
		}
		if x, err = r.Get(ctx, "b1"); err != nil || len(x.Bench.Queries) != 40 || len(x.Bench.Latency.Counts) != 2 {
			t.Errorf("%+v, %v", x, err)
		}
	}
	_, err = r.Verdict(ctx, VerdictRequest{ID: "t1"})
	fails(t, "the verdict of no session", err, query.CodeInvalid, "id")
	if err := r.Forget(ctx, "t1"); err != nil {
		t.Fatal(err)
	}
	if err := st.ListRecords(ctx, detailKind, "t1", func(r store.Record) error { return fmt.Errorf("%s is left", r.Key) }); err != nil {
		t.Error(err)
	}
	c.forward(time.Minute) // b1 stops reporting
	if err := r.Round(ctx); err != nil {
		t.Fatal(err)
	}
	if x, err := r.Get(ctx, "b1"); err != nil || x.State != Lost || len(x.Bench.Timeline) != 40 || r.known["b1"].whole != nil {
		t.Errorf("%+v, %v", x, err)
	}
}

func TestSearch(t *testing.T) {
	ctx, c := t.Context(), newClock()
	r := New(Options{Store: storetest.NewTwin(), Now: c.read})
	for id, p := range map[string]api.SessionReport{"m": report(epoch), "b": benchReport(), "t": experimentReport()} {
		if _, err := r.Report(ctx, id, p); err != nil {
			t.Fatal(err)
		}
	}
	for search, want := range map[string]string{
		"":                 "b m t",
		"only QUEUE":       "t", // hypothesis
		"workers=24":       "t", // a setting
		"9 % slower":       "t", // headline
		"queue cache":      "",
		"solr":             "b",
		"docs4 127.0.0.1":  "b",
		"shop":             "m",
		"candidate":        "m",
		"workers workers ": "t",
	} {
		out, err := r.List(ctx, ListRequest{Search: search, Start: time.Unix(0, 0), End: time.Unix(1<<40, 0)})
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, x := range out.Sessions {
			got = append(got, x.ID)
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%q finds %v, want %s", search, got, want)
		}
	}
	out, err := r.List(ctx, ListRequest{Kind: KindBench, Start: time.Unix(0, 0), End: time.Unix(1<<40, 0)})
	if err != nil || out.Total != 1 || out.Sessions[0].ID != "b" {
		t.Errorf("%+v, %v", out, err)
	}
	out, err = r.List(ctx, ListRequest{Limit: 2, Start: time.Unix(0, 0), End: time.Unix(1<<40, 0)})
	if err != nil || out.Total != 3 || len(out.Sessions) != 2 {
		t.Errorf("%+v, %v", out, err)
	}
	_, err = r.List(ctx, ListRequest{Search: strings.Repeat("x", 257), Start: time.Unix(0, 0), End: time.Unix(1<<40, 0)})
	fails(t, "a long search", err, query.CodeInvalid, "q")
}

// Stop is said with every reply until the end, and survives a restart.
func TestStop(t *testing.T) {
	ctx, c, st := t.Context(), newClock(), storetest.NewTwin()
	o := Options{Store: st, Now: c.read}
	r := New(o)
	for id, p := range map[string]api.SessionReport{"b": benchReport(), "t": experimentReport()} {
		if reply, err := r.Report(ctx, id, p); err != nil || reply.Stop {
			t.Fatalf("%+v, %v", reply, err)
		}
		share := api.Float(0.5)
		_, err := r.Change(ctx, id, api.MirrorChange{Share: &share, Stop: true})
		fails(t, "a share of a run", err, query.CodeInvalid, "body")
		if _, err := r.Change(ctx, id, api.MirrorChange{Stop: true}); err != nil {
			t.Fatal(err)
		}
		for _, r := range []*Registry{r, New(o), r} {
			if reply, err := r.Report(ctx, id, p); err != nil || !reply.Stop {
				t.Errorf("%s: %+v, %v", id, reply, err)
			}
		}
		p.Ended = true
		if reply, err := r.Report(ctx, id, p); err != nil || reply.Stop {
			t.Errorf("%s ended: %+v, %v", id, reply, err)
		}
	}
}

func TestDocumentsThatAreRefused(t *testing.T) {
	ctx, c := t.Context(), newClock()
	r := New(Options{Store: storetest.NewTwin(), Now: c.read})
	inf := api.Float(math.Inf(1))
	for _, tc := range []struct {
		field string
		b     func(*api.BenchResult)
		x     func(*api.Experiment)
	}{
		{field: "bench.plan.arrivals", b: func(b *api.BenchResult) { b.Plan.Arrivals = "constnat" }},
		{field: "bench.rate", b: func(b *api.BenchResult) { b.Rate = inf }},
		{field: "bench.queries[3].latency", b: func(b *api.BenchResult) { b.Queries[3].Latency.Counts = []uint64{1, 2, 3} }},
		{field: "bench.queries[3].latency.quantiles.0.5", b: func(b *api.BenchResult) { b.Queries[3].Latency.Quantiles = map[string]api.Float{"0.5": -inf} }},
		{field: "bench.resources[0]", b: func(b *api.BenchResult) { b.Resources = []api.BenchResource{{Times: []api.Float{1}}} }},
		{field: "bench.start", b: func(b *api.BenchResult) { b.Start = 0 }},
		{field: "bench.end", b: func(b *api.BenchResult) { b.End = api.Float(epoch - 1) }},
		{field: "bench.account.failed", b: func(b *api.BenchResult) { b.Account.Failed = map[string]uint64{strings.Repeat("x", 2000): 1} }},
		{field: "experiment.design", x: func(x *api.Experiment) { x.Design = "sweeps" }},
		{field: "experiment.stopping.rule", x: func(x *api.Experiment) { x.Stopping.Rule = "" }},
		{field: "experiment.verdict", x: func(x *api.Experiment) { x.Verdict = "fast" }},
		{field: "experiment.settings", x: func(x *api.Experiment) { x.Settings = nil }},
		{field: "experiment.settings", x: func(x *api.Experiment) { x.Settings = make([]api.ExperimentSetting, 257) }},
		{field: "experiment.settings[1].name", x: func(x *api.Experiment) { x.Settings[1].Name = "workers=8" }},
		{field: "experiment.settings[1].name", x: func(x *api.Experiment) { x.Settings[1].Name = "" }},
		{field: "experiment.rounds[2].setting", x: func(x *api.Experiment) { x.Rounds[2].Setting = "workers=9" }},
		{field: "experiment.rows[0].setting", x: func(x *api.Experiment) { x.Rows[0].Setting = "workers=9" }},
		{field: "experiment.rows[0].measures[0].low", x: func(x *api.Experiment) { x.Rows[0].Measures[0].Low = -inf }},
		{field: "experiment.curves[0].points", x: func(x *api.Experiment) {
			x.Curves = []api.ExperimentCurve{{Points: []api.ExperimentCurvePoint{{Setting: "workers=9"}}}}
		}},
		{field: "experiment.rounds[0].figures.term.p99", x: func(x *api.Experiment) { x.Rounds[0].Figures["term"]["p99"] = inf }},
	} {
		p := benchReport()
		if tc.x != nil {
			p = experimentReport()
			tc.x(p.Experiment)
		} else {
			tc.b(p.Bench)
		}
		_, err := r.Report(ctx, "x", p)
		fails(t, tc.field, err, query.CodeInvalid, tc.field)
	}
	for kind, p := range map[string]api.SessionReport{"bench": benchReport(), "experiment": experimentReport()} {
		p.Bench, p.Experiment, p.Mirror = nil, nil, legstest.State()
		_, err := r.Report(ctx, "x", p)
		fails(t, "no "+kind, err, query.CodeInvalid, kind)
	}
}

// What is too long is cut in order of how little it is missed, and that is said.
func TestLongDocumentsAreCut(t *testing.T) {
	ctx, c := t.Context(), newClock()
	r := New(Options{Store: storetest.NewTwin(), Now: c.read})
	p := benchReport()
	p.Bench.Timeline = nil
	for i := range 9001 {
		s := api.BenchSlot{Time: api.Float(epoch + int64(i)), Width: 1, Due: 500, Answered: 499, Waiting: uint64(i), P99: api.Float(math.NaN())}
		if i == 4444 {
			s.P99, s.Max = 1.5, 2
		}
		p.Bench.Timeline = append(p.Bench.Timeline, s)
	}
	p.Bench.Events = []api.BenchEvent{{Time: api.Float(epoch), Kind: "command", Text: "\x1b[31m\u202e" + strings.Repeat("é", 9999)}}
	x := reported(ctx, t, r, "b", p)
	var due uint64
	worst := api.Float(0)
	for _, s := range x.Bench.Timeline {
		due += s.Due
		worst = higher(worst, s.P99)
	}
	if n := len(x.Bench.Timeline); n > keptSlots || n < keptSlots/2 || due != 500*9001 || worst != 1.5 || len(x.Bench.Queries[0].Latency.Counts) != 0 || len(x.Bench.Latency.Counts) != 2 {
		t.Errorf("%d slots, %d due, the worst %v", n, due, worst)
	}
	if text := x.Bench.Events[0].Text; strings.ContainsAny(text, "\x1b\u202e") || len(text) > maxText+3 || !strings.HasSuffix(text, "é…") {
		t.Errorf("a text of %d bytes, %.20q", len(text), text)
	}
	if got := strings.Join(x.Cut, "; "); !strings.Contains(got, "slots of the time line") || !strings.Contains(got, "distributions of queries") || !strings.Contains(got, "first 4 kB") || strings.Contains(got, "events") {
		t.Errorf("cut: %s", got)
	}

	q := experimentReport()
	q.Experiment.Files["data.csv"] = strings.Repeat("x", maxFile+1)
	for i := range 300 {
		figures := map[string]map[string]api.Float{"": {"p99": 0.012345}}
		for k := range 30 {
			figures[fmt.Sprint("a longer name of a query ", k)] = map[string]api.Float{"p50": 0.0101234, "p75": 0.0101234, "p90": 0.0101234, "p99": 0.0101234, "p999": 0.0101234}
		}
		q.Experiment.Rounds = append(q.Experiment.Rounds, api.ExperimentRun{Round: i, Setting: "workers=8", Figures: figures})
	}
	x = reported(ctx, t, r, "t", q)
	if len(x.Experiment.Rounds) != 306 || x.Experiment.Rounds[100].Figures[""]["p99"] != 0.012345 || x.Experiment.Files["nginx.yaml"] == "" || x.Experiment.Files["data.csv"] != "" {
		t.Errorf("%d rounds, %v, files %d", len(x.Experiment.Rounds), x.Experiment.Rounds[100].Figures, len(x.Experiment.Files))
	}
	if got := strings.Join(x.Cut, "; "); !strings.Contains(got, "experiment.files.data.csv, of 262145 bytes") || !strings.Contains(got, "of rounds, figures of single queries") {
		t.Errorf("cut: %s", got)
	}
	if b, _ := json.Marshal(x); len(b) > maxWhole+4096 {
		t.Errorf("%d bytes are kept", len(b))
	}

	for range 9000 {
		q.Experiment.Settings[0].Values[fmt.Sprint("v", len(q.Experiment.Settings[0].Values))] = strings.Repeat("v", 200)
	}
	_, err := r.Report(ctx, "t", q)
	fails(t, "what cannot be cut", err, query.CodeInvalid, "body")
}

func reported(ctx context.Context, t *testing.T, r *Registry, id string, p api.SessionReport) *api.Session {
	t.Helper()
	if _, err := r.Report(ctx, id, p); err != nil {
		t.Fatal(err)
	}
	x, err := r.Get(ctx, id)
	if err != nil {
		t.Fatal(err)
	}
	return x
}

// The log book has an end in the store too.
func TestDetailsAreBounded(t *testing.T) {
	ctx, c, st := t.Context(), newClock(), storetest.NewTwin()
	one, err := json.Marshal(experimentReport())
	if err != nil {
		t.Fatal(err)
	}
	o := Options{Store: st, Now: c.read, MostDetails: 4 * (len(one) + 20)}
	r := New(o)
	for i := range 10 {
		p := experimentReport()
		p.Ended = true
		if _, err := r.Report(ctx, fmt.Sprint("t", i), p); err != nil {
			t.Fatal(err)
		}
		c.forward(time.Second)
		if err := r.Round(ctx); err != nil {
			t.Fatal(err)
		}
	}
	var kept []string
	if err := st.ListRecords(ctx, detailKind, "", func(r store.Record) error { kept = append(kept, r.Key); return nil }); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(kept, []string{"t5", "t6", "t7", "t8", "t9"}) && !slices.Equal(kept, []string{"t6", "t7", "t8", "t9"}) {
		t.Errorf("kept: %v", kept)
	}
	if s := New(o); s.Load(ctx) != nil || s.Stats().Kept != len(kept) || s.Stats().Bytes < len(kept)*len(one) {
		t.Errorf("%+v", s.Stats())
	}
}

// The end of a run is not said to be kept unless what came of it is.
func TestAnEndThatCannotBeWritten(t *testing.T) {
	ctx, c := t.Context(), newClock()
	st := &failing{Store: storetest.NewTwin()}
	r := New(Options{Store: st, Now: c.read})
	if _, err := r.Report(ctx, "t", experimentReport()); err != nil {
		t.Fatal(err)
	}
	last := experimentReport()
	last.Ended, last.Experiment.Stopping.Done = true, 12
	for _, kind := range []string{detailKind, recordKind} {
		st.kind = kind
		if _, err := r.Report(ctx, "t", last); err == nil {
			t.Errorf("ended without %s", kind)
		}
	}
	st.kind = ""
	if _, err := r.Report(ctx, "t", last); err != nil {
		t.Fatal(err)
	}
	if x, err := New(Options{Store: st, Now: c.read}).Get(ctx, "t"); err != nil || x.State != Ended || x.Experiment.Stopping.Done != 12 {
		t.Errorf("%+v, %v", x, err)
	}
}

// failing refuses records of one kind.
type failing struct {
	store.Store
	kind string
}

func (f *failing) PutRecords(ctx context.Context, kind string, writes ...store.RecordWrite) (uint64, error) {
	if kind == f.kind {
		return 0, store.ErrFull
	}
	return f.Store.PutRecords(ctx, kind, writes...)
}

// Whatever a program sends is refused, or kept and answered as JSON.
func FuzzDocuments(f *testing.F) {
	for _, p := range []api.SessionReport{benchReport(), experimentReport()} {
		b, err := json.Marshal(p)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Add([]byte(`{"kind":"bench","name":"x","service":"s","start":1,"bench":{"start":1,"end":null,"plan":{"arrivals":"closed"},"queries":[{"latency":{"counts":[1]}}]}}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		var p api.SessionReport
		if json.Unmarshal(b, &p) != nil || p.Kind == KindMirror {
			return
		}
		ctx, c := t.Context(), newClock()
		r := New(Options{Store: storetest.NewTwin(), Now: c.read})
		if _, err := r.Report(ctx, "x", p); err != nil {
			if query.AsError(err) == nil {
				t.Fatal(err)
			}
			return
		}
		c.forward(time.Minute)
		if err := r.Round(ctx); err != nil {
			t.Fatal(err)
		}
		x, err := r.Get(ctx, "x")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := json.Marshal(x); err != nil {
			t.Fatal(err)
		}
	})
}

// A time line that is cut keeps what is counted and the worst that was seen.
func TestCutTimeline(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(keptSlots+1, 5*keptSlots).Draw(t, "slots")
		p := benchReport()
		p.Bench.Timeline = make([]api.BenchSlot, n)
		worst, errors := api.Float(math.NaN()), uint64(0)
		for i := range p.Bench.Timeline {
			s := api.BenchSlot{Time: api.Float(i), Width: 1, Errors: uint64(i % 3), Max: api.Float(math.NaN())}
			if i%7 == 0 {
				s.Max = api.Float(rapid.Float64Range(0, 9).Draw(t, "max"))
			}
			worst, errors = higher(worst, s.Max), errors+s.Errors
			p.Bench.Timeline[i] = s
		}
		cutTimeline(&p)
		width := api.Float(0)
		for i, s := range p.Bench.Timeline {
			if s.Time != width {
				t.Fatalf("slot %d begins at %v, the one before ends at %v", i, s.Time, width)
			}
			width += s.Width
			errors -= s.Errors
		}
		last := api.Float(math.NaN())
		for _, s := range p.Bench.Timeline {
			last = higher(last, s.Max)
		}
		if width != api.Float(n) || errors != 0 || last != worst {
			t.Fatalf("%v wide of %d, %d errors lost, worst %v of %v", width, n, errors, last, worst)
		}
	})
}

// What an older version has kept of an experiment is read: its document was under
// trial, and the session of a setting on live traffic under experiment.
func TestRecordsOfOlderVersions(t *testing.T) {
	ctx, c, st := t.Context(), newClock(), storetest.NewTwin()
	p := experimentReport()
	p.Ended, p.Experiment.Settings[0].Session = true, "s1"
	whole, err := json.Marshal(p)
	if err != nil {
		t.Fatal(err)
	}
	listed, err := json.Marshal(brief(p))
	if err != nil {
		t.Fatal(err)
	}
	older := strings.NewReplacer(`"experiment":{"format"`, `"trial":{"format"`, `"session":"s1"`, `"experiment":"s1"`).Replace
	for kind, value := range map[string]string{
		"experiments":        fmt.Sprintf(`{"id":"old","report":%s,"updated":%q,"headline":"24 workers: p99 9 %% slower","details":%d}`, listed, c.read().Format(time.RFC3339), len(whole)),
		"experiment-details": string(whole),
	} {
		if value = older(value); strings.Count(value, `"trial":{`) != 1 || strings.Count(value, `"experiment":"s1"`) != 1 {
			t.Fatalf("not as an older version wrote it: %s", value)
		}
		if _, err := st.PutRecords(ctx, kind, store.RecordWrite{Key: "old", Value: []byte(value), IfRevision: store.AnyRevision}); err != nil {
			t.Fatal(err)
		}
	}
	r := New(Options{Store: st, Now: c.read})
	out, err := r.List(ctx, ListRequest{Kind: KindExperiment, Search: "queue 24", Start: c.read().Add(-time.Hour), End: c.read().Add(time.Hour)})
	if err != nil || out.Total != 1 {
		t.Fatalf("listed %+v, %v", out, err)
	}
	if x := out.Sessions[0].Experiment; x == nil || x.Stopping.Done != 3 || len(x.Settings) != 2 || x.Settings[0].Session != "s1" || x.Settings[1].X != 24 {
		t.Errorf("listed %+v", x)
	}
	x, err := r.Get(ctx, "old")
	if err != nil || x.State != Ended || x.Experiment == nil || x.Headline != "24 workers: p99 9 % slower" {
		t.Fatalf("got %+v, %v", x, err)
	}
	if e := x.Experiment; len(e.Rounds) != 6 || e.File == "" || e.Settings[0].Session != "s1" || len(e.Rows) != 1 || e.Rows[0].Measures[0].Effect != 1.09 {
		t.Errorf("got %+v", e)
	}
}
