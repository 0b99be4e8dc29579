package logbook

import (
	"context"
	"errors"
	"maps"
	"math"
	"slices"
	"time"

	"tailscope/api"
	"tailscope/internal/query"
	"tailscope/internal/store"
)

// maxAmplify bounds the copies of a request.
const maxAmplify = 255

// maxApart bounds the operations that a session counts apart.
const maxApart = 10

// maxLook bounds the seconds for which one request samples a session.
const maxLook = 60

const changeExample = `write {"share": 0.5}, {"paused": true}, {"stop": true} or {"shadows": {"candidate": {"using": 2}}}`

// Change notes the wanted settings of a session that runs; anything else can be
// stopped. It is repeated in the answers to reports until the session reports that it
// was applied, or until the end, together with earlier changes that are not applied.
// Change returns all of them, under a number above all before. The change is in the
// store when it returns.
func (r *Registry) Change(ctx context.Context, id string, c api.MirrorChange) (*api.MirrorChange, error) {
	if err := r.Load(ctx); err != nil {
		return nil, err
	}
	r.writing.Lock()
	defer r.writing.Unlock()
	for {
		out, err := r.changeOnce(ctx, id, c)
		if !errors.Is(err, store.ErrConflict) {
			return out, err
		}
	}
}

// changeOnce is Change, but returns an error that wraps store.ErrConflict if another
// server wrote first. The caller holds writing.
func (r *Registry) changeOnce(ctx context.Context, id string, c api.MirrorChange) (*api.MirrorChange, error) {
	if err := r.catchUp(ctx, id); err != nil {
		return nil, err
	}
	r.mu.Lock()
	e := r.known[id]
	if e == nil {
		r.mu.Unlock()
		return nil, unknown(id)
	}
	var err error
	if state := r.state(e, r.o.Now()); state != Running {
		err = query.Invalid("id", "session %q is %s; only one that runs can be changed", id, state)
	} else {
		err = checkChange(&c, &e.Report)
	}
	if err != nil {
		r.mu.Unlock()
		return nil, err
	}
	before, number := e.Change, e.Number
	e.Number++
	e.Change = merged(before, c, e.Number)
	out := e.Change
	r.mu.Unlock()
	if err := r.saveOnce(ctx, id); err != nil {
		r.mu.Lock()
		e.Change, e.Number = before, number
		r.mu.Unlock()
		return nil, err
	}
	r.mu.Lock()
	r.stats.Changes++
	r.mu.Unlock()
	return out, nil
}

// merged returns the wanted settings after another change; neither argument is
// altered.
func merged(before *api.MirrorChange, c api.MirrorChange, number uint64) *api.MirrorChange {
	out := api.MirrorChange{}
	if before != nil {
		out = *before
	}
	out.Number, out.Stop = number, out.Stop || c.Stop
	if c.Share != nil {
		out.Share = c.Share
	}
	if c.Paused != nil {
		out.Paused = c.Paused
	}
	if c.Look != nil {
		out.Look = c.Look
	}
	if c.Apart != nil {
		out.Apart = c.Apart
	}
	if len(c.Shadows) > 0 {
		if out.Shadows = maps.Clone(out.Shadows); out.Shadows == nil {
			out.Shadows = map[string]api.ShadowChange{}
		}
		for name, s := range c.Shadows {
			x := out.Shadows[name]
			if s.Using != nil {
				x.Using = s.Using
			}
			if s.Amplify != nil {
				x.Amplify = s.Amplify
			}
			out.Shadows[name] = x
		}
	}
	return &out
}

// checkChange refuses changes that a session in that state cannot make.
func checkChange(c *api.MirrorChange, p *api.SessionReport) error {
	m := p.Mirror
	if c.Number != 0 {
		return query.Invalid("number", "the server gives a change its number; leave it out")
	}
	live := c.Share != nil || c.Paused != nil || c.Look != nil || c.Apart != nil || len(c.Shadows) > 0
	switch {
	case m == nil && (live || !c.Stop):
		return query.Invalid("body", `%s can be stopped, and nothing else of it be changed; write {"stop": true}`, kinds[p.Kind].said)
	case !live && !c.Stop:
		return query.Invalid("body", "nothing is to be changed; %s", changeExample)
	}
	if c.Share != nil && !(*c.Share >= 0 && *c.Share <= 1) {
		return query.Invalid("share", "a share of %g is not between 0 and 1; write one such as 0.5", float64(*c.Share))
	}
	if c.Look != nil && !(*c.Look >= 0 && *c.Look <= maxLook) {
		return query.Invalid("look", "%d seconds cannot be looked at; write a number from 0 to %d, and ask again before they are over", *c.Look, maxLook)
	}
	switch {
	case c.Apart != nil && c.Look == nil:
		return query.Invalid("apart", `operations are counted apart only while the session is sampled; write {"look": 10, "apart": ["GET /cart"]}`)
	case len(c.Apart) > maxApart:
		return query.Invalid("apart", "%d operations cannot be counted apart; name up to %d", len(c.Apart), maxApart)
	case slices.Contains(c.Apart, ""):
		return query.Invalid("apart", "an operation has no name; leave it out: all of them together are reported anyway")
	}
	for name, s := range c.Shadows {
		var names []string
		i := slices.IndexFunc(m.Shadows, func(t api.MirrorTarget) bool { names = append(names, t.Name); return t.Name == name })
		if i < 0 {
			return query.Invalid("shadows", "the session has no shadow %q; %s", name, query.Suggest(name, names))
		}
		switch {
		case s.Using == nil && s.Amplify == nil:
			return query.Invalid("shadows", "nothing of %q is to be changed; %s", name, changeExample)
		case s.Using != nil && (*s.Using < 0 || *s.Using > len(m.Shadows[i].Servers)):
			return query.Invalid("shadows", "%q has %d servers, of which %d cannot be in use; write a number up to %d", name, len(m.Shadows[i].Servers), *s.Using, len(m.Shadows[i].Servers))
		case s.Amplify != nil && (!finite(*s.Amplify) || *s.Amplify < 0 || *s.Amplify > maxAmplify):
			return query.Invalid("shadows", "%g copies of each request cannot be made; write a number from 0 to %d, such as 1.5", float64(*s.Amplify), maxAmplify)
		}
	}
	return nil
}

func timeOf(seconds api.Float) time.Time {
	whole, part := math.Modf(float64(seconds))
	return time.Unix(int64(whole), int64(part*1e9))
}
