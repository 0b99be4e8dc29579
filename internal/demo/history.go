package demo

import (
	"context"
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"strings"
	"time"

	"go.opentelemetry.io/otel/exporters/otlp/otlptrace"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracegrpc"
	resourcepb "go.opentelemetry.io/proto/otlp/resource/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"golang.org/x/sync/errgroup"
	"google.golang.org/protobuf/proto"

	"tailscope/api"
)

// The demo begins with a past: requests of this shop that were recorded moments ago, once
// with the index theChange and once without it, are sent again as if they had come at
// other times. They come by the mix, by the tenants' shares of the load, and of each tenant
// fast and slow ones in turn. Each copy has ids of its own and is stretched a little, by a tenth or so; the bank's delay,
// which is made up in the shop as well, is drawn anew. The past is sampled, the more so the
// longer ago: a copy says by its trace state how many requests it stands for.

// The shop is recorded several times, by turns with the index and without it, so that a
// machine that gets busier does not look like the index. recordFor is how long each takes.
// Its first sixth is left out, because connections and caches are new.
const (
	recordings = 4
	recordFor  = 4 * time.Second
)

// stretch is the deviation of the logarithm by which the times of a copy differ.
const stretch = 0.1

// shopVersion is that of the last release, which lost the index.
const shopVersion = "2.4.0"

// release is a version of the shop, from a moment on.
type release struct {
	version string
	at      time.Time
	indexed bool // has theChange
	what    string
}

// past says which requests came when.
type past struct {
	rate     float64 // requests per second now
	now      time.Time
	releases []release // in order; the first is there when the past begins
	next     time.Time // of each
	sent     int       // by each
	rng      *rand.Rand
}

func newPast(now time.Time, length time.Duration, rate float64) *past {
	return &past{rate: rate, now: now, next: now.Add(-length), rng: rand.New(rand.NewPCG(5, 55)), releases: []release{
		{"2.1.0", now.Add(-length), false, ""},
		{"2.2.0", now.Add(-length * 6 / 10), true, "adds the index orders_by_customer"},
		{"2.3.0", now.Add(-length * 3 / 10), true, "another colour of the shop's buttons"},
		{shopVersion, now.Add(-min(length/4, 45*time.Minute)), false, "rebuilds the table of orders, without the index orders_by_customer"},
	}}
}

// rateAt returns the requests per second at a moment: now and later those of the load. The
// rate is highest at three in the afternoon and lower at weekends.
func (p *past) rateAt(t time.Time) float64 {
	busy := func(t time.Time) float64 {
		t = t.Local()
		hour := float64(t.Hour()) + float64(t.Minute())/60 + float64(t.Second())/3600
		b := 1 + 0.35*math.Sin(2*math.Pi*(hour-9)/24)
		if t.Weekday() == time.Saturday || t.Weekday() == time.Sunday {
			b *= 0.7
		}
		return b
	}
	if t.After(p.now) {
		t = p.now
	}
	return p.rate * busy(t) / busy(p.now)
}

// sampledAt returns how many of these are sent.
func (p *past) sampledAt(t time.Time) float64 {
	sampled := 1.0 / 240
	switch age := p.now.Sub(t); {
	case age < 10*time.Minute:
		sampled = 10
	case age < 2*time.Hour:
		sampled = 2
	case age < 3*time.Hour, comparable(age):
		sampled = 1
	case age < 6*time.Hour:
		sampled = 0.5
	case age < 26*time.Hour:
		sampled = 0.3
	}
	for _, r := range p.releases[1:] { // an hour on both sides is compared
		if t.Sub(r.at).Abs() < 70*time.Minute {
			sampled = max(sampled, 0.5)
		}
	}
	return min(sampled, p.rateAt(t))
}

// comparable reports whether a moment so long ago is one of those that the present is compared
// with: about this time a day and a week before, and as long as the demo is looked at.
func comparable(age time.Duration) bool {
	const before, after = 20 * time.Minute, 45 * time.Minute
	for _, ago := range []time.Duration{24 * time.Hour, 7 * 24 * time.Hour} {
		if age < ago+before && age > ago-after {
			return true
		}
	}
	return false
}

// orderCopies is the number of copies that share the weight of an order in the minutes that
// the present is compared with. One copy each would give the payments two or three requests a
// minute, whose p99 is the slowest of them: in most minutes not one that the bank kept waiting.
// A minute of the load has 150, and often seemed worse.
const orderCopies = 6

// copiesOf returns the number of copies that share the weight of a request.
func (p *past) copiesOf(e *errand, at time.Time) int {
	if e.operation() == placeOrder && comparable(p.now.Sub(at)) {
		return orderCopies
	}
	return 1
}

// each calls f with each request from where the last call ended to a moment, until f
// fails: when it came, the release that served it, what it asked for, and how many requests it
// stands for. They come at random, as evenly as such may, and as many of each errand as
// there should be, also where few are sent.
func (p *past) each(to time.Time, f func(at time.Time, r *release, e *errand, weight float64) error) error {
	for p.next.Before(to) {
		sampled := p.sampledAt(p.next)
		gap := time.Duration(float64(time.Second) / sampled)
		at := p.next.Add(time.Duration(p.rng.Int64N(int64(gap))))
		weight := p.rateAt(p.next) / sampled
		p.next = p.next.Add(gap)
		r := &p.releases[0]
		for i := range p.releases {
			if !p.releases[i].at.After(at) {
				r = &p.releases[i]
			}
		}
		_, u := math.Modf(float64(p.sent) * math.Phi)
		p.sent++
		e := errandAt(int(100 * u))
		copies := p.copiesOf(e, at)
		for i := range copies {
			if err := f(at.Add(time.Duration(i)*gap/time.Duration(copies)), r, e, weight/float64(copies)); err != nil {
				return err
			}
		}
	}
	return nil
}

// evenly returns the n-th of points that fill the unit square as evenly as may be, however few
// they are: Kronecker's sequence by the powers of the plastic number. So few requests that
// are sent have the tenants and the durations of all, and their quantiles do not jump.
func evenly(n int) (x, y float64) {
	const plastic = 1.324717957244746
	_, x = math.Modf(0.5 + float64(n)/plastic)
	_, y = math.Modf(0.5 + float64(n)/(plastic*plastic))
	return x, y
}

// copier makes copies of requests, and sends them.
type copier struct {
	client otlptrace.Client
	rng    *rand.Rand
	about  map[string]*resourcepb.Resource // by service

	// store stores what was sent so far, so that a history of any length fits the memory for
	// open slots; nil: nothing does.
	store func(context.Context) error

	sending *errgroup.Group
	sent    int                        // requests
	batch   map[string][]*tracepb.Span // by service
	size    int
	version string // of the shop in the batch
}

// senders bounds the requests under way at once.
const senders = 2

// send sends the copies that a function makes.
func (c *copier) send(ctx context.Context, makeCopies func(context.Context) error) error {
	c.batch = map[string][]*tracepb.Span{}
	c.sending, ctx = errgroup.WithContext(ctx)
	c.sending.SetLimit(senders)
	err := makeCopies(ctx)
	if err == nil {
		c.flush(ctx)
	}
	if failed := c.sending.Wait(); failed != nil { // that is why others were cut off
		err = failed
	}
	return err
}

// batchSize is the number of spans that are sent at once, some 2 MB.
const batchSize = 4000

// storeEvery is after how many requests what was sent is stored.
const storeEvery = 10

// copy adds a copy of a request that came at a moment and stands for weight requests.
func (c *copier) copy(ctx context.Context, q *request, at time.Time, version string, weight float64) {
	if c.size >= batchSize || version != c.version {
		c.flush(ctx)
	}
	c.version = version
	// Sampled is who has at least the threshold in the last 56 bits of its id.
	// https://opentelemetry.io/docs/specs/otel/trace/tracestate-probability-sampling
	const whole = 1 << 56
	threshold, state := uint64(0), ""
	if weight > 1 {
		threshold = uint64(whole - whole/weight)
		state = "ot=th:" + strings.TrimRight(fmt.Sprintf("%014x", threshold), "0")
	}
	id := binary.BigEndian.AppendUint64(nil, c.rng.Uint64())
	id = binary.BigEndian.AppendUint64(id, c.rng.Uint64()&^(whole-1)|(threshold+c.rng.Uint64N(whole-threshold)))
	ids := make([][]byte, len(q.spans))
	for i := range ids {
		ids[i] = binary.BigEndian.AppendUint64(nil, 1+c.rng.Uint64N(math.MaxUint64))
	}
	by, delay := math.Exp(stretch*c.rng.NormFloat64()), bankDelay(c.rng)
	moment := func(t time.Duration) uint64 {
		if b := q.bank; b != nil && t >= b.end {
			t += delay - (b.end - b.start)
		}
		return uint64(at.UnixNano() + int64(float64(t)*by))
	}
	for i, s := range q.spans {
		span := &tracepb.Span{TraceId: id, SpanId: ids[i], TraceState: state, StartTimeUnixNano: moment(s.start), EndTimeUnixNano: moment(s.end)}
		if s.parent >= 0 {
			span.ParentSpanId = ids[s.parent]
		}
		span.ProtoReflect().SetUnknown(s.encoded) // encoded once: it is written as it is
		c.batch[s.service] = append(c.batch[s.service], span)
	}
	c.size += len(q.spans)
}

// flush sends what is there.
func (c *copier) flush(ctx context.Context) {
	if c.size == 0 {
		return
	}
	var all []*tracepb.ResourceSpans
	for service, spans := range c.batch {
		res := c.about[service]
		if service == "shop" {
			res = proto.CloneOf(res)
			res.Attributes = withText(res.Attributes, "service.version", c.version)
		}
		all = append(all, &tracepb.ResourceSpans{Resource: res, ScopeSpans: []*tracepb.ScopeSpans{{Spans: spans}}})
	}
	c.batch, c.size = map[string][]*tracepb.Span{}, 0
	c.sent++
	store := c.store != nil && c.sent%storeEvery == 0
	c.sending.Go(func() error {
		err := c.client.UploadTraces(ctx, all)
		if err == nil && store {
			err = c.store(ctx)
		}
		return err
	})
}

// sendHistory records the shop and sends its past, up to now.
func (d *demo) sendHistory(ctx context.Context, s *site) error {
	d.say("recording the shop for %s, by turns with the index orders_by_customer and without it", recordings*d.recordFor)
	recorded := map[bool][]request{}
	about := map[string]*resourcepb.Resource{}
	for i := range uint64(recordings) {
		indexed, change := true, theChange
		if i%2 == 1 {
			indexed, change = false, "DROP INDEX orders_by_customer"
		}
		if _, err := d.db.ExecContext(ctx, change); err != nil {
			return fmt.Errorf("%s: %w", change, err)
		}
		begin := time.Now()
		kept, err := d.record(ctx, s, d.recordFor, 2+i/2)
		if err != nil {
			return fmt.Errorf("record the shop: %w", err)
		}
		recorded[indexed] = append(recorded[indexed], kept.requests(begin.Add(d.recordFor/6))...)
		for _, service := range recordedServices {
			if r := kept.resource(service); r != nil { // not each recording has every service
				about[service] = r
			}
		}
	}
	pools := map[bool]pool{}
	for indexed, requests := range recorded {
		var err error
		if pools[indexed], err = newPool(requests, d.tenants); err != nil {
			return err
		}
	}

	client := otlptracegrpc.NewClient(otlptracegrpc.WithEndpoint(d.srv.OTLPGRPC()), otlptracegrpc.WithInsecure(),
		otlptracegrpc.WithTimeout(time.Minute)) // it waits while the server is busy
	if err := client.Start(ctx); err != nil {
		return fmt.Errorf("send the history: %w", err)
	}
	defer client.Stop(context.WithoutCancel(ctx))
	c := &copier{client: client, rng: rand.New(rand.NewPCG(6, uint64(time.Now().UnixNano()))), about: about, store: d.srv.Flush}
	p := newPast(time.Now(), d.History, d.Rate)
	begin := p.next
	told := time.Now()
	of := map[string]int{} // requests of each operation so far
	send := func(to time.Time) error {
		err := c.send(ctx, func(ctx context.Context) error {
			return p.each(to, func(at time.Time, r *release, e *errand, weight float64) error {
				if time.Since(told) > 2*time.Second {
					told = time.Now()
					d.say("the history is sent up to %s", at.Format("2 January 15:04"))
				}
				if among := pools[r.indexed][e.operation()]; among != nil {
					who, which := evenly(of[e.operation()])
					of[e.operation()]++
					own := among[pick(d.tenants, who).id-1]
					c.copy(ctx, &own[int(which*float64(len(own)))], at, r.version, weight)
				}
				return ctx.Err()
			})
		})
		if err != nil {
			return fmt.Errorf("send the history: %w", err)
		}
		return nil
	}
	d.say("sending a history from %s on, made of what was recorded", begin.Format("2 January 15:04"))
	if err := send(p.now); err != nil {
		return err
	}
	replayed := fmt.Sprintf("from here until %s all is made of requests of this shop that were recorded then, with an index and without it: sampled, and sent as of other times", p.now.Format("2 January 15:04"))
	d.setMark(ctx, api.Mark{Name: "history begins", Time: unixTime(begin), Description: replayed})
	for _, r := range p.releases[1:] {
		name := "release " + strings.TrimSuffix(r.version, ".0")
		id := d.setMark(ctx, api.Mark{Name: name, Time: unixTime(r.at), Revision: "v" + r.version, Description: r.what + "; part of the demo's history"})
		if r.version == shopVersion { // it is why the shop is slow
			d.story.marked(name, id, r.at)
		}
	}
	return send(time.Now()) // the load goes on where this ends
}

// unixTime is a moment in Unix seconds, to the millisecond.
func unixTime(t time.Time) api.Float { return api.Float(t.UnixMilli()) / 1e3 }

// holdsData reports whether a directory has anything in it.
func holdsData(dir string) bool {
	entries, err := os.ReadDir(dir)
	return err == nil && len(entries) > 0
}
