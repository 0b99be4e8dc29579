package changes

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"tailscope/api"
	"tailscope/internal/judge"
	"tailscope/internal/query"
	"tailscope/internal/store"
)

// decision is what was made of a change that was found between Low and High.
type decision struct {
	ID                 string
	Time, Low, High    int64 // Unix seconds
	Service, Operation string
	Environment        string          `json:",omitempty"` // of a service that has several
	Status             string          // Confirmed or Dismissed
	Family             string          `json:",omitempty"` // of a metric
	Part               *api.ChangePart `json:",omitempty"` // of the service's requests
	OfFew              bool            `json:",omitempty"` // of the errors of few tenants
	Mark               string          `json:",omitempty"` // that it became
}

// isOf says that a decision is of a change of the same. A service that has one
// environment, whose name changes do not have, may have several in another range.
func (d *decision) isOf(s subject) bool {
	return d.Service == s.service && d.Operation == s.operation && d.Family == s.family && partOf(d.Part) == s.part && d.OfFew == s.ofFew &&
		(d.Environment == s.environment || d.Environment == "" || s.environment == "")
}

// subject is what a change is of.
type subject struct {
	service, environment, operation, family string
	part                                    api.ChangePart
	ofFew                                   bool // see takeFew
}

func subjectOf(c *api.Change) subject {
	return subject{c.Service, c.Environment, c.Operation, c.Family, partOf(c.Part), c.OfFew}
}

func subjectOfDecision(c *api.ChangeDecision) subject {
	return subject{c.Service, c.Environment, c.Operation, c.Family, partOf(c.Part), c.OfFew}
}

// partOf returns a part, the zero value of none.
func partOf(p *api.ChangePart) (out api.ChangePart) {
	if p != nil {
		out = *p
	}
	return out
}

const (
	kind         = "changes" // of the records that keep what people made of changes
	prefix       = "decision/"
	maxDecisions = 10_000
	maxText      = 4096
)

// idOf is the id of a change that nothing was decided of.
func idOf(s subject, at int64) string {
	service, operation := s.service, s.operation
	if s.environment != "" {
		service += "\x00in " + s.environment
	}
	if s.family != "" {
		operation += "\x00" + s.family
	}
	if p := s.part; p != (api.ChangePart{}) {
		operation += "\x00part " + strings.Join([]string{p.Service, p.Component, p.Operation, p.System}, "\x00")
	}
	if s.ofFew {
		operation += "\x00of few"
	}
	sum := sha256.Sum256([]byte(service + "\x00" + operation + "\x00" + strconv.FormatInt(at, 10)))
	return hex.EncodeToString(sum[:8])
}

func (f *Finder) decisions(ctx context.Context) ([]decision, error) {
	var out []decision
	err := f.st.ListRecords(ctx, kind, prefix, func(r store.Record) error {
		x, err := decode(r)
		out = append(out, x)
		return err
	})
	return out, err
}

func decode(r store.Record) (x decision, err error) {
	if err := json.Unmarshal(r.Value, &x); err != nil {
		return x, fmt.Errorf("decision %q: %w: %w", r.Key, store.ErrCorrupt, err)
	}
	return x, nil
}

// match finds the decision of each change: one of the same part whose interval
// meets that of the change, the nearest ones first, each for one change.
func match(found []api.Change, decided []decision) []*decision {
	type pair struct {
		change, decision int
		apart            float64
	}
	var pairs []pair
	for i, c := range found {
		for j, d := range decided {
			if d.isOf(subjectOf(&c)) && float64(c.Low) <= float64(d.High) && float64(d.Low) <= float64(c.High) {
				pairs = append(pairs, pair{i, j, math.Abs(float64(c.Time) - float64(d.Time))})
			}
		}
	}
	slices.SortStableFunc(pairs, func(x, y pair) int { return cmp.Compare(x.apart, y.apart) })
	out := make([]*decision, len(found))
	taken := make([]bool, len(decided))
	for _, p := range pairs {
		if out[p.change] == nil && !taken[p.decision] {
			out[p.change], taken[p.decision] = &decided[p.decision], true
		}
	}
	return out
}

// Decide keeps what was made of a change. A confirmed one becomes a mark, which
// goes when it is taken back. Deciding the same twice changes nothing more.
func (f *Finder) Decide(ctx context.Context, c api.ChangeDecision) (*api.ChangeDecided, error) {
	if err := checkDecision(&c); err != nil {
		return nil, err
	}
	var out *api.ChangeDecided
	err := store.UpdateRecords(ctx, f.st, kind, prefix, func(have []store.Record) (writes []store.RecordWrite, err error) {
		all := make([]decision, len(have))
		for i, r := range have {
			if all[i], err = decode(r); err != nil {
				return nil, err
			}
		}
		var w *store.RecordWrite
		if out, w, err = f.decide(ctx, all, &c); err != nil || w == nil {
			return nil, err
		}
		return []store.RecordWrite{*w}, nil
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}

// decide changes the mark of a change and returns what is to be written of the
// decision. If others decide at the same time it is done again after them, so
// mark and decision agree.
func (f *Finder) decide(ctx context.Context, all []decision, c *api.ChangeDecision) (*api.ChangeDecided, *store.RecordWrite, error) {
	was := recall(all, c)
	now := decision{Service: c.Service, Environment: c.Environment, Operation: c.Operation, Family: c.Family, Part: c.Part, OfFew: c.OfFew, Time: int64(c.Time), Low: int64(c.Low), High: int64(c.High), Status: c.Status}
	switch {
	case was != nil:
		now.ID, now.Environment, now.Time, now.Low, now.High = was.ID, was.Environment, was.Time, was.Low, was.High
	case c.ID != idOf(subjectOfDecision(c), now.Time):
		return nil, nil, &query.Error{Code: query.CodeNotFound, Field: "id", Message: fmt.Sprintf("there is no change %q of %s at that time; send id, time, low, high, service, environment, operation, part and of_few as /api/v1/changes answered them", c.ID, judge.Where(c.Service, c.Environment, c.Operation))}
	case c.Status == New:
		return &api.ChangeDecided{ID: c.ID, Status: New}, nil, nil
	case len(all) >= maxDecisions:
		return nil, nil, &query.Error{Code: query.CodeTooMany, Message: fmt.Sprintf("%d changes are decided already; take some back first", len(all))}
	default:
		now.ID = c.ID
	}
	w := &store.RecordWrite{Key: prefix + c.Service + "\x00" + c.Operation + "\x00" + now.ID}
	if was != nil && was.Mark != "" && c.Status != Confirmed {
		if err := store.DeleteMark(ctx, f.st, was.Mark); err != nil {
			return nil, nil, err
		}
	}
	if c.Status == New {
		return &api.ChangeDecided{ID: now.ID, Status: New}, w, nil
	}
	if c.Status == Confirmed {
		// The mark goes by the id of the change, so that confirming again after a
		// failure names the same one.
		now.Mark = now.ID
		name := strings.TrimSpace(c.Name)
		if name == "" {
			name = judge.Printed(cmp.Or(c.Family, c.Operation, c.Service)) + " changed"
		}
		m := store.Mark{ID: now.Mark, Time: time.Unix(now.Time, 0), Name: name, Service: c.Service, Environment: now.Environment, Description: c.Description}
		if err := store.PutMark(ctx, f.st, m); err != nil {
			return nil, nil, err
		}
	}
	value, err := json.Marshal(now)
	if err != nil {
		return nil, nil, fmt.Errorf("encode decision: %w", err)
	}
	w.Value = value
	return &api.ChangeDecided{ID: now.ID, Status: now.Status, Mark: now.Mark}, w, nil
}

// recall is the decision of this change, if there is one: that of its id, or
// one in whose interval its moment lies.
func recall(all []decision, c *api.ChangeDecision) *decision {
	var best *decision
	apart := func(d *decision) float64 { return math.Abs(float64(c.Time) - float64(d.Time)) }
	for i := range all {
		d := &all[i]
		if !d.isOf(subjectOfDecision(c)) {
			continue
		}
		if d.ID == c.ID {
			return d
		}
		if float64(d.Low) <= float64(c.Time) && float64(c.Time) <= float64(d.High) && (best == nil || apart(d) < apart(best)) {
			best = d
		}
	}
	return best
}

func checkDecision(c *api.ChangeDecision) error {
	const example = "send the change as /api/v1/changes answered it"
	if c.ID == "" {
		return query.Invalid("id", "a decision is of a change: its id is missing; %s", example)
	}
	if known := []string{New, Confirmed, Dismissed}; !slices.Contains(known, c.Status) {
		if c.Status == "" {
			return query.Invalid("status", "status is missing; write confirmed, dismissed, or new to take a decision back")
		}
		return query.Invalid("status", "there is no status %q; %s", c.Status, query.Suggest(c.Status, known))
	}
	if c.Service == "" && c.Family == "" {
		return query.Invalid("service", "service is missing; %s", example)
	}
	part := partOf(c.Part)
	for field, v := range map[string]string{"service": c.Service, "environment": c.Environment, "operation": c.Operation, "family": c.Family, "part": part.Service + part.Component + part.Operation + part.System} {
		if !utf8.ValidString(v) {
			return query.Invalid(field, "%s is not UTF-8; %s", field, example)
		}
	}
	for field, v := range map[string]string{"service": c.Service, "environment": c.Environment, "operation": c.Operation, "family": c.Family, "part": part.Service + part.Component + part.Operation + part.System, "name": c.Name, "description": c.Description} {
		if len(v) > maxText {
			return query.Invalid(field, "%s is longer than %d bytes", field, maxText)
		}
	}
	if c.Status != Confirmed && (c.Name != "" || c.Description != "") {
		return query.Invalid("name", "name and description are of the mark that a confirmed change becomes; leave them out")
	}
	for field, v := range map[string]float64{"time": float64(c.Time), "low": float64(c.Low), "high": float64(c.High)} {
		if !(v >= 0 && v < farFuture) {
			return query.Invalid(field, "%s is not a moment in Unix seconds; %s", field, example)
		}
	}
	if c.Low > c.Time || c.Time > c.High {
		return query.Invalid("time", "time does not lie between low and high; %s", example)
	}
	return nil
}
