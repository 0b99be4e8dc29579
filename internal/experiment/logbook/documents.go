package logbook

import (
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"
	"unicode"

	"tailscope/api"
	"tailscope/internal/judge"
	"tailscope/internal/query"
)

// Bounds of reported documents.
const (
	maxText     = 4 << 10   // bytes of a text; longer ones are cut
	maxFile     = 256 << 10 // of a file or a configuration; longer ones are left out
	maxSettings = 256
)

// Words of documents.
var (
	arrivals = []string{"constant", "poisson", "recorded", "closed"}
	designs  = []string{"one variable", "sweep", "factorial", "live"}
	rules    = []string{"fixed", "precision", "decided"}
)

// tidier walks through a document: it sets missing lists and counts to empty ones,
// refuses numbers that are not finite, and cuts texts that are too long, which it
// notes.
type tidier struct {
	texts bool // whether texts are looked at too
	cut   []string
}

func (t *tidier) note(what string) {
	if !slices.Contains(t.cut, what) {
		t.cut = append(t.cut, what)
	}
}

func (t *tidier) walk(v reflect.Value, path string) error {
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			return t.walk(v.Elem(), path)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			name, rest, _ := strings.Cut(v.Type().Field(i).Tag.Get("json"), ",")
			f := v.Field(i)
			if missing := f.Kind() == reflect.Slice || f.Kind() == reflect.Map; missing && f.IsNil() && rest != "omitempty" {
				f.Set(empty(f.Type()))
			}
			if err := t.walk(f, path+"."+name); err != nil {
				return err
			}
		}
		if l, is := v.Interface().(api.BenchLatency); is && len(l.Counts) > 0 && len(l.Bounds) != len(l.Counts)+1 {
			return query.Invalid(path, "%s has %d counts and %d bounds; send one bound more than counts", path, len(l.Counts), len(l.Bounds))
		}
	case reflect.Slice:
		for i := range v.Len() {
			if err := t.walk(v.Index(i), fmt.Sprintf("%s[%d]", path, i)); err != nil {
				return err
			}
		}
	case reflect.Map:
		return t.values(v, path)
	case reflect.Float64:
		if t.texts && math.IsInf(v.Float(), 0) {
			return query.Invalid(path, "%s is infinite; send a number, or null where there is none", path)
		}
	case reflect.String:
		if t.texts {
			v.SetString(t.text(v.String(), path))
		}
	}
	return nil
}

func empty(of reflect.Type) reflect.Value {
	if of.Kind() == reflect.Map {
		return reflect.MakeMap(of)
	}
	return reflect.MakeSlice(of, 0, 0)
}

// values walks through the values of a map, which cannot be changed in place.
func (t *tidier) values(m reflect.Value, path string) error {
	if !t.texts {
		return nil
	}
	for _, key := range m.MapKeys() {
		if len(key.String()) > maxName {
			return query.Invalid(path, "%s has a name longer than %d bytes", path, maxName)
		}
		v := reflect.New(m.Type().Elem()).Elem()
		v.Set(m.MapIndex(key))
		if err := t.walk(v, path+"."+key.String()); err != nil {
			return err
		}
		m.SetMapIndex(key, v)
	}
	return nil
}

// text returns a text as it is kept: bounded, and without characters that move a
// cursor.
func (t *tidier) text(s, path string) string {
	file := path == "experiment.file" || path == "simulation.file" || strings.HasPrefix(path, "experiment.files.") || strings.Contains(path, ".configuration.")
	switch {
	case file && len(s) > maxFile:
		t.note(fmt.Sprintf("%s, of %d bytes", path, len(s)))
		return ""
	case !file && len(s) > maxText:
		t.note("texts after their first 4 kB")
		s = strings.ToValidUTF8(s[:maxText], "") + "…"
	}
	plain := func(r rune) bool { return r == '\n' || r == '\t' || !moves(r) }
	if strings.ContainsFunc(s, func(r rune) bool { return !plain(r) }) {
		s = strings.Map(func(r rune) rune {
			if plain(r) {
				return r
			}
			return -1
		}, s)
	}
	return strings.ToValidUTF8(s, "\uFFFD")
}

// moves reports whether a character moves a cursor, or reverses the text after it.
func moves(r rune) bool {
	return unicode.IsControl(r) || r >= 0x202a && r <= 0x202e || r >= 0x2066 && r <= 0x2069
}

func oneOf[Word ~string](field string, v Word, words []Word) error {
	if slices.Contains(words, v) {
		return nil
	}
	return query.Invalid(field, "there is no %s %q; %s", field[strings.LastIndexByte(field, '.')+1:], v, query.Suggest(string(v), texts(words)))
}

func texts[Word ~string](words []Word) []string {
	out := make([]string, len(words))
	for i, w := range words {
		out[i] = string(w)
	}
	return out
}

func checkBench(b *api.BenchResult) error {
	if err := oneOf("bench.plan.arrivals", b.Plan.Arrivals, arrivals); err != nil {
		return err
	}
	for i := range b.Resources {
		if r := &b.Resources[i]; len(r.Times) != len(r.Values) {
			return query.Invalid(fmt.Sprintf("bench.resources[%d]", i), "%s of %s has %d times and %d values; send as many of one as of the other", r.Name, r.Process, len(r.Times), len(r.Values))
		}
	}
	return checkSpan("bench", b.Start, b.End)
}

func checkSpan(field string, start, end api.Float) error {
	if s := float64(start); !(s > 0 && s < 1e11) {
		return query.Invalid(field+".start", "%s.start is when it began, in Unix seconds", field)
	}
	if e := float64(end); !math.IsNaN(e) && (e < float64(start) || e > 1e11) {
		return query.Invalid(field+".end", "%s.end is not after its start; send Unix seconds, or null while it runs", field)
	}
	return nil
}

func checkExperiment(x *api.Experiment) error {
	if err := oneOf("experiment.design", x.Design, designs); err != nil {
		return err
	}
	if err := oneOf("experiment.stopping.rule", x.Stopping.Rule, rules); err != nil {
		return err
	}
	if err := oneOf("experiment.verdict", x.Verdict, append([]judge.Verdict{""}, judge.Verdicts...)); err != nil {
		return err
	}
	if n := len(x.Settings); n == 0 || n > maxSettings {
		return query.Invalid("experiment.settings", "an experiment has the control and up to %d variants, not %d settings", maxSettings-1, n)
	}
	known := map[string]bool{}
	for i, s := range x.Settings {
		field := fmt.Sprintf("experiment.settings[%d].name", i)
		if err := checkText(field, s.Name, "workers=8"); err != nil {
			return err
		}
		if known[s.Name] {
			return query.Invalid(field, "two settings are named %q; give each a name of its own", s.Name)
		}
		known[s.Name] = true
	}
	setting := func(field, name string) error {
		if known[name] {
			return nil
		}
		return query.Invalid(field, "the experiment has no setting %q; send its settings with each report", name)
	}
	for i := range x.Rounds {
		if err := setting(fmt.Sprintf("experiment.rounds[%d].setting", i), x.Rounds[i].Setting); err != nil {
			return err
		}
	}
	for i := range x.Rows {
		if x.Rows[i].Effect != "" { // of a variable, or of two
			continue
		}
		if err := setting(fmt.Sprintf("experiment.rows[%d].setting", i), x.Rows[i].Setting); err != nil {
			return err
		}
	}
	for i := range x.Curves {
		for _, p := range x.Curves[i].Points {
			if err := setting(fmt.Sprintf("experiment.curves[%d].points", i), p.Setting); err != nil {
				return err
			}
		}
	}
	return checkSpan("experiment", x.Start, x.End)
}
