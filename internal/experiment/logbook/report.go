package logbook

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"tailscope/api"
	"tailscope/internal/judge/legs"
	"tailscope/internal/query"
	"tailscope/internal/store"
)

const (
	maxID     = 64
	maxName   = 1024
	maxReport = 512 << 10 // bytes of the report of a session as JSON
	maxWhole  = 1 << 20   // of any other
	// maxShadows bounds the candidates of a session, and maxServers their pools.
	maxShadows = 32
	maxServers = 1024
)

// ids matches what needs no escapes in an address and in a label.
var ids = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_.-]*$`)

func checkID(id string) error {
	switch {
	case len(id) > maxID:
		return query.Invalid("id", "the id of a session is longer than %d bytes", maxID)
	case !ids.MatchString(id):
		return query.Invalid("id", "the id of a session is letters, digits, dots, hyphens and underscores, and begins with a letter or digit; write one such as 5f1c0de5f1c0de11")
	}
	return nil
}

// Report stores the state of a session as its program reports it, and returns the
// changes that its users want. The first report of an id begins the session; one with
// another start is refused, because two programs use one id. After the report that
// ends it, further ones change nothing.
//
// The registry retains what p points to: the caller must not change it. Beginnings
// and ends are in the store on return; a failed write in between is logged and
// repeated with a later report.
func (r *Registry) Report(ctx context.Context, id string, p api.SessionReport) (api.SessionReply, error) {
	reply, err := r.report(ctx, id, p)
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.stats.Reports++; err != nil {
		r.stats.Refused++
	}
	return reply, err
}

func (r *Registry) report(ctx context.Context, id string, p api.SessionReport) (api.SessionReply, error) {
	in, err := check(id, p)
	if err != nil {
		return api.SessionReply{}, err
	}
	if err := r.Load(ctx); err != nil {
		return api.SessionReply{}, err
	}
	r.mu.Lock()
	fresh := r.known[id] == nil
	r.mu.Unlock()
	if fresh { // it may have reported to another server until now
		if err := r.refresh(ctx, id); err != nil {
			return api.SessionReply{}, err
		}
	}
	due, err := r.replaceReport(id, in)
	if due != saveNothing && err == nil {
		err = r.writeSession(ctx, id, due)
	}
	if err != nil {
		return api.SessionReply{}, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	e := r.known[id]
	if e == nil || e.Report.Ended {
		return api.SessionReply{}, nil
	}
	return api.SessionReply{Change: e.Change, Stop: e.Change != nil && e.Change.Stop}, nil
}

// due says whether a report is to be written.
type due int

const (
	saveNothing due = iota
	saveSoon        // a failure is not a reason to refuse the report
	saveBegin
	saveEnd
)

// incoming is a checked report: the part that stays in memory, and the whole one if
// that is more.
type incoming struct {
	report      api.SessionReport
	whole       *api.SessionReport
	size, large int // of both, as JSON
	headline    string
	cut         []string
}

// replaceReport replaces the last report by a new one.
func (r *Registry) replaceReport(id string, in incoming) (due, error) {
	p, size := in.report, in.size+in.large
	now := r.o.Now()
	r.mu.Lock()
	defer r.mu.Unlock()
	e, due := r.known[id], saveNothing
	switch {
	case e == nil:
		if err := r.fits(id, size); err != nil {
			return 0, err
		}
		e, due = &session{record: record{ID: id}}, saveBegin
		r.known[id] = e
	case e.Report.Start != p.Start || e.Report.Kind != p.Kind || e.Report.Service != p.Service:
		return 0, query.Invalid("id", "session %q is another one, of service %s, begun at %s; give this one an id of its own",
			id, e.Report.Service, timeOf(e.Report.Start).UTC().Format("2006-01-02 15:04:05Z"))
	case e.Report.Ended:
		return saveNothing, nil
	case size > e.bytes+e.wholeBytes:
		if err := r.fits(id, size); err != nil {
			return 0, err
		}
	}
	e.Report, e.Updated, e.Final = p, now, false // one that was lost may have been judged for good
	r.bytes += size - e.bytes - e.wholeBytes
	e.bytes, e.whole, e.wholeBytes, e.Cut, e.text = in.size, in.whole, in.large, in.cut, ""
	if in.whole != nil {
		e.Headline = in.headline
	}
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

// writeSession writes a session. One whose beginning cannot be written has not begun.
func (r *Registry) writeSession(ctx context.Context, id string, due due) error {
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
			r.o.Logger.Error("keep the state of a session; tried again with a later report", "session", id, "error", err)
		}
		e.failing = true
		return nil
	}
	return err
}

// fits returns an error if a session with a report of that size does not fit. r.mu is
// held.
func (r *Registry) fits(id string, size int) error {
	now, running, bytes := r.o.Now(), 0, size
	for _, e := range r.known {
		if e.ID != id && r.state(e, now) == Running {
			running, bytes = running+1, bytes+e.bytes+e.wholeBytes
		}
	}
	if running >= r.o.Most || bytes > r.o.MostBytes {
		return &query.Error{Code: query.CodeTooMany, Message: fmt.Sprintf("%d other sessions are running already, and with this report of %d bytes their states would take %d; end one first", running, size, bytes)}
	}
	return nil
}

// evict forgets the sessions that ended first, as many as are above the bounds. The
// caller holds writing.
func (r *Registry) evict(ctx context.Context) error {
	now := r.o.Now()
	r.mu.Lock()
	count, bytes, details := len(r.known), r.bytes, 0
	var old, gone []*session
	for _, e := range r.known {
		if details += e.Details; r.state(e, now) != Running {
			old = append(old, e)
		}
	}
	tooMany := func() bool {
		return count > r.o.Most || bytes > r.o.MostBytes || details > r.o.MostDetails
	}
	if tooMany() {
		slices.SortFunc(old, func(x, y *session) int { return x.Updated.Compare(y.Updated) })
		for _, e := range old {
			if !tooMany() {
				break
			}
			gone, count, bytes, details = append(gone, e), count-1, bytes-e.bytes-e.wholeBytes, details-e.Details
		}
	}
	r.mu.Unlock()
	if len(gone) == 0 {
		return nil
	}
	if err := r.erase(ctx, gone...); errors.Is(err, store.ErrConflict) {
		return nil // the next report looks again
	} else if err != nil {
		return fmt.Errorf("forget the oldest sessions: %w", err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, g := range gone {
		r.drop(g.ID)
	}
	r.o.Logger.Info("forgot the oldest sessions, as there are too many", "count", len(gone))
	return nil
}

const reportExample = `write {"kind": "mirror", "name": "new cache", "service": "shop", "start": 1760000000, "mirror": {…}}; a run of load has "bench", an experiment "experiment", a search for capacity "capacity", a simulation "simulation"`

// check refuses what cannot be kept, and cuts what is too long.
func check(id string, p api.SessionReport) (in incoming, err error) {
	if err := checkID(id); err != nil {
		return in, err
	}
	if kinds[p.Kind] == nil {
		return in, query.Invalid("kind", "there is no kind %q of sessions; %s", p.Kind, reportExample)
	}
	if err := checkText("name", p.Name, "new cache"); err != nil {
		return in, err
	}
	if err := checkText("service", p.Service, "shop"); err != nil {
		return in, err
	}
	if s := float64(p.Start); !(s > 0 && s < 1e11) {
		return in, query.Invalid("start", "start is when the session began, in Unix seconds; %s", reportExample)
	}
	k := kinds[p.Kind]
	if k.missing(&p) {
		return in, query.Invalid(k.field, "what was tried is missing; %s", reportExample)
	}
	p = k.alone(&p)
	t := &tidier{texts: p.Kind != KindMirror, cut: []string{}}
	if err := t.walk(reflect.ValueOf(k.document(&p)), k.field); err != nil {
		return in, err
	}
	if err := k.check(&p); err != nil {
		return in, err
	}
	in.headline = k.headline(&p)
	size, err := shorten(&p, k.most, t)
	if err != nil {
		return in, err
	}
	in.report, in.size = p, size
	if p.Kind != KindMirror {
		in.report, in.whole, in.large, in.cut = brief(p), &p, size, t.cut
		b, err := json.Marshal(in.report)
		if err != nil {
			return in, fmt.Errorf("encode the report of session %s: %w", id, err)
		}
		in.size = len(b)
	}
	return in, nil
}

// shorten cuts a report until it is short enough, and returns its length.
func shorten(p *api.SessionReport, most int, t *tidier) (size int, err error) {
	steps := kinds[p.Kind].cuttings
	for {
		b, err := json.Marshal(p)
		if err != nil {
			return 0, fmt.Errorf("encode a report: %w", err)
		}
		if len(b) <= most {
			return len(b), nil
		}
		cut := ""
		for cut == "" && len(steps) > 0 {
			if cut = steps[0](p); cut == "" || p.Kind != KindMirror { // differences are halved again
				steps = steps[1:]
			}
		}
		if cut == "" {
			return 0, query.Invalid("body", "a report of %d bytes is longer than %d even without what can be missed; send fewer rows, names and texts", len(b), most)
		}
		t.note(cut)
	}
}

func checkMirror(m *api.MirrorState) error {
	if len(m.Shadows) > maxShadows {
		return query.Invalid("mirror.shadows", "%d shadows are more than %d", len(m.Shadows), maxShadows)
	}
	if _, err := legs.Gates(m.Settings.Allow); err != nil {
		return query.Invalid("mirror.settings.allow", "%v", err)
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
			return query.Invalid(field+".role", "%q is not a role; write %s", t.Role, strings.Join(roles, " or "))
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
	case !utf8.ValidString(v) || strings.ContainsFunc(v, moves):
		return query.Invalid(field, "%s has characters that cannot be printed; write one such as %q", field, example)
	}
	return nil
}

func finite(v api.Float) bool { return !math.IsNaN(float64(v)) && !math.IsInf(float64(v), 0) }
