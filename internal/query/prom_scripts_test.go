package query

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"runtime"
	"sort"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/promql/promqltest"
	"github.com/prometheus/prometheus/storage"

	"tailscope/hist"
	"tailscope/internal/query/querytest"
	"tailscope/internal/series"
	"tailscope/internal/store"
	"tailscope/internal/store/storetest"
)

// Prometheus' own test scripts run over our Queryable, evaluation by
// evaluation. What does not apply is listed with its reason in
// testdata/promqltest-inapplicable.txt: the test fails when an evaluation that
// is not listed fails, and when a listed one passes. UPDATE=1 rewrites the
// list, which must then be read: a reason it does not know is a bug.

const inapplicableList = "testdata/promqltest-inapplicable.txt"

func TestPrometheusScripts(t *testing.T) {
	if testing.Short() {
		t.Skip("runs some 2,000 evaluations")
	}
	listed := readInapplicable(t)
	update := os.Getenv("UPDATE") != ""
	var out []string
	total, passed := 0, 0
	share := map[string][2]int{}
	for _, path := range scriptFiles(t) {
		name := filepath.Base(path)
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		var loads [2]*scriptStorage // histograms as they are, and their increments
		fileTotal, filePassed := 0, 0
		for _, b := range splitScript(string(text)) {
			switch b.kind {
			case "clear":
				loads = [2]*scriptStorage{}
			case "load":
				ready(&loads)
				for _, s := range loads {
					s.gap = b.gap
					if err := runScript(t, b.text, s); err != nil {
						t.Fatalf("%s:%d: load: %v", name, b.line, err)
					}
				}
			case "eval":
				ready(&loads)
				total, fileTotal = total+1, fileTotal+1
				key := fmt.Sprintf("%s:%d", name, b.line)
				first, _, _ := strings.Cut(b.text, "\n")
				s := loads[0]
				if usesIncrements.MatchString(first) {
					s = loads[1]
				}
				err := runScript(t, b.text, s)
				reason, isListed := listed[key]
				switch {
				case err == nil:
					passed, filePassed = passed+1, filePassed+1
					if isListed && !update {
						t.Errorf("%s passes; take it off %s (%s)", key, inapplicableList, reason)
					}
				case update:
					out = append(out, fmt.Sprintf("%s\t%s\t%s", key, why(name, first, s, err), first))
				case !isListed:
					t.Errorf("%s: %s\n%v", key, b.text, err)
				}
			}
		}
		share[name] = [2]int{filePassed, fileTotal}
	}
	t.Logf("%d of %d evaluations pass, %d do not apply", passed, total, total-passed)
	names := make([]string, 0, len(share))
	for n := range share {
		names = append(names, n)
	}
	sort.Strings(names)
	for _, n := range names {
		t.Logf("%-26s %3d of %3d", n, share[n][0], share[n][1])
	}
	if update {
		head := fmt.Sprintf(inapplicableHead, passed, total)
		for _, n := range names {
			head += fmt.Sprintf("#   %-26s %3d of %3d\n", n, share[n][0], share[n][1])
		}
		if err := os.WriteFile(inapplicableList, []byte(head+"\n"+strings.Join(out, "\n")+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

const inapplicableHead = `# Evaluations of Prometheus' promql/promqltest/testdata that do not apply to a
# store of what happened in each slot, with the reason. Kept by
# UPDATE=1 go test -run TestPrometheusScripts ./internal/query
#
# %d of %d evaluations pass:
`

// usesIncrements tells queries that want to know what happened, and so see the
// increments of running totals, from those that look at histograms as loaded.
var usesIncrements = regexp.MustCompile(`\b(rate|increase)\(`)

func ready(loads *[2]*scriptStorage) {
	for i := range loads {
		if loads[i] == nil {
			loads[i] = newScriptStorage()
			loads[i].increments = i == 1
		}
	}
}

// why names the reason an evaluation cannot apply.
func why(file, eval string, s *scriptStorage, err error) string {
	switch msg := err.Error(); {
	case strings.Contains(msg, "needs a running total"):
		return "refused: the function needs a running total"
	case strings.Contains(msg, "of a subquery over"):
		return "refused: rate of a subquery over slots"
	case strings.Contains(msg, "names both distributions"):
		return "refused: distributions and numbers in one rate"
	case strings.Contains(msg, "durations that are computed"):
		return "refused: computed duration over a distribution"
	case regexp.MustCompile(`\b(anchored|smoothed)\b`).MatchString(eval):
		return "anchored and smoothed read running totals beyond the window"
	}
	if file == "start_timestamps.test" {
		return "start timestamps of samples are not kept"
	}
	for _, f := range s.families() {
		if !regexp.MustCompile(`\b`+regexp.QuoteMeta(f.Name)+`\b`).MatchString(eval) && !strings.Contains(eval, "__name__") {
			continue
		}
		if bad := s.refused[f.Name]; bad != "" {
			return bad
		}
	}
	for name, bad := range s.refused {
		if regexp.MustCompile(`\b` + regexp.QuoteMeta(name) + `\b`).MatchString(eval) {
			return bad
		}
	}
	got := err.Error()
	if usesIncrements.MatchString(eval) {
		return "asserts extrapolation to a range, resets or annotations of running totals"
	}
	for _, known := range []map[string]string{s.rounded, s.empty} {
		for name, bad := range known {
			if regexp.MustCompile(`\b` + regexp.QuoteMeta(name) + `\b`).MatchString(eval) {
				return bad
			}
		}
	}
	if strings.Contains(got, "counter_reset_hint:gauge") || strings.Contains(got, "expected warn annotations but none") {
		return "asserts the reset hint of a running total, or a warning about it; slots are gauges"
	}
	for _, bad := range s.refused {
		if strings.Contains(eval, "{") { // a selector that names no family
			return bad
		}
	}
	for _, f := range s.families() {
		if f.Kind != series.Distribution || !strings.Contains(got, "expected info annotations but none") {
			continue
		}
		if strings.Contains(eval, "sum_over_time("+f.Name) {
			return "explicit bounds that differ are reconciled by the store, without the engine's remark"
		}
		if s.gap < time.Minute {
			return "the first slot that stays empty ends the series, so that there is nothing to remark upon"
		}
	}
	return "unknown: " + strings.ReplaceAll(firstLines(err.Error(), 3), "\n", " | ")
}

func firstLines(s string, n int) string {
	lines := strings.SplitN(s, "\n", n+1)
	return strings.Join(lines[:min(n, len(lines))], "\n")
}

func readInapplicable(t *testing.T) map[string]string {
	t.Helper()
	b, err := os.ReadFile(inapplicableList)
	if err != nil && os.Getenv("UPDATE") == "" {
		t.Fatal(err)
	}
	out := map[string]string{}
	for line := range strings.SplitSeq(string(b), "\n") {
		if parts := strings.SplitN(line, "\t", 3); len(parts) == 3 && !strings.HasPrefix(line, "#") {
			out[parts[0]] = parts[1]
		}
	}
	return out
}

// scriptFiles finds the scripts beside the source of promqltest.
func scriptFiles(t *testing.T) []string {
	t.Helper()
	f := runtime.FuncForPC(reflect.ValueOf(promqltest.RunTest).Pointer())
	src, _ := f.FileLine(f.Entry())
	files, err := filepath.Glob(filepath.Join(filepath.Dir(src), "testdata", "*.test"))
	if err != nil {
		t.Fatal(err)
	}
	if len(files) == 0 {
		t.Skipf("no scripts beside %s; was this built with -trimpath?", src)
	}
	return files
}

type scriptBlock struct {
	kind string // clear, load, eval
	line int
	text string
	gap  time.Duration
}

// splitScript parts a script into its commands, which end at empty lines.
func splitScript(s string) []scriptBlock {
	lines := strings.Split(s, "\n")
	for i, l := range lines {
		if l = strings.TrimSpace(l); strings.HasPrefix(l, "#") {
			l = ""
		}
		lines[i] = l
	}
	var out []scriptBlock
	for i := 0; i < len(lines); i++ {
		l := lines[i]
		switch {
		case l == "":
		case strings.HasPrefix(l, "clear"):
			out = append(out, scriptBlock{kind: "clear", line: i + 1, text: l})
		default:
			b := scriptBlock{kind: "eval", line: i + 1}
			if strings.HasPrefix(l, "load") {
				b.kind = "load"
				if d, err := model.ParseDuration(strings.Fields(l)[1]); err == nil {
					b.gap = time.Duration(d)
				}
			}
			from := i
			for i+1 < len(lines) && lines[i+1] != "" {
				i++
			}
			b.text = strings.Join(lines[from:i+1], "\n")
			out = append(out, b)
		}
	}
	return out
}

// runScript runs one command over a storage that outlives it. promqltest wants
// a real testing.T, whose failure would be ours; so the command is a test run
// of its own, and what that prints is the error.
func runScript(t *testing.T, text string, s *scriptStorage) error {
	t.Helper()
	out, err := os.Create(filepath.Join(t.TempDir(), "out"))
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	stdout := os.Stdout
	os.Stdout = out
	ok := testing.RunTests(func(string, string) (bool, error) { return true, nil }, []testing.InternalTest{{
		Name: "script", F: func(t *testing.T) {
			promqltest.RunTestWithStorage(t, text, s.engine, func(testing.TB) storage.Storage { return s })
		},
	}})
	os.Stdout = stdout
	if ok {
		return nil
	}
	b, err := os.ReadFile(out.Name())
	if err != nil {
		t.Fatal(err)
	}
	msg := string(b)
	if _, rest, found := strings.Cut(msg, "Error:"); found { // testify's frame
		msg, _, _ = strings.Cut(rest, "\n        \tTest:")
	}
	return errors.New(regexp.MustCompile(`\n\s*`).ReplaceAllString(strings.TrimSpace(msg), "\n"))
}

// scriptShift puts the scripts' time, which begins at 0, where slots are
// positive even for windows that begin before it.
const scriptShift = int64(1_000_000_800)

// scriptStorage is a storage.Storage over a store: histograms become what
// happened in the slot that ends at their time (whole, as a delta histogram
// that was received), numbers become samples.
type scriptStorage struct {
	store      store.Store
	engine     *PromEngine
	gap        time.Duration
	generation uint64
	refused    map[string]string // families with samples that a slot cannot hold
	rounded    map[string]string // families with zero thresholds that were rounded
	empty      map[string]string // families with histograms of no observations
	increments bool              // store what running totals grew by, as ingest does
	last       map[string]*histogram.FloatHistogram
	writer     *querytest.Writer
}

func newScriptStorage() *scriptStorage {
	s := &scriptStorage{store: storetest.NewTwin(), refused: map[string]string{}, empty: map[string]string{}, rounded: map[string]string{}, last: map[string]*histogram.FloatHistogram{}}
	s.engine = NewPromEngine(s.store, PromOptions{Now: func() time.Time { return time.Unix(scriptShift+1<<33, 0) }})
	s.engine.parser = parser.NewParser(promqltest.TestParserOpts)
	s.engine.engines = []sizedEngine{{promql.NewEngine(promql.EngineOpts{
		MaxSamples: 50_000_000, Timeout: time.Minute, NoStepSubqueryIntervalFn: noStep, EnableAtModifier: true, EnableNegativeOffset: true,
		EnableDelayedNameRemoval: true, Parser: s.engine.parser,
	}), 50_000_000}}
	return s
}

func (s *scriptStorage) families() []store.FamilyInfo {
	all, err := s.store.Families(context.Background())
	if err != nil {
		panic(err)
	}
	return all
}

func (s *scriptStorage) Querier(mint, maxt int64) (storage.Querier, error) {
	return s.engine.queryable(scriptShift).Querier(mint, maxt)
}

func (s *scriptStorage) ChunkQuerier(int64, int64) (storage.ChunkQuerier, error) {
	return nil, errors.New("no chunks")
}
func (s *scriptStorage) Appender(context.Context) storage.Appender { return nil }
func (s *scriptStorage) StartTime() (int64, error)                 { return 0, nil }
func (s *scriptStorage) Close() error                              { return nil }

func (s *scriptStorage) AppenderV2(context.Context) storage.AppenderV2 {
	s.writer = querytest.NewWriter()
	return s
}

func (s *scriptStorage) Rollback() error { s.writer = nil; return nil }

func (s *scriptStorage) Commit() error {
	s.generation++
	return s.writer.Put(context.Background(), s.store, s.generation)
}

func (s *scriptStorage) Append(_ storage.SeriesRef, l labels.Labels, _, t int64, v float64, _ *histogram.Histogram, fh *histogram.FloatHistogram, _ storage.AppendV2Options) (storage.SeriesRef, error) {
	name := l.Get(labels.MetricName)
	rest := labels.NewBuilder(l).Del(labels.MetricName).Labels()
	if fh == nil {
		if have, ok := s.kind(name); ok && have == series.Distribution {
			s.refused[name] = "a family is either numbers or distributions, not both"
			return 0, nil
		}
		s.writer.Family(store.FamilyInfo{Name: name, Kind: series.Gauge})
		s.writer.Number(t+scriptShift*1000, series.Series{Family: name, Kind: series.Gauge, Labels: rest}, v)
		return 0, nil
	}
	if have, ok := s.kind(name); ok && have != series.Distribution {
		s.refused[name] = "a family is either numbers or distributions, not both"
		return 0, nil
	}
	// The family exists even while nothing happened.
	s.writer.Family(store.FamilyInfo{Name: name, Kind: series.Distribution, IntervalSeconds: int64(s.gap / time.Second)})
	if s.increments && fh.CounterResetHint != histogram.GaugeType {
		key := string(l.Bytes(nil))
		prev := s.last[key]
		s.last[key] = fh.Copy()
		if prev == nil {
			return 0, nil // a total seen for the first time is only a base line
		}
		if !fh.DetectReset(prev) {
			diff, _, _, err := fh.Copy().Sub(prev)
			if err != nil {
				s.refused[name] = "histogram cannot be subtracted: " + err.Error()
				return 0, nil
			}
			fh = diff
		}
	}
	if fh.Count == 0 {
		s.empty[name] = "a slot in which nothing happened has no point"
		return 0, nil
	}
	h, reason := fromFloatHistogram(fh)
	if h == nil {
		s.refused[name] = reason
		return 0, nil
	}
	if h.Schema != hist.Explicit && h.ZeroThreshold != fh.ZeroThreshold {
		s.rounded[name] = "zero thresholds are rounded up to a power of two, so that merging does not depend on order"
	}
	if s.gap%(10*time.Second) != 0 {
		s.refused[name] = "samples are closer than slots of 10 s"
	}
	slot := ceilDiv(t, 10_000)*10 - 10 // the slot that ends at t
	if err := s.writer.Merge(slot+scriptShift, series.Series{Family: name, Kind: series.Distribution, Labels: rest}, h); err != nil {
		s.refused[name] = "histogram cannot be merged: " + err.Error()
	}
	return 0, nil
}

func (s *scriptStorage) kind(name string) (series.Kind, bool) {
	for _, f := range s.families() {
		if f.Name == name {
			return f.Kind, true
		}
	}
	return s.writer.Kind(name)
}

// fromFloatHistogram converts what a script loads to a distribution, or says why it is none.
func fromFloatHistogram(f *histogram.FloatHistogram) (*hist.Histogram, string) {
	whole := func(v float64) bool { return v >= 0 && v == math.Trunc(v) && v < 1<<53 }
	if !whole(f.Count) || !whole(f.ZeroCount) {
		return nil, "observations are counted in whole, positive numbers"
	}
	h := hist.New(hist.MaxSchema)
	h.Count, h.Sum = uint64(f.Count), f.Sum
	if f.UsesCustomBuckets() {
		h.Schema, h.Bounds, h.ZeroThreshold = hist.Explicit, f.CustomValues, 0
		h.Positive.Counts = make([]uint64, len(f.CustomValues)+1)
	} else {
		h.Schema, h.ZeroThreshold, h.ZeroCount = int8(f.Schema), 0, uint64(f.ZeroCount)
	}
	total := f.ZeroCount
	for _, side := range []struct {
		it  histogram.BucketIterator[float64]
		out *hist.Buckets
	}{{f.PositiveBucketIterator(), &h.Positive}, {f.NegativeBucketIterator(), &h.Negative}} {
		first := true
		for side.it.Next() {
			b := side.it.At()
			if !whole(b.Count) {
				return nil, "observations are counted in whole, positive numbers"
			}
			total += b.Count
			if h.Schema == hist.Explicit {
				h.Positive.Counts[b.Index] = uint64(b.Count)
				continue
			}
			if first {
				side.out.Offset, first = b.Index, false
			}
			for int(b.Index-side.out.Offset) > len(side.out.Counts) {
				side.out.Counts = append(side.out.Counts, 0)
			}
			side.out.Counts = append(side.out.Counts, uint64(b.Count))
		}
	}
	if total != f.Count {
		return nil, "buckets do not add up to the count"
	}
	if math.IsInf(f.Sum, 0) || math.IsNaN(f.Sum) {
		return nil, "infinite and NaN observations are refused"
	}
	if h.Schema != hist.Explicit {
		if err := h.SetZeroThreshold(f.ZeroThreshold); err != nil {
			return nil, "zero threshold: " + err.Error()
		}
	}
	if err := h.Validate(); err != nil {
		return nil, "not a valid histogram: " + err.Error()
	}
	return h, ""
}
