package check

import (
	"context"
	"fmt"
	"iter"
	"maps"
	"math"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/prometheus/model/labels"

	"tailscope/hist"
	"tailscope/internal/guard/check/profile"
	"tailscope/internal/guard/check/schedule"
	"tailscope/internal/guard/check/spec"
	"tailscope/internal/store"
)

// learnedProfiles are the profiles that were learned, by profile and check.
type learnedProfiles struct {
	mu       sync.RWMutex
	kept     map[string]*profile.Learned
	compiled map[string]*profile.Profile
	tried    map[string]time.Time
}

const (
	learnLook  = time.Minute      // between looks at what is due
	learnAgain = 10 * time.Minute // after a failure, and while there is too little
)

// learnedKey names what is learned from a check's own values by the check.
func learnedKey(p *profile.Profile, id string) string {
	if p.Learn().Selector != "" {
		id = ""
	}
	return p.Name() + "\x00" + id
}

// profileFor returns the profile learned for a check, nil if none is yet.
func (l *learnedProfiles) profileFor(p *profile.Profile, id string) *profile.Profile {
	key := learnedKey(p, id)
	l.mu.RLock()
	defer l.mu.RUnlock()
	return l.compiled[key]
}

// frozen returns the profile learned for a check as YAML for a file of checks, empty if
// none is yet.
func (l *learnedProfiles) frozen(p *profile.Profile, id string) string {
	if p == nil || p.Learn() == nil {
		return ""
	}
	key := learnedKey(p, id)
	l.mu.RLock()
	defer l.mu.RUnlock()
	if kept := l.kept[key]; kept != nil {
		return kept.YAML(p)
	}
	return ""
}

// learn refreshes learned profiles when they are due, until ctx is done.
func (e *Engine) learn(ctx context.Context) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		}
		type lesson struct {
			p  *profile.Profile
			c  *condition
			id string
		}
		var all []lesson
		e.mu.Lock()
		for _, d := range e.definitions {
			if d.profile == nil || d.profile.Learn() == nil {
				continue
			}
			for _, in := range d.instances {
				all = append(all, lesson{d.profile, in.condition, in.id})
			}
		}
		e.mu.Unlock()
		wait := time.Hour
		for _, l := range all {
			wait = learnLook
			if err := e.learnOne(ctx, l.p, l.c, l.id); err != nil && ctx.Err() == nil {
				e.o.Logger.Error("learn a profile; tried again later", "profile", l.p.Name(), "check", l.id, "error", err)
			}
			if ctx.Err() != nil {
				return
			}
		}
		used := make(map[string]bool, len(all))
		for _, l := range all {
			used[learnedKey(l.p, l.id)] = true
		}
		e.dropUnused(used)
		timer.Reset(wait)
		if len(all) == 0 { // until there are some
			timer.Reset(learnLook)
		}
	}
}

// replaceCalendars uses the calendars of new definitions, and forgets what was learned
// from other series than they name.
func (l *learnedProfiles) replaceCalendars(was, now map[string]*profile.Profile) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for key, kept := range l.kept {
		name, _, _ := strings.Cut(key, "\x00")
		p, old := now[name], was[name]
		if p == nil || p.Learn() == nil || l.compiled[key] == nil {
			continue
		}
		made, err := kept.Compile(name, p.Calendar())
		if err != nil || old != nil && old.Learn() != nil && old.Learn().Selector != p.Learn().Selector {
			delete(l.kept, key)
			delete(l.compiled, key)
			delete(l.tried, key)
			continue
		}
		l.compiled[key] = made
	}
}

// install replaces what was learned by what another server may have learned since.
func (l *learnedProfiles) install(kept map[string]*profile.Learned, profiles map[string]*profile.Profile) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for key, learned := range kept {
		name, _, _ := strings.Cut(key, "\x00")
		p := profiles[name]
		if l.kept[key] == learned && l.compiled[key] != nil || p == nil || p.Learn() == nil || !learned.Fits(profile.Defaults(*p.Learn())) {
			continue
		}
		if made, err := learned.Compile(name, p.Calendar()); err == nil {
			l.compiled[key] = made
		}
	}
	l.kept = kept
}

// dropUnused drops what was learned for checks and profiles that were removed.
func (e *Engine) dropUnused(used map[string]bool) {
	l := &e.lessons
	var unused []string
	l.mu.Lock()
	for _, m := range []iter.Seq[string]{maps.Keys(l.kept), maps.Keys(l.compiled), maps.Keys(l.tried)} {
		for key := range m {
			if !used[key] {
				unused = append(unused, key)
			}
		}
	}
	for _, key := range unused {
		delete(l.kept, key)
		delete(l.compiled, key)
		delete(l.tried, key)
	}
	l.mu.Unlock()
	e.mu.Lock()
	for _, key := range unused {
		e.putRecord("p"+key, nil)
	}
	e.mu.Unlock()
}

// learnOne learns one profile if that is due.
func (e *Engine) learnOne(ctx context.Context, p *profile.Profile, c *condition, id string) error {
	key := learnedKey(p, id)
	rule := profile.Defaults(*p.Learn())
	now := e.o.Now()
	l := &e.lessons
	l.mu.Lock()
	kept := l.kept[key]
	if kept != nil && !kept.Fits(rule) {
		kept = nil // of other rules than there are now; it holds until there is something new
	}
	if kept != nil && l.compiled[key] == nil {
		made, err := kept.Compile(p.Name(), p.Calendar())
		if err != nil {
			kept = nil
		} else {
			l.compiled[key] = made
		}
	}
	tried := l.tried[key]
	if l.tried == nil {
		l.tried = map[string]time.Time{}
	}
	l.mu.Unlock()
	if now.Sub(tried) < learnAgain && !tried.IsZero() {
		return nil
	}
	if kept != nil {
		s, err := schedule.Parse(rule.Refresh.Schedule(), key)
		if err != nil {
			return err
		}
		if next := s.Next(kept.At); next.IsZero() || next.After(now) {
			return nil
		}
	}
	l.mu.Lock()
	l.tried[key] = now
	l.mu.Unlock()
	e.mu.Lock()
	own := c.labels
	e.mu.Unlock()
	samples, err := e.learningSamples(ctx, &rule, own, now)
	if err != nil {
		return err
	}
	learned, err := profile.Learn(rule, p.Calendar(), now, samples)
	if err != nil {
		return err
	}
	if learned.Empty() {
		return nil
	}
	made, err := learned.Compile(p.Name(), p.Calendar())
	if err != nil {
		return err
	}
	l.mu.Lock()
	l.kept[key], l.compiled[key] = learned, made
	l.mu.Unlock()
	e.mu.Lock()
	e.putRecord("p"+key, learned)
	e.mu.Unlock()
	return nil
}

// learningSamples returns the values to learn from, one a minute.
func (e *Engine) learningSamples(ctx context.Context, rule *spec.Learn, own labels.Labels, end time.Time) (iter.Seq2[time.Time, float64], error) {
	q := store.Query{Family: FamilyValue, Step: 60, Schema: hist.MaxSchema, MaxSeries: 1000}
	q.Matchers = exactly(own)
	if rule.Selector != "" {
		s, err := parseSelector(rule.Selector)
		if err != nil {
			return nil, fmt.Errorf("what is learned from, %s, is not a series: %w", rule.Selector, err)
		}
		q.Family, q.Matchers = s.Family, s.Matchers
	}
	q.End = end.Unix() / 60 * 60
	q.Start = q.End - int64(rule.Over/time.Second)/60*60
	res, err := e.o.Store.Query(ctx, q)
	if err != nil {
		return nil, err
	}
	return func(yield func(time.Time, float64) bool) {
		for _, g := range res.Groups {
			for _, p := range g.Points {
				v := math.NaN()
				if p.Hist != nil {
					v = p.Hist.Mean()
				} else if p.Number.Count > 0 {
					v = p.Number.Sum / float64(p.Number.Count)
				}
				if !math.IsNaN(v) && !yield(time.Unix(p.Start, 0), v) {
					return
				}
			}
		}
	}, nil
}

// exactly matches one series.
func exactly(l labels.Labels) []*labels.Matcher {
	out := make([]*labels.Matcher, 0, l.Len())
	l.Range(func(l labels.Label) { out = append(out, labels.MustNewMatcher(labels.MatchEqual, l.Name, l.Value)) })
	return out
}
