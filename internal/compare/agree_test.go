package compare

import (
	"fmt"
	"math/rand/v2"
	"regexp"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"tailscope/api"
	"tailscope/internal/figure"
	"tailscope/internal/judge"
	"tailscope/internal/query/querytest"
	"tailscope/internal/series"
)

// aboutMix is the part of a sentence that says how the mix moved, and of no row that it changed.
var aboutMix = regexp.MustCompile(`the mix of .*?; like for like `)

// disagreement says where a sentence and the rows beneath it tell different stories; empty if
// they tell one.
func disagreement(r *api.CompareResponse) string {
	lists := []struct {
		rows []api.CompareRow
		noun string
		name func(*api.CompareRow) string
	}{
		{r.Operations, "operation", func(r *api.CompareRow) string { return r.Operation }},
		{r.Tenants, "tenant", func(r *api.CompareRow) string { return r.Tenant }},
		{r.Cohorts, "cohort", func(r *api.CompareRow) string { return r.Cohort + " tenants" }},
		{nil, "group", func(r *api.CompareRow) string { return lightTenants(r) }},
	}
	if r.Light != nil {
		lists[3].rows = []api.CompareRow{r.Light.CompareRow}
	}
	said := aboutMix.ReplaceAllString(r.Sentence, "")
	verdicts := map[judge.Way][]judge.Verdict{judge.Worse: {judge.Regression, judge.Mixed}, judge.Better: {judge.Improvement, judge.Mixed}}
	for _, way := range []judge.Way{judge.Worse, judge.Better} {
		did := func(m *api.CompareMeasure) bool { return judge.Moved(m.Verdict) && m.Change == way }
		ofAll := false
		for i := range r.Measures {
			ofAll = ofAll || did(&r.Measures[i])
		}
		for _, list := range lists {
			var unnamed []string
			n := 0
			for i := range list.rows {
				row := &list.rows[i]
				went := false
				for j := range row.Measures {
					went = went || did(&row.Measures[j])
				}
				if !went {
					continue
				}
				if !row.Changed {
					return fmt.Sprintf("%s is %s and not among those that changed", list.name(row), way)
				}
				if n++; !strings.Contains(said, list.name(row)) {
					unnamed = append(unnamed, list.name(row))
				}
			}
			if n > 0 && r.Verdict != verdicts[way][0] && r.Verdict != verdicts[way][1] {
				return fmt.Sprintf("%d %ss got %s beside %s", n, list.noun, way, r.Verdict)
			}
			counted := strings.Contains(said, figure.Counted(len(unnamed), "other "+list.noun)) || strings.Contains(said, figure.Counted(n, list.noun)) ||
				strings.Contains(said, fmt.Sprintf("%d of ", n)) || regexp.MustCompile(`(all|most of) (\d+ )?`+list.noun).MatchString(said)
			if len(unnamed) > 0 && !ofAll && !counted {
				return fmt.Sprintf("%s: %v got %s", list.noun, unnamed, way)
			}
		}
	}
	for _, list := range lists {
		for i := range list.rows {
			row := &list.rows[i]
			changed := false
			for j := range row.Measures {
				changed = changed || judge.Moved(row.Measures[j].Verdict)
			}
			if name := list.name(row); !changed && strings.Contains(said, name) {
				return name + " is named and has no evidence of a change"
			}
		}
	}
	return ""
}

// Whatever changed for whom, and however few requests some have: headline, verdict and rows
// tell one story.
func TestHeadlineAgreesWithRows(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		seed := rapid.Uint64().Draw(rt, "seed")
		rng := rand.New(rand.NewPCG(seed, 44))
		pick := func(all ...float64) float64 { return all[rng.IntN(len(all))] }
		var before, after []load
		for i := range 1 + rng.IntN(4) {
			for tenant := range 1 + rng.IntN(8) {
				l := load{operation: fmt.Sprintf("GET /op-%d/", i), tenant: fmt.Sprintf("tenant-%d.", tenant), perSlot: 1 + rng.IntN(3), median: 0.05 * float64(i+1), seldom: pick(0, 0, 0.5, 0.9, 0.98), failed: pick(0, 0, 0.05)}
				if len(before) == 0 {
					l.seldom = 0 // somebody has requests
				}
				before = append(before, l)
				if rng.IntN(4) == 0 {
					l.median *= pick(0.5, 0.8, 1.25, 1.6, 3)
				}
				if rng.IntN(8) == 0 {
					l.failed = pick(0, 0.3)
				}
				if rng.IntN(6) == 0 {
					l.perSlot *= 3
				}
				after = append(after, l)
			}
		}
		w := querytest.NewWriter()
		slots := int64(30 + rng.IntN(90))
		request := Request{A: window(0, 10*slots), B: window(10*slots, 20*slots)}
		if rng.IntN(3) == 0 { // two versions at one time
			for i := range before {
				before[i].more, after[i].more = []string{series.LabelVersion, "1"}, []string{series.LabelVersion, "2"}
			}
			request = Request{Selection: selection("service", "shop"), Label: series.LabelVersion, ValueA: "1", ValueB: "2"}
			request.Start, request.End = at(epoch), at(epoch+10*slots)
			send(w, rng, epoch, epoch+10*slots, append(before, after...)...)
		} else {
			send(w, rng, epoch, epoch+10*slots, before...)
			send(w, rng, epoch+10*slots, epoch+20*slots, after...)
		}
		if rng.IntN(2) == 0 {
			request.Include = []string{IncludeCohorts}
		}
		request.Limit = maxLimit
		if r := compared(t, stored(t, w), request); disagreement(r) != "" {
			rt.Fatalf("%s: %q: %s", r.Verdict, r.Sentence, disagreement(r))
		}
	})
}
