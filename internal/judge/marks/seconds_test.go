package marks

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"tailscope/api"
	"tailscope/internal/agg"
	"tailscope/internal/compare"
	"tailscope/internal/judge"
	"tailscope/internal/query"
	"tailscope/internal/seconds"
	"tailscope/internal/store"
	"tailscope/internal/store/storetest"
	"tailscope/internal/trials"
)

// traffic is what a simulated service answers.
type traffic struct {
	perSecond float64
	weight    uint32  // of each span, which are as many fewer
	phi, sd   float64 // of the logarithm of the speed, which follows an AR(1) from second to second
	ratio     float64 // of durations after the mark
	failing   float64 // share of errors after the mark; 0.01 before
	kind      string  // of its spans; default server
	bursts    float64 // of the logarithm of the rate, which follows an AR(1) of 0.9 from second to second
}

// simulation sends traffic through an aggregator with a ring, in batches of five seconds,
// while its judge looks every five seconds.
type simulation struct {
	t       testing.TB
	traffic traffic
	rng     *rand.Rand
	now     time.Time
	ring    *seconds.Ring
	agg     *agg.Aggregator
	store   store.Store
	judge   *Judge
	speed   float64
	burst   float64
	waiting []sent
	mark    int64 // seconds after the epoch
}

type sent struct {
	operation, failed int
	end, elapsed      int64
}

func simulate(t testing.TB, seed uint64, mark int64, tr traffic) *simulation {
	s := &simulation{t: t, mark: mark, traffic: tr, rng: rand.New(rand.NewPCG(seed, 77)), now: at(0), store: storetest.NewTwin()}
	clock := func() time.Time { return s.now }
	s.ring = seconds.New(seconds.Options{Now: clock})
	var err error
	s.agg, err = agg.Open(t.Context(), s.store, agg.Options{Writer: "local", Dir: "data/journal", FS: vfs.NewMem(), Now: clock, FlushInterval: 24 * time.Hour, SyncInterval: 24 * time.Hour, Seconds: s.ring})
	if err != nil {
		t.Fatal(err)
	}
	s.judge = New(Options{Around: Around{Store: s.store}, Seconds: s.ring, Now: clock})
	s.speed, s.burst = s.rng.NormFloat64()*tr.sd, s.rng.NormFloat64()*tr.bursts
	return s
}

func (s *simulation) close() {
	if err := s.agg.Close(s.t.Context()); err != nil {
		s.t.Fatal(err)
	}
}

// second plays the second before now.
func (s *simulation) second() {
	tr := &s.traffic
	after := !s.now.Before(at(s.mark))
	s.speed = tr.phi*s.speed + math.Sqrt(1-tr.phi*tr.phi)*tr.sd*s.rng.NormFloat64()
	n := tr.perSecond / float64(max(1, tr.weight))
	if tr.bursts > 0 {
		s.burst = 0.9*s.burst + math.Sqrt(1-0.9*0.9)*tr.bursts*s.rng.NormFloat64()
		n *= math.Exp(s.burst - tr.bursts*tr.bursts/2)
	}
	for range trials.Poisson(s.rng, n) {
		op, failed, ratio := s.rng.IntN(2), 0, 1.0
		errors := 0.01
		if after {
			ratio, errors = max(tr.ratio, 1), max(errors, tr.failing)
		}
		if s.rng.Float64() < errors {
			failed = 1
		}
		elapsed := ratio * []float64{0.02, 0.1}[op] * math.Exp(0.5*s.rng.NormFloat64()+s.speed)
		s.waiting = append(s.waiting, sent{op, failed, s.now.UnixNano() + s.rng.Int64N(1e9), int64(elapsed * 1e9)})
	}
	s.now = s.now.Add(time.Second)
	if s.now.Unix()%5 == 0 { // the batch processor of the sender
		b := s.agg.NewBatch()
		var targets [2][2]agg.Target // by operation, and whether it failed
		for op := range targets {
			for failed, status := range []string{"ok", "error"} {
				targets[op][failed] = s.agg.SpanTarget(&agg.SpanIdentity{Service: "shop", Operation: fmt.Sprint("GET /", op), Component: "app", Kind: cmp.Or(tr.kind, "server"), Status: status})
			}
		}
		for _, x := range s.waiting {
			b.Observe(targets[x.operation][x.failed], x.end, x.elapsed, tr.weight)
		}
		if _, err := b.Commit(s.t.Context()); err != nil {
			s.t.Fatal(err)
		}
		s.waiting = s.waiting[:0]
	}
	s.ring.Fold()
	if s.now.Unix()%10 == 0 {
		if err := s.agg.Flush(s.t.Context()); err != nil {
			s.t.Fatal(err)
		}
	}
}

// look plays until so many seconds after the mark, and returns the first
// verdict that wanted is true of, with how long after the mark it was made.
func (s *simulation) look(until int64, wanted func(*api.MarkVerdict) bool) (after int64, v *api.MarkVerdict) {
	s.t.Helper()
	m := mark("deploy", s.mark, "shop")
	for s.now.Before(at(s.mark)) {
		s.second()
	}
	if err := store.PutMark(s.t.Context(), s.store, m); err != nil {
		s.t.Fatal(err)
	}
	for s.now.Before(at(s.mark + until)) {
		s.second()
		if s.now.Unix()%5 != 0 {
			continue
		}
		if err := s.judge.Round(s.t.Context()); err != nil {
			s.t.Fatal(err)
		}
		if v := s.judge.Brief(m); wanted(v) {
			return s.now.Unix() - at(s.mark).Unix(), v
		}
	}
	return -1, nil
}

func changed(v *api.MarkVerdict) bool { return judge.Moved(v.Verdict) }

// Time to verdict beside the effect, with false alarms over an hour of looking in the same
// run: with -v it prints both, as rows of a table. TAILSCOPE_TRIALS is the number of hours
// of each line in which nothing changes, and a quarter of it that of trials with a change;
// by default one, and two.
func TestTimeToVerdict(t *testing.T) {
	hours := trials.Of(1)
	alarms, looked := 0, 0
	for _, c := range []struct {
		traffic
		within int64 // seconds after the mark; 0: nothing changes
	}{
		{traffic{perSecond: 60, ratio: 2}, 60}, {traffic{perSecond: 60, ratio: 1.5}, 120}, {traffic{perSecond: 10, ratio: 1.1}, 900},
		{traffic{perSecond: 60, weight: 8, ratio: 2}, 60}, {traffic{perSecond: 60, ratio: 1, failing: 0.2}, 60},
		{traffic{perSecond: 60, ratio: 1}, 0}, {traffic{perSecond: 10, ratio: 1}, 0},
	} {
		for _, noise := range []struct {
			name            string
			phi, sd, bursts float64
		}{
			{"independent", 0, 0, 0}, {"0.6 from slot to slot", 0.95, 0.1, 0}, {"bursts", 0, 0, 0.8},
			{"0.9 from second to second", 0.9, 0.1, 0}, {"0.99 from second to second", 0.99, 0.05, 0},
		} {
			tr := c.traffic
			tr.phi, tr.sd, tr.bursts = noise.phi, noise.sd, noise.bursts
			n, until := hours, c.within
			switch {
			case until == 0:
				until = 3700
			case hours == 1:
				n = 2
			default:
				n = (hours + 3) / 4
			}
			t.Run(fmt.Sprintf("%g a second of %d,×%g,%s", tr.perSecond, max(1, tr.weight), max(tr.ratio, tr.failing), noise.name), func(t *testing.T) {
				var times []int64
				provisional := 0
				for trial := range n {
					s := simulate(t, uint64(trial), 3600, tr)
					after, v := s.look(until, changed)
					s.close()
					if v == nil {
						continue
					}
					times = append(times, after)
					if v.State == Provisional {
						provisional++
					}
					if c.within == 0 {
						t.Logf("alarm after %d s, %s: %s", after, v.State, v.Sentence)
					}
				}
				slices.Sort(times)
				median := "-"
				if len(times) > 0 {
					median = fmt.Sprintf("%d–%d–%d", times[0], times[len(times)/2], times[len(times)-1])
				}
				t.Logf("| %g/s of weight %d | ×%g, errors %.0f %% | %s | %d of %d in %d s | %d | %s |", tr.perSecond, max(1, tr.weight),
					tr.ratio, 100*max(0.01, tr.failing), noise.name, len(times), n, until, provisional, median)
				switch {
				case c.within == 0:
					alarms, looked = alarms+len(times), looked+n
				case noise.sd == 0 && noise.bursts == 0 && len(times)*100 < n*95:
					t.Errorf("%d of %d within %d s", len(times), n, until)
				}
			})
		}
	}
	t.Logf("%d false alarms in %d hours of looking", alarms, looked)
	// One of a few, and 7 % of many.
	if alarms > max(1, looked*7/100) {
		t.Errorf("%d false alarms in %d hours of looking", alarms, looked)
	}
}

// A change of ×2 is said within a minute, provisionally, with what it is based on; slots
// of ten seconds supersede it, and when it was first judged stays known. After a restart
// the ring is empty: what was said stays until there are slots of ten seconds.
func TestProvisional(t *testing.T) {
	s := simulate(t, 1, 700, traffic{perSecond: 60, ratio: 2})
	defer s.close()
	m := mark("deploy", s.mark, "shop")
	after, v := s.look(60, changed)
	if v == nil || after < firstLook || v.State != Provisional || v.Verdict != judge.Regression || v.Step != 1 || v.First != api.UnixTime(s.now) || v.Next != v.First+nextSecond {
		t.Fatalf("after %d s: %+v", after, v)
	}
	first, full := v.First, s.full(m)
	of := full.Services[0]
	if of.After.Start != at(s.mark).Unix()+compare.AfterMoment || of.After.End-of.After.Start < 20 || of.After.End > s.now.Unix()-3 ||
		of.Before.End != at(s.mark).Unix() || of.Before.End-of.Before.Start != compare.MostBefore {
		t.Errorf("sides %+v, %+v", of.Before, of.After)
	}
	if len(of.Operations) != 2 || len(of.Measures) != len(measures) {
		t.Errorf("%d operations, %d measures", len(of.Operations), len(of.Measures))
	}
	for _, m := range of.Measures {
		if f := m.Judged(); m.Change != "" && m.Name != "errors" && !(f.Low <= 2 && 2 <= f.High) {
			t.Errorf("%s: %g–%g does not hold 2", m.Name, f.Low, f.High)
		}
	}

	s.ring = seconds.New(seconds.Options{Now: func() time.Time { return s.now }})
	s.judge = New(Options{Around: Around{Store: s.store}, Seconds: s.ring, Now: func() time.Time { return s.now }})
	for s.now.Before(at(s.mark + 270)) {
		s.second()
		if err := s.judge.Round(t.Context()); err != nil {
			t.Fatal(err)
		}
		v := s.judge.Brief(m)
		if early := s.now.Unix() >= at(s.mark).Unix()+slot+settle+fewest*slot+ripe; early != (v.State == Early) || !early && v.State != Provisional || v.First != first || v.Verdict != judge.Regression {
			t.Fatalf("%d s after the mark: %+v", s.now.Unix()-at(s.mark).Unix(), v)
		}
		if v.State == Early && v.Step != slot {
			t.Fatalf("early from slots of %d s", v.Step)
		}
	}
	if got := s.judge.Stats(); got.Provisional != 0 || got.Early == 0 {
		t.Errorf("after the restart: %+v", got)
	}
}

// A service without spans of kind server or consumer is judged by all of its spans, as
// soon as one that has some.
func TestProvisionalOfServicesThatServeNobody(t *testing.T) {
	for _, kind := range []string{"consumer", "client", "internal", "producer"} {
		s := simulate(t, 1, 700, traffic{perSecond: 60, ratio: 2, kind: kind})
		after, v := s.look(60, changed)
		if v == nil || v.State != Provisional || v.Verdict != judge.Regression {
			t.Errorf("%s: after %d s: %+v", kind, after, v)
		}
		s.close()
	}
}

// What cannot be judged on seconds waits for slots of ten, as without a ring.
func TestSecondsThatSayNothing(t *testing.T) {
	for name, c := range map[string]struct {
		traffic
		started int64 // when the server did, seconds before the mark
		want    api.MarkState
		why     string
	}{
		"enough":                     {traffic{perSecond: 20, ratio: 1}, 700, Provisional, ""},
		"a restart just before":      {traffic{perSecond: 20, ratio: 1}, 110, Waiting, "too few seconds before it are known, 109"},
		"hardly a request a minute":  {traffic{perSecond: 0.01, ratio: 1}, 700, Waiting, "its requests come too late, or are too few"},
		"requests in every slot but": {traffic{perSecond: 0.1, ratio: 1}, 700, Waiting, ""},
	} {
		s := simulate(t, 2, c.started, c.traffic)
		_, v := s.look(240, func(v *api.MarkVerdict) bool { return v.State != Waiting })
		if got := s.judge.Brief(mark("deploy", s.mark, "shop")).Sentence; c.want == Waiting && !strings.HasSuffix(got, "; no provisional verdict of shop: "+c.why) && c.why != "" {
			t.Errorf("%s: the reason is not in %q", name, got)
		}
		switch {
		case c.want == Waiting && v != nil:
			t.Errorf("%s: %s, %s", name, v.State, v.Sentence)
		case c.want != Waiting && (v == nil || v.State != c.want || v.Verdict != judge.NoEvidence || !strings.Contains(v.Sentence, "oo early to say whether shop changed: a first look, at ") || !strings.Contains(v.Sentence, " requests in ") || !strings.Contains(v.Sentence, " s, shows nothing gross; more is known at ")):
			t.Errorf("%s: %+v", name, v)
		}
		s.close()
	}
}

// Requests of the last minutes that were sent at once before a mark do not keep it waiting.
func TestProvisionalAfterABackfill(t *testing.T) {
	s := simulate(t, 4, 400, traffic{perSecond: 18, ratio: 2})
	defer s.close()
	for s.now.Before(at(300)) {
		s.second()
	}
	b := s.agg.NewBatch()
	target := s.agg.SpanTarget(&agg.SpanIdentity{Service: "shop", Operation: "GET /0", Component: "app", Kind: "server", Status: "ok"})
	for i := range int64(18 * 7200) { // two hours up to now
		b.Observe(target, s.now.UnixNano()-i*1e9/18, 20e6, 1)
	}
	if _, err := b.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if after, v := s.look(60, changed); v == nil || v.State != Provisional {
		t.Errorf("after %d s: %+v, %s", after, v, s.judge.Brief(mark("deploy", s.mark, "shop")).Sentence)
	}
}

// Sides of seconds end at the marks beside.
func TestSidesOfSeconds(t *testing.T) {
	s := simulate(t, 3, 700, traffic{perSecond: 20, ratio: 1})
	defer s.close()
	for s.now.Before(at(900)) {
		s.second()
	}
	for _, c := range []struct {
		name   string
		beside []store.Mark
		i      int
		want   string
	}{
		{"alone", []store.Mark{mark("m", 700, "shop")}, 0, "100..700 703..894 "},
		{"of another service", []store.Mark{mark("m", 700, "shop"), mark("x", 760, "bank")}, 0, "100..700 703..894 "},
		{"another after", []store.Mark{mark("m", 700, "shop"), mark("x", 760, "shop")}, 0, "100..700 763..894 "},
		{"another just now", []store.Mark{mark("m", 700, "shop"), mark("x", 890, "")}, 0, "too few seconds after it are known, 1"},
		{"another before", []store.Mark{mark("x", 470, "shop"), mark("m", 700, "shop")}, 1, "473..700 703..894 "},
		{"another shortly before", []store.Mark{mark("x", 660, "shop"), mark("m", 700, "shop")}, 1, "60..660 703..894 "},
	} {
		sides, why := s.judge.secondsOf(c.beside, c.i, "shop", s.now)
		got := why
		if why == "" {
			got = fmt.Sprintf("%d..%d %d..%d ", sides.before.start-epoch, sides.before.end-epoch, sides.after.start-epoch, sides.after.end-epoch)
		}
		if got != c.want {
			t.Errorf("%s: got %q, want %q", c.name, got, c.want)
		}
	}
	if _, why := s.judge.secondsOf([]store.Mark{mark("m", 700, "nobody")}, 0, "nobody", s.now); why == "" {
		t.Error("a service without requests is judged")
	}
}

// A watched comparison cuts its sides at the marks beside as marks do, says so, and says
// that it stays provisional where side B is over.
func TestWatchedSidesOfSeconds(t *testing.T) {
	s := simulate(t, 3, 700, traffic{perSecond: 20, ratio: 1})
	defer s.close()
	for s.now.Before(at(900)) {
		s.second()
	}
	for _, m := range []store.Mark{mark("x", 500, "shop"), mark("other", 600, "bank"), mark("y", 760, "")} {
		if err := store.PutMark(t.Context(), s.store, m); err != nil {
			t.Fatal(err)
		}
	}
	r := compare.Request{A: compare.Window{Start: at(100), End: at(700)}, B: compare.Window{Start: at(703), End: at(850)}, Live: true, Newest: s.ring, Now: s.now, Measures: []string{"p50"}, Limit: 1}
	var err error
	if r.Matchers, err = ofService("shop"); err != nil {
		t.Fatal(err)
	}
	out, err := compare.Compare(t.Context(), s.store, r)
	if err != nil {
		t.Fatal(err)
	}
	if !out.Provisional || out.A.Start != epoch+503 || out.A.End != epoch+700 || out.B.Start != epoch+703 || out.B.End != epoch+760 {
		t.Errorf("provisional %v, A %+v, B %+v", out.Provisional, out.A.Range, out.B.Range)
	}
	got := fmt.Sprint(out.Warnings)
	for _, want := range []string{`side A begins after "x"`, `side B ends at "y"`, "side B is over and holds fewer than 20 slots of 10 s: this stays provisional, and is answered while the newest 15 min are kept"} {
		if !strings.Contains(got, want) {
			t.Errorf("warnings %s, want %s", got, want)
		}
	}
	if strings.Contains(got, "other") {
		t.Errorf("a mark of another service: %s", got)
	}
}

// A watched comparison at a mark has the sides of the marks that are judged as one with it.
func TestWatchedMarksAtOneMoment(t *testing.T) {
	s := simulate(t, 3, 700, traffic{perSecond: 20, ratio: 1})
	defer s.close()
	for s.now.Before(at(900)) {
		s.second()
	}
	for _, m := range []store.Mark{mark("x", 660, "shop"), mark("m", 700, "shop")} {
		if err := store.PutMark(t.Context(), s.store, m); err != nil {
			t.Fatal(err)
		}
	}
	for _, id := range []string{"x", "m"} {
		r := compare.Request{Mark: id, Settle: -1, Live: true, Newest: s.ring, Now: s.now, Measures: []string{"p50"}, Limit: 1}
		var err error
		if r.Matchers, err = ofService("shop"); err != nil {
			t.Fatal(err)
		}
		out, err := (&Around{Store: s.store}).Compare(t.Context(), nil, r)
		if err != nil {
			t.Fatal(err)
		}
		if !out.Provisional || out.A.Start != epoch+60 || out.A.End != epoch+660 || out.B.Start != epoch+703 || len(out.Together) != 2 || !strings.HasSuffix(out.Sentence, "cannot be told apart") {
			t.Errorf("%s: provisional %v, A %+v, B %+v: %s", id, out.Provisional, out.A.Range, out.B.Range, out.Sentence)
		}
	}
}

// Of marks that are judged as one the newest is named while nothing after it can be compared,
// and what the older ones show stands meanwhile.
func TestCompareWaitsForTheNewestMark(t *testing.T) {
	st := storetest.NewTwin()
	sendRange(t, st, 3, 0, 1500, 900, operation{"shop", "GET /cart", 0.05, 1.5})
	marks := []store.Mark{mark("x", 900, "shop"), mark("m", 1020, "shop"), mark("n", 1141, "shop")}
	for i := range marks {
		marks[i].Name = "backup"
		if err := store.PutMark(t.Context(), st, marks[i]); err != nil {
			t.Fatal(err)
		}
	}
	ask := func(id string, now int64) (*api.CompareResponse, error) {
		r := compare.Request{Mark: id, Settle: -1, Now: at(now), Limit: 1}
		var err error
		if r.Matchers, err = ofService("shop"); err != nil {
			t.Fatal(err)
		}
		return (&Around{Store: st}).Compare(t.Context(), nil, r)
	}
	waits := `"backup" was ` + at(1141).UTC().Format(time.RFC3339) + `, the newest of 3 marks that are judged as one; the time after it is not a slot of 10 s yet: ask again at `
	for _, id := range []string{"x", "m"} {
		out, err := ask(id, 1180)
		if err != nil {
			t.Fatal(err)
		}
		if out.B.Start != epoch+1040 || out.B.End != epoch+1140 || len(out.Together) != 2 || !strings.Contains(out.Sentence, waits) {
			t.Errorf("%s: B %+v, %d together: %s", id, out.B.Range, len(out.Together), out.Sentence)
		}
	}
	_, err := ask("n", 1180)
	if err == nil || !strings.Contains(err.Error(), waits) {
		t.Errorf("the newest: %v", err)
	}
	_, until, _ := strings.Cut(query.AsError(err).Message, "ask again at ")
	again, err := time.Parse(time.DateOnly+" "+time.TimeOnly+" MST", at(0).UTC().Format(time.DateOnly)+" "+until)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := ask("n", again.Unix()-1-epoch); err == nil {
		t.Errorf("it is answered before %s", until)
	}
	out, err := ask("x", again.Unix()-epoch)
	if err != nil || out.B.Start != epoch+1160 || strings.Contains(out.Sentence, "the newest of") {
		t.Errorf("at %s: %v, %v", until, err, out)
	}
}

func (s *simulation) full(m store.Mark) *api.MarkVerdict {
	s.t.Helper()
	v, err := s.judge.Full(s.t.Context(), m)
	if err != nil {
		s.t.Fatal(err)
	}
	return v
}
