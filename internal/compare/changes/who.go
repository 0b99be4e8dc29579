package changes

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"tailscope/api"
	"tailscope/internal/compare"
	"tailscope/internal/figure"
	"tailscope/internal/judge"
	"tailscope/internal/query"
	"tailscope/internal/store"
)

// mostWho bounds the changes, the newest, that name who moved: each takes a comparison of its
// own.
const mostWho = 12

// compareWho compares the stretches before and after a change by tenant, operation and cohort;
// nil where the data of a side is gone, or more than a comparison reads.
func compareWho(ctx context.Context, st store.Store, s *compare.Stretches, r *Request, c *api.Change) (*api.CompareResponse, error) {
	window := func(r api.Range) compare.Window {
		return compare.Window{Start: time.Unix(r.Start, 0), End: time.Unix(r.End, 0)}
	}
	ctx, done := store.Passing(ctx)
	defer done()
	found, err := compare.Compare(ctx, st, compare.Request{
		Selection: query.Selection{Family: r.Family, Matchers: s.Matchers(requestsOf(c))},
		A:         window(c.Before), B: window(c.After), Now: r.Now, Measures: measures, Limit: ofWhom,
		Include: []string{compare.IncludeCohorts}, CohortOf: r.CohortOf,
	})
	var invalid *query.Error
	if errors.As(err, &invalid) || errors.Is(err, store.ErrTooMany) {
		return nil, nil
	}
	return found, err
}

// requestsOf returns the part of all requests that a change is of.
func requestsOf(c *api.Change) compare.Part {
	return compare.Part{Service: c.Service, Environment: c.Environment, Operation: c.Operation, Own: c.Operation != ""}
}

// movedIn reports whether a row surely moved in a measure of what was found to change.
func movedIn(row *api.CompareRow, m *api.CompareMeasure, of []string) bool {
	return row.Changed && judge.Moved(m.Verdict) && slices.Contains(of, thingOf(m.Name, of))
}

// restOf returns what is known of the tenants that did not surely move.
func restOf(found *api.CompareResponse, of []string) compare.Rest {
	return compare.RestOf(found.Tenants, func(row *api.CompareRow, m *api.CompareMeasure) bool { return movedIn(row, m, of) })
}

func tenantOf(x *api.CompareRow) string { return x.Tenant }

// fewTenants returns the tenants that surely moved where they are few and the others did not;
// nil otherwise, or where that is not known.
func fewTenants(found *api.CompareResponse, of []string) []string {
	tenants, judged := movedRows(found.Tenants, tenantOf, of)
	rest := restOf(found, of)
	if n := len(tenants); n == 0 || n > namedAtMost || n == judged || rest == compare.RestAll || rest == compare.RestMost {
		return nil
	}
	return tenants
}

// nameWho says of the newest changes that lead which tenants, cohorts and operations moved, as
// a comparison of the stretches before and after does.
func nameWho(ctx context.Context, st store.Store, s *compare.Stretches, r *Request, changes []api.Change) error {
	left := mostWho
	for i := len(changes) - 1; i >= 0 && left > 0; i-- {
		c := &changes[i]
		if len(c.Measures) == 0 || slices.Equal(c.Found, []string{Rate}) || c.Under != "" {
			continue
		}
		left--
		found, err := compareWho(ctx, st, s, r, c)
		if err != nil {
			return err
		}
		if found == nil {
			continue
		}
		of := c.Found
		if c.Part != nil { // the requests that call it are compared
			of = []string{Durations, Errors}
		}
		who := &api.ChangeWho{}
		who.Tenants, who.TenantsJudged = movedRows(found.Tenants, tenantOf, of)
		who.Operations, who.OperationsJudged = movedRows(found.Operations, func(x *api.CompareRow) string { return x.Operation }, of)
		who.Cohorts, who.CohortsJudged = movedRows(found.Cohorts, func(x *api.CompareRow) string { return x.Cohort }, of)
		all := len(who.Cohorts) == who.CohortsJudged
		who.Cohorts = slices.DeleteFunc(who.Cohorts, func(cohort string) bool {
			return all || slices.ContainsFunc(found.Cohorts, func(x api.CompareRow) bool { return x.Cohort == cohort && ofSingleTenants(found.Tenants, &x, of) })
		})
		if who.Sentence = whoText(who, restOf(found, of)); who.Sentence != "" {
			c.Who = who
		}
		if few := fewTenants(found, of); few != nil {
			i := slices.IndexFunc(found.Tenants, func(x api.CompareRow) bool { return x.Tenant == few[0] })
			nameOne(c, s.Subject(requestsOf(c)), &found.Tenants[i], len(few) == 1, inAll(c, who, changes))
		}
	}
	return nil
}

// inAll reports whether all operations of a service moved: by the comparison, or by a change of
// their own in the event.
func inAll(c *api.Change, who *api.ChangeWho, changes []api.Change) bool {
	moved := map[string]bool{}
	for _, name := range who.Operations {
		moved[name] = true
	}
	for _, x := range changes {
		if x.Under == c.ID && x.Service == c.Service && x.Environment == c.Environment && x.Part == nil && x.Operation != "" && slices.Equal(x.Found, c.Found) {
			moved[x.Operation] = true
		}
	}
	return len(moved) > 1 && len(moved) >= who.OperationsJudged
}

// nameOne puts the tenant into the headline whose errors alone, or most of a few, became more
// or fewer, with its own share of them.
func nameOne(c *api.Change, of string, tenant *api.CompareRow, alone, inAll bool) {
	i := slices.IndexFunc(tenant.Measures, func(m api.CompareMeasure) bool { return m.Name == judge.ErrorShare })
	if i < 0 || !slices.Contains(c.Found, Errors) || !judge.Moved(tenant.Measures[i].Verdict) {
		return
	}
	f := tenant.Measures[i].Judged()
	percent := func(v api.Float) string { return figure.Percent(float64(v)) }
	whom := "for "
	if !alone {
		whom = "above all for "
	}
	said := fmt.Sprintf("errors of %s went from %s to %s %s", of, percent(f.A), percent(f.B), whom+judge.Printed(tenant.Tenant))
	if inAll {
		said += ", in all its operations"
	}
	c.Sentence = strings.Replace(c.Sentence, c.Headline, said, 1)
	c.Headline = said
}

// ofWhom bounds the rows of a comparison that are looked at.
const ofWhom = 200

// movedRows returns the names of the rows that surely moved in what was found to change, and how
// many were judged.
func movedRows(rows []api.CompareRow, name func(*api.CompareRow) string, of []string) (moved []string, judged int) {
	moved = []string{}
	for i := range rows {
		if x := &rows[i]; !math.IsNaN(float64(x.Adjusted)) {
			judged++
			if slices.ContainsFunc(x.Measures, func(m api.CompareMeasure) bool { return movedIn(x, &m, of) }) {
				moved = append(moved, name(x))
			}
		}
	}
	return moved, judged
}

// ofSingleTenants reports that a cohort moved for single tenants.
func ofSingleTenants(tenants []api.CompareRow, cohort *api.CompareRow, of []string) bool {
	tenants = slices.DeleteFunc(slices.Clone(tenants), func(x api.CompareRow) bool { return x.Cohort != cohort.Cohort })
	moved, judged := movedRows(tenants, tenantOf, of)
	return compare.OfSingleTenants(cohort, len(moved), judged)
}

// whoText says who moved: all that can be judged, or the most changed of them.
func whoText(w *api.ChangeWho, rest compare.Rest) string {
	tenants := movedText("tenant", w.Tenants, w.TenantsJudged)
	if tenants != "" && (rest == compare.RestAll || rest == compare.RestMost) {
		tenants = compare.Reach{Judged: w.TenantsJudged, Sure: len(w.Tenants), Rest: rest}.Text(ofJudged+"tenant", "moved")
	}
	said := []string{movedText("cohort", w.Cohorts, w.CohortsJudged), tenants, movedText("operation", w.Operations, w.OperationsJudged)}
	return strings.Join(slices.DeleteFunc(said, func(s string) bool { return s == "" }), "; ")
}

// ofJudged is said of all tenants, cohorts or operations that could be judged: a list may have
// more, with too few requests.
const ofJudged = "judged "

// namedAtMost bounds the names in a sentence.
const namedAtMost = 3

func movedText(what string, moved []string, judged int) string {
	switch n := len(moved); {
	case judged < 2 || n == 0:
		return ""
	case n == judged:
		return fmt.Sprintf("all %s moved", figure.Counted(n, ofJudged+what))
	case n <= namedAtMost:
		return fmt.Sprintf("of %s %s moved", figure.Counted(judged, what), figure.Listed(moved))
	default:
		return fmt.Sprintf("of %s %d moved, %s the most", figure.Counted(judged, what), n, figure.Listed(moved[:namedAtMost]))
	}
}
