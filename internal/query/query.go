// Package query answers the questions of the API over a store: it chooses the
// view that is just detailed enough, the step that is just fine enough, and
// turns merged histograms into quantiles, heatmaps and timelines.
//
// The layer is thin on purpose. A store merges where the data lies; what is
// left here is arithmetic over a few thousand dense histograms.
//
// Ranges are half open, [Start, End), and are widened to whole slots; answers
// carry the range that was really covered.
package query

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/prometheus/model/labels"

	"tailscope/api"
	"tailscope/hist"
	"tailscope/internal/series"
	"tailscope/internal/store"
	"tailscope/internal/strictyaml"
)

// MaxGroups bounds the groups of one answer.
const MaxGroups = 20000

// Selection says which observations a question is about.
type Selection struct {
	Family     string // default series.SpanDuration
	Matchers   []*labels.Matcher
	Start, End time.Time // half open
}

// resolved is a selection after its family, view and labels were found.
type resolved struct {
	info store.FamilyInfo
	span bool // a span family: has views and a status
	q    store.Query
}

// resolve checks the selection and fills a store query with everything but the
// step. by are the labels that the answer is grouped by.
func resolve(ctx context.Context, st store.Store, sel Selection, by []string) (*resolved, error) {
	if sel.Family == "" {
		sel.Family = series.SpanDuration
	}
	if err := checkRange(sel.Start, sel.End); err != nil {
		return nil, err
	}
	info, err := family(ctx, st, sel.Family)
	if err != nil {
		return nil, err
	}
	for _, m := range sel.Matchers {
		if m.Name == labels.MetricName {
			return nil, Invalid("match", "name the family in the family parameter, not in match")
		}
	}
	r := &resolved{info: info, span: IsSpanFamily(info.Name)}
	view, err := viewFor(info.Name, sel.Matchers, by)
	if err != nil {
		return nil, err
	}
	start, end := Base(sel.Start, sel.End)
	if err := checkLabels(ctx, st, info.Name, view, sel.Matchers, by, start, end); err != nil {
		return nil, err
	}
	r.q = store.Query{
		Family: info.Name, View: view, Matchers: sel.Matchers,
		Start: start, End: end, By: by, Schema: hist.MaxSchema,
	}
	return r, nil
}

// wantDistribution refuses number families for questions about distributions.
func (r *resolved) wantDistribution(question string) error {
	if r.info.Kind == series.Distribution {
		return nil
	}
	return Invalid("family", "%s is a %s, which has no %s; ask for its timeline, or name a distribution such as %s",
		r.info.Name, KindName(r.info.Kind), question, series.SpanDuration)
}

// IsSpanFamily says whether the family is computed from spans, and so is kept
// in three views.
func IsSpanFamily(name string) bool {
	return name == series.SpanDuration || name == series.SpanSelf
}

// KindName is a kind as the API spells it.
func KindName(k series.Kind) string {
	switch k {
	case series.Distribution:
		return "distribution"
	case series.Gauge:
		return "gauge"
	case series.Counter:
		return "counter"
	}
	return "unknown"
}

// family looks a family up. The span families exist before their first span.
func family(ctx context.Context, st store.Store, name string) (store.FamilyInfo, error) {
	all, err := st.Families(ctx)
	if err != nil {
		return store.FamilyInfo{}, err
	}
	names := make([]string, 0, len(all))
	for _, f := range all {
		if f.Name == name {
			return f, nil
		}
		names = append(names, f.Name)
	}
	if IsSpanFamily(name) {
		return store.FamilyInfo{Name: name, Kind: series.Distribution}, nil
	}
	if len(names) == 0 {
		names = append(names, series.SpanDuration)
	}
	return store.FamilyInfo{}, &Error{Code: CodeNotFound, Field: "family",
		Message: "there is no family " + quote(name) + "; " + Suggest(name, names)}
}

// ViewOf returns the coarsest view of a span family that has every one of the
// labels; other families have only the full view. ok is false when no view has
// them all: instance and peer are kept without tenant.
func ViewOf(family string, names ...string) (v series.View, ok bool) {
	if !IsSpanFamily(family) {
		return series.Full, true
	}
	v, ok = series.Total, true
	var tenant, instance bool
	for _, n := range names {
		switch n {
		case series.LabelTenant, series.LabelCohort: // which is one of tenants
			tenant = true
		case series.LabelInstance, series.LabelPeer:
			instance = true
		case series.LabelOperation:
			v = series.Marginal
		}
	}
	switch {
	case tenant && instance:
		return series.Full, false
	case tenant:
		return series.Full, true
	case instance:
		return series.Marginal, true
	}
	return v, true
}

// beside lists the labels that are not kept together with the tenant.
var beside = []string{series.LabelInstance, series.LabelPeer}

// apart returns two of the names that are not kept together, as they were written.
func apart(names []string) (whose, kept string) {
	whose, kept = series.LabelTenant, series.LabelInstance
	for _, n := range names {
		if n == series.LabelCohort && !slices.Contains(names, series.LabelTenant) {
			whose = n
		}
		if n == series.LabelPeer && !slices.Contains(names, series.LabelInstance) {
			kept = n
		}
	}
	return whose, kept
}

func besideTenant(ms []*labels.Matcher) bool {
	return slices.ContainsFunc(ms, func(m *labels.Matcher) bool { return slices.Contains(beside, m.Name) })
}

func viewFor(family string, matchers []*labels.Matcher, by []string) (series.View, error) {
	names := slices.Clone(by)
	for _, m := range matchers {
		names = append(names, m.Name)
	}
	v, ok := ViewOf(family, names...)
	if !ok {
		field := "match"
		whose, kept := apart(names)
		if slices.Contains(by, kept) || slices.Contains(by, whose) {
			field = "by"
		}
		return v, Invalid(field, "%s and %s are not kept together; name one of the two", whose, kept)
	}
	return v, nil
}

// checkLabels refuses labels that no series of the family has, naming the
// nearest that one has. A family without any series accepts every label.
func checkLabels(ctx context.Context, st store.Store, family string, view series.View, matchers []*labels.Matcher, by []string, start, end int64) error {
	span := IsSpanFamily(family)
	unknown := func(known []string) (field, name string) {
		has := func(name string) bool {
			return slices.Contains(known, name) || span && (name == series.LabelCohort || slices.Contains(series.SpanLabels, name))
		}
		for _, m := range matchers {
			if !has(m.Name) {
				return "match", m.Name
			}
		}
		for _, n := range by {
			if !has(n) {
				return "by", n
			}
		}
		return "", ""
	}
	if f, _ := unknown(nil); f == "" {
		return nil
	}
	known, err := st.LabelNames(ctx, family, view, nil, start, end)
	if err != nil {
		return err
	}
	if field, _ := unknown(known); field == "" {
		return nil
	}
	// Perhaps the label existed at another time.
	if known, err = st.LabelNames(ctx, family, view, nil, 0, farFuture); err != nil {
		return err
	}
	field, name := unknown(known)
	if field == "" || len(known) == 0 {
		return nil
	}
	if span {
		known = append(slices.Clone(known), series.SpanLabels...)
	}
	return Invalid(field, "no series of %s has the label %s; %s", family, quote(name), Suggest(name, known))
}

func quote(s string) string { return `"` + strings.ReplaceAll(s, `"`, `\"`) + `"` }

// Suggest says what to write instead of an unknown name: the candidate it may
// be a slip of, or, where none is like it, some of those there are.
func Suggest(name string, candidates []string) string {
	if near, ok := likest(name, candidates); ok {
		return "did you mean " + quote(near) + "?"
	}
	all := slices.Clone(candidates)
	slices.Sort(all)
	all = slices.Compact(all)
	const few = 10
	if len(all) <= few {
		return "write one of " + strings.Join(all, ", ")
	}
	return fmt.Sprintf("write one of %s and %d more", strings.Join(all[:few], ", "), len(all)-few)
}

// likest returns the candidate that name may be a slip of; ok is false if it is like none.
func likest(name string, candidates []string) (near string, ok bool) {
	return strictyaml.Nearest(name, slices.Sorted(slices.Values(candidates)))
}

// NearestName returns the candidate that looks most like name, the first in order
// among equals.
func NearestName(name string, candidates []string) string {
	near, _ := strictyaml.Nearest(name, slices.Sorted(slices.Values(candidates)))
	return near
}

// listedBy returns the command that lists the values of a label.
func listedBy(label string) string {
	switch label {
	case series.LabelService:
		return "tailscope query services"
	case series.LabelTenant:
		return "tailscope query tenants"
	}
	return "tailscope query distribution --by " + label
}

// Named returns the one value that matchers require of a label, empty if there is none.
func Named(ms []*labels.Matcher, label string) string {
	for _, m := range ms {
		if m.Name == label && m.Type == labels.MatchEqual {
			return m.Value
		}
	}
	return ""
}

// InEnvironment matches what was measured in an environment.
func InEnvironment(name string) *labels.Matcher {
	return labels.MustNewMatcher(labels.MatchEqual, series.LabelEnvironment, name)
}

// CheckNames refuses a selection that names a value which no stored series has, of any label
// or of any of the service that it names too, and names the nearest that one has. It reads the
// names of all that is stored: ask it about a selection that holds nothing. It refuses nothing
// where there are no series at all, no status or kind, whose values are fixed, and no value of
// a label of which some are folded into series.Other.
func CheckNames(ctx context.Context, st store.Store, sel Selection) error {
	if sel.Family == "" {
		sel.Family = series.SpanDuration
	}
	var service []*labels.Matcher
	of := ""
	check := func(m *labels.Matcher) error {
		view, ok := ViewOf(sel.Family, append(matcherNames(service), m.Name)...)
		if !ok {
			return nil
		}
		known, err := st.LabelValues(ctx, sel.Family, view, m.Name, service, 0, farFuture)
		if err != nil || slices.Contains(known, m.Value) || slices.Contains(known, series.Other) || len(known) == 0 && m.Name == series.LabelService {
			return err
		}
		out := &api.Instead{Label: m.Name, Name: m.Value, Nearest: []string{}, Message: "there is no " + m.Name + " " + quote(m.Value) + of + "; "}
		if known = slices.DeleteFunc(known, func(v string) bool { return v == "" }); len(known) == 0 {
			out.Message += "nothing of it has the label " + m.Name + ": leave it out"
		} else {
			out.Message += Suggest(m.Value, known)
			if near, ok := likest(m.Value, known); ok {
				out.Nearest = append(out.Nearest, near)
			} else {
				out.Message += ";"
			}
			out.Message += " /api/v1/labels?names=" + m.Name + " and " + listedBy(m.Name) + " list those there are"
		}
		return &Error{Code: CodeNotFound, Field: "match", Message: out.Message, Instead: out}
	}
	var others []*labels.Matcher
	for _, m := range sel.Matchers {
		if m.Type != labels.MatchEqual || m.Value == "" || slices.Contains([]string{series.LabelCohort, series.LabelStatus, series.LabelKind}, m.Name) {
			continue
		}
		if m.Name != series.LabelService {
			others = append(others, m)
			continue
		}
		if err := check(m); err != nil {
			return err
		}
		service, of = []*labels.Matcher{m}, " of "+m.Value
	}
	for _, m := range others {
		if err := check(m); err != nil {
			return err
		}
	}
	return nil
}
