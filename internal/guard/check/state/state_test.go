package state

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"tailscope/internal/guard/check/event"
)

var begin = time.Date(2026, 3, 2, 9, 0, 0, 0, time.UTC)

func name(t time.Time) string { return t.UTC().Format("15:04:05") }

// TestTable plays runs, one letter each ten seconds: O W C U, a small letter for
// maintenance, and prints what was said: kind and levels, in brackets if nobody
// was told.
func TestTable(t *testing.T) {
	three := Rules{Soft: Runs{3, 3}, Recover: Runs{1, 1}}
	flap := three
	flap.Soft, flap.Flapping = Runs{1, 1}, Flapping{0.5, 0.25}
	remind := three
	remind.Remind = 30 * time.Second
	for _, test := range []struct {
		name, runs string
		rules      Rules
		want       string
	}{
		{"two bad runs are soft", "OCCOCCO", three, ""},
		{"three are hard, one good ends it", "CCCCO", three, "2 opened OK>CRITICAL; 4 resolved CRITICAL>OK"},
		{"severity changes at once", "WWWCWUO", three, "2 opened OK>WARNING; 3 changed WARNING>CRITICAL; 4 changed CRITICAL>WARNING; 5 changed WARNING>UNKNOWN; 6 resolved UNKNOWN>OK"},
		{"three of five", "COCOCO", Rules{Soft: Runs{3, 5}, Recover: Runs{2, 2}}, "4 opened OK>CRITICAL"},
		{"and back by two of two", "COCOCOCOO", Rules{Soft: Runs{3, 5}, Recover: Runs{2, 2}}, "4 opened OK>CRITICAL; 8 resolved CRITICAL>OK"},
		{"an incident within maintenance is never told", "occccoO", three, "3 (opened OK>CRITICAL); 5 (resolved CRITICAL>OK)"},
		{"one that outlives it is told once", "cccCCCO", three, "2 (opened OK>CRITICAL); 3 late opened OK>CRITICAL; 6 resolved CRITICAL>OK"},
		{"as bad as it is then", "wwwcCO", three, "2 (opened OK>WARNING); 3 (changed WARNING>CRITICAL); 4 late opened OK>CRITICAL; 5 resolved CRITICAL>OK"},
		{"one from before it changes", "WWWwcCCO", three, "2 opened OK>WARNING; 4 (changed WARNING>CRITICAL); 5 late changed WARNING>CRITICAL; 7 resolved CRITICAL>OK"},
		{"one from before it reminds", "WWWwwWWO", three, "2 opened OK>WARNING; 5 changed WARNING>WARNING; 7 resolved WARNING>OK"},
		{"one from before it ends in it", "WWWwoO", three, "2 opened OK>WARNING; 4 resolved WARNING>OK"},
		{"reminders", "CCCCCCCCCO", remind, "2 opened OK>CRITICAL; 5 changed CRITICAL>CRITICAL; 8 changed CRITICAL>CRITICAL; 9 resolved CRITICAL>OK"},
		{"flapping", "COCOCOCOCOCOCOOOOOOOOOOOOOOOOOOOOOO", flap,
			"0 opened OK>CRITICAL; 1 resolved CRITICAL>OK; 2 opened OK>CRITICAL; 3 resolved CRITICAL>OK; 4 opened OK>CRITICAL; 5 resolved CRITICAL>OK; " +
				"6 opened OK>CRITICAL; 7 resolved CRITICAL>OK; 8 opened OK>CRITICAL; 9 resolved CRITICAL>OK; 10 opened OK>CRITICAL; 10 flapping CRITICAL>CRITICAL; " +
				"28 steady CRITICAL>OK; 28 resolved CRITICAL>OK"},
	} {
		var m Machine
		var said []string
		for i, c := range test.runs {
			quiet := ""
			if c >= 'a' {
				quiet = "maintenance"
			}
			level := event.Level(strings.IndexRune("OWCU", []rune(strings.ToUpper(string(c)))[0]))
			for _, e := range m.Run(test.rules, level, begin.Add(time.Duration(i)*10*time.Second), quiet, name, nil) {
				text := fmt.Sprintf("%s %s>%s", e.Kind, e.From, e.To)
				switch {
				case e.Late:
					text = "late " + text
				case !e.Notify:
					text = "(" + text + ")"
				}
				said = append(said, fmt.Sprintf("%d %s", i, text))
			}
		}
		if got := strings.Join(said, "; "); got != test.want {
			t.Errorf("%s: %s\n got %s\nwant %s", test.name, test.runs, got, test.want)
		}
	}
}

func TestAcknowledged(t *testing.T) {
	var m Machine
	r := Rules{}
	at := func(i int) time.Time { return begin.Add(time.Duration(i) * time.Minute) }
	m.Run(r, event.Warning, at(0), "", name, nil)
	events, ok := m.Acknowledge(Ack{User: "eva", At: at(1), Until: at(10)}, "", nil)
	if !ok || len(events) != 1 || events[0].Kind != event.Acknowledged || !events[0].Notify || events[0].Seq != 2 {
		t.Fatalf("acknowledged: %v %+v", ok, events)
	}
	events = m.Run(r, event.Critical, at(2), "", name, nil)
	if len(events) != 1 || events[0].Notify {
		t.Errorf("a change of what is acknowledged is told: %+v", events)
	}
	if events = m.Tick(r, at(9), "", nil); len(events) != 0 {
		t.Errorf("before its end: %+v", events)
	}
	events = m.Tick(r, at(10), "", nil)
	if len(events) != 1 || !events[0].Late || events[0].Seq != 3 || events[0].From != event.Warning || events[0].To != event.Critical {
		t.Errorf("at its end: %+v", events)
	}
	if m.Ack != nil {
		t.Error("the acknowledgement outlives its end")
	}
	m.Acknowledge(Ack{User: "eva", At: at(11)}, "", nil)
	events = m.Run(r, event.OK, at(12), "", name, nil)
	if len(events) != 1 || events[0].Kind != event.Resolved || !events[0].Notify || m.Ack != nil {
		t.Errorf("OK: %+v, ack %v", events, m.Ack)
	}
	if _, ok := m.Acknowledge(Ack{}, "", nil); ok {
		t.Error("acknowledged nothing")
	}
}

// twin computes the hard state from all runs, without bits.
func twin(r Rules, runs []event.Level) event.Level {
	hard, since := event.OK, 0
	for i, level := range runs {
		count := func(of int, what func(event.Level) bool) (n int) {
			for j := max(since, i+1-of); j <= i; j++ {
				if what(runs[j]) {
					n++
				}
			}
			return n
		}
		isBad := func(l event.Level) bool { return l != event.OK }
		switch {
		case hard == event.OK && isBad(level) && count(r.Soft.Of, isBad) >= r.Soft.N:
			hard, since = level, i+1
		case hard != event.OK && !isBad(level) && count(r.Recover.Of, func(l event.Level) bool { return !isBad(l) }) >= r.Recover.N:
			hard, since = event.OK, i+1
		case hard != event.OK && isBad(level):
			hard = level
		}
	}
	return hard
}

func TestMachineIsItsTwin(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var r Rules
		r.Soft.Of, r.Recover.Of = rapid.IntRange(1, 6).Draw(t, "of bad"), rapid.IntRange(1, 4).Draw(t, "of good")
		r.Soft.N, r.Recover.N = rapid.IntRange(1, r.Soft.Of).Draw(t, "bad"), rapid.IntRange(1, r.Recover.Of).Draw(t, "good")
		if rapid.Bool().Draw(t, "flaps") {
			r.Flapping = Flapping{0.5, 0.25}
		}
		var m Machine
		var runs []event.Level
		open, seq := "", 0
		opened, resolved := map[string]int{}, map[string]int{}
		believed := map[string]event.Level{} // by receivers
		take := func(events []Event) {
			for _, e := range events {
				if e.Notify {
					if e.Kind == event.Opened && believed[e.Incident] != event.OK || e.Kind != event.Opened && believed[e.Incident] == event.OK {
						t.Fatalf("told %+v, believed %v", e, believed[e.Incident])
					}
					if e.Kind == event.Changed && e.Why == "" && e.To == believed[e.Incident] {
						t.Fatalf("told a change to %v, which is what they believe", e.To)
					}
					if e.Kind == event.Opened || e.Kind == event.Changed || e.Kind == event.Resolved {
						believed[e.Incident] = e.To
					}
				}
				if e.Late {
					if !e.Notify || e.Seq > seq || e.Incident != open {
						t.Fatalf("late %+v after %d", e, seq)
					}
					continue
				}
				if e.Kind == event.Opened {
					if open != "" {
						t.Fatalf("opened %s within %s", e.Incident, open)
					}
					open, seq = e.Incident, 0
					opened[open]++
				}
				if seq++; e.Seq != seq || e.Incident != open {
					t.Fatalf("event %+v is not %d of %s", e, seq, open)
				}
				if e.Kind == event.Changed && e.From == e.To && e.Why == "" {
					t.Fatalf("nothing changed: %+v", e)
				}
				if e.Kind == event.Resolved {
					resolved[open]++
					open = ""
				}
			}
		}
		at := begin
		for range rapid.IntRange(1, 120).Draw(t, "steps") {
			at = at.Add(time.Duration(rapid.IntRange(1, 20).Draw(t, "wait")) * time.Second)
			quiet := rapid.SampledFrom([]string{"", "", "", "maintenance"}).Draw(t, "quiet")
			saved, err := json.Marshal(m)
			if err != nil {
				t.Fatal(err)
			}
			var other Machine
			if err := json.Unmarshal(saved, &other); err != nil {
				t.Fatal(err)
			}
			var a, b []Event
			switch rapid.SampledFrom([]string{"run", "run", "run", "run", "tick", "ack", "unack"}).Draw(t, "what") {
			case "run":
				level := rapid.SampledFrom([]event.Level{event.OK, event.OK, event.Warning, event.Critical, event.Unknown}).Draw(t, "level")
				runs = append(runs, level)
				a, b = m.Run(r, level, at, quiet, name, nil), other.Run(r, level, at, quiet, name, nil)
				if want := twin(r, runs); m.Hard != want {
					t.Fatalf("hard %v, want %v after %v", m.Hard, want, runs)
				}
			case "tick":
				a, b = m.Tick(r, at, quiet, nil), other.Tick(r, at, quiet, nil)
			case "ack":
				ack := Ack{User: "eva", At: at, Until: at.Add(time.Minute)}
				a, _ = m.Acknowledge(ack, quiet, nil)
				b, _ = other.Acknowledge(ack, quiet, nil)
			case "unack":
				m.Unacknowledge()
				other.Unacknowledge()
			}
			x, _ := json.Marshal(m)
			y, _ := json.Marshal(other)
			if string(x) != string(y) || !reflect.DeepEqual(fmt.Sprint(len(a), a), fmt.Sprint(len(b), b)) && len(a) != len(b) {
				t.Fatalf("a saved machine goes on differently:\n%s\n%s", x, y)
			}
			take(a)
			if (open != "") != (m.Incident != nil) {
				t.Fatalf("open %q, machine %+v", open, m.Incident)
			}
			if !m.Flapping && (m.Hard != event.OK) != (open != "") {
				t.Fatalf("hard %v, open %q", m.Hard, open)
			}
		}
		take(m.Close(at, "gone", nil))
		for id, n := range opened {
			if n != 1 || resolved[id] != 1 || believed[id] != event.OK {
				t.Fatalf("%s: opened %d, resolved %d, believed %v", id, n, resolved[id], believed[id])
			}
		}
	})
}

func BenchmarkSteady(b *testing.B) {
	var m Machine
	var dst []Event
	r := Rules{Soft: Runs{3, 3}, Recover: Runs{1, 1}, Flapping: Flapping{0.5, 0.25}}
	b.ReportAllocs()
	for b.Loop() {
		dst = m.Run(r, event.OK, begin, "", name, dst[:0])
	}
}
