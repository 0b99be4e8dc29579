// Package otlp receives spans, metrics and the number of log records in OpenTelemetry's
// protocol, by gRPC and by HTTP.
//
// It decodes the protobuf bytes in one pass and makes no objects of them. Of a span it
// reads only the fields that decide under which labels it is counted; the hash of their bytes,
// of all but the tenant, finds the target that it was resolved to before, so that a span costs
// a pass, a hash and a look-up among few. All observations of a request go into one batch of the aggregator,
// committed when the request has been read to its end: a malformed one leaves nothing
// behind.
//
// Field numbers are those of https://github.com/open-telemetry/opentelemetry-proto v1.
package otlp

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/zeebo/xxh3"

	"tailscope/hist"
	"tailscope/internal/agg"
	"tailscope/internal/observe/semconv"
	"tailscope/internal/observe/traces"
	"tailscope/internal/series"
	"tailscope/internal/store"
)

// Sink receives observations: an aggregator.
type Sink interface {
	Overloaded() bool
	NamedTarget(*agg.SpanIdentity) agg.Target
	Fold([]agg.Member)
	MetricTarget(series.Series) agg.Target
	RefusesFamily(name string) bool
	DeclareFamily(store.FamilyInfo)
	NewBatch() Batch
}

// Batch collects the observations of a request; see agg.Batch.
type Batch interface {
	Epoch() uint32
	Accepts() (from, to int64)
	ObserveTenant(t agg.Target, tenant string, folded bool, endNanos, durationNanos int64, weight uint32)
	Distribution(t agg.Target, timeNanos int64, h *hist.Histogram)
	Number(t agg.Target, timeNanos int64, v float64)
	DeltaNumber(t agg.Target, id agg.StreamID, timeNanos int64, v float64)
	Cumulative(t agg.Target, id agg.StreamID, resource uint64, startNanos, timeNanos int64, h *hist.Histogram)
	Commit(context.Context) (agg.Rejects, error)
	Discard()
}

// Into returns an aggregator as a Sink.
func Into(a *agg.Aggregator) Sink { return sink{a} }

type sink struct{ *agg.Aggregator }

func (s sink) NewBatch() Batch { return s.Aggregator.NewBatch() }

// receiver decodes payloads into a sink. It is safe for concurrent use.
type receiver struct {
	sink       Sink
	assembler  Assembler // nil: no breakdown
	texts      texts
	keys       *semconv.Keys
	extraOrder []int // of keys.Extras, by name
	longest    int64 // nanoseconds of the longest span that is accepted
	seed       uint64
	cache      *cache
	routes     *routes
	resources  resources
	families   families
	bounds     boundsTable
	decoders   sync.Pool

	items            [signals]atomic.Uint64 // accepted
	noValue          atomic.Uint64
	queueImplausible atomic.Uint64
	rejected         [signals][reasons]atomic.Uint64
}

// newReceiver returns a receiver that caches at most twice so many targets.
func newReceiver(s Sink, assembler Assembler, tenant, extra []string, longest time.Duration, targets int) (*receiver, error) {
	keys, err := semconv.NewKeys(tenant, extra)
	if err != nil {
		return nil, err
	}
	r := &receiver{sink: s, assembler: assembler, keys: keys, longest: int64(longest), seed: rand.Uint64(), cache: newCache(targets)}
	r.routes = newRoutes(r.seed)
	for i := range keys.Extras {
		r.extraOrder = append(r.extraOrder, i)
	}
	slices.SortFunc(r.extraOrder, func(a, b int) int { return strings.Compare(keys.Extras[a], keys.Extras[b]) })
	r.decoders.New = func() any { return &decoder{r: r} }
	return r, nil
}

// decoder is the scratch space of one request.
type decoder struct {
	r      *receiver
	batch  Batch
	tables *tables
	res    *resource

	payload    []byte
	order      keyOrder
	present    semconv.Mask // slots that the attributes just read have values of
	raw        [semconv.NumSlots]rawValue
	rank       [semconv.NumSlots]uint8
	attrs      semconv.Attrs // the selected ones as texts
	httpStatus int
	arena      []byte // texts of values that are not strings
	key        []byte
	operation  []byte
	extra      []labels.Label
	id         agg.SpanIdentity
	pending    []pending
	fetched    uint64        // see table.fetch
	members    []agg.Member  // tenants of pending
	kept       []byte        // tenants and paths that are not texts in the payload
	paths      []requestPath // of pending requests whose routes are learned

	spans       []traces.Span // of the request, for the breakdown
	names       uint32        // the assembler's epoch
	from, to    int64         // ends that the batch accepts
	details     []byte
	statement   []byte
	address     []byte
	identity    traces.Identity
	queued      int64 // the earliest time in a header of the span, 0 if there is none
	rpcStatus   int8  // -1 if there is none
	implausible uint64

	scope      xxh3.Uint128
	m          metric
	h          hist.Histogram
	bounds     []float64
	lastBounds []float64
	quantiles  []quantile

	items   int64
	noValue int64
	refused [reasons]int64
}

func (d *decoder) refuse(r Reason) { d.refused[r]++ }

// signal is the kind of data in a request.
type signal uint8

const (
	traceSignal signal = iota
	metricSignal
	logSignal
	signals
)

// what returns what a request of the signal holds, in the plural.
func (s signal) what() string { return [...]string{"spans", "data points", "log records"}[s] }

// faultError is a panic while a request was decoded.
type faultError struct {
	value any
	stack []byte
}

func (e *faultError) Error() string { return fmt.Sprintf("decoding the request failed: %v", e.value) }

// decode reads a request into the batch of d. A panic is a *faultError, after which d must not
// be used: what one sender sends does not end the program.
func (d *decoder) decode(s signal, payload []byte) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = &faultError{v, debug.Stack()}
		}
	}()
	switch s {
	case traceSignal:
		return d.traces(payload)
	case metricSignal:
		return d.metrics(payload)
	}
	return d.logs(payload)
}

// ingest decodes one request and commits it. If the error is a *MalformedError, a *faultError,
// agg.ErrOverloaded, or the journal's, nothing was accepted.
func (r *receiver) ingest(ctx context.Context, s signal, payload []byte) (Partial, error) {
	d := r.decoders.Get().(*decoder)
	again := true
	defer func() {
		if again {
			r.decoders.Put(d)
		}
	}()
	d.payload = payload
	d.items, d.noValue = 0, 0
	d.kept = d.kept[:0]
	clear(d.refused[:])
	d.batch = r.sink.NewBatch()
	epoch := d.batch.Epoch()
	if r.assembler != nil {
		d.names = r.assembler.Epoch()
		epoch += d.names
		d.from, d.to = d.batch.Accepts()
	}
	d.tables = r.cache.at(epoch)
	if err := d.decode(s, payload); err != nil {
		d.batch.Discard()
		if fault := (*faultError)(nil); errors.As(err, &fault) {
			again = false
			return Partial{}, err
		}
		d.releasePayload()
		return Partial{}, err
	}
	rejects, err := d.batch.Commit(ctx)
	if err != nil {
		d.releasePayload()
		return Partial{}, err
	}
	d.refused[TooOld] += int64(rejects.TooOld)
	d.refused[TooNew] += int64(rejects.TooNew)
	d.refused[OutOfOrder] += int64(rejects.OutOfOrder)
	d.refused[Invalid] += int64(rejects.Invalid)
	p := Partial{Items: d.items}
	for reason, n := range d.refused {
		if n > 0 {
			p.Rejected += n
			r.rejected[s][reason].Add(uint64(n))
		}
	}
	p.Rejected = min(p.Rejected, p.Items) // a summary is several numbers
	p.Message = describe(s.what(), p.Items, p.Rejected, &d.refused)
	r.items[s].Add(uint64(p.Items - p.Rejected - d.noValue))
	r.noValue.Add(uint64(d.noValue))
	if s == traceSignal && r.assembler != nil {
		r.assembler.Add(d.spans)
		r.queueImplausible.Add(d.implausible)
	}
	d.releasePayload()
	return p, nil
}

// releasePayload drops references to the payload, which its owner will reuse.
func (d *decoder) releasePayload() {
	d.batch, d.tables, d.res, d.payload = nil, nil, nil, nil
	d.m = metric{}
	d.id, d.identity = agg.SpanIdentity{}, traces.Identity{}
	d.pending = d.pending[:0]
	clear(d.members)
	d.members = d.members[:0]
	d.releasePaths()
	d.releaseSpans()
	d.h.Bounds = nil
	d.attrs.Mask = 0
}
