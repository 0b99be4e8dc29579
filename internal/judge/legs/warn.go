package legs

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"tailscope/api"
	"tailscope/internal/figure"
	"tailscope/internal/judge"
)

const (
	// fewestSlots is what package stat needs before it says anything.
	fewestSlots = 20
	// manyDropped is the share of copies from which those that are missing may
	// have been unlike the rest; manyNoise a noise floor that hides a lot.
	manyDropped, manyNoise = 0.01, 0.1
)

// warn says what is to be doubted.
func (j *judgement) warn(out *api.MirrorVerdictResponse) {
	add := func(code, form string, args ...any) {
		out.Warnings = append(out.Warnings, api.CompareWarning{Code: code, Text: fmt.Sprintf(form, args...)})
	}
	if out.Slots < fewestSlots {
		add("slots", "there are %d slots of %d s with requests, and %d are needed before anything is said: %s", out.Slots, out.Slot, fewestSlots,
			map[bool]string{true: "wait a few minutes", false: "let the session run for longer"}[j.x.State == api.Running])
	}
	if j.x.State == api.Lost {
		add("lost", "the program of the session stopped reporting at %s; what it measured after that may not have arrived", at(j.x.Updated, "2006-01-02 15:04:05Z"))
	}
	if j.m.Settings.Paused && j.x.State == api.Running {
		add("paused", "copying is paused: the figures are of the time before")
	}
	var control *api.MirrorTarget
	for i := range j.m.Shadows {
		t := &j.m.Shadows[i]
		if t.Role == "control" {
			control = t
		}
		j.warnShadow(t, add)
	}
	for i := range j.m.Shadows {
		t := &j.m.Shadows[i]
		if t.Role != "candidate" {
			continue
		}
		of, copies := j.primary, api.Float(1)
		if control != nil {
			of, copies = control.Name, control.Amplify
		}
		switch {
		case t.Amplify != copies:
			add("load", "%s gets %s copies of each request and %s %s: a difference may be of the load", t.Name, figure.TwoDigits(float64(t.Amplify)), of, figure.TwoDigits(float64(copies)))
		case control != nil && t.Using != control.Using:
			add("load", "%s has %d servers in use and %s %d: a difference may be of the load of each", t.Name, t.Using, of, control.Using)
		}
	}
	for _, v := range out.Candidates {
		for _, m := range v.Measures {
			if m.Name == judge.Ratio && !math.IsNaN(float64(m.Floor)) && float64(m.Noise) > manyNoise {
				add("floor", "%s differs from the primary by up to %s though both run the same code, so no less than that is told of %s: give both servers of one kind, and the same load",
					v.Against, figure.Percent(float64(m.Noise)), v.Candidate)
			}
			if m.Name == "errors" && m.Verdict == judge.MoreErrors {
				add("errors", "%s fails more often than %s: durations are of answers below 500, and what failed is in none of them", v.Candidate, v.Against)
			}
		}
	}
}

// at writes a time of a session.
func at(seconds api.Float, layout string) string {
	return time.UnixMilli(int64(1e3 * float64(seconds))).UTC().Format(layout)
}

// doubts says in a few words what may be the reason for all that was found of a
// candidate; warnings say more of each. It stands in the headline, as that is
// all that a list shows.
func (j *judgement) doubts(candidate string) (out []string) {
	control := slices.IndexFunc(j.m.Shadows, func(t api.MirrorTarget) bool { return t.Role == "control" })
	for i := range j.m.Shadows {
		t := &j.m.Shadows[i]
		if t.Role != "control" && t.Name != candidate {
			continue
		}
		if diverged(t) {
			out = append(out, t.Name+" missed a write")
		}
		if a := t.Account; a != nil && a.Offered > 0 {
			if n := total(a.Dropped); many(n, a.Offered) {
				out = append(out, fmt.Sprintf("%s of the copies for %s were dropped", figure.Percent(float64(n)/float64(a.Offered)), t.Name))
			}
			if n := total(faults(a)); many(n, a.Offered) {
				out = append(out, fmt.Sprintf("%s of those of %s failed", figure.Percent(float64(n)/float64(a.Offered)), t.Name))
			}
		}
		if t.Name == candidate {
			if copies := j.copies(control); t.Amplify != copies || control >= 0 && t.Using != j.m.Shadows[control].Using {
				out = append(out, t.Name+" has another load")
			}
		}
	}
	return out
}

// copies of each request that the reference gets; control is −1 without one.
func (j *judgement) copies(control int) api.Float {
	if control < 0 {
		return 1
	}
	return j.m.Shadows[control].Amplify
}

func diverged(t *api.MirrorTarget) bool { return t.Diverged > 0 } // not NaN

// many says that so many of all copies are missing that those may have been unlike
// the rest.
func many(n, of uint64) bool { return float64(n) > manyDropped*float64(of) }

// warnShadow says what of the copies of one shadow is missing, or no longer
// what the primary has.
func (j *judgement) warnShadow(t *api.MirrorTarget, add func(code, form string, args ...any)) {
	if diverged(t) {
		why := ""
		if t.DivergedWhy != "" {
			why = " (" + t.DivergedWhy + ")"
		}
		add("diverged", "%s missed a write at %s%s: since then its data are not the primary's, and its answers may differ for that", t.Name, at(t.Diverged, "15:04:05Z"), why)
	}
	a := t.Account
	if a == nil || a.Offered == 0 {
		return
	}
	if n := total(a.Dropped); many(n, a.Offered) {
		add("dropped", "%s of the copies meant for %s were dropped (%s): what was not dropped met a server with less to do, so its figures may be too good", figure.Percent(float64(n)/float64(a.Offered)), t.Name, causes(a.Dropped))
	}
	if failed := faults(a); many(total(failed), a.Offered) {
		add("failed", "%s of the copies of %s got no whole answer (%s): they count as errors, and in no duration", figure.Percent(float64(total(failed))/float64(a.Offered)), t.Name, causes(failed))
	}
	if many(a.Unpaired, a.Answered) {
		add("unpaired", "%s of the answers of %s have none of the primary beside them: they are in no ratio", figure.Percent(float64(a.Unpaired)/float64(a.Answered)), t.Name)
	}
}

// faults are the failed copies that count as errors. Others were broken off by
// the client or the session, and are in no figure.
func faults(a *api.MirrorAccount) map[string]uint64 {
	out := maps.Clone(a.Failed)
	for _, cause := range []string{"client_gone", "stopped", "body_limit", "body_behind", "expired"} {
		delete(out, cause)
	}
	return out
}

func total(of map[string]uint64) (n uint64) {
	for _, v := range of {
		n += v
	}
	return n
}

// causes are the three that count most.
func causes(of map[string]uint64) string {
	names := slices.Sorted(maps.Keys(of))
	slices.SortStableFunc(names, func(x, y string) int {
		switch {
		case of[x] > of[y]:
			return -1
		case of[x] < of[y]:
			return 1
		}
		return 0
	})
	var words []string
	for _, name := range names[:min(3, len(names))] {
		words = append(words, fmt.Sprintf("%s %d", strings.ReplaceAll(name, "_", " "), of[name]))
	}
	return strings.Join(words, ", ")
}
