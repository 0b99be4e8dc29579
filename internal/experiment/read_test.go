package experiment

import (
	"encoding/json"
	"math"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"tailscope/internal/judge"
	"tailscope/internal/strictyaml"
)

func TestMistakes(t *testing.T) {
	const rest = "experiment: e\nscenario: load.yaml\napply: ./set {{workers}}\n"
	for _, c := range []struct{ name, file, want string }{
		{"two variables", rest + "variable: workers\ncontrol: {workers: 8, keepalive: 100}\nvariants: [{workers: 1, keepalive: 0}]",
			"x.yaml:6:13: this setting changes workers and keepalive at once: change one variable at a time, or write design: factorial"},
		{"equal to the control", rest + "variable: workers\ncontrol: {workers: 8}\nvariants: [{workers: 8}]",
			"this setting is equal to the control: change its workers, or leave it out"},
		{"another variable", rest + "variable: workers\ncontrol: {workers: 8, keepalive: 100}\nvariants: [{keepalive: 0}]",
			"this setting changes keepalive, but the variable is workers"},
		{"twice", rest + "variable: workers\ncontrol: {workers: 8}\nvariants: [{workers: 1}, {workers: 1}]", "workers=1 is there twice"},
		{"twice in a sweep", rest + "variable: workers\ncontrol: {workers: 8}\nsweep: [1, 2, 1]", "workers=1 is there twice"},
		{"an unknown key", rest + "variable: workers\ncontrol: {workers: 8}\nvariant: [{workers: 1}]", "x.yaml:6:1: unknown key variant in experiment: did you mean variants?"},
		{"an unknown variable", rest + "variable: worker\ncontrol: {workers: 8}\nsweep: [1]", "the control has no variable worker: did you mean workers?"},
		{"a variant of an unknown variable", rest + "variable: workers\ncontrol: {workers: 8}\nvariants: [{worker: 1}]", "the control has no variable worker, so that nobody knows what this is held against"},
		{"no variable", rest + "control: {workers: 8}\nsweep: [1]", "does not say which variable changes: write variable: workers"},
		{"nothing beside the control", rest + "variable: workers\ncontrol: {workers: 8}", "nothing beside the control"},
		{"nothing but the control", rest + "variable: workers\ncontrol: {workers: 8}\nsweep: [8]", "the sweep has nothing but the control's workers=8"},
		{"two ways", rest + "variable: workers\ncontrol: {workers: 8}\nsweep: [1]\nvariants: [{workers: 2}]", "more than one way"},
		{"factors without asking", rest + "control: {workers: 8, keepalive: 100}\nfactors: {workers: [1], keepalive: [0]}", "factors change more than one variable at once: write design: factorial"},
		{"one factor", rest + "design: factorial\ncontrol: {workers: 8}\nfactors: {workers: [1]}", "a factorial design has several factors"},
		{"a factor's value of the control", rest + "design: factorial\ncontrol: {workers: 8, keepalive: 100}\nfactors: {workers: [1, 8], keepalive: [0]}", "workers=8 is the control's"},
		{"a range backwards", rest + "variable: workers\ncontrol: {workers: 8}\nsweep: {from: 9, to: 1, steps: 3}", "a sweep from 9 to 1 has no values"},
		{"ratios from nought", rest + "variable: workers\ncontrol: {workers: 8}\nsweep: {from: 0, to: 8, steps: 3, scale: geometric}", "equal ratios do not begin at 0"},
		{"no file", "experiment: e\nscenario: none.yaml\nvariable: a\ncontrol: {a: 1}\nsweep: [2]\napply: x", "the scenario is not read"},
		{"no load", "experiment: e\nvariable: a\ncontrol: {a: 1}\nsweep: [2]\napply: x", "the experiment has no load: write scenario: FILE"},
		{"nothing uses it", "experiment: e\nscenario: load.yaml\nvariable: a\ncontrol: {a: 1}\nsweep: [2]", "nothing uses a: every setting would be the control"},
		{"an unknown name in a command", rest + "variable: workers\ncontrol: {workers: 8}\nsweep: [1]\nsettle: 1s\nbetween: ./x {{workrs}}", "the command ./x asks for {{workrs}}, which the control has not: did you mean workers?"},
		{"precision and early", rest + "variable: workers\ncontrol: {workers: 8}\nsweep: [1]\nrounds: {precision: 3%, early: true}", "precision and early are two rules"},
		{"rounds without a rule", rest + "variable: workers\ncontrol: {workers: 8}\nsweep: [1]\nrounds: {at_least: 4, at_most: 8}", "nothing says when to stop between 4 and 8 rounds"},
		{"live and a scenario", rest + "variable: workers\ncontrol: {workers: 8}\nsweep: [1]\nlive: {session: s}", "it has no scenario"},
		{"live, too short", "experiment: e\napply: ./set {{workers}}\nvariable: workers\ncontrol: {workers: 8}\nsweep: [1]\nlive: {session: s, for: 1m}", "1m0s of a setting is too short for an interval, which needs 20 whole slots of 10s"},
		{"live, whose slots are not whole", "experiment: e\napply: ./set {{workers}}\nvariable: workers\ncontrol: {workers: 8}\nsweep: [1]\nlive: {session: s, for: 200s}", "3m20s of a setting is too short"},
		{"live and a baseline", "experiment: e\napply: ./set {{workers}}\nvariable: workers\ncontrol: {workers: 8}\nsweep: [1]\nlive: {session: s}\ngate: {baseline: b.json}", "x.yaml:7:18: a live design has no rounds to hold against a baseline"},
		{"equal to the control, written otherwise", rest + "variable: workers\ncontrol: {workers: 500ms}\nvariants: [{workers: 0.5s}]", "this setting is equal to the control"},
		{"one round", rest + "variable: workers\ncontrol: {workers: 8}\nsweep: [1]\nrounds: 1", "one round tells nothing of how much rounds differ: write 6 or more"},
		{"too few requests for what decides", rest + "variable: workers\ncontrol: {workers: 8}\nsweep: [1]\nrounds: {early: true, measure: p999}", "x.yaml:7:32: p999 takes 5000 requests a round, and the load has 1000 with workers=8: let it run for longer, or write measure: p95"},
		{"no YAML", "experiment: [", "x.yaml:1"},
	} {
		l := newLab(t, c.file)
		x, problems := Load(filepath.Join(l.dir, "x.yaml"))
		var all []string
		for _, p := range problems {
			all = append(all, strings.ReplaceAll(p.Error(), l.dir+"/", ""))
		}
		if x != nil || !strings.Contains(strings.Join(all, "\n"), c.want) {
			t.Errorf("%s: %q, not %q", c.name, all, c.want)
		}
	}
}

func TestSettings(t *testing.T) {
	for _, c := range []struct {
		name, file string
		want       []string
	}{
		{"a list", "variable: workers\ncontrol: {workers: 8}\nsweep: [1, 8, 24]", []string{"workers=8", "workers=1", "workers=24"}},
		{"a range", "variable: workers\ncontrol: {workers: 8}\nsweep: {from: 1, to: 9, steps: 3}", []string{"workers=8", "workers=1", "workers=5", "workers=9"}},
		{"equal ratios", "variable: workers\ncontrol: {workers: 8}\nsweep: {from: 1, to: 64, steps: 7, scale: geometric}", []string{"workers=8", "workers=1", "workers=2", "workers=4", "workers=16", "workers=32", "workers=64"}},
		{"ratios that round to the same", "variable: workers\ncontrol: {workers: 8}\nsweep: {from: 1, to: 4, steps: 10, scale: geometric}", []string{"workers=8", "workers=1", "workers=2", "workers=3", "workers=4"}},
		{"fractions", "variable: workers\ncontrol: {workers: 0.5}\nsweep: {from: 0.25, to: 1, steps: 4}", []string{"workers=0.5", "workers=0.25", "workers=0.75", "workers=1"}},
		{"one written otherwise", "variable: workers\ncontrol: {workers: 8}\nsweep: [1, 8.0]", []string{"workers=8", "workers=1"}},
		{"factors", "design: factorial\ncontrol: {workers: 8, keepalive: 100}\nfactors: {workers: [1, 24], keepalive: [0]}",
			[]string{"workers=8 keepalive=100", "workers=8 keepalive=0", "workers=1 keepalive=100", "workers=1 keepalive=0", "workers=24 keepalive=100", "workers=24 keepalive=0"}},
	} {
		l := newLab(t, "experiment: e\nscenario: load.yaml\napply: ./set {{workers}}\n"+c.file)
		x := l.load()
		if got := x.names(); !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, not %q", c.name, got, c.want)
		}
	}
}

// Of the measures that are named one decides, and no other is judged beside them.
func TestTheMeasureThatDecides(t *testing.T) {
	for words, want := range map[string]string{
		"": "p99", "measures: [p50, p99]\n": "p99", "measures: [mean, p50, p95]\n": "p95", "measures: [cpu_per_request]\n": "cpu_per_request",
		"measures: [p50]\nrounds: {at_least: 3, measure: mean}\n": "mean",
	} {
		l := newLab(t, strings.Replace(workersFile, "rounds: 6\n", words, 1))
		if got := l.load().Rounds.Measure; got != want {
			t.Errorf("%q: %s decides, not %s", words, got, want)
		}
	}
}

func TestPlace(t *testing.T) {
	for _, c := range []struct {
		a, b string
		same bool
	}{{"8", "8.0", true}, {"1s", "1000ms", true}, {"1s", "1", false}, {"64MiB", "65536KiB", true}, {"on", "on", true}, {"on", "off", false}} {
		if equal(c.a, c.b) != c.same {
			t.Errorf("%s and %s are the same: %v", c.a, c.b, !c.same)
		}
	}
	for value, want := range map[string]float64{"8": 8, "1e3": 1000, "500ms": 0.5, "64MiB": 64 << 20, "on": math.NaN()} {
		if got := place(value); got != want && !(math.IsNaN(got) && math.IsNaN(want)) {
			t.Errorf("%s stands at %g, not %g", value, got, want)
		}
	}
}

// Several short stretches of live traffic are as good as a long one.
func TestLiveStretches(t *testing.T) {
	l := newLab(t, strings.Replace(liveFile, "for: 10m", "for: 1m", 1)+"rounds: 4\n")
	if x := l.load(); x.Live.For != time.Minute || x.Rounds.AtMost != 4 || x.Rounds.Measure != judge.Ratio {
		t.Errorf("%+v, %+v", x.Live, x.Rounds)
	}
	l = newLab(t, liveFile+"rounds: 1\n")
	if x := l.load(); x.Rounds.AtMost != 1 {
		t.Errorf("%+v", x.Rounds)
	}
}

func TestSchema(t *testing.T) {
	var s map[string]any
	if err := json.Unmarshal(Schema(), &s); err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{"control", "sweep", "rounds", "live", "gate"} {
		if _, ok := s["properties"].(map[string]any)[key]; !ok {
			t.Errorf("the schema has no %s", key)
		}
	}
	for _, root := range []any{file{}, span{}} {
		for _, wrong := range strictyaml.Undescribed(reflect.TypeOf(root), leaves) {
			t.Error(wrong)
		}
	}
}

func FuzzLoad(f *testing.F) {
	f.Add(workersFile)
	f.Add("experiment: e\ndesign: factorial\ncontrol: {a: 1, b: 2}\nfactors: {a: [3], b: [4]}\nscenario: load.yaml\napply: x {{a}}")
	f.Add("experiment: e\nlive: {session: s}\ncontrol: {a: 1}\nvariable: a\nsweep: {from: 1, to: 9, steps: 4}\napply: x")
	f.Fuzz(func(t *testing.T, file string) {
		l := newLab(t, file)
		x, problems := Load(filepath.Join(l.dir, "x.yaml"))
		if (x == nil) == (len(problems) == 0) {
			t.Fatalf("%v with %v", x, problems)
		}
		if x == nil {
			return
		}
		seen := map[string]bool{}
		for _, s := range x.Settings {
			if seen[s.Name] {
				t.Errorf("%s is there twice", s.Name)
			}
			seen[s.Name] = true
		}
		if len(x.Settings) < 2 || len(x.Settings) > mostSettings {
			t.Errorf("%d settings", len(x.Settings))
		}
		for _, c := range x.contrasts() {
			sum := 0.0
			for _, w := range c.Weights {
				sum += w
			}
			if math.Abs(sum) > 1e-9 {
				t.Errorf("the weights of %s sum to %g", c.Setting, sum)
			}
		}
	})
}
