package verdicts

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"tailscope/api"
	"tailscope/internal/figure"
	"tailscope/internal/judge"
)

// story is storyOf shop.
func (w *world) story(id string) *api.ServiceVerdict {
	w.t.Helper()
	return w.storyOf("shop", id)
}

// storyOf returns what is said of a mark of a service once it is final, which is the same of the
// mark, of a comparison at it by the API, and by the command line, whose exit code follows
// from it.
func (w *world) storyOf(service, id string) *api.ServiceVerdict {
	w.t.Helper()
	v := w.final(id)
	s := &v.Services[0]
	r, err := w.Compare(w.t.Context(), api.CompareRequest{Selection: ofService(service), Mark: id})
	if err != nil {
		w.t.Fatal(err)
	}
	if r.Verdict != v.Verdict || r.Sentence != v.Sentence || r.A.Range != s.Before || r.B.Range != s.After || (r.Then == nil) != (s.Then == nil) || len(r.Together) != len(s.Together) {
		w.t.Errorf("the mark says %s: %s (%v, %v)\na comparison at it %s: %s (%v, %v)", v.Verdict, v.Sentence, s.Before, s.After, r.Verdict, r.Sentence, r.A.Range, r.B.Range)
	}
	for _, x := range s.Warnings {
		if (x.Code == "cut" || x.Code == "near") && warning(r.Warnings, x.Code) == "" {
			w.t.Errorf("a comparison at the mark does not warn that %s", x.Text)
		}
	}
	code, output := w.tailscope("compare", "--mark", id) // of the mark's service
	want := map[api.Verdict]int{judge.Regression: 1, judge.Mixed: 1, judge.TooLittle: 2}[v.Verdict]
	if code != want || !strings.Contains(output, v.Sentence) {
		w.t.Errorf("compare --mark exits with %d, want %d: %s", code, want, output)
	}
	w.t.Logf("%s: %s", v.Verdict, v.Sentence)
	return s
}

// A mark has one verdict, one sentence and the same sides wherever it is told.
func TestMarkHasOneStory(t *testing.T) {
	loads := crowd("shop", 5)
	t.Run("change that nobody marked", func(t *testing.T) {
		w := newWorld(t, 1500)
		w.send(time.Hour, loads...)
		id := w.mark("nothing", "shop")
		w.send(30*time.Minute, loads...)
		w.send(35*time.Minute, with(loads, slow("", "", 1.5))...)
		if s := w.story(id); judge.Moved(s.Verdict) || s.Then != nil {
			t.Errorf("%s, then %+v", s.Verdict, s.Then)
		}
	})
	t.Run("marks at one moment", func(t *testing.T) {
		w := newWorld(t, 1501)
		w.send(time.Hour, loads...)
		id := w.mark("config", "shop")
		w.send(30*time.Second, with(loads, slow("", "", 2))...)
		w.mark("deploy", "shop")
		w.send(70*time.Minute, with(loads, slow("", "", 2))...)
		if s := w.story(id); s.Verdict != judge.Regression || len(s.Together) != 2 {
			t.Errorf("%s, together %v", s.Verdict, s.Together)
		}
	})
}

// watch has a check of durations and one of errors, and a receiver that writes to a file.
const watch = `receivers:
  log: {file: {path: %q}, verdicts: yes}
templates:
  shop: {labels: {service: shop}, every: 1m, receivers: log, soft: 1}
checks:
  slow:
    template: shop
    value: {query: {measure: p95, series: 'span_duration_seconds{service="shop", kind="server"}', over: 5m}}
    threshold: {must: "<", of: 0.36, critical: 0}
  errors:
    template: shop
    value: {query: {measure: errors, series: 'span_duration_seconds{service="shop", kind="server"}', over: 5m}}
    threshold: {must: "<", of: 0.02, critical: 0}
`

// received returns the text of the first event of a kind that a receiver wrote to a file, where
// it comes in a moment.
func received(t *testing.T, path, kind string) string {
	t.Helper()
	return receivedEvent(t, path, kind).Text
}

// toldEvent is what a test reads of an event.
type toldEvent struct {
	Kind, Text    string
	Opened, Since time.Time
}

// receivedEvent is received of all of the event.
func receivedEvent(t *testing.T, path, kind string) toldEvent {
	t.Helper()
	for end := time.Now().Add(30 * time.Second); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		text, err := os.ReadFile(path)
		if err != nil {
			continue // it is made with the first event
		}
		for line := range bytes.Lines(text) {
			var event toldEvent
			if json.Unmarshal(line, &event) == nil && event.Kind == kind {
				return event
			}
		}
	}
	t.Fatalf("the receiver has no event of the kind %s", kind)
	return toldEvent{}
}

// What a deploy did is told by one text, of the same sides, on the first page, in the list of
// changes, at the mark, in a comparison at it, on the command line and to receivers of a check
// that fails because of it, and stays so when more comes later.
func TestEventHasOneStory(t *testing.T) {
	loads := crowd("shop", 8)
	for _, c := range []struct {
		name   string
		effect func(*load)
		want   api.Verdict
	}{
		{"slower", slow("", "", 1.4), judge.Regression},
		{"faster", slow("", "", 0.5), judge.Improvement},
		{"errors", func(l *load) { l.failed = 0.05 }, judge.Regression},
		{"one operation", slow("POST /orders", "", 3), judge.Regression},
	} {
		t.Run(c.name, func(t *testing.T) {
			events := filepath.Join(t.TempDir(), "events.json")
			w := newWatchedWorld(t, 1530, fmt.Sprintf(watch, events))
			w.send(time.Hour, loads...)
			id := w.mark("deploy", "shop")
			w.send(20*time.Minute, with(loads, c.effect)...)
			if early := w.verdict(id); c.want == judge.Regression {
				if text := received(t, events, "opened"); !strings.Contains(text, " is CRITICAL: ") || !strings.Contains(text, ". "+early.Sentence+", since 2026-05-12 11:00") {
					t.Errorf("the receiver is told\n%s\nand the mark says\n%s", text, early.Sentence)
				}
				w.sinceItsChange(receivedEvent(t, events, "opened"))
			}
			w.send(50*time.Minute, with(loads, c.effect)...)
			s := w.story(id)
			if s.Verdict != c.want {
				t.Errorf("the mark says %s: %s", s.Verdict, s.Sentence)
			}
			if text := received(t, events, "verdict"); text != s.Sentence {
				t.Errorf("the receiver is told\n%s\nand the mark says\n%s", text, s.Sentence)
			}
			w.told(s)
			w.send(20*time.Minute, with(with(loads, c.effect), slow("", "", 1.5))...)
			if later := w.story(id); later.Sentence != s.Sentence {
				t.Errorf("later the mark says\n%s\nand said\n%s", later.Sentence, s.Sentence)
			}
			w.told(s)
		})
	}
}

// sinceItsChange fails where a check that fails is not since the moment of the change of shop that
// explains it: what a receiver is told, its incident, the list of checks as the first page and the
// command line have it.
func (w *world) sinceItsChange(told toldEvent) {
	w.t.Helper()
	r, err := w.Checks(w.t.Context(), api.ChecksRequest{State: "bad"})
	if err != nil || len(r.Checks) == 0 || r.Checks[0].Incident == nil {
		w.t.Fatalf("no check fails: %+v, %v", r, err)
	}
	at := -1
	found := w.allChanges(0, w.clock().Sub(epoch)).Changes
	for i, c := range found {
		if c.Verdict == judge.Regression && c.Under == "" && (at < 0 || c.Time < found[at].Time) {
			at = i
		}
	}
	if at < 0 {
		w.t.Fatal("no change is found")
	}
	moment, in := found[at].Time, r.Checks[0].Incident
	_, output := w.tailscope("check", "show", r.Checks[0].ID)
	if in.Start <= moment || in.Since != moment || r.Checks[0].Since != moment || !told.Since.Equal(moment.Time()) || !told.Opened.Equal(in.Start.Time()) ||
		!strings.Contains(output, moment.Time().Local().Format("2006-01-02 15:04:05")) {
		w.t.Errorf("the change is of %v; the incident that opened at %v is since %v, its check since %v, and the receiver is told %v; tailscope check show says\n%s", moment.Time(), in.Start.Time(), in.Since.Time(), r.Checks[0].Since.Time(), told.Since, output)
	}
}

// told fails where another text than that of a mark of shop tells what it did.
func (w *world) told(s *api.ServiceVerdict) {
	w.t.Helper()
	r := w.allChanges(0, w.clock().Sub(epoch))
	at := slices.IndexFunc(r.Changes, func(c api.Change) bool {
		return c.Operation == "" && len(c.Near) > 0 && c.Near[0].Name == "deploy" && c.Part == nil
	})
	if at < 0 {
		w.t.Fatalf("no change of shop lies at the mark: %+v", r.Changes)
	}
	c := &r.Changes[at]
	if figure.Sentence(c.Headline) != s.Sentence || c.Verdict != s.Verdict || c.Before != s.Before || c.After != s.After || !strings.HasPrefix(c.Sentence, c.Headline+", since ") {
		w.t.Errorf("the change says %s: %s (%v, %v)\nthe mark %s: %s (%v, %v)", c.Verdict, c.Sentence, c.Before, c.After, s.Verdict, s.Sentence, s.Before, s.After)
	}
	for _, m := range c.Measures {
		if i := slices.IndexFunc(s.Measures, func(x api.CompareMeasure) bool { return x.Name == m.Name }); i < 0 || m.Sentence != s.Measures[i].Sentence {
			w.t.Errorf("a figure of the change, not of the mark: %s", m.Sentence)
		}
	}
	services, err := w.Services(w.t.Context(), api.ServicesRequest{Selection: api.Selection{Start: unix(epoch)}})
	if err != nil {
		w.t.Fatal(err)
	}
	if latest := services.Services[0].LatestMark; latest == nil || latest.Verdict.Sentence != s.Sentence {
		w.t.Errorf("the list of services says %+v", latest)
	}
	for _, args := range [][]string{{"changes", "list", "--service", "shop", "--since", "3h", "--format", "json"}, {"mark", "list", "--format", "csv"}} {
		said, _, _ := strings.Cut(c.Headline, " (95 %")
		if _, output := w.tailscope(args...); !strings.Contains(output, said) && !strings.Contains(output, figure.Sentence(said)) {
			w.t.Errorf("tailscope %s says\n%s\nwithout %q", strings.Join(args, " "), output, said)
		}
	}
}

// A deploy that takes effect after six minutes, over twelve, or instance by instance, is a
// regression of its mark, which says since when.
func TestLateEffectOfAMark(t *testing.T) {
	loads := crowd("shop", 10)
	for _, c := range []struct {
		name string
		play func(w *world)
	}{
		{"after six minutes", func(w *world) { w.send(6*time.Minute, loads...) }},
		{"ramp", func(w *world) {
			for i := range 12 {
				w.send(time.Minute, with(loads, slow("", "", 1+float64(i)/12))...)
			}
		}},
		{"four instances", func(w *world) {
			for i := range 4 {
				share := float64(i) / 4
				old := with(loads, func(l *load) { l.perSecond *= 1.0001 - share })
				w.send(3*time.Minute, append(old, with(loads, func(l *load) { l.perSecond *= 0.0001 + share; l.median *= 2 })...)...)
			}
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t, 1510)
			w.send(time.Hour, loads...)
			id := w.mark("deploy", "shop")
			c.play(w)
			w.send(70*time.Minute, with(loads, slow("", "", 2))...)
			s := w.story(id)
			if s.Verdict != judge.Regression || s.Then == nil || s.Then.Verdict != judge.Regression || !strings.HasSuffix(s.Sentence, ": a late effect of the mark, or a change that nobody marked") {
				t.Errorf("%s: %s, then %+v", s.Verdict, s.Sentence, s.Then)
			}
		})
	}
}

// At a restart the time before the outage is compared with the time after it, and the
// sentence says how long it was.
func TestMarkAfterAnOutage(t *testing.T) {
	loads := crowd("shop", 6)
	for _, c := range []struct {
		name   string
		down   time.Duration
		factor float64
		want   api.Verdict
	}{{"5 min", 5 * time.Minute, 1.5, judge.Regression}, {"20 min", 20 * time.Minute, 1.5, judge.Regression}, {"90 min", 90 * time.Minute, 1.5, judge.Regression}, {"20 min", 20 * time.Minute, 1, judge.NoEvidence}} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t, 1520)
			w.send(time.Hour, append(loads, goingOn)...)
			w.send(c.down, goingOn)
			id := w.mark("restart", "shop")
			w.send(70*time.Minute, append(with(loads, slow("", "", c.factor)), goingOn)...)
			s := w.story(id)
			if s.Verdict != c.want || !strings.HasSuffix(s.Sentence, "; before it there was an outage of "+c.name+", from 11:00 UTC on") || s.Outage == nil || s.Before.End != epoch.Add(time.Hour).Unix() {
				t.Errorf("%s: %s, before %v", s.Verdict, s.Sentence, s.Before)
			}
		})
	}
}

// Data that come after the verdict is final, as of a collector that was cut off, are judged
// again, though both sides had enough before.
func TestHalfOfTheDataComesLate(t *testing.T) {
	w := newWorld(t, 7200)
	loads, late := crowd("shop", 3), crowd("shop", 3)
	w.send(time.Hour, loads...)
	id := w.mark("deploy", "shop")
	w.send(70*time.Minute, loads...)
	if s := w.story(id); judge.Moved(s.Verdict) {
		t.Errorf("%s of the half that changed nothing", s.Verdict)
	}
	for _, r := range w.export(epoch, time.Hour, late) {
		w.post(r)
	}
	for _, r := range w.export(epoch.Add(time.Hour), 70*time.Minute, with(late, slow("", "", 3))) {
		w.post(r)
	}
	for range 15 {
		w.advance(time.Minute, w.export(w.clock(), time.Minute, loads)...)
	}
	if s := w.story(id); s.Verdict != judge.Regression {
		t.Errorf("%s of all", s.Verdict)
	}
}

// A mark within an outage has one verdict as well, of the time after the outage; one at which
// the service goes down is a regression, however fast it is when it is back.
func TestMarkWithinAnOutage(t *testing.T) {
	loads := crowd("shop", 6)
	for _, c := range []struct {
		name         string
		before, down time.Duration // of the outage
		factor       float64
		want         judge.Verdict
	}{
		{"back as before", 4 * time.Minute, 9 * time.Minute, 1, judge.NoEvidence},
		{"back and slower", 4 * time.Minute, 9 * time.Minute, 1.5, judge.Regression},
		{"down for longer than a side", 2 * time.Minute, 75 * time.Minute, 1.5, judge.Regression},
		{"taken down by the deploy", 0, 10 * time.Minute, 1, judge.Regression},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t, 8300)
			w.send(time.Hour, append(loads, goingOn)...)
			w.send(c.before, goingOn)
			id := w.mark("deploy", "shop")
			w.send(c.down-c.before, goingOn)
			w.send(100*time.Minute, append(with(loads, slow("", "", c.factor)), goingOn)...)
			s := w.story(id)
			if s.Verdict != c.want || s.Outage == nil || s.Outage.After != (c.before == 0) || s.After.Start < int64(s.Outage.End) {
				t.Errorf("%s, outage %+v, after %v", s.Verdict, s.Outage, s.After)
			}
		})
	}
}
