package experiments

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"tailscope/api"
	"tailscope/internal/query"
	"tailscope/internal/store"
)

const (
	maxID     = 64
	maxName   = 1024
	maxReport = 512 << 10 // bytes of a report as JSON
	// maxShadows bounds the candidates of a session, and maxServers their pools.
	maxShadows = 32
	maxServers = 1024
)

// ids are what can stand in an address and in a label as it is.
var ids = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_.-]*$`)

func checkID(id string) error {
	switch {
	case len(id) > maxID:
		return query.Invalid("id", "the id of an experiment is longer than %d bytes", maxID)
	case !ids.MatchString(id):
		return query.Invalid("id", "the id of an experiment is letters, digits, dots, hyphens and underscores, and begins with a letter or digit; write one such as 5f1c0de5f1c0de11")
	}
	return nil
}

// Report takes what the program that runs an experiment says of it, and answers
// what its users want changed. The first report of an id begins it; one with
// another start is refused, for then two programs use one id. After the report
// that says it has ended, further ones change nothing.
//
// The registry keeps what p points to: the caller does not change it any more.
// Beginnings and ends are in the store when it returns; what could not be
// written meanwhile is logged and written with a later report.
func (r *Registry) Report(ctx context.Context, id string, p api.ExperimentReport) (api.ExperimentReply, error) {
	reply, err := r.report(ctx, id, p)
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.stats.Reports++; err != nil {
		r.stats.Refused++
	}
	return reply, err
}

func (r *Registry) report(ctx context.Context, id string, p api.ExperimentReport) (api.ExperimentReply, error) {
	size, err := check(id, &p)
	if err != nil {
		return api.ExperimentReply{}, err
	}
	if err := r.Load(ctx); err != nil {
		return api.ExperimentReply{}, err
	}
	due, err := r.take(id, p, size)
	if due != saveNothing && err == nil {
		err = r.keep(ctx, id, due)
	}
	if err != nil {
		return api.ExperimentReply{}, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	e := r.known[id]
	if e == nil || e.Report.Ended {
		return api.ExperimentReply{}, nil
	}
	return api.ExperimentReply{Change: e.Change}, nil
}

// due says whether a report is to be written.
type due int

const (
	saveNothing due = iota
	saveSoon        // a failure is no reason to refuse the report
	saveBegin
	saveEnd
)

// take puts a report in the place of the one before it.
func (r *Registry) take(id string, p api.ExperimentReport, size int) (due, error) {
	now := r.o.Now()
	r.mu.Lock()
	defer r.mu.Unlock()
	e, due := r.known[id], saveNothing
	switch {
	case e == nil:
		if err := r.room(id, size); err != nil {
			return 0, err
		}
		e, due = &experiment{record: record{ID: id}}, saveBegin
		r.known[id] = e
	case e.Report.Start != p.Start || e.Report.Kind != p.Kind || e.Report.Service != p.Service:
		return 0, query.Invalid("id", "experiment %q is another one, of service %s, begun at %s; give this one an id of its own",
			id, e.Report.Service, timeOf(e.Report.Start).UTC().Format("2006-01-02 15:04:05Z"))
	case e.Report.Ended:
		return saveNothing, nil
	case size > e.bytes:
		if err := r.room(id, size); err != nil {
			return 0, err
		}
	}
	e.Report, e.Updated, e.Final = p, now, false // one that was lost may have been judged for good
	r.bytes += size - e.bytes
	e.bytes = size
	if m := p.Mirror; m != nil && m.Applied >= e.Number && e.Change != nil {
		e.Change, due = nil, max(due, saveSoon)
	}
	if p.Mirror != nil {
		e.Number = max(e.Number, p.Mirror.Applied)
	}
	switch {
	case p.Ended:
		e.Change, due = nil, saveEnd
	case due == saveNothing && now.Sub(e.saved) >= r.o.Save:
		due = saveSoon
	}
	return due, nil
}

// keep writes an experiment. One whose beginning cannot be written has not begun.
func (r *Registry) keep(ctx context.Context, id string, due due) error {
	r.writing.Lock()
	defer r.writing.Unlock()
	err := r.evict(ctx)
	if err == nil {
		err = r.save(ctx, id)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	e := r.known[id]
	if err == nil || e == nil {
		if e != nil {
			e.failing = false
		}
		return err
	}
	switch due {
	case saveBegin:
		r.drop(id)
	case saveEnd: // said again, it is written again
		e.Report.Ended = false
	default:
		if !e.failing {
			r.o.Logger.Error("keep the state of an experiment; tried again with a later report", "experiment", id, "error", err)
		}
		e.failing = true
		return nil
	}
	return err
}

// room says whether an experiment fits with a report of that size. It is called
// with mu held.
func (r *Registry) room(id string, size int) error {
	now, running, bytes := r.o.Now(), 0, size
	for _, e := range r.known {
		if e.ID != id && r.state(e, now) == Running {
			running, bytes = running+1, bytes+e.bytes
		}
	}
	if running >= r.o.Most || bytes > r.o.MostBytes {
		return &query.Error{Code: query.CodeTooMany, Message: fmt.Sprintf("%d other experiments are running already, and with this report of %d bytes their states would take %d; end one first", running, size, bytes)}
	}
	return nil
}

// evict forgets those that ended first, as many as are above the bounds. The
// caller holds writing.
func (r *Registry) evict(ctx context.Context) error {
	now := r.o.Now()
	r.mu.Lock()
	var old []*experiment
	if len(r.known) > r.o.Most || r.bytes > r.o.MostBytes {
		for _, e := range r.known {
			if r.state(e, now) != Running {
				old = append(old, e)
			}
		}
	}
	slices.SortFunc(old, func(x, y *experiment) int { return x.Updated.Compare(y.Updated) })
	var gone []store.Record
	count, bytes := len(r.known), r.bytes
	for _, e := range old {
		if count <= r.o.Most && bytes <= r.o.MostBytes {
			break
		}
		gone, count, bytes = append(gone, store.Record{Key: []byte(e.ID)}), count-1, bytes-e.bytes
	}
	r.mu.Unlock()
	if len(gone) == 0 {
		return nil
	}
	if err := r.write(ctx, gone...); err != nil {
		return fmt.Errorf("forget the oldest experiments: %w", err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, g := range gone {
		r.drop(string(g.Key))
	}
	r.o.Logger.Info("forgot the oldest experiments, as there are too many", "count", len(gone))
	return nil
}

const reportExample = `write {"kind": "mirror", "name": "new cache", "service": "shop", "start": 1760000000, "mirror": {…}}`

// check refuses what cannot be kept, and says how long a report is.
func check(id string, p *api.ExperimentReport) (size int, err error) {
	if err := checkID(id); err != nil {
		return 0, err
	}
	if p.Kind != KindMirror {
		return 0, query.Invalid("kind", "there is no kind %q of experiments; %s", p.Kind, reportExample)
	}
	if err := checkText("name", p.Name, "new cache"); err != nil {
		return 0, err
	}
	if err := checkText("service", p.Service, "shop"); err != nil {
		return 0, err
	}
	if s := float64(p.Start); !(s > 0 && s < 1e11) {
		return 0, query.Invalid("start", "start is when the experiment began, in Unix seconds; %s", reportExample)
	}
	if p.Mirror == nil {
		return 0, query.Invalid("mirror", "the state of the session is missing; %s", reportExample)
	}
	if err := checkMirror(p.Mirror); err != nil {
		return 0, err
	}
	fill(p.Mirror)
	for {
		b, err := json.Marshal(p)
		if err != nil {
			return 0, fmt.Errorf("encode the report of experiment %s: %w", id, err)
		}
		if len(b) <= maxReport {
			return len(b), nil
		}
		if !shorten(p) {
			return 0, query.Invalid("body", "a report of %d bytes is longer than %d; send fewer differences and examples", len(b), maxReport)
		}
	}
}

// fill puts empty lists and counts where there are none, as answers have them.
func fill(m *api.MirrorState) {
	list(&m.Shadows)
	list(&m.Primary.Servers)
	counts(&m.Skipped)
	counts(&m.Failed)
	for i := range m.Shadows {
		list(&m.Shadows[i].Servers)
		if a := m.Shadows[i].Account; a != nil {
			counts(&a.Dropped)
			counts(&a.Failed)
		}
	}
	if d := m.Differences; d != nil {
		list(&d.Rows)
		list(&d.Examples)
		counts(&d.Skipped)
		for i := range d.Examples {
			list(&d.Examples[i].Places)
		}
	}
}

func list[T any](of *[]T) {
	if *of == nil {
		*of = []T{}
	}
}

func counts(of *map[string]uint64) {
	if *of == nil {
		*of = map[string]uint64{}
	}
}

// shorten leaves out what of a report is long and can be missed: half of the
// examples, then of the differences. It says whether there was any.
func shorten(p *api.ExperimentReport) bool {
	if p.Mirror.Differences == nil {
		return false
	}
	m, d := *p.Mirror, *p.Mirror.Differences
	switch {
	case len(d.Examples) > 0:
		d.Examples = d.Examples[:len(d.Examples)/2]
	case len(d.Rows) > 0:
		d.Rows = d.Rows[:len(d.Rows)/2]
	default:
		return false
	}
	m.Differences = &d
	p.Mirror = &m
	return true
}

func checkMirror(m *api.MirrorState) error {
	if len(m.Shadows) > maxShadows {
		return query.Invalid("mirror.shadows", "%d shadows are more than %d", len(m.Shadows), maxShadows)
	}
	names := map[string]bool{}
	for i := -1; i < len(m.Shadows); i++ {
		t, field := &m.Primary, "mirror.primary"
		if i >= 0 {
			t, field = &m.Shadows[i], fmt.Sprintf("mirror.shadows[%d]", i)
		}
		if err := checkText(field+".name", t.Name, "candidate"); err != nil {
			return err
		}
		if names[t.Name] {
			return query.Invalid(field+".name", "two servers are named %q; give each a name of its own", t.Name)
		}
		names[t.Name] = true
		switch roles := map[bool][]string{true: {"primary"}, false: {"control", "candidate"}}[i < 0]; {
		case !slices.Contains(roles, t.Role):
			return query.Invalid(field+".role", "%q is no role here; write %s", t.Role, strings.Join(roles, " or "))
		case len(t.Servers) > maxServers:
			return query.Invalid(field+".servers", "%d servers are more than %d", len(t.Servers), maxServers)
		case t.Using < 0 || t.Using > len(t.Servers):
			return query.Invalid(field+".using", "%d of %d servers cannot be in use", t.Using, len(t.Servers))
		case i > 0 && t.Role == "control":
			return query.Invalid(field+".role", "a session has one control, which is the first of its shadows")
		}
	}
	return nil
}

func checkText(field, v, example string) error {
	switch {
	case strings.TrimSpace(v) == "":
		return query.Invalid(field, "%s is empty; write one such as %q", field, example)
	case len(v) > maxName:
		return query.Invalid(field, "%s is longer than %d bytes", field, maxName)
	case !utf8.ValidString(v) || strings.ContainsFunc(v, unicode.IsControl):
		return query.Invalid(field, "%s has characters that cannot be printed; write one such as %q", field, example)
	}
	return nil
}

func finite(v api.Float) bool { return !math.IsNaN(float64(v)) && !math.IsInf(float64(v), 0) }
