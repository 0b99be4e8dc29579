package verdicts

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"go.opentelemetry.io/proto/otlp/collector/trace/v1"

	"tailscope/api"
	"tailscope/internal/judge"
	number "tailscope/internal/trials"
)

// A change that nobody marked, half an hour after a mark that did nothing and half an hour
// before one that took it back: neither is blamed for it, and both say what cut their sides.
func TestUnmarkedChangeBesideMarks(t *testing.T) {
	loads := crowd("shop", 3)
	trials(t, 0.95, func(w *world) (bool, string) {
		w.send(time.Hour, loads...)
		nothing := w.mark("nothing", "shop")
		w.send(30*time.Minute, loads...)
		unmarked := w.clock()
		w.send(30*time.Minute, with(loads, slow("", "", 1.5))...)
		good := w.mark("fix", "shop")
		w.send(time.Hour, loads...)
		before, after := w.final(nothing), w.final(good)
		says := func(v *api.MarkVerdict, side string) bool {
			for _, x := range v.Services[0].Warnings {
				if x.Code == "cut" && strings.HasPrefix(x.Text, "the time "+side) && strings.Contains(x.Text, "because of a change that was found: ") && strings.Contains(x.Text, unmarked.Format("15:04")) {
					return true
				}
			}
			return false
		}
		return !judge.Moved(before.Verdict) && says(before, "after") && after.Verdict == judge.Improvement && says(after, "before"),
			all(before.Verdict, before.Sentence, before.Services[0].Warnings, after.Verdict, after.Sentence, after.Services[0].Warnings)
	})
}

// A change at a mark is its own, however small: nothing is cut.
func TestOwnChangeCutsNothing(t *testing.T) {
	loads := crowd("shop", 3)
	trials(t, 0.95, func(w *world) (bool, string) {
		w.send(time.Hour, loads...)
		id := w.mark("deploy", "shop")
		w.send(time.Minute, loads...) // it takes a while
		w.send(time.Hour, with(loads, slow("", "", 1.2))...)
		v := w.final(id)
		s := &v.Services[0]
		return v.Verdict == judge.Regression && s.After.End-s.After.Start == 3600 && s.Before.End-s.Before.Start == 3600, all(v.Sentence, s.Warnings)
	})
}

// Of two marks half a minute apart, of which one made everything twice as slow, both say
// so, and that they cannot be told apart; a third one ten minutes later does not.
func TestMarksAtOneMoment(t *testing.T) {
	loads := crowd("shop", 3)
	trials(t, 0.95, func(w *world) (bool, string) {
		w.send(time.Hour, loads...)
		first := w.mark("config", "shop")
		slower := with(loads, slow("", "", 2))
		w.send(30*time.Second, slower...)
		second := w.mark("deploy", "shop")
		w.send(10*time.Minute, slower...)
		third := w.mark("nothing", "shop")
		w.send(70*time.Minute, slower...)
		a, b, c := w.final(first), w.final(second), w.final(third)
		const both = `; "config" and "deploy" are 30 s apart and cannot be told apart`
		return a.Verdict == judge.Regression && a.Sentence == b.Sentence && strings.HasSuffix(a.Sentence, both) &&
			len(b.Services[0].Together) == 2 && len(c.Services[0].Together) == 0 && !strings.Contains(c.Sentence, "times as slow"), all(a.Sentence, b.Sentence, c.Sentence)
	})
}

// Where nothing changes, marks alarm no more often than they should while sides end at
// what is found beside them.
func TestMarksWithoutAChange(t *testing.T) {
	for _, n := range []noise{{}, {keeps: 0.6, deviation: 0.1}} {
		t.Run(fmt.Sprint("keeps=", n.keeps), func(t *testing.T) {
			marks, alarms, cut := 0, 0, 0
			for trial := range number.Of(1) {
				w := newWorld(t, 1000+trial)
				var ids []string
				send := func(length time.Duration) {
					for range int(length / (20 * time.Minute)) {
						start := w.clock()
						var all []*v1.ExportTraceServiceRequest
						for service := range 8 { // each with a noise of its own
							w.noise = n
							all = append(all, w.export(start, 20*time.Minute, crowd(fmt.Sprint("shop-", service), 2))...)
						}
						w.advance(20*time.Minute, all...)
					}
				}
				send(time.Hour)
				for service := range 8 {
					ids = append(ids, w.mark("nothing", fmt.Sprint("shop-", service)))
				}
				send(80 * time.Minute)
				for _, id := range ids {
					v := w.final(id)
					marks++
					if judge.Moved(v.Verdict) {
						alarms++
						t.Log(v.Sentence)
					}
					for _, x := range v.Services[0].Warnings {
						if x.Code == "cut" {
							cut++
							t.Log(x.Text)
						}
					}
				}
			}
			t.Logf("%d of %d marks alarm, %d sides are cut", alarms, marks, cut)
			if alarms > 2+marks/12 {
				t.Errorf("%d of %d marks without a change alarm", alarms, marks)
			}
		})
	}
}

// All very large tenants become slower, each too little to be sure of: the mark names them
// together. Of the small ones, which are many, none can be told apart either.
func TestMarkNamesACohort(t *testing.T) {
	for _, c := range []struct {
		cohort string
		slower func(tenant int) bool
		factor float64
	}{{"very large", func(tenant int) bool { return tenant < 8 }, 1.25}, {"small", func(tenant int) bool { return tenant >= 8 }, 2}} {
		t.Run(c.cohort, func(t *testing.T) {
			trials(t, 0.95, func(w *world) (bool, string) {
				loads := func(factor float64) (out []load) {
					for tenant := range 1508 {
						l := load{service: "shop", operation: "GET /cart", tenant: fmt.Sprint("tenant-", tenant), perSecond: 0.3, median: 0.05}
						if tenant >= 8 {
							l.perSecond = 0.0004
						}
						if c.slower(tenant) {
							l.median *= factor
						}
						out = append(out, l)
					}
					return out
				}
				w.send(time.Hour, loads(1)...)
				id := w.mark("deploy", "shop")
				w.send(70*time.Minute, loads(c.factor)...)
				v := w.final(id)
				s := &v.Services[0]
				var names []string
				for _, row := range s.Cohorts {
					names = append(names, row.Cohort)
				}
				return v.Verdict == judge.Regression && strings.Contains(v.Sentence, "for "+c.cohort+" tenants") && fmt.Sprint(names) == fmt.Sprint([]string{c.cohort}), all(v.Sentence, names, s.CohortsJudged, len(s.Tenants))
			})
		})
	}
}

// One light tenant of a cohort becomes slower, or fails, with too few requests to be judged
// by itself: the mark names it, and does not say that its cohort became slower.
func TestMarkNamesNoCohortForOneTenant(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(l *load)
	}{{"slower", slow("", "light-7", 6)}, {"errors", func(l *load) {
		if l.tenant == "light-7" {
			l.failed = 0.8
		}
	}}} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t, 1530)
			loads := crowd("shop", 8)
			for i := range 40 {
				l := load{service: "shop", operation: "GET /search", tenant: fmt.Sprint("light-", i), perSecond: 0.01, median: 0.05}
				if i == 7 {
					l.perSecond = 0.02
				}
				loads = append(loads, l)
			}
			w.send(time.Hour, loads...)
			id := w.mark("deploy", "shop")
			w.send(70*time.Minute, with(loads, c.change)...)
			s := w.story(id)
			if v := s.Sentence; strings.Contains(v, " tenants is ") || !judge.Moved(s.Verdict) || !strings.Contains(v, "light-7") {
				t.Errorf("%s: %s, cohorts %+v", s.Verdict, v, s.Cohorts)
			}
		})
	}
}

// Four orders that wait for a second are a spike of their mark, with its height and length,
// early and finally, and nothing lasts.
func TestShortSpikeIsTold(t *testing.T) {
	loads := []load{{service: "shop", operation: "GET /cart", perSecond: 40, median: 0.02}, {service: "shop", operation: "POST /orders", perSecond: 4, median: 0.1}}
	trials(t, 0.95, func(w *world) (bool, string) {
		w.sendEvery(12*time.Minute, 5*time.Second, loads...)
		id := w.mark("backup", "shop")
		w.sendEvery(5*time.Second, 5*time.Second, loads...)
		w.sendEvery(2*time.Second, 2*time.Second, with(loads, func(l *load) {
			if l.operation == "POST /orders" {
				l.steady, l.perSecond, l.median = true, 2, 1
			}
		})...)
		w.sendEvery(6*time.Minute, 5*time.Second, loads...)
		early := w.verdict(id)
		w.send(65*time.Minute, loads...)
		v := w.final(id)
		told := func(v *api.MarkVerdict) bool {
			for _, s := range v.Services[0].Shapes {
				if s.Kind == judge.Spike && s.Operation == "POST /orders" && s.End-s.Start <= 10 && strings.Contains(v.Sentence, s.Sentence) {
					return true
				}
			}
			return false
		}
		return early.State == "early" && told(early) && told(v) && !judge.Moved(v.Verdict), all(early.State, early.Sentence, early.Services[0].Shapes, v.Sentence, v.Services[0].Shapes)
	})
}

// Explain compares with what was before a change that nobody marked, also where the
// rectangle begins long after it.
func TestExplainBeforeAnUnmarkedChange(t *testing.T) {
	loads := crowd("shop", 3)
	trials(t, 0.95, func(w *world) (bool, string) {
		w.send(time.Hour, loads...)
		changed := w.clock()
		w.send(time.Hour, with(loads, slow("", "tenant-3", 3))...)
		now := w.clock()
		from, above := now.Add(-20*time.Minute), 0.3
		w.advance(time.Minute)
		sel := ofService("shop")
		sel.Start, sel.End = unix(epoch), unix(now)
		r, err := w.Explain(w.t.Context(), api.ExplainRequest{Selection: sel, From: unix(from), To: unix(now), Low: &above})
		if err != nil {
			w.t.Fatal(err)
		}
		first := ""
		if len(r.Items) > 0 {
			first = r.Items[0].Sentence
		}
		end := time.Unix(r.Before.End, 0)
		return strings.HasPrefix(first, "tenant tenant-3") && end.After(changed.Add(-5*time.Minute)) && !end.After(changed.Add(time.Minute)) &&
			strings.Contains(strings.Join(r.Notes, " "), "ends at a change that was found"), all(first, r.Sentence, r.Notes, end.UTC())
	})
}
