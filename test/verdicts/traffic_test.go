package verdicts

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	common "go.opentelemetry.io/proto/otlp/common/v1"
	resource "go.opentelemetry.io/proto/otlp/resource/v1"
	trace "go.opentelemetry.io/proto/otlp/trace/v1"
)

// load is a stream of requests that arrive independently of each other and take a
// log-normal time.
type load struct {
	service, operation, tenant string

	perSecond float64 // spans that are sent
	steady    bool    // at equal distances, all of the median
	median    float64 // seconds
	spread    float64 // of the logarithm; default 0.4
	tail      float64 // factor of the slowest hundredth; default 1
	failed    float64 // share
	weight    int     // requests that a span stands for, a power of two; default 1

	resource []string // further attributes of the resource: name, value, ...
}

// noise changes all durations from slot to slot, by an autoregressive factor with this
// deviation of its logarithm. If the service is busy, a share of its time that is not 0,
// the factor is of the load instead, and durations follow from it as those of a queue do.
type noise struct{ keeps, deviation, busy, at float64 }

// next returns the factors of the next slot on rates and on durations.
func (n *noise) next(normal float64) (f factors) {
	n.at = n.keeps*n.at + math.Sqrt(1-n.keeps*n.keeps)*n.deviation*normal
	x := math.Exp(n.at)
	if n.busy == 0 {
		return factors{rate: 1, duration: x}
	}
	return factors{rate: x, duration: (1 - n.busy) / (1 - min(0.95, n.busy*x))}
}

type factors struct{ rate, duration float64 }

// with returns loads as a change makes them.
func with(loads []load, change func(l *load)) []load {
	loads = slices.Clone(loads)
	for i := range loads {
		change(&loads[i])
	}
	return loads
}

// slow makes the requests that match take a multiple of their time. An empty name is
// every one.
func slow(operation, tenant string, factor float64) func(*load) {
	return func(l *load) {
		if (operation == "" || l.operation == operation) && (tenant == "" || l.tenant == tenant) {
			l.median *= factor
		}
	}
}

var operations = []string{"GET /cart", "GET /search", "POST /orders", "GET /item"}

// crowd is the traffic of a service: twelve tenants, each of which asks for four operations
// equally often.
func crowd(service string, perSecond float64) (all []load) {
	for i, operation := range operations {
		for tenant := range 12 {
			all = append(all, load{service: service, operation: operation, tenant: fmt.Sprint("tenant-", tenant), perSecond: perSecond / 48, median: 0.05 * float64(i+1)})
		}
	}
	return all
}

const spansPerRequest = 4000

// export makes the requests of an SDK for what ends from start on, within length.
func (w *world) export(start time.Time, length time.Duration, loads []load) (out []*collector.ExportTraceServiceRequest) {
	slots := make([]factors, (length+slot-1)/slot)
	for i := range slots {
		slots[i] = w.noise.next(w.rng.NormFloat64())
	}
	processes := map[string][]*trace.Span{}
	byProcess := map[string]*load{}
	for i := range loads {
		l := &loads[i]
		process := strings.Join(append([]string{l.service}, l.resource...), "\x00")
		byProcess[process] = l
		processes[process] = w.spans(processes[process], start, length, l, slots)
	}
	for _, process := range slices.Sorted(func(yield func(string) bool) {
		for p := range processes {
			if !yield(p) {
				return
			}
		}
	}) {
		l, spans := byProcess[process], processes[process]
		attributes := []*common.KeyValue{attribute("service.name", l.service)}
		for i := 0; i < len(l.resource); i += 2 {
			attributes = append(attributes, attribute(l.resource[i], l.resource[i+1]))
		}
		for part := range slices.Chunk(spans, spansPerRequest) {
			out = append(out, &collector.ExportTraceServiceRequest{ResourceSpans: []*trace.ResourceSpans{{
				Resource: &resource.Resource{Attributes: attributes}, ScopeSpans: []*trace.ScopeSpans{{Spans: part}},
			}}})
		}
	}
	return out
}

const slot = 10 * time.Second

// spans appends the spans of a load.
func (w *world) spans(out []*trace.Span, start time.Time, length time.Duration, l *load, slots []factors) []*trace.Span {
	method, route, _ := strings.Cut(l.operation, " ")
	attributes := []*common.KeyValue{attribute("http.request.method", method), attribute("http.route", route)}
	if l.tenant != "" {
		attributes = append(attributes, attribute("tenant.id", l.tenant))
	}
	state := ""
	if l.weight > 1 {
		state = fmt.Sprintf("ot=th:%014x", 1<<56-1<<56/uint64(l.weight))
	}
	spread, tail := cmp.Or(l.spread, 0.4), cmp.Or(l.tail, 1)
	gap := func(at time.Duration) time.Duration {
		if l.steady {
			return time.Duration(float64(time.Second) / l.perSecond)
		}
		return time.Duration(float64(time.Second) / (l.perSecond * slots[at/slot].rate) * w.rng.ExpFloat64())
	}
	first := gap(0)
	if l.steady {
		first /= 2
	}
	for at := first; at < length; at += gap(at) {
		seconds := l.median
		if !l.steady {
			z := w.rng.NormFloat64()
			seconds *= math.Exp(spread*z) * slots[at/slot].duration
			if z > 2.326 { // of a hundredth
				seconds *= tail
			}
		}
		var id [16]byte
		binary.BigEndian.PutUint64(id[:8], w.rng.Uint64())
		binary.BigEndian.PutUint64(id[8:], w.rng.Uint64())
		end := start.Add(at)
		s := &trace.Span{
			TraceId: id[:], SpanId: id[4:12], TraceState: state, Name: l.operation, Kind: trace.Span_SPAN_KIND_SERVER, Attributes: attributes,
			StartTimeUnixNano: uint64(end.UnixNano()) - uint64(seconds*1e9), EndTimeUnixNano: uint64(end.UnixNano()),
		}
		if l.failed > 0 && w.rng.Float64() < l.failed {
			s.Status = &trace.Status{Code: trace.Status_STATUS_CODE_ERROR}
		}
		out = append(out, s)
	}
	return out
}

func attribute(key, value string) *common.KeyValue {
	return &common.KeyValue{Key: key, Value: &common.AnyValue{Value: &common.AnyValue_StringValue{StringValue: value}}}
}
