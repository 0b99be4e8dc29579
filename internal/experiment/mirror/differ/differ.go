// Package differ compares answers: each candidate's with the control's, and the
// control's with the primary's, which run the same code. What differs between
// those two (times, random numbers, identifiers made for each answer) is noise,
// and a candidate differs for real at a place only where it does so more often
// than that.
//
// A place is a part of an answer: the status, a header, the body, or a field of a
// body of JSON such as "body .items[].price". Indexes are folded to [], names
// that look like identifiers to {}.
//
// # When a difference is real
//
// For a request whose three answers are known let R say that candidate and
// control differ at a place, and N that control and primary do. If the candidate
// behaves as the primary then, given the control's answer, R and N can change
// places: among requests in which just one of them holds each is as likely as the
// other. So their number is tested by the exact test of McNemar (1947,
// Psychometrika 12), one-sided. It compares two proportions as Fisher's and score
// tests do, but of the same requests, so what varies from one request to the
// next cancels.
//
// Requests near in time are alike: one stale cache makes a thousand differences.
// So counts are divided by a design effect (Rao & Scott 1992, Biometrics 48): the
// variance of R−N between slots of ten seconds, over what it would be of
// independent requests. Below eight slots there is none.
//
// Probabilities are adjusted for the number of places by Benjamini–Hochberg. A
// real difference has one of at most 0.01, and is large enough to matter by the
// thresholds of Diffy (opendiffy/diffy, Settings.scala): |raw−noise|/(raw+noise)
// above 20 %, and raw−noise above 0.03 % of the requests.
//
// Without a control the candidate is compared with the primary, there is no
// noise to be tested against, and headers that differ by their nature are left
// out.
package differ

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"tailscope/api"
	"tailscope/internal/experiment/mirror/pair"
	"tailscope/internal/experiment/mirror/redact"
)

// Parts of an answer.
const (
	Status  = "status"
	Headers = "headers"
	Body    = "body" // byte by byte
	JSON    = "json" // by field; byte by byte if it is not JSON
)

// Options configures a Differ. Shadows and Compare are required.
type Options struct {
	Shadows []pair.Shadow // in the order of the session; the first control is the reference
	Compare []string      // of Status, Headers, and Body or JSON
	// Ignore are places that are not compared, with all below them: "header
	// x-version", "body .meta".
	Ignore []string
	// Redactor hides secrets in examples and in names of places; default a Redactor
	// with the default rules.
	Redactor *redact.Redactor

	Queue      int   // exchanges that may wait; 0 stands for 1,024
	QueueBytes int64 // of their answers; 0 stands for 32 MiB
	BodyLimit  int   // longest body once decoded; 0 stands for 4 MiB
	Places     int   // counted apart in all; 0 stands for 1,000
	Operations int   // counted apart; 0 stands for 500
	// Work bounds the share of one processor that comparing may take, so that it does
	// not slow the servers it compares; default 0.5, and 1 is all of it.
	Work float64
}

// Validate returns an error that names the first wrong option.
func (o *Options) Validate() error {
	var errs []error
	for _, c := range o.Compare {
		if !slices.Contains([]string{Status, Headers, Body, JSON}, c) {
			errs = append(errs, fmt.Errorf("compare: %q is not a part of an answer: write status, headers, and body or json", c))
		}
	}
	if slices.Contains(o.Compare, Body) && slices.Contains(o.Compare, JSON) {
		errs = append(errs, errors.New("compare: body and json are two ways to compare the same: leave out one"))
	}
	return errors.Join(errs...)
}

func (o *Options) ensureDefaults() error {
	if o.Redactor == nil {
		r, err := redact.New(nil)
		if err != nil {
			return err
		}
		o.Redactor = r
	}
	positive(&o.Queue, 1024)
	positive(&o.BodyLimit, 4<<20)
	positive(&o.Places, 1000)
	positive(&o.Operations, 500)
	if o.Work <= 0 || o.Work > 1 {
		o.Work = 0.5
	}
	if o.QueueBytes <= 0 {
		o.QueueBytes = 32 << 20
	}
	return nil
}

func positive(v *int, standard int) {
	if *v <= 0 {
		*v = standard
	}
}

// Exchange is a request with the answers to it. An answer that is missing or
// incomplete is nil. Answers are only read, and must not change any more.
type Exchange struct {
	ID                string
	Time              int64 // Unix nanoseconds
	Operation, Tenant string
	Method, Target    string
	Primary           *pair.Answer
	Shadows           []*pair.Answer // in the order of Options.Shadows
}

// Of makes an Exchange of one that was kept. Of several copies for a shadow the first
// with an answer counts. The Exchange retains only answers of x.
func Of(x *pair.Exchange, shadows int, method, target string) Exchange {
	names := x.Names()
	e := Exchange{
		ID: string(x.AppendID(nil)), Time: x.Began(), Operation: names.Operation, Tenant: names.Tenant,
		Method: method, Target: target, Primary: whole(x.Primary()), Shadows: make([]*pair.Answer, shadows),
	}
	for i := range e.Shadows {
		for _, l := range x.Copies(i) {
			if a := whole(l); a != nil {
				e.Shadows[i] = a
				break
			}
		}
	}
	return e
}

func whole(l pair.Leg) *pair.Answer {
	if l.Cause != pair.None {
		return nil
	}
	return l.Answer
}

// Differ compares answers. Offer may be called from any goroutine; one of its own
// does the work.
type Differ struct {
	o       Options
	control int // −1 if there is none
	what    parts
	queue   chan Exchange
	waiting atomic.Int64 // bytes
	behind  atomic.Uint64
	stop    chan struct{}
	done    chan struct{}
	closing sync.Once

	mu    sync.Mutex
	table table
}

// New starts a differ; Close ends it.
func New(o Options) (*Differ, error) {
	if err := errors.Join(o.Validate(), o.ensureDefaults()); err != nil {
		return nil, err
	}
	d := &Differ{
		o: o, control: slices.IndexFunc(o.Shadows, func(s pair.Shadow) bool { return s.Role == pair.Control }),
		queue: make(chan Exchange, o.Queue), stop: make(chan struct{}), done: make(chan struct{}),
	}
	d.what = parts{
		status: slices.Contains(o.Compare, Status), headers: slices.Contains(o.Compare, Headers),
		json: slices.Contains(o.Compare, JSON), ignore: o.Ignore, bare: d.control < 0,
	}
	d.what.body = d.what.json || slices.Contains(o.Compare, Body)
	d.table.init(&d.o, d.control >= 0)
	go d.run()
	return d, nil
}

// Offer queues an exchange to compare. It never waits: an exchange beyond the bound
// is counted as behind.
func (d *Differ) Offer(x Exchange) {
	size := x.size()
	if d.waiting.Add(size) <= d.o.QueueBytes {
		select {
		case <-d.stop:
		default:
			select {
			case d.queue <- x:
				return
			default:
			}
		}
	}
	d.waiting.Add(-size)
	d.behind.Add(1)
}

// Behind counts a request whose answers could not be kept until all had arrived.
func (d *Differ) Behind() { d.behind.Add(1) }

// size returns the approximate memory of an exchange.
func (x *Exchange) size() int64 {
	size := 256 + int64(len(x.Target)) + bytesOf(x.Primary)
	for _, a := range x.Shadows {
		size += bytesOf(a)
	}
	return size
}

func bytesOf(a *pair.Answer) int64 {
	if a == nil {
		return 0
	}
	return int64(64 + 64*len(a.Header) + cap(a.Body))
}

// Differences returns what has been found so far.
func (d *Differ) Differences() api.MirrorDifferences {
	d.mu.Lock()
	defer d.mu.Unlock()
	out := d.table.output()
	if n := d.behind.Load(); n > 0 {
		out.Skipped["behind"] = n
	}
	return out
}

// Close compares what was offered before, and ends.
func (d *Differ) Close() {
	d.closing.Do(func() { close(d.stop) })
	<-d.done
	for {
		select {
		case <-d.queue: // offered meanwhile
			d.behind.Add(1)
		default:
			return
		}
	}
}

func (d *Differ) run() {
	defer close(d.done)
	p := pace{work: d.o.Work}
	for {
		select {
		case x := <-d.queue:
			began := time.Now()
			d.compareExchange(&x)
			if rest := p.worked(time.Since(began)); rest > 0 {
				select {
				case <-time.After(rest):
				case <-d.stop:
				}
			}
		case <-d.stop:
			for {
				select {
				case x := <-d.queue:
					d.compareExchange(&x)
				default:
					return
				}
			}
		}
	}
}

func (d *Differ) compareExchange(x *Exchange) {
	defer d.waiting.Add(-x.size())
	primary, shadows := d.answer(x.Primary), make([]*answer, len(x.Shadows))
	for i, a := range x.Shadows {
		shadows[i] = d.answer(a)
	}
	reference := primary
	var noise *result
	if d.control >= 0 {
		reference = nil
		if d.control < len(shadows) {
			reference = shadows[d.control]
		}
		noise = d.what.compare(primary, reference)
	}
	results := make([]*result, len(shadows))
	for i, a := range shadows {
		if i < len(d.o.Shadows) && d.o.Shadows[i].Role == pair.Candidate {
			results[i] = d.what.compare(reference, a)
		}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.table.add(x, noise, results)
}

// pace decides when to rest so that work takes no more than its share of the time.
type pace struct {
	work   float64
	earned time.Duration
}

// leastRest is the least wait that a timer keeps.
const leastRest = 5 * time.Millisecond

// worked returns how long to rest after d of work, often 0.
func (p *pace) worked(d time.Duration) time.Duration {
	p.earned += time.Duration(float64(d) * (1/p.work - 1))
	if p.earned < leastRest {
		return 0
	}
	rest := p.earned
	p.earned = 0
	return rest
}
