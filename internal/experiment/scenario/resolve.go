package scenario

import (
	"cmp"
	"math"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"tailscope/internal/experiment/bench"
	"tailscope/internal/experiment/bench/load"
	"tailscope/internal/experiment/bench/threshold"
	"tailscope/internal/strictyaml"
)

// resolve makes a Scenario of the file.
func (r *reader) resolve(raw *scenarioFile) {
	s := r.out
	s.Service = cmp.Or(s.Service, s.Name)
	if r.d.OK(&raw.Target) {
		s.Target, _ = url.Parse(raw.Target)
	}
	for _, commands := range [][]Command{s.Setup, s.Teardown} {
		for i := range commands {
			r.complete(&commands[i])
		}
	}
	for i := range raw.Servers {
		r.server(&raw.Servers[i])
	}
	for i := range raw.Load {
		r.load(&raw.Load[i])
	}
	r.warmUp(s.WarmUp)
	r.http(raw)
	r.plan(raw)
	for i := range raw.Faults {
		r.fault(&raw.Faults[i])
	}
	r.thresholds(raw)
	r.limits(raw.Limits)
	r.requests(raw)
	for i, name := range s.Configs {
		s.Configs[i] = r.path(name)
	}
}

const usualTimeout = 5 * time.Minute // of commands

// complete sets the defaults of a command.
func (r *reader) complete(c *Command) {
	c.Dir = cmp.Or(r.path(c.Dir), r.dir)
	if c.Timeout <= 0 {
		c.Timeout = usualTimeout
	}
	if c.Name == "" && len(c.Run.Args) > 0 {
		first, _, _ := strings.Cut(strings.TrimSpace(c.Run.Args[0]), " ")
		c.Name = filepath.Base(first)
	}
}

// command returns a program within another block, or nil if it is missing.
func (r *reader) command(run *Program, name, dir string, env map[string]string) *Command {
	if !r.d.Given(run) {
		return nil
	}
	c := &Command{Run: *run, Name: name, Dir: dir, Env: env}
	r.complete(c)
	return c
}

func (r *reader) server(raw *fileServer) {
	v := &raw.Server
	if r.d.Node(raw) == nil {
		return
	}
	if r.d.Count(&raw.Run, &v.PID, &v.PIDFile, &v.Port) != 1 {
		r.p.Add(r.d.Node(raw).At, "write run: to start it, or one of pid, pid_file and port of one that runs", "server %s is either started or found", v.Name)
	}
	if slices.ContainsFunc(r.out.Servers, func(o Server) bool { return o.Name == v.Name }) {
		r.p.Add(r.d.Node(raw).At, "give one of them another name", "two servers are called %s", v.Name)
	}
	v.PIDFile, v.Command = r.path(v.PIDFile), r.command(&raw.Run, v.Name, raw.Dir, raw.Env)
	if w := &v.Ready; r.d.OK(w) {
		switch n := r.d.Count(&w.HTTP, &w.TCP, &w.Log); {
		case n != 1:
			r.p.Add(r.d.Node(w).At, "write one of http: ADDRESS, tcp: HOST:PORT and log: REGEXP", "nothing says when server %s is ready, or several things do", v.Name)
		case r.d.Given(&w.Log) && v.Command == nil:
			r.d.Wrong(&w.Log, "write http or tcp", "the output of %s is not seen, as it is not started here", v.Name)
		}
	}
	all := v.Metrics
	v.Metrics = nil
	for i := range all {
		r.metrics(v, &all[i])
	}
	r.out.Servers = append(r.out.Servers, *v)
}

func (r *reader) metrics(v *Server, raw *Metrics) {
	if r.d.Node(raw) == nil {
		return
	}
	m := *raw
	m.Name = cmp.Or(raw.Name, m.Path[strings.LastIndexByte(m.Path, '.')+1:])
	switch {
	case r.d.Given(&raw.Prometheus) == r.d.Given(&raw.JSON):
		r.p.Add(r.d.Node(raw).At, "write prometheus: ADDRESS with families: [NAME], or json: ADDRESS with path: a.b.c", "metrics of %s come from one address", v.Name)
	case r.d.Given(&raw.Prometheus) && len(m.Families) == 0:
		r.p.Add(r.d.Node(raw).At, "write families: [jvm_gc_pause_seconds_sum]", "nothing says which metrics of %s are read", v.Name)
	case r.d.Given(&raw.JSON) && m.Path == "":
		r.p.Add(r.d.Node(raw).At, "write path: metrics.jvm.gc.time", "nothing says which number of the document is read")
	}
	for i, f := range m.Families {
		if _, err := parseFamily(f); err != nil {
			r.d.Wrong(&raw.Families[i], `write a name, or one with labels: go_gc_duration_seconds_sum{job="x"}`, "%v", err)
		}
	}
	for _, name := range m.names() {
		if slices.ContainsFunc(v.Metrics, func(o Metrics) bool { return slices.Contains(o.names(), name) }) {
			r.p.Add(r.d.Node(raw).At, "give one of them a name: of its own", "two metrics of %s are called %s", v.Name, name)
		}
	}
	v.Metrics = append(v.Metrics, m)
}

// names returns the names of the readings.
func (m *Metrics) names() []string {
	if m.JSON != "" {
		return []string{m.Name}
	}
	return m.Families
}

func (r *reader) load(raw *fileData) {
	if r.d.Node(raw) == nil {
		return
	}
	l := &raw.DataLoad
	l.File, l.Action, l.Header = r.path(l.File), cmp.Or(l.Action, `{"index":{}}`), fields(raw.Header)
	if r.d.Given(&l.File) == r.d.Given(&raw.Run) {
		r.p.Add(r.d.Node(raw).At, "write file: docs.jsonl, or run: with a command that prints documents", "data %s comes from a file or from a command", l.Name)
	}
	l.Command = r.command(&raw.Run, "", raw.Dir, raw.Env)
	if l.Format == "" {
		l.Format = map[string]string{".csv": "csv", ".tsv": "tsv", ".txt": "lines"}[strings.ToLower(filepath.Ext(strings.TrimSuffix(l.File, ".gz")))]
		if l.Format == "" {
			l.Format = "jsonl"
		}
	}
	if l.Parallel > 1000 {
		r.d.Wrong(&raw.Parallel, "at most 1000", "%d requests at once are too many", l.Parallel)
	}
	if r.d.Given(&raw.Action) && l.As != "bulk" {
		r.d.Wrong(&raw.Action, "write as: bulk", "only bulk has an action")
	}
	if l.As == "single" {
		if r.d.Given(&raw.Batch) && l.Batch != 1 {
			r.d.Wrong(&raw.Batch, "leave batch out", "single is one document a request")
		}
		l.Batch = 1
	}
	// A generator is part of the stage; a file that set-up writes does not exist yet.
	if l.File != "" && len(r.out.Setup) == 0 {
		if _, err := os.Stat(l.File); err != nil {
			r.d.Wrong(&raw.File, "names are relative to the scenario's file", "%v", err)
		}
	}
	l.Method, l.URL = r.address(&raw.Request)
	l.FinalMethod, l.FinalURL = r.address(&raw.Finally)
	r.out.Loads = append(r.out.Loads, *l)
}

func (r *reader) warmUp(w *WarmUp) {
	if w == nil {
		return
	}
	if r.d.OK(&w.Steady) && w.Steady < 0.001 {
		r.d.Wrong(&w.Steady, "write one such as 3%", "no latency is as steady as %s", r.d.S(&w.Steady))
	}
	if w.AtLeast > w.AtMost {
		r.p.Add(r.d.Node(w).At, "", "at_least %s is more than at_most %s", w.AtLeast, w.AtMost)
	}
	if r.d.OK(&w.Slot) && (w.Slot < 50*time.Millisecond || w.Slot*leastSlots > w.AtMost) {
		r.d.Wrong(&w.Slot, "from 50ms to a tenth of at_most", "slots of %s tell nothing", w.Slot)
	}
}

// limits reads the limits of the generator's own error. A share of 1 is not a limit:
// lateness is never more than the latency it is part of, and a thread never busier
// than always.
func (r *reader) limits(raw *fileLimits) {
	if raw == nil {
		return
	}
	of := func(share *float64) float64 {
		switch {
		case !r.d.OK(share):
			return 0
		case *share == 0:
			r.d.Wrong(share, "write one such as 20%", "nothing is ever sent without any error")
		case *share == 1:
			return math.Inf(1)
		}
		return *share
	}
	r.out.Limits.Share = of(&raw.Late)
	r.out.Limits.Busiest = of(&raw.CPU)
	r.out.Limits.Host = r.out.Limits.Busiest
	if math.IsInf(r.out.Limits.Busiest, 1) {
		r.out.Limits.Starved = math.Inf(1)
	}
}

func (r *reader) http(raw *scenarioFile) {
	s := r.out
	s.HTTP = load.Options{Connections: raw.Connections, Timeout: raw.Timeout, NoKeepAlive: !raw.KeepAlive}
	if raw.Protocol == "HTTP/2" {
		s.HTTP.Protocol = load.HTTP2
	}
	if t := &s.TLS; r.d.OK(t) {
		t.CA = r.path(t.CA)
		if s.Target != nil && s.Target.Scheme != "https" {
			r.p.Add(r.d.Node(t).At, "write target: https://…", "the target speaks no TLS")
		}
	}
}

func (r *reader) plan(raw *scenarioFile) {
	s := r.out
	words := map[string]bench.Arrivals{"constant": bench.Even, "poisson": bench.Poisson, "recorded": bench.Recorded, "closed": bench.Closed}
	recorded := raw.Record != nil || raw.AccessLog != nil
	s.Plan = bench.Plan{Arrivals: words[cmp.Or(raw.Arrivals, "constant")], Seed: raw.Seed}
	if !raw.Precise {
		s.Plan.Grid = bench.FrugalGrid
	}
	if !r.d.Given(&raw.Arrivals) && recorded && len(raw.Phases) == 0 {
		s.Plan.Arrivals = bench.Recorded
	}
	if s.Plan.Arrivals == bench.Recorded && !recorded {
		r.d.Wrong(&raw.Arrivals, "write record: or access_log:, or constant", "nothing was recorded")
		return
	}
	if r.d.Given(&s.Duration) && s.Plan.Arrivals != bench.Recorded {
		r.d.Wrong(&s.Duration, "leave it out, as phases say how long they take", "duration is of a recording's or a log's own times")
	}
	closed := s.Plan.Arrivals == bench.Closed
	for i := range raw.Phases {
		ph := &raw.Phases[i]
		if r.d.Node(ph) == nil || !r.d.OK(&ph.For) {
			continue
		}
		if closed || s.Plan.Arrivals == bench.Recorded {
			if r.d.Given(&ph.Rate) {
				r.d.Wrong(&ph.Rate, "leave rate out, or arrivals", "a plan of arrivals %s has no rate", cmp.Or(raw.Arrivals, "recorded"))
			}
			s.Plan.Phases = append(s.Plan.Phases, bench.Phase{Name: cmp.Or(ph.Name, strconv.Itoa(i+1)), For: ph.For})
			continue
		}
		if !r.d.Given(&ph.Rate) {
			r.p.Add(r.d.Node(ph).At, "write rate: 200 in requests a second, 200..800 for a ramp, or arrivals: closed at the top", "a phase needs a rate")
			continue
		}
		parts, err := bench.ParsePhases(ph.Name, ph.Rate, ph.For)
		if err != nil {
			r.failed(&ph.Rate, err)
			continue
		}
		s.Plan.Phases = append(s.Plan.Phases, parts...)
	}
	if !closed {
		r.noThought(raw)
	}
	if len(raw.Phases) == 0 && s.Plan.Arrivals != bench.Recorded {
		r.p.Add(r.d.Node(raw).At, "write phases: [{rate: 200, for: 30s}]", "the scenario has no phases")
		return
	}
	if r.p.Len() > 0 {
		return
	}
	if err := s.Plan.Validate(); err != nil {
		message, hint := parted(err)
		r.p.Add(r.d.Node(raw).Get("phases").At, hint, "%s", message)
	}
}

// noThought refuses think in loads where nobody waits.
func (r *reader) noThought(raw *scenarioFile) {
	all := []*string{&raw.Think}
	for i := range raw.Queries {
		all = append(all, &raw.Queries[i].Think)
	}
	for _, t := range all {
		if r.d.Given(t) {
			r.d.Wrong(t, "leave it out, or write arrivals: closed", "only users of a closed loop think; a schedule waits for nobody")
		}
	}
}

func (r *reader) fault(raw *fileFault) {
	if r.d.Node(raw) == nil {
		return
	}
	f := &raw.Fault
	f.Run, f.Undo = r.command(&raw.Run, "", "", nil), r.command(&raw.Undo, "", "", nil)
	if r.d.Count(&raw.Pause, &raw.Kill, &raw.Restart, &raw.Run) != 1 {
		r.p.Add(r.d.Node(raw).At, "write one of pause: SERVER, kill: SERVER, restart: SERVER and run: COMMAND", "a fault is one thing")
		return
	}
	if f.Name == "" {
		f.Name = strings.TrimSpace(f.Sort() + " " + f.Server())
		if f.Run != nil {
			f.Name = f.Run.Name
		}
	}
	for _, t := range []*string{&raw.Pause, &raw.Kill, &raw.Restart} {
		if r.d.Given(t) {
			r.faulty(t, f.Pause != "")
		}
	}
	switch {
	case r.d.Given(&raw.Pause) && f.For == 0:
		r.p.Add(r.d.Node(raw).At, "write for: 1s", "nothing says for how long %s is paused", f.Pause)
	case r.d.Given(&raw.Restart) && r.d.Given(&raw.For):
		r.d.Wrong(&raw.For, "write kill: "+f.Restart, "a restart takes as long as it takes")
	case f.Undo != nil && f.Run == nil:
		r.p.Add(r.d.Node(&raw.Undo).At, "leave undo out", "only run is undone by a command")
	case f.Every > 0 && f.For >= f.Every:
		r.d.Wrong(&raw.For, "shorter than every", "it would not be over when it comes again")
	}
	if total := r.out.Plan.Duration(); total > 0 && f.At >= total && r.d.OK(&raw.At) {
		r.d.Wrong(&raw.At, "the phases take "+total.String(), "%s is after the end", r.d.S(&raw.At))
	}
	r.out.Faults = append(r.out.Faults, *f)
}

// faulty checks the server of a fault.
func (r *reader) faulty(t *string, pause bool) {
	var names []string
	for _, v := range r.out.Servers {
		names = append(names, v.Name)
		if v.Name != *t {
			continue
		}
		if v.Command == nil && !pause {
			r.d.Wrong(t, "pause it, or let run: start it", "server %s is not started here and cannot be started again", v.Name)
		}
		return
	}
	hint := strictyaml.Suggest(*t, names)
	if len(names) == 0 {
		hint = "write servers: [{name: " + *t + ", …}]"
	}
	r.d.Wrong(t, hint, "unknown server %s", *t)
}

func (r *reader) thresholds(raw *scenarioFile) {
	for i := range raw.Thresholds {
		t := &raw.Thresholds[i]
		if !r.d.OK(t) {
			continue
		}
		th, err := threshold.Parse(*t)
		if err != nil {
			r.failed(t, err)
			continue
		}
		r.out.Thresholds = append(r.out.Thresholds, th)
	}
}

func fields(of map[string]string) []load.Field {
	var out []load.Field
	for _, name := range sortedKeys(of) {
		out = append(out, load.Field{Name: name, Value: of[name]})
	}
	return out
}
