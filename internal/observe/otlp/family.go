package otlp

import (
	"math"
	"strings"
	"sync"

	"github.com/prometheus/otlptranslator"

	"tailscope/internal/series"
	"tailscope/internal/store"
)

// shape is the kind of data of a metric, by the number of its field in the Metric
// message.
type shape uint8

const (
	gauge       shape = 5
	sum         shape = 7
	histogram   shape = 9
	exponential shape = 10
	summary     shape = 11
)

// family is an incoming metric under its translated name: units become base units
// (seconds, bytes) and the name follows OpenTelemetry's translation to Prometheus, so
// `http.server.duration` in ms is http_server_duration_seconds.
type family struct {
	name string
	kind series.Kind
	unit unit

	sum, count *family // of a summary

	mu       sync.Mutex
	stream   [2]uint64 // the stream whose points are observed to learn the interval
	last     int64     // its latest time, Unix nanoseconds
	gap      int64     // between its last two points
	interval int64     // declared, in seconds
	declared bool
}

// unit converts values into the base unit: v * times / by.
type unit struct{ times, by float64 }

func (u unit) convert(v float64) float64 {
	if u.by != 1 {
		return v / u.by // division keeps 5 ms at exactly 0.005
	}
	return v * u.times
}

// shift returns by how many buckets a base-2 exponential histogram of this schema moves
// when its unit becomes the base unit, and the factor by which that widens the buckets.
// Multiplying by a power of two is exact; any other factor leaves the true bounds
// between two of the grid, at most half a bucket away.
func (u unit) shift(schema int8) (buckets int, widening float64) {
	exact := math.Ldexp(math.Log2(u.times)-math.Log2(u.by), int(schema))
	n := math.RoundToEven(exact)
	if d := math.Abs(exact - n); d > 1e-9 {
		return int(n), math.Exp2(math.Ldexp(d, -int(schema)))
	}
	return int(n), 1
}

var units = map[string]struct {
	base      string
	times, by float64
}{
	"ns": {"s", 1, 1e9}, "us": {"s", 1, 1e6}, "µs": {"s", 1, 1e6}, "μs": {"s", 1, 1e6}, "ms": {"s", 1, 1e3},
	"min": {"s", 60, 1}, "h": {"s", 3600, 1}, "d": {"s", 86400, 1},
	"nanoseconds": {"s", 1, 1e9}, "microseconds": {"s", 1, 1e6}, "milliseconds": {"s", 1, 1e3}, "seconds": {"s", 1, 1},
	"KiBy": {"By", 1 << 10, 1}, "MiBy": {"By", 1 << 20, 1}, "GiBy": {"By", 1 << 30, 1}, "TiBy": {"By", 1 << 40, 1},
	"KBy": {"By", 1e3, 1}, "kBy": {"By", 1e3, 1}, "MBy": {"By", 1e6, 1}, "GBy": {"By", 1e9, 1}, "TBy": {"By", 1e12, 1},
	"bytes": {"By", 1, 1},
}

// newFamily translates a metric's name and unit.
func newFamily(s shape, monotonic bool, name, unitText string) (*family, error) {
	f := &family{unit: unit{1, 1}, kind: series.Gauge}
	m := otlptranslator.Metric{Name: strings.ToValidUTF8(name, "_"), Unit: strings.ToValidUTF8(unitText, "_")}
	if u, ok := units[m.Unit]; ok {
		m.Unit, f.unit = u.base, unit{u.times, u.by}
		// A unit in the name would contradict the value.
		for _, suffix := range []string{"_milliseconds", ".milliseconds", "_ms", ".ms", "_millis", ".millis", "_microseconds", "_us", "_nanoseconds", "_ns", "_minutes"} {
			if cut, ok := strings.CutSuffix(m.Name, suffix); ok && cut != "" && (u.times != 1 || u.by != 1) && u.base == "s" {
				m.Name = cut
				break
			}
		}
	}
	switch s {
	case gauge:
		m.Type = otlptranslator.MetricTypeGauge
	case sum:
		m.Type = otlptranslator.MetricTypeNonMonotonicCounter
		if monotonic {
			f.kind = series.Counter
			m.Type = otlptranslator.MetricTypeMonotonicCounter
		}
	case histogram, exponential:
		f.kind = series.Distribution
		m.Type = otlptranslator.MetricTypeHistogram
	case summary:
		m.Type = otlptranslator.MetricTypeSummary
	}
	namer := otlptranslator.MetricNamer{WithMetricSuffixes: true}
	var err error
	f.name, err = namer.Build(m)
	if f.name == series.SpanDuration || f.name == series.SpanSelf {
		// Families of spans have views, which this metric would lack.
		f.name = "exported_" + f.name
	}
	if s == summary {
		f.sum = &family{name: f.name + "_sum", kind: series.Counter, unit: f.unit}
		f.count = &family{name: f.name + "_count", kind: series.Counter, unit: unit{1, 1}}
	}
	return f, err
}

// observe records a point of a stream of the family. It declares the family when it is new,
// and its export interval: the shorter of two gaps in a row, so that one outage does not
// count. A delta point with a start needs no gap: a stream that was silent for a minute
// is exported every ten seconds all the same.
func (f *family) observe(stream [2]uint64, p *point, temporality uint64, sink Sink) {
	nanos := int64(p.time)
	f.mu.Lock()
	defer f.mu.Unlock()
	info := store.FamilyInfo{Name: f.name, Kind: f.kind, IntervalSeconds: f.interval}
	if !f.declared {
		f.declared = true
		sink.DeclareFamily(info)
	}
	const patience = 600e9
	if f.stream != stream {
		if f.last != 0 && nanos-f.last < patience {
			return
		}
		f.stream, f.last, f.gap = stream, nanos, 0
		return
	}
	gap := nanos - f.last
	if gap <= 0 {
		return
	}
	if temporality == delta && 0 < p.start && p.start < p.time {
		gap = int64(p.time - p.start)
	}
	f.last = nanos
	least := min(gap, f.gap)
	f.gap = gap
	if seconds := (least + 5e8) / 1e9; least > 0 && seconds > f.interval && seconds <= 3600 {
		f.interval = seconds
		info.IntervalSeconds = seconds
		sink.DeclareFamily(info)
	}
}

// families caches translations by shape, name and unit.
type families struct {
	mu    sync.RWMutex
	known map[string]*family
}

const maxFamilies = 1 << 14

func (fs *families) get(key []byte) *family {
	fs.mu.RLock()
	defer fs.mu.RUnlock()
	return fs.known[string(key)]
}

func (fs *families) put(key []byte, f *family) *family {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	if old := fs.known[string(key)]; old != nil {
		return old
	}
	if fs.known == nil || len(fs.known) >= maxFamilies {
		fs.known = make(map[string]*family)
	}
	fs.known[string(key)] = f
	return f
}

// boundsTable shares slices of bucket bounds.
type boundsTable struct {
	mu    sync.RWMutex
	known map[string][]float64
}

const maxBoundsTables = 1 << 10

func (t *boundsTable) get(key []byte, bounds []float64) []float64 {
	t.mu.RLock()
	b, ok := t.known[string(key)]
	t.mu.RUnlock()
	if ok {
		return b
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.known == nil || len(t.known) >= maxBoundsTables {
		t.known = make(map[string][]float64)
	}
	b = append(make([]float64, 0, len(bounds)), bounds...)
	t.known[string(key)] = b
	return b
}
