package verdicts

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	common "go.opentelemetry.io/proto/otlp/common/v1"
	resource "go.opentelemetry.io/proto/otlp/resource/v1"
	trace "go.opentelemetry.io/proto/otlp/trace/v1"

	"tailscope/api"
)

// shops is traces of three services: edge calls orders and inventory, orders calls
// inventory, and each asks a database. Inventory has callers that are not traced.
type shops struct {
	rng       *rand.Rand
	perSecond func(at time.Duration) float64
	at        func(at time.Duration) shopState
}

// shopState is how the three services are at a moment. The zero value is how they are
// where nothing has happened.
type shopState struct {
	down, silent bool
	search       float64 // share of GET /search, 0 is 0.4
	failing      bool    // 15 % of one tenant's requests fail
	slowOrders   bool    // orders takes half as long again for two tenants
	slowInstance [3]bool // instances of inventory that take twice as long
	slowStock    bool    // SELECT stock takes three times as long
	quickCart    bool
}

var shoppers = func() (out []string) {
	for i := range 40 {
		out = append(out, fmt.Sprintf("t-%02d", i))
	}
	return out
}()

// shopper is a tenant: the first three send a fifth, a seventh and an eleventh.
func (s *shops) shopper() string {
	u := s.rng.Float64()
	for i, share := range []float64{0.2, 0.14, 0.09} {
		if u < share {
			return shoppers[i]
		}
		u -= share
	}
	return shoppers[3+s.rng.IntN(len(shoppers)-3)]
}

// process is where spans are collected by service and instance.
type process struct{ service, instance string }

type shopTrace struct {
	s     *shops
	id    []byte
	spans map[process][]*trace.Span
	start time.Time
}

func (s *shops) id() []byte { return binary.BigEndian.AppendUint64(nil, s.rng.Uint64()|1) }

// took is a log-normal time in seconds.
func (s *shops) took(median, spread float64) float64 {
	return median * math.Exp(spread*s.rng.NormFloat64())
}

func (t *shopTrace) add(p process, id, parent []byte, name string, kind trace.Span_SpanKind, from, to float64, failed bool, pairs ...string) {
	at := func(v float64) uint64 { return uint64(t.start.UnixNano() + int64(1e9*v)) }
	sp := &trace.Span{TraceId: t.id, SpanId: id, ParentSpanId: parent, Name: name, Kind: kind, StartTimeUnixNano: at(from), EndTimeUnixNano: at(to)}
	for i := 0; i < len(pairs); i += 2 {
		sp.Attributes = append(sp.Attributes, attribute(pairs[i], pairs[i+1]))
	}
	if failed {
		sp.Status = &trace.Status{Code: trace.Status_STATUS_CODE_ERROR}
	}
	t.spans[p] = append(t.spans[p], sp)
}

func (t *shopTrace) server(p process, id, parent []byte, operation, tenant string, from, to float64, failed bool) {
	method, route, _ := strings.Cut(operation, " ")
	t.add(p, id, parent, operation, trace.Span_SPAN_KIND_SERVER, from, to, failed, "tenant.id", tenant, "http.request.method", method, "http.route", route)
}

func (t *shopTrace) query(p process, parent []byte, summary, server string, from, to float64) {
	t.add(p, t.s.id(), parent, summary, trace.Span_SPAN_KIND_CLIENT, from, to, false, "db.system.name", "postgresql", "server.address", server, "db.query.summary", summary, "db.query.text", summary+" WHERE id = $1")
}

func (t *shopTrace) client(p process, id, parent []byte, operation, server string, from, to float64) {
	method, _, _ := strings.Cut(operation, " ")
	t.add(p, id, parent, operation, trace.Span_SPAN_KIND_CLIENT, from, to, false, "http.request.method", method, "server.address", server)
}

// stock is a request of inventory; it returns when it ends.
func (t *shopTrace) stock(state shopState, parent []byte, operation, query, tenant string, from float64) float64 {
	s := t.s
	i := s.rng.IntN(3)
	p, id, slow := process{"inventory", fmt.Sprint("inv-", i)}, s.id(), 1.0
	if state.slowInstance[i] {
		slow = 2
	}
	x := from + s.took(0.002, 0.3)*slow
	d := s.took(0.012, 0.4) * slow
	if state.slowStock && query == "SELECT stock" {
		d *= 3
	}
	t.query(p, id, query, "pg-inv", x, x+d)
	x += d + s.took(0.002, 0.3)*slow
	t.server(p, id, parent, operation, tenant, from, x, false)
	return x
}

// request is one of edge.
func (t *shopTrace) request(state shopState) {
	s, tenant := t.s, t.s.shopper()
	share := state.search
	if share == 0 {
		share = 0.4
	}
	operation := "GET /search"
	if u := s.rng.Float64(); u >= share {
		switch u = (u - share) / (1 - share); {
		case u < 0.4:
			operation = "POST /orders"
		case u < 0.75:
			operation = "GET /cart"
		default:
			operation = "GET /account"
		}
	}
	p, root := process{"edge", fmt.Sprint("edge-", s.rng.IntN(2))}, s.id()
	x := s.took(0.004, 0.3)
	switch operation {
	case "GET /search":
		c, from := s.id(), x
		x = t.stock(state, c, "GET /stock", "SELECT stock", tenant, from+0.0005) + 0.0005
		t.client(p, c, root, "GET /stock", "inventory", from, x)
		x += s.took(0.020, 0.5)
	case "POST /orders":
		c, id, c2, from := s.id(), s.id(), s.id(), x
		o, slow := process{"orders", fmt.Sprint("ord-", s.rng.IntN(2))}, 1.0
		if state.slowOrders && (tenant == shoppers[0] || tenant == shoppers[1]) {
			slow = 1.5
		}
		x += 0.0005 + s.took(0.005, 0.3)*slow
		to := t.stock(state, c2, "GET /stock", "SELECT stock", tenant, x+0.0005) + 0.0005
		t.client(o, c2, id, "GET /stock", "inventory", x, to)
		x = to
		d := s.took(0.060, 0.4) * slow
		t.query(o, id, "INSERT orders", "pg-ord", x, x+d)
		x += d + s.took(0.003, 0.3)*slow
		t.server(o, id, c, "POST /orders", tenant, from+0.0005, x, false)
		x += 0.0005
		t.client(p, c, root, "POST /orders", "orders", from, x)
	case "GET /cart":
		d := s.took(0.012, 0.5)
		if state.quickCart {
			d *= 0.5
		}
		x += d
	default:
		d := s.took(0.008, 0.4)
		t.query(p, root, "SELECT account", "pg-edge", x, x+d)
		x += d
	}
	x += s.took(0.002, 0.3)
	failed := s.rng.Float64() < 0.004
	if state.failing && tenant == shoppers[2] {
		failed = s.rng.Float64() < 0.15
	}
	t.server(p, root, nil, operation, tenant, 0, x, failed)
}

// sendShops sends the traces of the next time.
func (w *world) sendShops(length time.Duration, s *shops) {
	w.t.Helper()
	for ; length > 0; length -= 10 * time.Minute {
		step, start := min(length, 10*time.Minute), w.clock()
		spans := map[process][]*trace.Span{}
		of := func(at time.Duration) *shopTrace {
			return &shopTrace{s: s, id: append(s.id(), s.id()...), spans: spans, start: start.Add(at)}
		}
		each := func(rate func(time.Duration) float64, f func(*shopTrace, shopState)) {
			for at := time.Duration(0); ; {
				at += time.Duration(float64(time.Second) / rate(start.Add(at).Sub(epoch)) * s.rng.ExpFloat64())
				if at >= step {
					return
				}
				if state := s.at(start.Add(at).Sub(epoch)); !state.silent {
					f(of(at), state)
				}
			}
		}
		each(s.perSecond, func(t *shopTrace, state shopState) {
			if !state.down {
				t.request(state)
			}
		})
		each(func(time.Duration) float64 { return 2 }, func(t *shopTrace, state shopState) {
			t.stock(state, nil, "PUT /stock", "UPDATE stock", s.shopper(), 0)
		})
		var arrived []*collector.ExportTraceServiceRequest
		var all []*trace.ResourceSpans
		for p, of := range spans {
			all = append(all, &trace.ResourceSpans{
				Resource:   &resource.Resource{Attributes: []*common.KeyValue{attribute("service.name", p.service), attribute("service.instance.id", p.instance)}},
				ScopeSpans: []*trace.ScopeSpans{{Spans: of}},
			})
		}
		slices.SortFunc(all, func(x, y *trace.ResourceSpans) int {
			return strings.Compare(fmt.Sprint(x.Resource.Attributes), fmt.Sprint(y.Resource.Attributes))
		})
		if len(all) > 0 {
			arrived = append(arrived, &collector.ExportTraceServiceRequest{ResourceSpans: all})
		}
		w.advance(step, arrived...)
	}
}

// Each thing that happens is one line, whatever changed with it: nine kinds within three
// hours are nine leading changes at their moments, and all other changes are parts of them.
func TestOneLineForEachEvent(t *testing.T) {
	const m = time.Minute
	happened := []struct {
		name     string
		at       time.Duration
		headline []string // words of its line
		verdict  api.Verdict
	}{
		{"a burst", 20*m + 15*time.Second, []string{"the rate of edge was"}, "changed"},
		{"orders is slower for two tenants", 34*m + 2*time.Second, []string{"orders", "slower"}, "regression"},
		{"edge is down", 50*m + 7*time.Second, []string{"no requests of edge for"}, "regression"},
		{"a rollout by instance", 70*m + time.Second, []string{"inventory went from", "in steps, from 11:10:00 to 11:16:"}, "regression"},
		{"a tenant's requests fail", 92*m + 9*time.Second, []string{"errors of edge", "t-02", "in all its operations"}, "regression"},
		{"another mix", 106*m + 6*time.Second, []string{"the mix of operations"}, "mix"},
		{"a quicker operation", 120*m + 5*time.Second, []string{"GET /cart of edge", "faster"}, "improvement"},
		{"slower statements", 134*m + 3*time.Second, []string{"inventory"}, "regression"},
		{"nothing comes", 146*m + 3*time.Second, []string{"no service sent anything for", "the system stood, or what sends was cut off"}, "regression"},
	}
	at := func(i int) time.Duration { return happened[i].at }
	worlds(t, 1, 1, func(w *world) (bool, string) {
		w.sendShops(160*m, &shops{rng: w.rng,
			perSecond: func(x time.Duration) float64 {
				rate := 12 * (1 + 0.1*math.Sin(2*math.Pi*x.Minutes()/30))
				if x >= at(0) && x < at(0)+40*time.Second {
					rate *= 5
				}
				return rate
			},
			at: func(x time.Duration) (s shopState) {
				s.slowOrders = x >= at(1)
				s.down = x >= at(2) && x < at(2)+7*m
				for i := range s.slowInstance {
					s.slowInstance[i] = x >= at(3)+time.Duration(i)*3*m
				}
				s.failing = x >= at(4)
				if x >= at(5) {
					s.search = 0.65
				}
				s.quickCart, s.slowStock = x >= at(6), x >= at(7)
				s.silent = x >= at(8) && x < at(8)+4*m
				return s
			}})
		w.advance(2 * m)
		r := w.allChanges(0, 160*m)
		var said []string
		lines, right := 0, 0
		for _, c := range r.Changes {
			if c.Under == "" {
				lines++
				for _, h := range happened {
					near := math.Abs(float64(c.Time)-float64(epoch.Add(h.at).Unix())) <= 60
					missing := slices.ContainsFunc(h.headline, func(words string) bool { return !strings.Contains(c.Headline, words) })
					if near && !missing && c.Verdict == h.verdict {
						right++
					}
				}
				said = append(said, fmt.Sprint(c.Verdict, ": ", c.Sentence))
			}
		}
		said = append(said, fmt.Sprintf("%d changes, %d lines, %d of %d events are told", len(r.Changes), lines, right, len(happened)))
		return right == len(happened) && lines == right, strings.Join(said, "\n")
	})
}

// While nothing comes from any service it is said, once for all of them, and by the answer
// about one of them too.
func TestNothingComes(t *testing.T) {
	trials(t, 0.95, func(w *world) (bool, string) {
		all := append(crowd("shop", 10), crowd("cart", 4)...)
		w.send(40*time.Minute, all...)
		w.advance(4*time.Minute + 30*time.Second)
		var said []string
		for _, match := range []string{"", `{service="cart"}`} {
			for _, c := range w.changes(match, 0, 44*time.Minute+30*time.Second) {
				said = append(said, c.Sentence)
			}
		}
		right := len(said) == 2
		for _, s := range said {
			right = right && strings.HasPrefix(s, "no service has sent anything for 4") && strings.HasSuffix(s, "what sends is cut off, since 2026-05-12 10:40:00 UTC")
		}
		return right, strings.Join(said, " | ")
	})
}

// What a job does at the same minute every hour, or did a day before, is not a burst.
func TestJobsAreNoBursts(t *testing.T) {
	for name, every := range map[string]time.Duration{"every hour": time.Hour, "every day": 24 * time.Hour} {
		t.Run(name, func(t *testing.T) {
			trials(t, 0.95, func(w *world) (bool, string) {
				usual := load{service: "shop", operation: "GET /cart", perSecond: 6, median: 0.05}
				job := usual
				job.perSecond *= 5
				runs, last := 4, time.Duration(0)
				if every > time.Hour {
					runs = 2
				}
				for range runs {
					last = w.clock().Sub(epoch) + 50*time.Minute
					w.send(50*time.Minute, usual)
					w.sendEvery(time.Minute, time.Minute, job)
					w.send(9*time.Minute, usual)
					if rest := every - time.Hour; rest > 0 && last < every {
						w.advance(rest)
					}
				}
				found := w.changes("", last-45*time.Minute, last+10*time.Minute)
				for _, c := range found {
					if c.Shape != nil && math.Abs(float64(c.Time)-float64(epoch.Add(last).Unix())) < 60 {
						return false, c.Sentence
					}
				}
				return true, fmt.Sprint(len(found))
			})
		})
	}
}
