package mirror

import (
	"fmt"
	"math"
	"time"

	"tailscope/api"
	"tailscope/internal/experiment/mirror/choose"
	"tailscope/internal/experiment/mirror/differ"
	"tailscope/internal/experiment/mirror/pair"
	"tailscope/internal/experiment/mirror/record"
	"tailscope/internal/experiment/mirror/redact"
	"tailscope/internal/experiment/mirror/shadow"
	"tailscope/internal/http1"
)

var nan = api.Float(math.NaN())

// extras read what was copied: they compare answers and write requests to a file. A
// part is nil if the options do not ask for it.
type extras struct {
	shadows   int
	differ    *differ.Differ
	writer    *record.Writer
	start     int64 // of the record, Unix nanoseconds
	bodyLimit int   // of recorded bodies; 0: none are
}

func (o *Options) differOptions(r *redact.Redactor) differ.Options {
	d := differ.Options{Compare: o.Compare, Ignore: o.Ignore, Redactor: r}
	for _, p := range o.shadows() {
		d.Shadows = append(d.Shadows, pair.Shadow{Name: p.Name, Role: p.role})
	}
	return d
}

// maxRecorded bounds a body that is recorded.
const maxRecorded = 8 << 20

// newExtras starts the parts that the options ask for.
func newExtras(s *Session) (e extras, err error) {
	o := &s.o
	e.shadows = len(s.senders)
	redactor, err := redact.New(redact.Rules(o.Redact))
	if err != nil {
		return e, err
	}
	if len(o.Compare) > 0 {
		if e.differ, err = differ.New(o.differOptions(redactor)); err != nil {
			return e, err
		}
	}
	if o.Record == "" {
		return e, nil
	}
	now := time.Now()
	e.start = now.UnixNano()
	if o.RecordBodies {
		e.bodyLimit = int(min(o.BodyLimit, maxRecorded))
	}
	e.writer, err = record.Create(o.Record, record.Options{
		Header: record.Header{
			ID: o.ID, Name: o.Name, Service: o.Service, Primary: o.Primary, Start: now, Share: o.Share,
			Bodies: o.RecordBodies, Redacted: o.Redact, Program: "tailscope",
		},
		Redactor:  redactor,
		BodyLimit: e.bodyLimit,
	})
	if err != nil {
		if e.differ != nil {
			e.differ.Close()
		}
		return e, fmt.Errorf("record: %w: name a file that does not exist yet, in a directory that may be written to", err)
	}
	return e, nil
}

func (e *extras) wanted() bool { return e.differ != nil || e.writer != nil }

// asked is the request of a kept exchange.
type asked struct {
	method, target string
	entry          *record.Entry // nil: it is not recorded
	body           *shadow.BodyCapture
}

// watched notes the request before it is answered.
func (e *extras) watched(d *choose.Decision, p *shadow.Payload, began int64) any {
	a := &asked{method: string(p.Method), target: string(p.Target)}
	if e.writer == nil {
		return a
	}
	if a.entry = e.writer.Begin(); a.entry == nil {
		return a
	}
	a.body = p.CaptureBody(e.bodyLimit)
	t := a.entry
	t.Offset = time.Duration(began - e.start)
	t.Method, t.Target, t.Host = t.Text(p.Method), t.Text(p.Target), t.Text(p.Host)
	t.Operation, t.Tenant = d.Names.Operation, d.Names.Tenant
	lines, _ := http1.TrailerFields(nil, p.Fields) // of a head that was parsed
	t.Fields = t.Fields[:0]
	for _, f := range lines {
		t.Fields = append(t.Fields, record.Field{Name: t.Text(f.Name), Value: t.Text(f.Value)})
	}
	return a
}

// watch is the ledger's Watch: all legs of x have ended.
func (e *extras) watch(x *pair.Exchange) {
	a, ok := x.Request.(*asked)
	if !ok {
		return
	}
	switch {
	case e.differ == nil:
	case x.Crowded():
		e.differ.Behind()
	default:
		e.differ.Offer(differ.Of(x, e.shadows, a.method, a.target))
	}
	t := a.entry
	if t == nil {
		return
	}
	a.entry = nil
	var body []byte
	body, t.BodyBytes = a.body.Body()
	t.Body = nil
	if e.bodyLimit > 0 {
		t.Body = body
	}
	leg := x.Primary()
	t.Status, t.AnswerBytes = leg.Status, leg.Bytes
	t.FirstByte, t.Total = -1, -1
	if leg.FirstByte > 0 {
		t.FirstByte = time.Duration(leg.FirstByte - leg.Start)
	}
	if leg.Cause == pair.None {
		t.Total = time.Duration(leg.End - leg.Start)
	}
	e.writer.Offer(t)
}

func (e *extras) close() error {
	if e.differ != nil {
		e.differ.Close()
	}
	if e.writer != nil {
		return e.writer.Close()
	}
	return nil
}

func (e *extras) state(m *api.MirrorState) {
	if e.differ != nil {
		d := e.differ.Differences()
		m.Differences = &d
	}
	if e.writer != nil {
		r := e.writer.State()
		m.Recording = &r
	}
}
