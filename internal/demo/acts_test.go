package demo

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"tailscope/api"
	"tailscope/internal/judge"
	"tailscope/internal/judge/marks"
)

var ten = time.Date(2026, 11, 20, 10, 0, 0, 0, time.UTC)

// by writes acts as a table: what they are, when they began or come, and where they are seen.
func by(acts []api.Act) string {
	var b strings.Builder
	for _, a := range acts {
		end := ""
		if !math.IsNaN(float64(a.End)) {
			end = "-" + a.End.Time().UTC().Format(time.TimeOnly)
		}
		fmt.Fprintf(&b, "%-6s %-12s %s%s %s", a.State, a.Name, a.At.Time().UTC().Format(time.TimeOnly), end, a.Page)
		if a.Verdict != "" {
			b.WriteString(" " + a.Verdict)
		}
		b.WriteString("\n")
	}
	return b.String()
}

// planned is the demo's plan with its defaults, begun at ten o'clock.
func planned(program string, noChange bool) (*demo, *time.Time) {
	now := ten
	d := &demo{Options: Options{Program: program, NoChange: noChange}, tenants: makeTenants(1000), story: newStory(func() time.Time { return now })}
	d.ensureDefaults()
	d.story.plan(d.acts())
	return d, &now
}

func TestPlan(t *testing.T) {
	for _, c := range []struct {
		name     string
		program  string
		noChange bool
		want     string
	}{
		{"all acts", "tailscope", false, `
comes  index        10:03:30 /services/shop
comes  backup       10:08:31 /services/shop?l.operation==POST+/orders
comes  bulk import  10:13:41 /tenants?l.service==shop&tenant=hooli
comes  mirror       10:19:41 /sessions
comes  experiment   10:24:21 /sessions
comes  capacity     10:26:51 /sessions
comes  simulation   10:28:32 /sessions
comes  backup       10:38:37 /services/shop?l.operation==POST+/orders
comes  bulk import  10:48:47 /tenants?l.service==shop&tenant=hooli
`},
		{"without the program", "", true, `
comes  no change    10:03:30 /services/shop
comes  backup       10:08:30 /services/shop?l.operation==POST+/orders
comes  bulk import  10:13:40 /tenants?l.service==shop&tenant=hooli
comes  backup       10:24:40 /services/shop?l.operation==POST+/orders
comes  bulk import  10:34:50 /tenants?l.service==shop&tenant=hooli
`},
	} {
		d, _ := planned(c.program, c.noChange)
		if got := "\n" + by(d.story.acts()); got != c.want {
			t.Errorf("%s: got%s\nwant%s", c.name, got, c.want)
		}
	}
}

// Marks of the shop are so far apart that each is judged by itself: 20 slots after the slot of
// a mark and the settling slot, and half a minute until they have come.
func TestMarksAreApart(t *testing.T) {
	const apart = 22*10*time.Second + 30*time.Second
	d, _ := planned("tailscope", false)
	var at, last time.Duration
	for _, a := range d.acts() {
		begin := at + a.wait
		at = begin + a.lasts
		if a.mark.Name == "" {
			continue
		}
		if a.late {
			begin = at
		}
		if last > 0 && begin-last < apart {
			t.Errorf("%s is marked %s after the mark before, want %s or more", a.name, begin-last, apart)
		}
		last = begin
	}
}

// A run of the demo as its page shows it: an act that takes longer moves those after it, one
// that fails does not, and what comes again is planned again.
func TestStory(t *testing.T) {
	d, now := planned("", false)
	s := d.story
	at := func(clock string) {
		t.Helper()
		var err error
		if *now, err = time.Parse(time.DateTime, ten.Format(time.DateOnly)+" "+clock); err != nil {
			t.Fatal(err)
		}
	}
	is := func(when, want string) {
		t.Helper()
		if got := "\n" + by(s.acts()); got != want {
			t.Errorf("%s: got%s\nwant%s", when, got, want)
		}
	}
	if got := s.untilNext(); got != 210*time.Second {
		t.Errorf("the first act comes in %s", got)
	}
	at("10:03:30")
	index := s.begin()
	at("10:03:45")
	s.end(index, nil)
	s.identify(index, "m/1")
	at("10:08:45")
	if got := s.untilNext(); got != 0 {
		t.Errorf("the backup comes in %s, want now: five minutes after the index was made", got)
	}
	backup := s.begin()
	at("10:09:30")
	is("while the backup takes longer than usual", `
done   index        10:03:30-10:03:45 /services/shop/marks/m%2F1
runs   backup       10:08:45 /services/shop?l.operation==POST+/orders&range=15m
comes  bulk import  10:14:30 /tenants?l.service==shop&tenant=hooli
comes  backup       10:25:30 /services/shop?l.operation==POST+/orders
comes  bulk import  10:35:40 /tenants?l.service==shop&tenant=hooli
`)
	s.end(backup, errors.New("the disk is full"))
	at("10:30:00")
	if got := s.untilNext(); got >= 0 {
		t.Errorf("the import, which is overdue, comes in %s", got)
	}
	s.end(s.begin(), nil)
	again := s.begin()
	s.end(again, nil)
	at("10:31:00")
	is("long after", `
done   index        10:03:30-10:03:45 /services/shop/marks/m%2F1
failed backup       10:08:45-10:09:30 /services/shop?l.operation==POST+/orders&start=1795169025&end=1795169625 The disk is full
done   bulk import  10:30:00-10:30:00 /tenants?l.service==shop&tenant=hooli&range=15m
done   backup       10:30:00-10:30:00 /services/shop?l.operation==POST+/orders&range=15m
comes  bulk import  10:40:00 /tenants?l.service==shop&tenant=hooli
comes  backup       10:51:00 /services/shop?l.operation==POST+/orders
`)
	for range 3 * mostPast {
		s.end(s.begin(), nil)
	}
	if past := len(s.acts()) - 2; past != mostPast {
		t.Errorf("%d acts are kept, want %d", past, mostPast)
	}
}

// What is said of a mark: a change once it is found, and what is final.
func TestVerdictsSaid(t *testing.T) {
	v := func(state api.MarkState, verdict api.Verdict, sentence string) api.MarkVerdict {
		return api.MarkVerdict{State: state, Verdict: verdict, Sentence: sentence}
	}
	led := func(state api.MarkState, lead, sentence string) api.MarkVerdict {
		out := v(state, judge.Improvement, sentence)
		out.Services = []api.ServiceVerdict{{Lead: lead}}
		return out
	}
	for _, c := range []struct {
		name     string
		verdicts []api.MarkVerdict
		want     []string
		stays    string
	}{
		{"a change", []api.MarkVerdict{
			v(marks.Waiting, "", ""), v(marks.Early, judge.NoEvidence, "Too early to say"), v(marks.Provisional, judge.Improvement, "p99 is 2 times as fast"),
			v(marks.Early, judge.Improvement, "p99 is 3 times as fast"), v(marks.Final, judge.Improvement, "p99 is 4 times as fast"),
		}, []string{"so far: p99 is 2 times as fast", "p99 is 4 times as fast"}, "p99 is 4 times as fast"},
		{"a change that another figure tells", []api.MarkVerdict{
			led(marks.Provisional, "p50", "P50 is 2 times as fast"), led(marks.Provisional, "p50", "P50 is 2.1 times as fast"), led(marks.Early, "p99", "P99 is 3 times as fast"),
		}, []string{"so far: P50 is 2 times as fast", "so far: P99 is 3 times as fast"}, "so far: P99 is 3 times as fast"},
		{"nothing", []api.MarkVerdict{
			v(marks.Early, judge.TooLittle, "Too little data"), v(marks.Early, judge.NoEvidence, "Too early to say"), v(marks.Final, judge.NoEvidence, "No evidence of change"),
		}, []string{"No evidence of change"}, "No evidence of change"},
		{"too little", []api.MarkVerdict{v(marks.Final, judge.TooLittle, "Too little data to judge p50 of shop: before: 5 slots")}, []string{"Too little data to judge p50 of shop: before: 5 slots"}, "Too little data to judge p50 of shop: before: 5 slots"},
		{"a change that was chance, so far", []api.MarkVerdict{
			v(marks.Early, judge.Regression, "p99 is 3 times as slow"), v(marks.Early, judge.NoEvidence, "Too early to say"),
		}, []string{"so far: p99 is 3 times as slow"}, ""},
	} {
		s := newStory(func() time.Time { return ten })
		s.plan([]act{{name: "index", again: true}})
		x := s.begin()
		s.end(x, nil)
		s.identify(x, "1")
		var got []string
		for _, v := range c.verdicts {
			if said := s.judged(x, &v); said != "" {
				got = append(got, said)
			}
		}
		if strings.Join(got, "\n") != strings.Join(c.want, "\n") || x.verdict != c.stays {
			t.Errorf("%s: said %q, then %q; want %q, then %q", c.name, got, x.verdict, c.want, c.stays)
		}
		final := c.verdicts[len(c.verdicts)-1].State == marks.Final
		if open := len(s.open()) == 1; open == final {
			t.Errorf("%s: a verdict is to come: %v", c.name, open)
		}
	}
}

// The verdict of the release that made the shop slow is said with its page, once it is not
// provisional, though it is no act.
func TestVerdictOfTheReleaseSaid(t *testing.T) {
	s := newStory(func() time.Time { return ten })
	s.marked("release 2.4", "m1", ten.Add(-45*time.Minute))
	open := s.open()
	if len(open) != 1 || open[0].name != "release 2.4" || s.page(open[0]) != "/services/shop/marks/m1" || len(s.acts()) != 0 {
		t.Fatalf("%+v is open of %+v", open, s.acts())
	}
	v := api.MarkVerdict{State: marks.Provisional, Verdict: judge.Regression, Sentence: "P50 is 3 times as slow"}
	if said := s.judged(open[0], &v); said != "" {
		t.Errorf("a provisional verdict: said %q", said)
	}
	v.State = marks.Early
	if said := s.judged(open[0], &v); said != "so far: P50 is 3 times as slow" {
		t.Errorf("an early verdict: said %q", said)
	}
	v.State = marks.Final
	if said := s.judged(open[0], &v); said != "P50 is 3 times as slow" || len(s.open()) != 0 {
		t.Errorf("a final verdict: said %q, and %d are open", said, len(s.open()))
	}
}

// A session is linked to while it runs, and told once it has ended; a mirror's once the
// server has all of its slots.
func TestSessionsSaid(t *testing.T) {
	now := ten
	s := newStory(func() time.Time { return now })
	for _, kind := range []string{"mirror", "capacity"} {
		s.plan([]act{{name: kind, kind: kind, again: true}})
		x := s.begin()
		running := api.Session{ID: kind + "-1", State: "running", Headline: "p50 is faster", Updated: api.UnixTime(now)}
		if said := s.kept(x, &running); said != "" || s.page(x) != "/sessions/"+running.ID {
			t.Errorf("%s, while it runs: said %q, page %s", kind, said, s.page(x))
		}
		s.end(x, nil)
		ended := running
		ended.State, ended.Headline = "ended", ""
		if said := s.kept(x, &ended); said != "" {
			t.Errorf("%s, without a headline: said %q", kind, said)
		}
		ended.Headline = "p50 is the same"
		at := now
		if now = now.Add(2 * time.Second); kind == "mirror" {
			if said := s.kept(x, &ended); said != "" {
				t.Errorf("a mirror that ended just now: said %q", said)
			}
			now = at.Add(2 * time.Minute)
		}
		if said := s.kept(x, &ended); said != "p50 is the same" || len(s.open()) != 0 {
			t.Errorf("%s, once it has ended: said %q; %d to come", kind, said, len(s.open()))
		}
	}
}
