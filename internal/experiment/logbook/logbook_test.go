package logbook

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
	"golang.org/x/sync/errgroup"
	"pgregory.net/rapid"

	"tailscope/api"
	"tailscope/internal/judge/legs/legstest"
	"tailscope/internal/query"
	"tailscope/internal/query/querytest"
	"tailscope/internal/store"
	"tailscope/internal/store/storetest"
)

const epoch = querytest.Epoch

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// clock is a time that tests move.
type clock struct{ now time.Time }

func newClock() *clock { return &clock{time.Unix(epoch, 0)} }

func (c *clock) read() time.Time         { return c.now }
func (c *clock) forward(d time.Duration) { c.now = c.now.Add(d) }

// counting counts the writes of records, and fails on demand.
type counting struct {
	store.Store
	puts int
	fail error
}

func (c *counting) PutRecords(ctx context.Context, kind string, writes ...store.RecordWrite) (uint64, error) {
	if c.fail != nil {
		return 0, c.fail
	}
	c.puts++
	return c.Store.PutRecords(ctx, kind, writes...)
}

func report(start int64) api.SessionReport {
	return api.SessionReport{Kind: KindMirror, Name: "new cache", Service: "shop", Start: api.Float(start), Mirror: legstest.State()}
}

func fails(t *testing.T, what string, err error, code, field string) {
	t.Helper()
	e := query.AsError(err)
	if err == nil || e.Code != code || e.Field != field {
		t.Errorf("%s: %v, want %s of %q", what, err, code, field)
	}
}

func TestAnExperimentRunsEndsAndIsKept(t *testing.T) {
	ctx, c, st := t.Context(), newClock(), &counting{Store: storetest.NewTwin()}
	o := Options{Store: st, Now: c.read}
	r := New(o)
	for range 100 {
		if _, err := r.Report(ctx, "a1", report(epoch)); err != nil {
			t.Fatal(err)
		}
		c.forward(time.Second)
	}
	if st.puts != 10 { // at its start, and with every slot
		t.Errorf("written %d times in 100 s", st.puts)
	}
	x, err := r.Get(ctx, "a1")
	if err != nil || x.State != Running || !math.IsNaN(float64(x.End)) || x.Name != "new cache" || x.Mirror.Primary.Name != "primary" {
		t.Fatalf("%+v, %v", x, err)
	}
	fails(t, "forget one that runs", r.Forget(ctx, "a1"), query.CodeInvalid, "id")

	c.forward(15 * time.Second)
	if x, _ = r.Get(ctx, "a1"); x.State != Lost || x.End != x.Updated || x.End != api.Float(epoch+99) {
		t.Errorf("after 16 s of silence %s, ended %v, updated %v", x.State, x.End, x.Updated)
	}
	last := report(epoch)
	last.Ended = true
	if _, err := r.Report(ctx, "a1", last); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Report(ctx, "a1", report(epoch)); err != nil { // it comes late
		t.Fatal(err)
	}
	again := New(o) // the server was started again
	for _, r := range []*Registry{r, again} {
		if x, err = r.Get(ctx, "a1"); err != nil || x.State != Ended || x.End != api.Float(epoch+115) {
			t.Errorf("%+v, %v", x, err)
		}
	}
	if err := again.Forget(ctx, "a1"); err != nil {
		t.Error(err)
	}
	_, err = New(o).Get(ctx, "a1")
	fails(t, "a forgotten one", err, query.CodeNotFound, "id")
	fails(t, "forget it again", again.Forget(ctx, "a1"), query.CodeNotFound, "id")
}

func TestList(t *testing.T) {
	ctx, c := t.Context(), newClock()
	r := New(Options{Store: storetest.NewTwin(), Now: c.read})
	for i, id := range []string{"old", "lost", "new"} {
		p := report(epoch + int64(i*100))
		p.Mirror.Differences = &api.MirrorDifferences{Compared: 7}
		p.Ended = id == "old"
		if _, err := r.Report(ctx, id, p); err != nil {
			t.Fatal(err)
		}
		c.forward(100 * time.Second)
	}
	if _, err := r.Report(ctx, "new", report(epoch+200)); err != nil {
		t.Fatal(err)
	}
	all := ListRequest{Start: time.Unix(0, 0), End: time.Unix(1<<40, 0)}
	for _, tc := range []struct {
		name   string
		change func(*ListRequest)
		want   []string
	}{
		{"all", func(*ListRequest) {}, []string{"new", "lost", "old"}},
		{"running", func(q *ListRequest) { q.State = Running }, []string{"new"}},
		{"lost", func(q *ListRequest) { q.State = Lost }, []string{"lost"}},
		{"mirror", func(q *ListRequest) { q.Kind = KindMirror }, []string{"new", "lost", "old"}},
		{"now", func(q *ListRequest) { q.Start = c.now }, []string{"new"}},
		{"before", func(q *ListRequest) { q.End = time.Unix(epoch+100, 0) }, []string{"old"}},
		{"after", func(q *ListRequest) { q.Start = c.now.Add(time.Hour) }, nil},
	} {
		q := all
		tc.change(&q)
		out, err := r.List(ctx, q)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, x := range out.Sessions {
			got = append(got, x.ID)
			if x.Mirror.Differences != nil {
				t.Error("differences are listed")
			}
		}
		if !slices.Equal(got, tc.want) {
			t.Errorf("%s: %v, want %v", tc.name, got, tc.want)
		}
	}
	if x, err := r.Get(ctx, "old"); err != nil || x.Mirror.Differences == nil {
		t.Errorf("one by itself lacks differences: %v", err)
	}
	later := report(epoch + 250) // and over: one that runs stands before it
	later.Ended = true
	if _, err := r.Report(ctx, "later", later); err != nil {
		t.Fatal(err)
	}
	q := all
	q.Limit = 1
	if out, err := r.List(ctx, q); err != nil || out.Total != 4 || len(out.Sessions) != 1 || out.Sessions[0].ID != "new" {
		t.Errorf("the first of the list: %+v, %v", out, err)
	}
	_, err := r.List(ctx, ListRequest{State: "runing", Start: all.Start, End: all.End})
	fails(t, "a state there is not", err, query.CodeInvalid, "state")
	_, err = r.List(ctx, ListRequest{Kind: "load", Start: all.Start, End: all.End})
	fails(t, "a kind there is not", err, query.CodeInvalid, "kind")
	_, err = r.List(ctx, ListRequest{Start: all.End, End: all.Start})
	fails(t, "a range the wrong way", err, query.CodeInvalid, "end")
}

func TestReportsThatAreRefused(t *testing.T) {
	ctx, c := t.Context(), newClock()
	r := New(Options{Store: storetest.NewTwin(), Now: c.read})
	if _, err := r.Report(ctx, "mine", report(epoch)); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		name, id, field string
		change          func(*api.SessionReport)
	}{
		{"no id", "", "id", nil},
		{"an id with a slash", "a/b", "id", nil},
		{"an id of dots", "..", "id", nil},
		{"a long id", strings.Repeat("a", 65), "id", nil},
		{"the id of another", "mine", "id", func(p *api.SessionReport) { p.Start++ }},
		{"no kind", "x", "kind", func(p *api.SessionReport) { p.Kind = "" }},
		{"no name", "x", "name", func(p *api.SessionReport) { p.Name = " " }},
		{"a long name", "x", "name", func(p *api.SessionReport) { p.Name = strings.Repeat("n", 1025) }},
		{"a name of bytes", "x", "name", func(p *api.SessionReport) { p.Name = "\xff" }},
		{"no service", "x", "service", func(p *api.SessionReport) { p.Service = "" }},
		{"no start", "x", "start", func(p *api.SessionReport) { p.Start = api.Float(math.NaN()) }},
		{"a start in milliseconds", "x", "start", func(p *api.SessionReport) { p.Start = 1.7e12 }},
		{"no state", "x", "mirror", func(p *api.SessionReport) { p.Mirror = nil }},
		{"two of a name", "x", "mirror.shadows[1].name", func(p *api.SessionReport) { p.Mirror.Shadows[1].Name = "control" }},
		{"two controls", "x", "mirror.shadows[1].role", func(p *api.SessionReport) { p.Mirror.Shadows[1].Role = "control" }},
		{"a primary as shadow", "x", "mirror.shadows[0].role", func(p *api.SessionReport) { p.Mirror.Shadows[0].Role = "primary" }},
		{"more in use than there are", "x", "mirror.shadows[0].using", func(p *api.SessionReport) { p.Mirror.Shadows[0].Using = 3 }},
		{"too many shadows", "x", "mirror.shadows", func(p *api.SessionReport) { p.Mirror.Shadows = make([]api.MirrorTarget, 33) }},
		{"too long", "x", "body", func(p *api.SessionReport) { p.Mirror.Shadows[0].DivergedWhy = strings.Repeat("w", 600<<10) }},
	} {
		p := report(epoch)
		if tc.change != nil {
			tc.change(&p)
		}
		_, err := r.Report(ctx, tc.id, p)
		fails(t, tc.name, err, query.CodeInvalid, tc.field)
	}
	if s := r.Stats(); s.Refused != 19 || s.Kept != 1 || s.Running != 1 {
		t.Errorf("%+v", s)
	}
}

// Of a report that is too long examples are left out first.
func TestLongReportsAreShortened(t *testing.T) {
	ctx := t.Context()
	r := New(Options{Store: storetest.NewTwin(), Now: newClock().read})
	p := report(epoch)
	p.Mirror.Differences = &api.MirrorDifferences{Rows: make([]api.MirrorDifference, 10), Examples: make([]api.MirrorExample, 40)}
	for i := range p.Mirror.Differences.Examples {
		p.Mirror.Differences.Examples[i].Request = strings.Repeat("x", 20<<10)
	}
	if _, err := r.Report(ctx, "x", p); err != nil {
		t.Fatal(err)
	}
	x, err := r.Get(ctx, "x")
	if err != nil || len(x.Mirror.Differences.Examples) != 20 || len(x.Mirror.Differences.Rows) != 10 || len(p.Mirror.Differences.Examples) != 40 {
		t.Errorf("%d examples are left, %v", len(x.Mirror.Differences.Examples), err)
	}
}

func of[T any](v T) *T { return &v }

func TestChangesAreRepeatedUntilApplied(t *testing.T) {
	ctx, c, st := t.Context(), newClock(), storetest.NewTwin()
	r := New(Options{Store: st, Now: c.read})
	p := report(epoch)
	if _, err := r.Report(ctx, "x", p); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Change(ctx, "x", api.MirrorChange{Share: of(api.Float(0.5)), Shadows: map[string]api.ShadowChange{"candidate": {Using: of(1)}}}); err != nil {
		t.Fatal(err)
	}
	all, err := r.Change(ctx, "x", api.MirrorChange{Paused: of(true), Shadows: map[string]api.ShadowChange{"candidate": {Amplify: of(api.Float(2))}}})
	if err != nil {
		t.Fatal(err)
	}
	if s := all.Shadows["candidate"]; all.Number != 2 || *all.Share != 0.5 || !*all.Paused || *s.Using != 1 || *s.Amplify != 2 {
		t.Errorf("together they are %+v", all)
	}
	r = New(Options{Store: st, Now: c.read}) // the server was started again
	for range 2 {
		reply, err := r.Report(ctx, "x", p)
		if err != nil || reply.Change == nil || reply.Change.Number != 2 {
			t.Fatalf("%+v, %v", reply, err)
		}
	}
	p.Mirror = legstest.State()
	p.Mirror.Applied = 2
	if reply, err := r.Report(ctx, "x", p); err != nil || reply.Change != nil {
		t.Errorf("after it was applied: %+v, %v", reply, err)
	}
	if all, err = r.Change(ctx, "x", api.MirrorChange{Stop: true}); err != nil || all.Number != 3 || all.Share != nil || !all.Stop {
		t.Errorf("%+v, %v", all, err)
	}
	for _, tc := range []struct {
		name, id, field string
		code            string
		change          api.MirrorChange
	}{
		{"nothing", "x", "body", query.CodeInvalid, api.MirrorChange{}},
		{"a number", "x", "number", query.CodeInvalid, api.MirrorChange{Number: 7, Stop: true}},
		{"a share above 1", "x", "share", query.CodeInvalid, api.MirrorChange{Share: of(api.Float(1.5))}},
		{"a share that is none", "x", "share", query.CodeInvalid, api.MirrorChange{Share: of(api.Float(math.NaN()))}},
		{"an unknown shadow", "x", "shadows", query.CodeInvalid, api.MirrorChange{Shadows: map[string]api.ShadowChange{"candidat": {Using: of(1)}}}},
		{"nothing of a shadow", "x", "shadows", query.CodeInvalid, api.MirrorChange{Shadows: map[string]api.ShadowChange{"candidate": {}}}},
		{"more servers than there are", "x", "shadows", query.CodeInvalid, api.MirrorChange{Shadows: map[string]api.ShadowChange{"candidate": {Using: of(3)}}}},
		{"endless copies", "x", "shadows", query.CodeInvalid, api.MirrorChange{Shadows: map[string]api.ShadowChange{"candidate": {Amplify: of(api.Float(math.Inf(1)))}}}},
		{"apart of what is not looked at", "x", "apart", query.CodeInvalid, api.MirrorChange{Apart: []string{"GET /"}}},
		{"too many apart", "x", "apart", query.CodeInvalid, api.MirrorChange{Look: of(10), Apart: make([]string, 11)}},
		{"no name apart", "x", "apart", query.CodeInvalid, api.MirrorChange{Look: of(10), Apart: []string{"GET /", ""}}},
		{"an unknown experiment", "y", "id", query.CodeNotFound, api.MirrorChange{Stop: true}},
	} {
		_, err := r.Change(ctx, tc.id, tc.change)
		fails(t, tc.name, err, tc.code, tc.field)
	}
	c.forward(time.Minute)
	_, err = r.Change(ctx, "x", api.MirrorChange{Stop: true})
	fails(t, "one that is lost", err, query.CodeInvalid, "id")
}

// Any changes in any order of applying them end as if each was made by itself.
func TestChangesAddUp(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		ctx, c := context.Background(), newClock()
		r := New(Options{Store: storetest.NewTwin(), Now: c.read})
		p := report(epoch)
		if _, err := r.Report(ctx, "x", p); err != nil {
			t.Fatal(err)
		}
		type settings struct {
			share   float64
			paused  bool
			using   map[string]int
			amplify map[string]float64
		}
		fresh := func() settings { return settings{share: 1, using: map[string]int{}, amplify: map[string]float64{}} }
		want, is := fresh(), fresh()
		apply := func(s *settings, m *api.MirrorChange) {
			if m.Share != nil {
				s.share = float64(*m.Share)
			}
			if m.Paused != nil {
				s.paused = *m.Paused
			}
			for name, x := range m.Shadows {
				if x.Using != nil {
					s.using[name] = *x.Using
				}
				if x.Amplify != nil {
					s.amplify[name] = float64(*x.Amplify)
				}
			}
		}
		applied := uint64(0)
		tell := func() {
			p.Mirror = legstest.State()
			p.Mirror.Applied = applied
			reply, err := r.Report(ctx, "x", p)
			if err != nil {
				t.Fatal(err)
			}
			if m := reply.Change; m != nil {
				if m.Number <= applied {
					t.Fatalf("change %d comes again after %d was applied", m.Number, applied)
				}
				apply(&is, m)
				applied = m.Number
			}
		}
		for range rapid.IntRange(1, 30).Draw(t, "steps") {
			if rapid.Bool().Draw(t, "report") {
				tell()
				continue
			}
			var m api.MirrorChange
			switch rapid.IntRange(0, 3).Draw(t, "what") {
			case 0:
				m.Share = of(api.Float(rapid.Float64Range(0, 1).Draw(t, "share")))
			case 1:
				m.Paused = of(rapid.Bool().Draw(t, "paused"))
			case 2:
				m.Shadows = map[string]api.ShadowChange{rapid.SampledFrom([]string{"control", "candidate"}).Draw(t, "of"): {Using: of(rapid.IntRange(0, 2).Draw(t, "using"))}}
			case 3:
				m.Shadows = map[string]api.ShadowChange{rapid.SampledFrom([]string{"control", "candidate"}).Draw(t, "of"): {Amplify: of(api.Float(rapid.Float64Range(0, 9).Draw(t, "amplify")))}}
			}
			if _, err := r.Change(ctx, "x", m); err != nil {
				t.Fatal(err)
			}
			apply(&want, &m)
		}
		tell()
		if want.share != is.share || want.paused != is.paused || !maps.Equal(want.using, is.using) || !maps.Equal(want.amplify, is.amplify) {
			t.Fatalf("wanted %+v, is %+v", want, is)
		}
	})
}

// The oldest that have ended make room; one too many that run is refused.
func TestExperimentsAreBounded(t *testing.T) {
	ctx, c, st := t.Context(), newClock(), storetest.NewTwin()
	r := New(Options{Store: st, Now: c.read, Most: 5})
	for i := range 12 {
		p := report(epoch + int64(i))
		p.Ended = true
		if _, err := r.Report(ctx, fmt.Sprintf("e%02d", i), p); err != nil {
			t.Fatal(err)
		}
		c.forward(time.Second)
	}
	kept := 0
	for _, r := range []*Registry{r, New(Options{Store: st, Now: c.read})} {
		out, err := r.List(ctx, ListRequest{Start: time.Unix(0, 0), End: time.Unix(1<<40, 0)})
		if err != nil {
			t.Fatal(err)
		}
		kept = len(out.Sessions)
		if kept != 5 || out.Sessions[0].ID != "e11" || out.Sessions[4].ID != "e07" {
			t.Errorf("%d are kept, from %s", kept, out.Sessions[0].ID)
		}
	}
	for i := range 5 {
		if _, err := r.Report(ctx, fmt.Sprintf("r%d", i), report(epoch)); err != nil {
			t.Fatal(err)
		}
	}
	_, err := r.Report(ctx, "r5", report(epoch))
	fails(t, "one too many", err, query.CodeTooMany, "")
	if s := r.Stats(); s.Kept != 5 || s.Bytes <= 0 || s.Bytes > 5*4096 {
		t.Errorf("%+v", s)
	}
}

// A session whose beginning or end cannot be written has not begun or ended; in
// between a failed write is not a reason to refuse a report. Reports that grow beyond
// the bound of all are refused, like one too many.
func TestReportsThatGrowAreBounded(t *testing.T) {
	ctx, c := t.Context(), newClock()
	r := New(Options{Store: storetest.NewTwin(), Now: c.read, MostBytes: 20_000})
	long := func() api.SessionReport {
		p := report(epoch)
		p.Mirror.Differences = &api.MirrorDifferences{Examples: make([]api.MirrorExample, 50)}
		for i := range p.Mirror.Differences.Examples {
			p.Mirror.Differences.Examples[i].Request = strings.Repeat("x", 100)
		}
		return p
	}
	for i := range 5 {
		if _, err := r.Report(ctx, fmt.Sprint("x", i), report(epoch)); err != nil {
			t.Fatal(err)
		}
	}
	refused := 0
	for i := range 5 {
		if _, err := r.Report(ctx, fmt.Sprint("x", i), long()); err != nil {
			fails(t, "a report that has grown", err, query.CodeTooMany, "")
			refused++
		}
		if n := r.Stats().Bytes; n > 20_000 {
			t.Errorf("%d bytes are kept", n)
		}
	}
	if refused == 0 || refused == 5 {
		t.Errorf("%d of 5 are refused", refused)
	}
}

func TestAStoreThatIsFull(t *testing.T) {
	ctx, c, st := t.Context(), newClock(), &counting{Store: storetest.NewTwin(), fail: store.ErrFull}
	r := New(Options{Store: st, Now: c.read})
	if _, err := r.Report(ctx, "x", report(epoch)); !errors.Is(err, store.ErrFull) {
		t.Fatalf("began: %v", err)
	}
	if _, err := r.Get(ctx, "x"); err == nil {
		t.Error("it is there all the same")
	}
	st.fail = nil
	if _, err := r.Report(ctx, "x", report(epoch)); err != nil {
		t.Fatal(err)
	}
	st.fail = store.ErrFull
	c.forward(2 * time.Minute)
	if _, err := r.Report(ctx, "x", report(epoch)); err != nil {
		t.Errorf("while it runs: %v", err)
	}
	if _, err := r.Change(ctx, "x", api.MirrorChange{Stop: true}); !errors.Is(err, store.ErrFull) {
		t.Errorf("changed: %v", err)
	}
	last := report(epoch)
	last.Ended = true
	if _, err := r.Report(ctx, "x", last); !errors.Is(err, store.ErrFull) {
		t.Errorf("ended: %v", err)
	}
	st.fail = nil
	if reply, err := r.Report(ctx, "x", report(epoch)); err != nil || reply.Change != nil {
		t.Errorf("a change that was refused is wanted: %+v, %v", reply, err)
	}
	if _, err := r.Report(ctx, "x", last); err != nil {
		t.Error(err)
	}
	if x, err := New(Options{Store: st, Now: c.read}).Get(ctx, "x"); err != nil || x.State != Ended {
		t.Errorf("%+v, %v", x, err)
	}
}

// Programs report, users ask and change, and headlines are made at once.
func TestManyAtOnce(t *testing.T) {
	ctx := t.Context()
	r := New(Options{Store: storetest.NewTwin(), Most: 6})
	start := time.Now().Unix()
	var g errgroup.Group
	for i := range 4 {
		id := fmt.Sprint("x", i)
		g.Go(func() error {
			for n := range 50 {
				p := report(start)
				p.Mirror.Applied, p.Ended = uint64(n/2), n == 49
				reply, err := r.Report(ctx, id, p)
				if err != nil {
					return err
				}
				if c := reply.Change; c != nil && c.Number <= p.Mirror.Applied {
					return fmt.Errorf("change %d comes again", c.Number)
				}
			}
			return nil
		})
		g.Go(func() error {
			for range 50 {
				if _, err := r.Change(ctx, id, api.MirrorChange{Share: of(api.Float(0.5))}); err != nil {
					if code := query.AsError(err).Code; code != query.CodeNotFound && code != query.CodeInvalid {
						return err
					}
				}
				if _, err := r.List(ctx, ListRequest{Start: time.Unix(0, 0), End: time.Unix(1<<40, 0)}); err != nil {
					return err
				}
				r.Stats()
			}
			return r.Round(ctx)
		})
	}
	if err := g.Wait(); err != nil {
		t.Fatal(err)
	}
	if s := r.Stats(); s.Kept != 4 || s.Running != 0 || s.Reports != 200 {
		t.Errorf("%+v", s)
	}
}
