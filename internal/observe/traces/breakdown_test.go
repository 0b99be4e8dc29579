package traces

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"tailscope/internal/series"
	"tailscope/internal/store"
)

// flushed puts a script through an Assembler and returns what came out.
func flushed(t testing.TB, o Options, texts ...string) (*sink, Stats) {
	t.Helper()
	a, s, _ := start(t, o)
	for i, text := range texts {
		a.Add(script(t, a, byte(i+1), text))
	}
	if err := a.Flush(context.Background()); err != nil {
		t.Fatal(err)
	}
	return s, a.Stats()
}

func TestQueue(t *testing.T) {
	s, st := flushed(t, Options{},
		`a - shop server app GET_/ 100-200 queued=80`,
		`a - shop server app GET_/ 100-200 queued=130`,
		`a - shop server app GET_/ 7200000-7200100 queued=100`,
	)
	diff(t, s.dump("self ", series.ClockSkew), `
		clock_skew_seconds{direction="ahead", peer="queue", service="shop"}: 1 in 1h59m59.9s
		clock_skew_seconds{direction="behind", peer="queue", service="shop"}: 1 in 30ms
		self shop GET /  app ok: 3 in 300ms
		self shop GET /  queue ok: 1 in 20ms
	`)
	diffSet(t, counts(s, series.BreakdownSelf, ""), `
		shop app GET / 300000
		shop queue queue 20000
	`)
	if st.QueueSkewed != 2 {
		t.Errorf("%d skewed, want 2", st.QueueSkewed)
	}
}

func TestWeightsMultiply(t *testing.T) {
	s, _ := flushed(t, Options{}, `
		a - shop server app GET_/ 0-100 weight=8
		b a shop client db q 20-60 weight=8`)
	diff(t, s.dump("self ", series.BreakdownRequests), `
		breakdown_requests{cohort="large", operation="GET /", service="shop"}: 8 in 800ms
		self shop GET /  app ok: 8 in 480ms
		self shop GET /  db ok: 8 in 320ms
	`)
	diffSet(t, counts(s, series.BreakdownSelf, ""), "shop app GET / 480000\nshop db q 320000")
	diffSet(t, counts(s, series.BreakdownCalls, ""), "shop app GET / 8\nshop db q 8")
	diffSet(t, counts(s, series.BreakdownWith, ""), "shop app GET / 8\nshop db q 8")
	for k, h := range s.hists {
		if !h.Weighted {
			t.Errorf("%s does not say that it is weighted", k)
		}
		if got, want := h.Effective(), float64(h.Count)/8; got != want {
			t.Errorf("%s: effective %v, want %v of %d", k, got, want, h.Count)
		}
	}
}

func TestRepeatedAndRetriedCalls(t *testing.T) {
	calls := func(n int) string {
		text := "a - shop server app GET_/ 0-100\n"
		for i := range n {
			text += fmt.Sprintf("b%d a shop client db SELECT_x %d-%d failed\n", i, 5*i, 5*i+3)
		}
		return text
	}
	s, _ := flushed(t, Options{}, calls(9), calls(10), calls(12), "a - shop server app GET_/ 0-100")
	diffSet(t, counts(s, series.BreakdownCalls, "SELECT"), "shop db SELECT x 31")
	diffSet(t, counts(s, series.BreakdownWith, "SELECT"), "shop db SELECT x 3")
	diffSet(t, counts(s, series.BreakdownRepeats, ""), "shop db SELECT x 2")
	diffSet(t, counts(s, series.BreakdownSelf, "SELECT"), "shop db SELECT x 93000")
}

func TestFanOut(t *testing.T) {
	s, _ := flushed(t, Options{}, `
		a  - web    server app      GET_/s 0-100 at=w1
		b1 a web    client external search 0-30 at=10.0.0.1
		b2 a web    client external search 0-60 at=10.0.0.2
		b3 a web    client external search 0-40
		c2 b2 shard server app      search 5-55 at=shard-2
		c3 b3 shard server app      search 5-35 at=shard-3
		d1 a web    client external search 70-80 at=10.0.0.1
		e1 a web    client db       SELECT 81-90 at=db1
		e2 a web    client cache    GET    81-95 at=c1
		f1 a web    client external late   90-150 at=f1
		f2 a web    client external late   91-150 at=f2`)
	diffSet(t, counts(s, series.BreakdownFanout, "GET /s"), "web external search 1 on 10.0.0.1\nweb external search 1 on shard-2\nweb external search 1 on shard-3")
	diffSet(t, counts(s, series.BreakdownLast, "GET /s"), "web external search 1 on shard-2")
}

// A request within another has a breakdown of its own, over its own subtree.
func TestEveryRequest(t *testing.T) {
	s, st := flushed(t, Options{}, `
		a - shop  server   app       GET_/   0-100
		b a shop  producer messaging send_x  10-12
		c b mail  consumer app       send_x  50-250 failed
		d c mail  client   external  SMTP    60-240
		e a shop  internal app       render  90-98`)
	diff(t, s.dump("self "), `
		self mail send x  app error: 1 in 20ms
		self mail send x  external error: 1 in 180ms
		self shop GET /  app ok: 1 in 78ms
		self shop GET /  external ok: 1 in 20ms
		self shop GET /  messaging ok: 1 in 2ms
	`)
	diffSet(t, counts(s, series.BreakdownCritical, `operation="send x", p`), "mail app send x 20000\nmail external SMTP 180000\nshop messaging send x 2000") // the last in that of GET /
	diffSet(t, counts(s, series.BreakdownCritical, `operation="GET /", p`), "shop app GET / 90000\nshop app render 8000\nshop messaging send x 2000")
	if st.Requests != 2 || st.Skewed != 0 {
		t.Errorf("%+v", st)
	}
}

// Whatever the trace, the parts of each request sum to its microseconds.
func TestPartsSumToTheRequest(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		spans := drawTree(t)
		s := newSink()
		a, err := New(Options{Sink: s, Now: (&clock{t: epoch0}).now})
		if err != nil {
			t.Fatal(err)
		}
		defer a.Close(context.Background())
		whole := make([]Span, len(spans))
		want := map[string]int64{}
		for i, p := range spans {
			x := &whole[i]
			kind := p.kind
			if i == 0 {
				kind = "server"
			}
			x.Name = a.Name(&Identity{Service: "s", Operation: fmt.Sprint("o", i), Component: fmt.Sprint("c", i%3), Kind: kind})
			x.TraceID, x.ID = traceID(1), bytesOf(uint64(i+1))
			x.Start, x.End = epoch0.UnixNano()+p.start, epoch0.UnixNano()+p.end
			if p.parent >= 0 {
				x.Parent = bytesOf(uint64(p.parent + 1))
			}
			if kind == "server" || kind == "consumer" {
				want[fmt.Sprint("o", i)] = micros(p.end - p.start)
			}
		}
		a.AddWhole(whole)
		if err := a.Flush(context.Background()); err != nil {
			t.Fatal(err)
		}
		for _, family := range []string{series.BreakdownSelf, series.BreakdownCritical} {
			got := map[string]int64{}
			for k, h := range s.hists {
				if strings.HasPrefix(k, family) {
					_, op, _ := strings.Cut(k, ` operation="`)
					op, _, _ = strings.Cut(op, `"`)
					got[op] += int64(h.Count)
				}
			}
			for op, n := range want {
				if got[op] != n {
					t.Errorf("%s of %s: %d microseconds, want %d", family, op, got[op], n)
				}
			}
		}
	})
}

func TestRefusedBatchesAreTriedAgain(t *testing.T) {
	a, s, c := start(t, Options{})
	try := func(attempts int) {
		t.Helper()
		if err := a.sweep(context.Background(), c.now(), false); err != nil {
			t.Errorf("handed over before the cut: %v", err)
		}
		for i := range attempts {
			err := error(nil)
			if i == 0 {
				err = a.handOver(context.Background())
			} else {
				err = a.sweep(context.Background(), c.now(), false)
			}
			if err == nil {
				t.Errorf("attempt %d: no error", i)
			}
		}
	}
	s.fail = 3
	a.AddWhole(script(t, a, 1, checkout))
	try(3)
	a.AddWhole(script(t, a, 2, checkout))
	a.tick(t, c)
	if got := s.count(series.BreakdownRequests); got != 4 {
		t.Errorf("%d requests, want 4", got)
	}
	if st := a.Stats(); st.CommitErrors != 3 || st.LostRequests != 0 {
		t.Errorf("%+v", st)
	}
	// At last they are given up, and counted.
	s.fail = maxAttempts
	a.AddWhole(script(t, a, 3, checkout))
	try(maxAttempts)
	if st := a.Stats(); st.LostRequests != 2 || st.CommitErrors != 3+maxAttempts || st.Lost.Last != c.now().Unix() || st.Lost.From < st.Lost.Last-60 {
		t.Errorf("%+v", st)
	}
	if err := a.Flush(context.Background()); err != nil {
		t.Error(err)
	}
	if got := s.count(series.BreakdownRequests); got != 4 {
		t.Errorf("%d requests, want 4", got)
	}
}

// Of what is handed over in several batches, each is counted once, whichever of them are
// refused.
func TestSomeBatchesRefused(t *testing.T) {
	dump := func(refuse func(int) bool) (string, int) {
		a, s, _ := start(t, Options{})
		s.refuse = refuse
		for i := range 100 * 40 { // operations and buckets: four batches
			name := a.Name(&Identity{Service: "shop", Operation: fmt.Sprint("GET /", i%100), Component: "app", Kind: "server", Tenant: "t"})
			end := epoch0.UnixNano()
			a.AddWhole([]Span{{TraceID: traceID(uint64(i + 1)), ID: spanID("a"), Start: end - int64(1e6*math.Pow(1.03, float64(i/100))), End: end, Name: name}})
		}
		for range maxAttempts {
			if a.Flush(context.Background()) == nil {
				break
			}
		}
		if st := a.Stats(); st.LostRequests != 0 {
			t.Errorf("%+v", st)
		}
		return s.dump("self", "breakdown"), s.commits
	}
	want, commits := dump(nil)
	if commits < 5 {
		t.Fatalf("handed over in %d batches: too few for this test", commits)
	}
	for n := 1; n <= commits; n++ {
		got, _ := dump(func(commit int) bool { return commit == n || commit == n+2 })
		diff(t, got, want)
	}
}

// A new epoch of the sink has every series resolved anew.
func TestEpochOfTheSink(t *testing.T) {
	a, s, _ := start(t, Options{})
	for i := range 2 {
		a.AddWhole(script(t, a, byte(i), checkout))
		if err := a.Flush(context.Background()); err != nil {
			t.Fatal(err)
		}
		before := s.dump("self", "breakdown")
		if i == 0 {
			s.epoch++
			// Targets of the old epoch lead nowhere.
			for k := range s.list {
				s.list[k] = "stale " + s.list[k]
			}
			clear(s.names)
			clear(s.hists)
		} else if strings.Contains(before, "stale") {
			t.Errorf("stale targets:\n%s", before)
		}
	}
}

// Beyond MaxParts parts fold, and nothing is missing from the sums.
func TestMaxPartsFolds(t *testing.T) {
	var text strings.Builder
	text.WriteString("a - shop server app GET_/ 0-1000\n")
	for i := range 200 {
		fmt.Fprintf(&text, "b%d a shop client db q%d %d-%d\n", i, i, i, i+1)
	}
	s, st := flushed(t, Options{MaxParts: 100}, text.String())
	if st.FoldedParts == 0 {
		t.Errorf("%+v", st)
	}
	if got := s.count(series.BreakdownSelf); got != 1_000_000 {
		t.Errorf("%d microseconds, want 1,000,000", got)
	}
	if got := s.dump(`part_operation="_other", part_service="_other"`); !strings.Contains(got, `component="db"`) {
		t.Errorf("no folded part:\n%s", got)
	}
	// So do the requests' operations.
	var many []string
	for i := range 250 {
		many = append(many, fmt.Sprintf("a - shop server app GET_/%d 0-1", i))
	}
	s, _ = flushed(t, Options{MaxParts: 100}, many...)
	if got := s.count(series.BreakdownRequests); got != 250 {
		t.Errorf("%d requests, want 250", got)
	}
	if got := s.dump(series.BreakdownRequests + `{cohort="large", operation="_other"`); got == "" {
		t.Error("no folded operation")
	}
}

// What is folded gets its name again once what filled the rows is out of use.
func TestRowsAreGivenUp(t *testing.T) {
	a, s, c := start(t, Options{MaxParts: 100})
	run := func(n byte, prefix string) string {
		var text strings.Builder
		text.WriteString("a - shop server app GET_/ 0-1000\n")
		for i := range 90 {
			fmt.Fprintf(&text, "b%d a shop client db %s%d %d-%d\n", i, prefix, i, i, i+1)
		}
		a.AddWhole(script(t, a, n, text.String()))
		if err := a.Flush(context.Background()); err != nil {
			t.Fatal(err)
		}
		return s.dump(`component="db", operation="GET /", part_operation="` + prefix + `89"`)
	}
	if run(1, "x") == "" {
		t.Error("folded though there is room")
	}
	if run(2, "y") != "" {
		t.Error("not folded")
	}
	c.advance(2 * 3600e9)
	run(3, "y")
	if run(4, "y") == "" {
		t.Error("folded still")
	}
}

func TestCohortIsAskedNowAndThen(t *testing.T) {
	cohort := series.Small
	s := newSink()
	s.cohort = func(service, tenant string) string {
		if service != "shop" || tenant != "acme" {
			t.Errorf("asked for %s of %s", tenant, service)
		}
		return cohort
	}
	a, _, c := start(t, Options{Sink: s})
	for i := range 3 {
		a.AddWhole(script(t, a, byte(i), "a - shop server app GET_/ 0-1 tenant=acme"))
		a.tick(t, c)
		cohort = series.Large
		c.advance(40e9)
	}
	if err := a.Flush(context.Background()); err != nil {
		t.Fatal(err)
	}
	diff(t, s.dump(series.BreakdownRequests), `
		breakdown_requests{cohort="large", operation="GET /", service="shop"}: 1 in 1ms
		breakdown_requests{cohort="small", operation="GET /", service="shop"}: 2 in 2ms
	`)
}

func TestStrangeTrees(t *testing.T) {
	for _, tc := range []struct {
		name, text string
		want       Stats
		self       string
	}{
		{"its own parent", `
			a - s server app o 0-100
			b b s client db q 10-20`,
			Stats{Spans: 2, Closed: 1, Incomplete: 1, Requests: 1, Cycles: 1, Orphans: 1},
			"s app o 90000\ns db q 10000"},
		{"a cycle beside the root", `
			a - s server app o 0-100
			b d s client db q 10-40
			c b s internal app r 12-30
			d c s internal app r 14-20
			e d s internal app r 15-16`,
			Stats{Spans: 5, Closed: 1, Incomplete: 1, Requests: 1, Cycles: 1, Orphans: 1},
			"s app o 70000\ns db q 12000\ns app r 18000"},
		{"only a cycle", `
			b c s client db q 10-40
			c b s server app o 12-30`,
			Stats{Spans: 2, Closed: 1, Incomplete: 1, Rootless: 1, Requests: 1, Cycles: 1, Orphans: 1},
			"s app o 18000"},
		{"an orphan hangs under the root", `
			a - s server app o 0-100
			c x s client db q 10-40`,
			Stats{Spans: 2, Closed: 1, Incomplete: 1, Requests: 1, Orphans: 1},
			"s app o 70000\ns db q 30000"},
		{"an orphaned request does not", `
			a - s server app o 0-100
			c x p server app p 10-40`,
			Stats{Spans: 2, Closed: 1, Incomplete: 1, Requests: 2, Orphans: 1},
			"p app p 30000\ns app o 100000"},
		{"an id that two services share", `
			a - s server app o 0-100
			b a s client external call 10-60
			b a p server app call 20-50
			c b p client db q 30-40`,
			Stats{Spans: 4, Closed: 1, Requests: 2},
			"p app call 20000\np db q 10000\ns app o 50000\ns external call 20000\np app call 20000\np db q 10000"},
		{"the server's half first", `
			c b p client db q 30-40
			b a p server app call 20-50
			b a s client external call 10-60
			a - s server app o 0-100`,
			Stats{Spans: 4, Closed: 1, Requests: 2},
			"p app call 20000\np db q 10000\ns app o 50000\ns external call 20000\np app call 20000\np db q 10000"},
		{"a root of any kind", `
			a - cron internal app job 0-100
			b a cron client external call 10-60`,
			Stats{Spans: 2, Closed: 1, Requests: 1},
			"cron app job 50000\ncron external call 50000"},
		{"two roots", `
			a - s server app o 0-100
			b - s internal app p 50-70`,
			Stats{Spans: 2, Closed: 1, Requests: 2},
			"s app o 100000\ns app p 20000"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s, got := flushed(t, Options{}, tc.text)
			got.MemoryBytes, got.OneIn = 0, 0
			if got != tc.want {
				t.Errorf("got  %+v\nwant %+v", got, tc.want)
			}
			diffSet(t, counts(s, series.BreakdownSelf, ""), tc.self)
		})
	}
}

// Cycles beside each other do not take quadratic time.
func TestManyCycles(t *testing.T) {
	a, _, _ := start(t, Options{})
	name := a.Name(&Identity{Service: "s", Operation: "o", Kind: "internal"})
	var spans []Span
	for i := range uint64(10_000) {
		for j := range uint64(2) {
			spans = append(spans, Span{TraceID: store.TraceID{1}, ID: bytesOf(2*i + j + 1), Parent: bytesOf(2*i + 2 - j), Start: 1, End: 2, Name: name})
		}
	}
	a.Add(spans)
	if err := a.Flush(context.Background()); err != nil {
		t.Fatal(err)
	}
	if st := a.Stats(); st.Cycles != 10_000 {
		t.Errorf("%+v", st)
	}
}

// Requests that ended hours ago are broken down by the minute.
func TestOldRequestsAreBrokenDownByTheMinute(t *testing.T) {
	s, c := newSink(), &clock{t: epoch0.Add(oldAfter*time.Second + 70*time.Second)}
	a, err := New(Options{Sink: s, Now: c.now})
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close(context.Background())
	for i, text := range []string{
		"a - shop server app o 0-100", "a - shop server app o 35000-35100", "a - shop server app o 65000-65100", "a - shop server app o 95000-95100",
	} {
		a.Add(script(t, a, byte(i+1), text))
	}
	if err := a.Flush(context.Background()); err != nil {
		t.Fatal(err)
	}
	var got []string
	for k, h := range s.hists {
		if family, _, _ := strings.Cut(k, "{"); family == series.BreakdownRequests {
			var at int64
			if _, err := fmt.Sscanf(k[strings.LastIndex(k, "@"):], "@%d", &at); err != nil {
				t.Fatal(err)
			}
			got = append(got, fmt.Sprintf("%d at %d", h.Count, at-epoch0.Unix()))
		}
	}
	slices.Sort(got)
	if want := "[1 at 40 1 at 90 2 at -20]"; fmt.Sprint(got) != want {
		t.Errorf("got %v, want %s", got, want)
	}
}
