package querytest

import (
	"math"
	"time"

	"github.com/prometheus/prometheus/model/labels"

	"tailscope/internal/series"
)

// Request is a request whose parts are known, as assembly would have found them.
type Request struct {
	At                                 int64 // Unix seconds, in its slot
	Service, Operation, Cohort, Tenant string
	Environment                        string // none if empty
	Failed                             bool
	Weight                             uint64 // the requests that its breakdown counts for; 0 is 1
	Duration                           time.Duration
	Parts                              []Part // what its exclusive time adds up to
}

// Part is a part of a Request.
type Part struct {
	Service, Component, Operation string
	Self, Critical                time.Duration
	Calls                         int
	Instances                     []string // called beside each other; the last is the last to end
}

// Request counts a request in the families of the breakdown and in
// span_self_seconds, as package series defines them.
func (w *Writer) Request(r Request) {
	request := []string{series.LabelService, r.Service, series.LabelOperation, r.Operation, series.LabelCohort, r.Cohort}
	if r.Environment != "" {
		request = append(request, series.LabelEnvironment, r.Environment)
	}
	count := func(family string, n uint64, more ...string) {
		if n == 0 {
			return
		}
		h := w.at(r.At, series.Series{Family: family, Labels: labels.FromStrings(append(more, request...)...)})
		if h.RecordN(r.Duration.Seconds(), n*max(1, r.Weight)) != nil {
			panic("test data is finite")
		}
	}
	count(series.BreakdownRequests, 1)
	self := map[string]time.Duration{}
	for _, p := range r.Parts {
		part := []string{series.LabelPartService, p.Service, series.LabelComponent, p.Component, series.LabelPartOperation, p.Operation}
		count(series.BreakdownSelf, uint64(p.Self/time.Microsecond), part...)
		count(series.BreakdownCritical, uint64(p.Critical/time.Microsecond), part...)
		count(series.BreakdownCalls, uint64(p.Calls), part...)
		count(series.BreakdownWith, 1, part...)
		if p.Calls >= series.RepeatedCalls {
			count(series.BreakdownRepeats, 1, part...)
		}
		for i, instance := range p.Instances {
			at := append([]string{series.LabelPartInstance, instance}, part...)
			count(series.BreakdownFanout, 1, at...)
			if i == len(p.Instances)-1 {
				count(series.BreakdownLast, 1, at...)
			}
		}
		self[p.Component] += p.Self
	}
	status := "ok"
	if r.Failed {
		status = "error"
	}
	for component, d := range self {
		w.span(series.SpanSelf, r.At, labels.FromStrings(series.LabelService, r.Service, series.LabelOperation, r.Operation,
			series.LabelKind, "server", series.LabelStatus, status, series.LabelComponent, component, series.LabelTenant, r.Tenant, series.LabelEnvironment, r.Environment), d.Seconds())
	}
	w.Span(r.At, labels.FromStrings(series.LabelService, r.Service, series.LabelOperation, r.Operation,
		series.LabelKind, "server", series.LabelStatus, status, series.LabelComponent, series.ComponentApp, series.LabelTenant, r.Tenant, series.LabelEnvironment, r.Environment), r.Duration.Seconds())
}

// Call counts the span of one call within a request.
func (w *Writer) Call(at int64, service, component, operation, tenant string, d time.Duration) {
	w.Span(at, labels.FromStrings(series.LabelService, service, series.LabelOperation, operation, series.LabelKind, "client",
		series.LabelStatus, "ok", series.LabelComponent, component, series.LabelTenant, tenant), d.Seconds())
}

// Orders fills w with half an hour of requests from Epoch+1800 whose breakdown
// is known: ten a slot of GET /orders, of which nine take 100 ms and one 1 s,
// nearly all of it in one statement, and one POST /order of 200 ms that calls
// another service. A request of GET /orders makes twelve equal queries; those
// of a tenth of the slots ask three caches at once.
func Orders(w *Writer) {
	const ms = time.Millisecond
	shop := func(component, operation string, self time.Duration, calls int) Part {
		return Part{Service: "shop", Component: component, Operation: operation, Self: self, Critical: self, Calls: calls}
	}
	for slot := Epoch + 1800; slot < Epoch+3600; slot += 10 {
		for i := range int64(10) {
			tenant, cohort := "acme", series.VeryLarge
			if i%5 == 4 {
				tenant, cohort = "globex", series.Large
			}
			r := Request{At: slot + i, Service: "shop", Operation: "GET /orders", Tenant: tenant, Cohort: cohort, Duration: 100 * ms, Failed: i == 3}
			r.Parts = []Part{
				shop("app", "GET /orders", 40*ms, 1), shop("db", "SELECT orders", 30*ms, 1), shop("db", "SELECT items", 24*ms, 12), shop("external", "GET rates.example", 6*ms, 1),
				shop("queue", "queue", 5*ms, 1),
			}
			if i == 9 {
				r.Duration = time.Second
				r.Parts[1] = shop("db", "SELECT orders", 930*ms, 1)
			}
			if slot%100 == 0 && i == 0 {
				cache := shop("cache", "GET session", 10*ms, 3)
				cache.Critical = 25 * ms
				cache.Instances = []string{"cache-1", "cache-2", "cache-3"}
				if slot%200 == 0 {
					cache.Instances = []string{"cache-1", "cache-3", "cache-2"}
				}
				r.Parts[0] = shop("app", "GET /orders", 30*ms, 1)
				r.Parts[0].Critical = 15 * ms
				r.Parts = append(r.Parts, cache)
			}
			w.Request(r)
			for _, p := range r.Parts {
				if p.Component != series.ComponentApp && p.Component != series.ComponentQueue {
					for range p.Calls {
						w.Call(slot+i, "shop", p.Component, p.Operation, tenant, p.Self/time.Duration(p.Calls))
					}
				}
			}
		}
		w.Request(Request{At: slot, Service: "shop", Operation: "POST /order", Tenant: "acme", Cohort: series.VeryLarge, Duration: 200 * ms, Parts: []Part{
			shop("app", "POST /order", 50*ms, 1), shop("db", "INSERT orders", 20*ms, 1),
			{Service: "stock", Component: "app", Operation: "POST /reserve", Self: 70 * ms, Critical: 70 * ms, Calls: 1},
			{Service: "stock", Component: "db", Operation: "UPDATE stock", Self: 60 * ms, Critical: 60 * ms, Calls: 1},
		}})
		w.Request(Request{At: slot, Service: "stock", Operation: "POST /reserve", Tenant: "acme", Cohort: series.VeryLarge, Duration: 130 * ms, Parts: []Part{
			{Service: "stock", Component: "app", Operation: "POST /reserve", Self: 70 * ms, Critical: 70 * ms, Calls: 1},
			{Service: "stock", Component: "db", Operation: "UPDATE stock", Self: 60 * ms, Critical: 60 * ms, Calls: 1},
		}})
		w.Call(slot, "shop", "db", "INSERT orders", "acme", 20*ms)
		w.Call(slot, "stock", "db", "UPDATE stock", "acme", 60*ms)
		w.Call(slot, "stock", "db", "COMMIT", "acme", ms)
		w.Observe(slot, series.Series{Family: series.ClockSkew, Labels: labels.FromStrings(series.LabelService, "stock", "peer", "shop", "direction", "ahead")}, 0.25)
	}
	// A service that sends calls but no requests.
	w.Call(Epoch+1800, "job", "db", "SELECT jobs", "acme", 5*ms)
}

// span counts a span of a family in all its views.
func (w *Writer) span(family string, at int64, l labels.Labels, seconds float64) {
	w.key = append(l.Bytes(w.key), family...)
	views, ok := w.views[string(w.key)]
	if !ok {
		views = []uint32{
			w.series(series.Series{Family: family, View: series.Full, Labels: drop(l, series.LabelInstance, series.LabelPeer)}),
			w.series(series.Series{Family: family, View: series.Marginal, Labels: drop(l, series.LabelTenant)}),
			w.series(series.Series{Family: family, View: series.Total, Labels: drop(l, series.LabelTenant, series.LabelOperation, series.LabelInstance, series.LabelPeer)}),
		}
		w.views[string(w.key)] = views
	}
	for _, s := range views {
		if w.cell(s, at).RecordNanos(int64(math.Round(seconds*1e9)), max(1, w.Weight)) != nil {
			panic("test data is finite")
		}
	}
}
