package pair

import (
	"github.com/prometheus/prometheus/model/labels"

	"tailscope/internal/series"
)

// tags are the labels of one variant and status, or of one ratio.
type tags struct {
	labels labels.Labels
	made   bool
}

var familyOf = [perStatus]string{duration: FamilyDuration, firstByte: FamilyFirstByte, answerBytes: FamilyBytes}

// appendPoints appends the distributions of a slot, which keeps them.
func (r *recorder) appendPoints(dst []Point, at *slot) []Point {
	for i, h := range at.hists {
		if h == nil || h.Count == 0 {
			continue
		}
		p := Point{Kind: series.Distribution, TimeNanos: at.start, Hist: h}
		if i < r.firstRatio {
			p.Family, p.Labels = familyOf[i%perStatus], r.tags(at.entry, i/perStatus)
		} else {
			p.Family, p.Labels = FamilyRatio, r.tags(at.entry, r.firstRatio/perStatus+i-r.firstRatio)
		}
		dst = append(dst, p)
	}
	return dst
}

// tags returns the labels of distributions: two statuses of each variant, then
// the ratios.
func (r *recorder) tags(e *entry, i int) labels.Labels {
	ratios := r.firstRatio / perStatus
	if e.tags == nil {
		e.tags = make([]tags, ratios+len(r.ratios))
	}
	if t := &e.tags[i]; !t.made {
		pairs := map[string]string{
			LabelExperiment: r.o.Experiment, series.LabelService: r.o.Service,
			series.LabelOperation: e.names.Operation, series.LabelTenant: e.names.Tenant,
			series.LabelStatus: StatusOK,
		}
		if i < ratios {
			if i%2 == 1 {
				pairs[series.LabelStatus] = StatusError
			}
			pairs[series.LabelVariant] = r.variant(i / 2)
			if i/2 == r.unmirrored {
				pairs[LabelMirrored] = "no"
			}
		} else {
			q := r.ratios[i-ratios]
			pairs[series.LabelVariant], pairs[LabelAgainst] = r.variant(q.over), r.variant(q.under)
		}
		*t = tags{labelsOf(pairs), true}
	}
	return e.tags[i].labels
}

func (r *recorder) variant(i int) string {
	if i == 0 || i == r.unmirrored {
		return r.o.Primary
	}
	return r.o.Shadows[i-1].Name
}

// labelsOf leaves out empty values, which labels cannot have.
func labelsOf(pairs map[string]string) labels.Labels {
	for name, value := range pairs {
		if value == "" {
			delete(pairs, name)
		}
	}
	return labels.FromMap(pairs)
}

// numbers holds the counters' growth in each slot.
type numbers struct {
	b     *Ledger
	defs  []numberDef
	last  []uint64
	since int64 // when they were last collected
	held  map[numberKey]float64
}

type numberDef struct {
	family string
	labels labels.Labels
}

type numberKey struct {
	def   int
	start int64
}

type number struct {
	key   numberKey
	value float64
}

func (n *numbers) init(b *Ledger) {
	n.b, n.since, n.held = b, b.o.Now(), map[numberKey]float64{}
	add := func(family, variant, outcome string) {
		n.defs = append(n.defs, numberDef{family, labelsOf(map[string]string{
			LabelExperiment: b.o.Experiment, series.LabelService: b.o.Service,
			series.LabelVariant: variant, LabelOutcome: outcome,
		})})
	}
	n.read(func(family, variant, outcome string, _ uint64) { add(family, variant, outcome) })
	n.last = make([]uint64, len(n.defs))
}

// read yields every counter, in a fixed order.
func (n *numbers) read(yield func(family, variant, outcome string, value uint64)) {
	b := n.b
	for r := range b.begun {
		outcome := "mirrored"
		if Reason(r) != Chosen {
			outcome = "skipped_" + Reason(r).String()
		}
		yield(FamilyRequests, "", outcome, b.begun[r].Load())
	}
	for c := range b.failed {
		yield(FamilyFailed, b.o.Primary, "failed_"+Cause(c).String(), b.failed[c].Load())
	}
	for i := range b.account {
		t, name := b.account[i].read(), b.o.Shadows[i].Name
		yield(FamilyCopies, name, "answered", t.paired)
		yield(FamilyCopies, name, "unpaired", t.unpaired)
		for c := range NumCauses {
			yield(FamilyCopies, name, "dropped_"+c.String(), t.dropped[c])
			yield(FamilyCopies, name, "failed_"+c.String(), t.failed[c])
		}
	}
}

// collect reads the growth of the counters since the last call, and counts it in the
// slot of the middle of that time.
func (n *numbers) collect(now int64) {
	middle := n.since + (now-n.since)/2
	start := middle - middle%slotNanos
	n.since = now
	i := 0
	n.read(func(_, _, _ string, value uint64) {
		if grown := value - n.last[i]; grown > 0 {
			n.held[numberKey{i, start}] += float64(grown)
			n.last[i] = value
		}
		i++
	})
}

// maxNumbers bounds the slots held: an hour of some counters. Anything beyond goes
// into the latest slot, so that totals stay whole.
const maxNumbers = 10_000

// takePoints moves what is held into points.
func (n *numbers) takePoints(points []Point) ([]Point, []number) {
	var taken []number
	for key, value := range n.held {
		d := &n.defs[key.def]
		points = append(points, Point{Family: d.family, Labels: d.labels, Kind: series.Counter, TimeNanos: key.start, Value: value})
		taken = append(taken, number{key, value})
	}
	clear(n.held)
	return points, taken
}

// restore puts back what was taken.
func (n *numbers) restore(taken []number) {
	for _, t := range taken {
		key := t.key
		if len(n.held) >= maxNumbers {
			key.start = n.since - n.since%slotNanos
		}
		n.held[key] += t.value
	}
}
