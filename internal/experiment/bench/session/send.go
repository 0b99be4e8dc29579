package session

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/prometheus/prometheus/model/labels"

	"tailscope/api"
	"tailscope/hist"
	"tailscope/internal/experiment/bench/tally"
	"tailscope/internal/series"
)

// Families of a run's series. All have the labels service, those of Options.Labels
// and, if set, variant and experiment. Distributions have operation (the query),
// tenant and status too.
const (
	FamilyDuration  = "bench_duration_seconds"   // of answers, from when the request was due
	FamilyService   = "bench_service_seconds"    // of answers, from when it was sent
	FamilyFirstByte = "bench_first_byte_seconds" // of answers, from when it was sent
	FamilyBytes     = "bench_answer_bytes"
	FamilyRequests  = "bench_requests_total" // by operation, tenant, status and LabelCause
	FamilyLate      = "bench_late_seconds"   // how late the generator sent although a connection was free
)

// Labels beside those of package series.
const (
	LabelExperiment = "experiment"
	LabelCause      = "cause"
)

// sendWithin bounds the time for the last points and the last report.
const sendWithin = 15 * time.Second

// maxBacklog bounds the slots of 10 s that wait while the server is away.
const maxBacklog = 120

// sender reports a run to a server on a goroutine of its own, so that a slow server
// delays nothing. It keeps what the server has not accepted.
type sender struct {
	o    Options
	ctx  context.Context // ends with the sender
	stop context.CancelFunc
	wake chan struct{}
	done chan struct{}

	mu      sync.Mutex
	backlog []*tally.Pending
	taken   int              // points of the first that the server has
	result  *api.BenchResult // the latest that is not sent yet
	closing bool
	said    string
	lost    uint64
}

// newSender returns nil without a server. The sender outlives ctx, since the last
// points are sent after it.
func newSender(ctx context.Context, o Options) *sender {
	if o.Sink == nil && o.Report == nil {
		return nil
	}
	s := &sender{o: o, wake: make(chan struct{}, 1), done: make(chan struct{})}
	s.ctx, s.stop = context.WithCancel(context.WithoutCancel(ctx))
	go s.loop()
	return s
}

// send queues pending and r, which must not change afterwards.
func (s *sender) send(pending []*tally.Pending, lost uint64, r *api.BenchResult) {
	if s == nil {
		return
	}
	s.mu.Lock()
	s.backlog = append(s.backlog, pending...)
	s.lost += lost
	for len(s.backlog) > maxBacklog {
		s.lost += s.backlog[0].Sent()
		s.backlog, s.taken = s.backlog[1:], 0
	}
	s.result = r
	s.mu.Unlock()
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// close sends what is left, and ends the sender.
func (s *sender) close() {
	if s == nil {
		return
	}
	s.mu.Lock()
	s.closing = true
	s.mu.Unlock()
	select {
	case s.wake <- struct{}{}:
	default:
	}
	late := time.AfterFunc(sendWithin, s.stop)
	<-s.done
	late.Stop()
	s.stop()
}

// trouble returns the server's last error, or "" if it works.
func (s *sender) trouble() string {
	if s == nil {
		return ""
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.lost == 0 {
		return s.said
	}
	lack := fmt.Sprintf("the series lack %d requests", s.lost)
	if s.said == "" {
		return lack
	}
	return s.said + "; " + lack
}

func (s *sender) loop() {
	defer close(s.done)
	for range s.wake {
		said := s.sendSlots()
		s.mu.Lock()
		r, closing := s.result, s.closing
		s.result = nil
		s.mu.Unlock()
		if r != nil && s.o.Report != nil {
			if err := s.o.Report(s.ctx, r); err != nil {
				said = "the server does not take reports: " + err.Error()
			}
		}
		s.mu.Lock()
		s.said = said
		// Points that were added before the end, while this was sent, are still to be
		// sent.
		last := closing && (s.result == nil || s.ctx.Err() != nil)
		s.mu.Unlock()
		if last {
			return
		}
	}
}

// atOnce bounds the points of one request, which is then some 1 MB at most.
const atOnce = 2000

// sendSlots sends slots, the oldest first, until none is left or the server refuses one.
func (s *sender) sendSlots() (said string) {
	for {
		s.mu.Lock()
		if s.o.Sink == nil || len(s.backlog) == 0 {
			s.mu.Unlock()
			return ""
		}
		p, taken := s.backlog[0], s.taken
		s.mu.Unlock()
		points := s.points(p) // in the same order each time
		for taken < len(points) {
			next := min(taken+atOnce, len(points))
			if err := s.o.Sink.Put(s.ctx, points[taken:next]); err != nil {
				return "what is measured waits: " + err.Error()
			}
			taken = next
			s.mu.Lock()
			if len(s.backlog) > 0 && s.backlog[0] == p { // it was not forgotten meanwhile
				s.taken = taken
			}
			s.mu.Unlock()
		}
		s.mu.Lock()
		if len(s.backlog) > 0 && s.backlog[0] == p {
			s.backlog, s.taken = s.backlog[1:], 0
		}
		s.mu.Unlock()
	}
}

// points converts a slot to points.
func (s *sender) points(p *tally.Pending) []series.Point {
	at := p.Time.UnixNano()
	var out []series.Point
	distribution := func(family string, ls labels.Labels, h *hist.Histogram) {
		if h != nil && h.Count > 0 {
			out = append(out, series.Point{Family: family, Labels: ls, Kind: series.Distribution, TimeNanos: at, Hist: h})
		}
	}
	for h := range p.Halves() {
		ls := s.labels(h.Query, h.Tenant, h.Status, "")
		distribution(FamilyDuration, ls, h.Latency)
		distribution(FamilyService, ls, h.Service)
		distribution(FamilyFirstByte, ls, h.FirstByte)
		distribution(FamilyBytes, ls, h.Bytes)
	}
	for c := range p.Counts() {
		out = append(out, series.Point{Family: FamilyRequests, Labels: s.labels(c.Query, c.Tenant, c.Status, c.Cause), Kind: series.Counter, TimeNanos: at, Value: float64(c.N)})
	}
	distribution(FamilyLate, s.labels("", "", "", ""), p.Late())
	return out
}

func (s *sender) labels(query, tenant, status, cause string) labels.Labels {
	b := labels.NewBuilder(labels.EmptyLabels())
	for name, v := range s.o.Labels {
		b.Set(name, v)
	}
	for name, v := range map[string]string{
		series.LabelService: s.o.Service, series.LabelOperation: query, series.LabelTenant: tenant, series.LabelStatus: status,
		series.LabelVariant: s.o.Variant, LabelExperiment: s.o.Experiment, LabelCause: cause,
	} {
		if v != "" {
			b.Set(name, v)
		}
	}
	return b.Labels()
}
