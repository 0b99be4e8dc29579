package verdicts

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	common "go.opentelemetry.io/proto/otlp/common/v1"
	resource "go.opentelemetry.io/proto/otlp/resource/v1"
	trace "go.opentelemetry.io/proto/otlp/trace/v1"

	"tailscope/api"
	"tailscope/internal/judge"
)

// chain is traces of three services: shop calls checkout, checkout calls payments, and
// payments asks its database.
type chain struct {
	perSecond float64
	queries   int     // of a request of payments, on average; at least 1
	query     float64 // seconds of a query, median
	// own is how long a service takes by itself, seconds, median; 0.004 of those left out.
	own map[string]float64
	// failed is the share of traces of which every request fails, as payments does.
	failed float64
}

// services of a chain, the outermost first.
var chained = []string{"shop", "checkout", "payments"}

// sendChain sends the traces of the next time.
func (w *world) sendChain(length time.Duration, c chain) {
	w.t.Helper()
	for ; length > 0; length -= 10 * time.Minute {
		step := min(length, 10*time.Minute)
		start := w.clock()
		spans := map[string][]*trace.Span{}
		gap := func() time.Duration { return time.Duration(float64(time.Second) / c.perSecond * w.rng.ExpFloat64()) }
		for at := gap(); at < step; at += gap() {
			w.traceOf(spans, start.Add(at), c)
		}
		var all []*trace.ResourceSpans
		for _, name := range chained {
			all = append(all, &trace.ResourceSpans{
				Resource:   &resource.Resource{Attributes: []*common.KeyValue{attribute("service.name", name)}},
				ScopeSpans: []*trace.ScopeSpans{{Spans: spans[name]}},
			})
		}
		w.advance(step, &collector.ExportTraceServiceRequest{ResourceSpans: all})
	}
}

// traceOf adds one trace that ends at a time.
func (w *world) traceOf(spans map[string][]*trace.Span, end time.Time, c chain) {
	id := func() []byte { return binary.BigEndian.AppendUint64(nil, w.rng.Uint64()|1) }
	traceID := append(id(), id()...)
	took := func(median float64) int64 { return int64(1e9 * median * math.Exp(0.4*w.rng.NormFloat64())) }
	n := 1
	for left := w.rng.ExpFloat64(); left < float64(c.queries-1); left += w.rng.ExpFloat64() {
		n++
	}
	var inner int64 // of what is called
	queries := make([]int64, n)
	for i := range queries {
		queries[i] = took(c.query)
		inner += queries[i]
	}
	type made struct{ server, client *trace.Span }
	all := make([]made, len(chained))
	stop := end.UnixNano()
	for i := len(chained) - 1; i >= 0; i-- {
		own := took(cmp.Or(c.own[chained[i]], 0.004))
		length := inner + own
		s := &trace.Span{TraceId: traceID, SpanId: id(), Name: "POST /" + chained[i], Kind: trace.Span_SPAN_KIND_SERVER,
			Attributes: []*common.KeyValue{attribute("http.request.method", "POST"), attribute("http.route", "/"+chained[i])}}
		all[i].server = s
		inner = length
		if i > 0 {
			inner += took(0.001) // on the way
			all[i].client = &trace.Span{TraceId: traceID, SpanId: id(), Name: "POST", Kind: trace.Span_SPAN_KIND_CLIENT,
				Attributes: []*common.KeyValue{attribute("http.request.method", "POST"), attribute("server.address", chained[i])}}
			s.ParentSpanId = all[i].client.SpanId
		}
		s.EndTimeUnixNano = uint64(length) // its length, until all are known
		if i > 0 {
			all[i].client.EndTimeUnixNano = uint64(inner)
		}
	}
	if c.failed > 0 && w.rng.Float64() < c.failed {
		for _, m := range all {
			m.server.Status = &trace.Status{Code: trace.Status_STATUS_CODE_ERROR}
		}
	}
	// Each lies in the middle of what calls it.
	from, to := stop-int64(all[0].server.EndTimeUnixNano), stop
	place := func(s *trace.Span) {
		length := int64(s.EndTimeUnixNano)
		from += (to - from - length) / 2
		to = from + length
		s.StartTimeUnixNano, s.EndTimeUnixNano = uint64(from), uint64(to)
	}
	for i, m := range all {
		if i > 0 {
			m.client.ParentSpanId = all[i-1].server.SpanId
			place(m.client)
			spans[chained[i-1]] = append(spans[chained[i-1]], m.client)
		}
		place(m.server)
		spans[chained[i]] = append(spans[chained[i]], m.server)
	}
	last := all[len(all)-1].server
	for at, i := int64(last.StartTimeUnixNano), 0; i < len(queries); i++ {
		spans["payments"] = append(spans["payments"], &trace.Span{TraceId: traceID, SpanId: id(), ParentSpanId: last.SpanId, Name: "SELECT cards", Kind: trace.Span_SPAN_KIND_CLIENT,
			StartTimeUnixNano: uint64(at), EndTimeUnixNano: uint64(at + queries[i]),
			Attributes: []*common.KeyValue{attribute("db.system.name", "postgresql"), attribute("db.query.text", "SELECT * FROM cards WHERE id = ?")}})
		at += queries[i]
	}
}

func (w *world) allChanges(from, to time.Duration) *api.ChangesResponse {
	w.t.Helper()
	r, err := w.Changes(w.t.Context(), api.ChangesRequest{Start: unix(epoch.Add(from)), End: unix(epoch.Add(to))})
	if err != nil {
		w.t.Fatal(err)
	}
	return r
}

// A change of a service in staging is one of staging, and production has none.
func TestChangesOfAnEnvironment(t *testing.T) {
	in := func(environment string, perSecond float64) load {
		return load{service: "cart", operation: "GET /cart", perSecond: perSecond, median: 0.05, resource: []string{"deployment.environment.name", environment}}
	}
	trials(t, 0.95, func(w *world) (bool, string) {
		loads := []load{in("production", 20), in("staging", 2)}
		w.send(40*time.Minute, loads...)
		moment := w.clock()
		loads[1].median *= 2
		w.send(40*time.Minute, loads...)
		found := w.changes("", 0, 80*time.Minute)
		right := false
		for _, c := range found {
			if c.Environment != "staging" {
				return false, c.Sentence
			}
			right = right || c.Service == "cart" && math.Abs(float64(c.Time)-float64(moment.Unix())) <= 50 && strings.Contains(c.Headline, "cart in staging")
		}
		return right, all(len(found), "found")
	})
}

// Payments asks its database nine times a request in place of twice: the part of its
// requests is named, and the three services that became slow are one event, in which
// payments comes first.
func TestCallsPerRequestAndOneEvent(t *testing.T) {
	trials(t, 0.95, func(w *world) (bool, string) {
		before := chain{perSecond: 4, queries: 2, query: 0.003}
		w.sendChain(40*time.Minute, before)
		moment := w.clock()
		after := before
		after.queries = 9
		w.sendChain(30*time.Minute, after)
		w.advance(2 * time.Minute)
		r := w.allChanges(0, 70*time.Minute)
		near := func(x api.Float) bool { return math.Abs(float64(x)-float64(moment.Unix())) <= 50 }
		calls := slices.IndexFunc(r.Changes, func(c api.Change) bool {
			return c.Service == "payments" && c.Part != nil && c.Part.System == "postgresql" && near(c.Time) && slices.Contains(c.Found, "calls") && strings.Contains(c.Headline, " times as many ")
		})
		event := slices.IndexFunc(r.Events, func(e api.ChangeEvent) bool { return near(e.Time) && len(e.Services) == 3 })
		if calls < 0 || event < 0 {
			var said []string
			for _, c := range r.Changes {
				said = append(said, c.Sentence)
			}
			for _, e := range r.Events {
				said = append(said, e.Sentence)
			}
			return false, strings.Join(append(said, r.Notes...), " | ")
		}
		e := r.Events[event]
		var order []string
		for _, s := range e.Services {
			order = append(order, s.Service)
		}
		return slices.Equal(order, []string{"payments", "checkout", "shop"}) && slices.Equal(e.Services[0].CalledBy, []string{"checkout", "shop"}) && strings.Contains(e.Sentence, "; checkout and shop call payments"),
			fmt.Sprint(r.Changes[calls].Sentence, " | ", e.Sentence)
	})
}

// What takes three times as long for four minutes is one change, a spike with its height
// and length, and what stays slow is a step.
func TestSpikesAndSteps(t *testing.T) {
	loads := []load{{service: "shop", operation: "GET /cart", perSecond: 10, median: 0.05}}
	for _, c := range []struct {
		name string
		for_ time.Duration
		kind api.ShapeKind
	}{{"spike", 4 * time.Minute, judge.Spike}, {"step", 40 * time.Minute, judge.Step}} {
		t.Run(c.name, func(t *testing.T) {
			trials(t, 0.95, func(w *world) (bool, string) {
				w.send(40*time.Minute, loads...)
				moment := w.clock()
				w.sendEvery(c.for_, c.for_, with(loads, slow("", "", 3))...)
				if c.kind == judge.Spike {
					w.send(40*time.Minute-c.for_, loads...)
				}
				found := w.changes(`{service="shop"}`, 0, 80*time.Minute)
				var said []string
				var about []api.Change // from the moment to the end of a spike
				for _, f := range found {
					said = append(said, f.Sentence)
					if at := float64(f.Time) - float64(moment.Unix()); -50 <= at && at <= 50+(4*time.Minute).Seconds() {
						about = append(about, f)
					}
				}
				if len(about) != 1 || about[0].Shape == nil {
					return false, strings.Join(said, " | ")
				}
				f := about[0]
				right := f.Shape.Kind == c.kind && math.Abs(float64(f.Time)-float64(moment.Unix())) <= 50
				if c.kind == judge.Spike {
					length := float64(f.Shape.End - f.Shape.Start)
					height := float64(f.Shape.Value / f.Shape.Usual)
					right = right && math.Abs(length-c.for_.Seconds()) <= 50 && math.Abs(math.Log(height/3)) <= 0.2 && strings.Contains(f.Headline, "then as before")
				}
				return right, f.Sentence + " | " + f.Shape.Sentence
			})
		})
	}
}
