// Package series defines the types that the whole program shares: a series, its
// identity, the slots that time is cut into, and the value of one series in one slot.
//
// Label sets and matchers are Prometheus' own types, so that the query engine and the
// store exchange them without conversion.
package series

import (
	"encoding/binary"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/zeebo/xxh3"
)

// Families that Tailscope itself computes. Incoming metrics keep their own,
// Prometheus-normalised names.
const (
	SpanDuration = "span_duration_seconds"
	SpanSelf     = "span_self_seconds"
)

// Families of the breakdown. Each is a distribution over the *duration of the
// request* (a service's entry span: kind server or consumer, or a trace's root),
// so that the requests above a percentile, or in any band of the heatmap, can
// be distinguished afterwards. What is counted in a request's bucket differs:
//
//	breakdown_requests   1: the request itself
//	breakdown_self       its exclusive time in the part, in microseconds
//	breakdown_critical   its critical-path time in the part, in microseconds
//	breakdown_calls      how often it called the part
//	breakdown_with       1 if it called the part at all
//	breakdown_repeats    1 if it called the part RepeatedCalls times or more
//	breakdown_fanout     its calls of the part's instance beside others at the same time
//	breakdown_last       those of them that were the last to end
//
// All carry service, environment, operation and cohort of the request. The parts'
// families add part_service, component, part_operation and, of a call, part_system; the
// last two part_instance.
const (
	BreakdownRequests = "breakdown_requests"
	BreakdownSelf     = "breakdown_self"
	BreakdownCritical = "breakdown_critical"
	BreakdownCalls    = "breakdown_calls"
	BreakdownWith     = "breakdown_with"
	BreakdownRepeats  = "breakdown_repeats"
	BreakdownFanout   = "breakdown_fanout"
	BreakdownLast     = "breakdown_last"

	// ClockSkew is how far the clock of service disagreed with that of peer, in seconds;
	// peer="queue" stands for the header of the queue. It has one observation for every
	// call whose times had to be moved. Label direction is ahead or behind.
	ClockSkew = "clock_skew_seconds"
)

// OldBreakdown is the age in seconds from which the breakdown of a request that arrives
// late has minutes as its finest slots.
const OldBreakdown = 2 * 3600

// IsBreakdown reports whether a family is one of the breakdown.
func IsBreakdown(family string) bool {
	switch family {
	case BreakdownRequests, BreakdownSelf, BreakdownCritical, BreakdownCalls, BreakdownWith, BreakdownRepeats, BreakdownFanout, BreakdownLast:
		return true
	}
	return false
}

// RepeatedCalls is the number of calls of one part within one request from which they
// count as repeated.
const RepeatedCalls = 10

// Labels of the breakdown.
const (
	LabelCohort        = "cohort"
	LabelPartService   = "part_service"
	LabelPartOperation = "part_operation"
	LabelPartInstance  = "part_instance"
	LabelPartSystem    = "part_system"
)

// Components name where time goes.
const (
	ComponentApp       = "app"
	ComponentDB        = "db"
	ComponentCache     = "cache"
	ComponentExternal  = "external"
	ComponentMessaging = "messaging"
	ComponentQueue     = "queue"
)

// Cohorts group tenants by their share of a service's requests.
const (
	VeryLarge = "very large"
	Large     = "large"
	Medium    = "medium"
	Small     = "small"
)

// Cohort returns the cohort of a tenant that sends the given share (0 to 1) of a
// service's requests: very large from 5 %, large from 1 %, medium from 0.1 %, else
// small.
func Cohort(share float64) string {
	switch {
	case share >= 0.05:
		return VeryLarge
	case share >= 0.01:
		return Large
	case share >= 0.001:
		return Medium
	}
	return Small
}

// StatusError is the status of what failed.
const StatusError = "error"

// Labels of span families. Instance and peer exist on marginals only. A service in two
// environments is two services. System and peer name the backend of a call.
const (
	LabelService     = "service"
	LabelOperation   = "operation"
	LabelComponent   = "component"
	LabelKind        = "kind"
	LabelStatus      = "status"
	LabelTenant      = "tenant"
	LabelVersion     = "version"
	LabelVariant     = "variant"
	LabelInstance    = "instance"
	LabelEnvironment = "environment"
	LabelNamespace   = "service_namespace"
	LabelK8s         = "k8s_namespace"
	LabelWorkload    = "k8s_workload"
	LabelSystem      = "system"
	LabelPeer        = "peer"
)

// IsRequest reports whether spans of a kind are requests of their service. A service
// without any has all of its spans as its requests.
func IsRequest(kind string) bool { return kind == "server" || kind == "consumer" }

// SpanLabels lists the labels of span families, without those that are configured.
var SpanLabels = []string{
	LabelService, LabelOperation, LabelComponent, LabelKind, LabelStatus, LabelTenant, LabelVersion, LabelVariant, LabelInstance,
	LabelEnvironment, LabelNamespace, LabelK8s, LabelWorkload, LabelSystem, LabelPeer,
}

// Other is the label value of everything that is folded together to bound cardinality.
const Other = "_other"

// Kind is the type of the points of a series.
type Kind uint8

const (
	Distribution Kind = iota // a hist.Histogram per slot: what happened in it
	Gauge                    // a Number per slot, and raw samples
	Counter                  // likewise; samples are running totals that may reset
)

// View names one of the copies of a span family that differ in detail, so that a
// question reads no more series than it needs. Every observation is in each view once; a
// query reads exactly one view.
//
// Families other than span families have only the Full view.
type View uint8

const (
	Full     View = iota // all labels but instance and peer
	Marginal             // without tenant, with instance and peer
	Total                // without tenant, operation, instance and peer; made from Marginal when a generation is flushed
)

// Series is one family and one set of labels in one view. Labels never hold the metric
// name and never an empty value.
type Series struct {
	Family string
	View   View
	Kind   Kind
	Labels labels.Labels
}

// WithTenant returns the series with the label tenant, if that is not empty.
func (s Series) WithTenant(tenant string) Series {
	if tenant != "" {
		s.Labels = labels.NewBuilder(s.Labels).Set(LabelTenant, tenant).Labels()
	}
	return s
}

// ID identifies a series across processes, restarts and stores. Each half is a sum
// modulo 2^64 of 128-bit XXH3 hashes: that of family and view, and that of each label.
// So the identity of a series with one more label costs one hash; see With. Kind is not
// part of it.
type ID struct{ Hi, Lo uint64 }

// Seeds of the hashes whose sum an ID is.
const (
	seedFamily = 1
	seedLabel  = 2
)

// ID computes the series' identity. buf is scratch space that may be nil; the
// possibly grown buffer is returned for reuse.
func (s *Series) ID(buf []byte) (ID, []byte) {
	buf = append(appendString(buf[:0], s.Family), byte(s.View))
	h := xxh3.Hash128Seed(buf, seedFamily)
	id := ID{h.Hi, h.Lo}
	s.Labels.Range(func(l labels.Label) {
		buf = appendString(appendString(buf[:0], l.Name), l.Value)
		h := xxh3.Hash128Seed(buf, seedLabel)
		id = id.Plus(ID{h.Hi, h.Lo})
	})
	return id, buf
}

// With returns the identity of the series with one more label.
func (id ID) With(name, value string) ID {
	var stack [320]byte
	b := appendString(appendString(stack[:0], name), value)
	h := xxh3.Hash128Seed(b, seedLabel)
	return id.Plus(ID{h.Hi, h.Lo})
}

// Plus returns the sum of id and o, half by half modulo 2^64.
func (id ID) Plus(o ID) ID { return ID{id.Hi + o.Hi, id.Lo + o.Lo} }

// AppendKey appends the series' canonical bytes: length-prefixed family, view,
// then length-prefixed label names and values in name order.
func (s *Series) AppendKey(dst []byte) []byte {
	dst = appendString(dst, s.Family)
	dst = append(dst, byte(s.View))
	s.Labels.Range(func(l labels.Label) {
		dst = appendString(dst, l.Name)
		dst = appendString(dst, l.Value)
	})
	return dst
}

func appendString(dst []byte, s string) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(s)))
	return append(dst, s...)
}

// Resolution is the length of a slot in seconds.
type Resolution int64

// The resolutions kept, finest first. Each divides the next.
const (
	Base   Resolution = 10
	Minute Resolution = 60
	TenMin Resolution = 600
	Hour   Resolution = 3600
)

// Resolutions lists the kept resolutions, finest first.
var Resolutions = [...]Resolution{Base, Minute, TenMin, Hour}

// Slot returns the start, in Unix seconds, of the slot of resolution r that
// holds the moment t (Unix seconds). A slot is closed below, open above.
func (r Resolution) Slot(t int64) int64 {
	m := t % int64(r)
	if m < 0 {
		m += int64(r)
	}
	return t - m
}

// Number is the value of a gauge or counter series in one slot: statistics of the
// samples that fell in it. Last is the latest by time.
type Number struct {
	Count          uint64
	Sum, Min, Max  float64
	Last           float64
	LastTimeMillis int64
}

// Merge folds o into n. Order does not matter; equal times keep the larger Last.
func (n *Number) Merge(o Number) {
	if o.Count == 0 {
		return
	}
	if n.Count == 0 {
		*n = o
		return
	}
	n.Count += o.Count
	n.Sum += o.Sum
	n.Min = min(n.Min, o.Min)
	n.Max = max(n.Max, o.Max)
	if o.LastTimeMillis > n.LastTimeMillis || (o.LastTimeMillis == n.LastTimeMillis && o.Last > n.Last) {
		n.Last, n.LastTimeMillis = o.Last, o.LastTimeMillis
	}
}

// Sample is one raw value of a number series.
type Sample struct {
	TimeMillis int64
	Value      float64
}
