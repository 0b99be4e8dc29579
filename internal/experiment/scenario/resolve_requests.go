package scenario

import (
	"errors"
	"os"
	"slices"
	"strings"

	"tailscope/internal/experiment/bench/load"
	"tailscope/internal/experiment/bench/requests"
	"tailscope/internal/experiment/bench/threshold"
	"tailscope/internal/strictyaml"
)

// requests reads what is sent.
func (r *reader) requests(raw *scenarioFile) {
	s := requests.Spec{
		Base: raw.Target, Targets: r.path(raw.Targets), Header: fields(raw.Header), Tenant: raw.Tenant, Think: raw.Think,
		Vars: r.vars, Dir: r.dir, Seed: raw.Seed, Random: raw.Order == "random", HTTP2: r.out.HTTP.Protocol == load.HTTP2,
	}
	if raw.Check != nil {
		s.Check = *raw.Check
	}
	ways := r.d.Count(&raw.Targets, &raw.Record, &raw.AccessLog)
	if len(raw.Queries) > 0 {
		ways++
	}
	if ways != 1 {
		r.p.Add(r.d.Node(raw).At, `write one of queries: [{name: home, request: "GET /"}], targets: FILE, record: {file: …} and access_log: {file: …}`, "nothing says what is asked, or several things do")
	}
	for i := range raw.Queries {
		q := &raw.Queries[i]
		if r.d.Node(q) == nil {
			continue
		}
		q.BodyFile, q.Data, q.Query.Header = r.path(q.BodyFile), r.path(q.Data), fields(q.Header)
		s.Queries = append(s.Queries, q.Query)
	}
	if k := raw.Record; k != nil {
		k.Path, k.Untimed, s.Record = r.path(k.Path), len(raw.Phases) > 0, k
	}
	if k := raw.AccessLog; k != nil {
		k.Path, k.Untimed, s.AccessLog = r.path(k.Path), len(raw.Phases) > 0, k
	}
	r.out.Requests = s
	if r.p.Len() > 0 || len(r.out.Setup) > 0 && r.missing(raw) {
		return // set-up may write what is not there yet; Open compiles it then
	}
	r.compile(raw)
}

// missing reports whether a file of the requests does not exist.
func (r *reader) missing(raw *scenarioFile) bool {
	names := []string{raw.Targets}
	for i := range raw.Queries {
		names = append(names, raw.Queries[i].Data, raw.Queries[i].BodyFile)
	}
	if raw.Record != nil {
		names = append(names, raw.Record.Path)
	}
	if raw.AccessLog != nil {
		names = append(names, raw.AccessLog.Path)
	}
	for _, t := range names {
		if t != "" {
			if _, err := os.Stat(r.path(t)); err != nil {
				return true
			}
		}
	}
	return false
}

// compile finds the mistakes that only the compiler of requests sees.
func (r *reader) compile(raw *scenarioFile) {
	set, err := requests.Compile(r.out.Requests)
	if err == nil {
		defer set.Close()
		r.suits(raw, set)
		return
	}
	var all requests.Problems
	if !errors.As(err, &all) {
		message, hint := parted(err)
		r.p.Add(r.d.Node(raw).At, hint, "%s", message)
		return
	}
	for _, p := range all {
		at, hint := r.placeOf(raw, p), p.Hint
		if p.Hint = ""; p.Query != "" {
			p.Query, p.Field = "", "" // the place says so
		}
		r.p.Add(at, hint, "%s", p.Error())
	}
}

// suits checks plan and thresholds against the requests.
func (r *reader) suits(raw *scenarioFile, set *requests.Set) {
	if err := r.out.enough(set); err != nil {
		n := r.d.Node(raw).Get("phases")
		if n == nil {
			n = r.d.Node(&raw.Duration)
		}
		message, hint := parted(err)
		r.p.Add(n.At, hint, "%s", message)
	}
	for i, t := range r.out.Thresholds {
		if err := r.out.judges(t, set); err != nil {
			r.failed(&raw.Thresholds[i], err)
		}
	}
}

// enough returns an error if the requests do not last as long as the plan.
func (s *Scenario) enough(set *requests.Set) error {
	if n, ok := s.Plan.Requests(); ok {
		return set.Enough(n)
	}
	return set.Lasts(max(s.Plan.Duration(), s.Duration))
}

// judges returns an error if what a threshold names does not exist.
func (s *Scenario) judges(t threshold.Threshold, set *requests.Set) error {
	var phases []string
	for _, p := range s.Plan.Phases {
		phases = append(phases, p.Name)
	}
	return t.Check(set.Queries(), phases, set.Tenants())
}

// Judge adds thresholds to those of the file. It returns an error if one names
// something that does not exist. If set-up commands have yet to write the requests,
// Open returns that error.
func (s *Scenario) Judge(more ...threshold.Threshold) error {
	s.Thresholds = append(slices.Clip(s.Thresholds), more...)
	set, err := requests.Compile(s.Requests)
	if err != nil {
		return nil
	}
	defer set.Close()
	var wrong []error
	for _, t := range more {
		wrong = append(wrong, s.judges(t, set))
	}
	return errors.Join(wrong...)
}

// placeOf returns the place of a problem in the file.
func (r *reader) placeOf(raw *scenarioFile, p requests.Problem) strictyaml.Place {
	n := r.d.Node(raw)
	if p.Index >= 0 && p.Index < len(raw.Queries) && r.d.Node(&raw.Queries[p.Index]) != nil {
		n = r.d.Node(&raw.Queries[p.Index])
	}
	for part := range strings.SplitSeq(p.Field, ".") {
		next := n.Get(part)
		if next == nil {
			break
		}
		n = next
	}
	return n.At
}
