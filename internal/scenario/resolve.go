package scenario

import (
	"math"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"tailscope/internal/bench"
	"tailscope/internal/bench/load"
	"tailscope/internal/bench/requests"
	"tailscope/internal/bench/threshold"
	"tailscope/internal/strictyaml"
)

// resolve makes a Scenario of the words.
func (r *reader) resolve(raw *rawFile) {
	s := r.out
	s.Name, s.Description = raw.Scenario.S(), raw.Description.S()
	s.Service = raw.Service.Or(s.Name)
	if raw.Target.OK {
		s.Target, _ = url.Parse(raw.Target.S())
	}
	s.Env = texts(raw.Env)
	for i := range raw.Setup {
		s.Setup = append(s.Setup, r.command(&raw.Setup[i]))
	}
	for i := range raw.Teardown {
		s.Teardown = append(s.Teardown, r.command(&raw.Teardown[i]))
	}
	for i := range raw.Servers {
		r.server(&raw.Servers[i])
	}
	for i := range raw.Load {
		r.load(&raw.Load[i])
	}
	if w := raw.WarmUp; w != nil {
		s.WarmUp = r.warmUp(w)
	}
	r.http(raw)
	r.plan(raw)
	for i := range raw.Faults {
		r.fault(&raw.Faults[i])
	}
	r.thresholds(raw)
	r.limits(raw.Limits)
	r.requests(raw)
	s.Versions = texts(raw.Versions)
	for _, t := range raw.Configs {
		s.Configs = append(s.Configs, r.path(t))
	}
}

const usualTimeout = 5 * time.Minute // of commands

func (r *reader) command(raw *rawCommand) Command {
	c := r.run(raw.Run, raw.Dir, raw.Env)
	c.Timeout = usualTimeout
	if raw.Timeout.OK && raw.Timeout.Duration > 0 {
		c.Timeout = raw.Timeout.Duration
	}
	c.Name = raw.Name.Or(c.Name)
	return c
}

// run reads a line for the shell, or a program with its arguments.
func (r *reader) run(run rawRun, dir text, env map[string]text) Command {
	c := Command{Args: run.args, Shell: run.line, Dir: r.dir, Env: texts(env), Timeout: usualTimeout}
	if dir.Given() {
		c.Dir = r.path(dir)
	}
	if len(c.Args) > 0 {
		first, _, _ := strings.Cut(strings.TrimSpace(c.Args[0]), " ")
		c.Name = filepath.Base(first)
	}
	return c
}

func (r *reader) server(raw *rawServer) {
	v := Server{
		Name: raw.Name.S(), Stop: raw.Stop.Or("TERM"), Grace: span(raw.Grace, 10*time.Second),
		PID: whole(raw.PID, 0), PIDFile: r.path(raw.PIDFile), Port: whole(raw.Port, 0),
		Ready: Ready{Within: time.Minute},
	}
	if raw.Node == nil {
		return
	}
	if given(raw.Run.given(), raw.PID.Given(), raw.PIDFile.Given(), raw.Port.Given()) != 1 {
		r.p.Add(raw.Node.At, "write run: to start it, or one of pid, pid_file and port of one that runs", "server %s is either started or found", v.Name)
	}
	if slices.ContainsFunc(r.out.Servers, func(o Server) bool { return o.Name == v.Name }) {
		r.p.Add(raw.Node.At, "give one of them another name", "two servers are called %s", v.Name)
	}
	if raw.Run.given() {
		c := r.run(raw.Run, raw.Dir, raw.Env)
		c.Name = v.Name
		v.Command = &c
	}
	if w := raw.Ready; w != nil {
		v.Ready = Ready{HTTP: w.HTTP.S(), TCP: w.TCP.S(), Log: w.Log.S(), Within: span(w.Within, time.Minute)}
		switch n := given(w.HTTP.Given(), w.TCP.Given(), w.Log.Given()); {
		case n != 1:
			r.p.Add(w.Node.At, "write one of http: ADDRESS, tcp: HOST:PORT and log: REGEXP", "nothing says when server %s is ready, or several things do", v.Name)
		case w.Log.Given() && v.Command == nil:
			r.problem(w.Log, "write http or tcp", "the output of %s is not seen, as it is not started here", v.Name)
		}
	}
	for i := range raw.Metrics {
		r.metrics(&v, &raw.Metrics[i])
	}
	r.out.Servers = append(r.out.Servers, v)
}

func (r *reader) metrics(v *Server, raw *rawMetrics) {
	if raw.Node == nil {
		return
	}
	m := Metrics{Prometheus: raw.Prometheus.S(), JSON: raw.JSON.S(), Families: strs(raw.Families), Path: raw.Path.S(), Unit: raw.Unit.S(), Scale: 1}
	if raw.Scale.OK {
		m.Scale = raw.Scale.Number
	}
	if raw.Adds.OK {
		m.Adds = &raw.Adds.Bool
	}
	m.Name = raw.Name.Or(m.Path[strings.LastIndexByte(m.Path, '.')+1:])
	switch {
	case raw.Prometheus.Given() == raw.JSON.Given():
		r.p.Add(raw.Node.At, "write prometheus: ADDRESS with families: [NAME], or json: ADDRESS with path: a.b.c", "metrics of %s come from one address", v.Name)
	case raw.Prometheus.Given() && len(m.Families) == 0:
		r.p.Add(raw.Node.At, "write families: [jvm_gc_pause_seconds_sum]", "nothing says which metrics of %s are read", v.Name)
	case raw.JSON.Given() && m.Path == "":
		r.p.Add(raw.Node.At, "write path: metrics.jvm.gc.time", "nothing says which number of the document is read")
	}
	for i, f := range m.Families {
		if _, err := parseFamily(f); err != nil {
			r.problem(raw.Families[i], `write a name, or one with labels: go_gc_duration_seconds_sum{job="x"}`, "%v", err)
		}
	}
	for _, name := range m.names() {
		if slices.ContainsFunc(v.Metrics, func(o Metrics) bool { return slices.Contains(o.names(), name) }) {
			r.p.Add(raw.Node.At, "give one of them a name: of its own", "two metrics of %s are called %s", v.Name, name)
		}
	}
	v.Metrics = append(v.Metrics, m)
}

// names are what the readings are called.
func (m *Metrics) names() []string {
	if m.JSON != "" {
		return []string{m.Name}
	}
	return m.Families
}

func (r *reader) load(raw *rawLoad) {
	if raw.Node == nil {
		return
	}
	l := DataLoad{
		Name: raw.Name.S(), File: r.path(raw.File), Format: raw.Format.S(), As: raw.As.Or("ndjson"),
		Action: raw.Action.Or(`{"index":{}}`), Batch: whole(raw.Batch, 1000), Parallel: whole(raw.Parallel, 4),
		AtMost: uint64(raw.AtMost.Int), Check: check(raw.Check), Errors: raw.Errors.Number, Timeout: span(raw.Timeout, time.Minute),
		FinalBody: raw.FinalBody.S(), Header: fields(raw.Header),
	}
	if raw.File.Given() == (raw.Run.given()) {
		r.p.Add(raw.Node.At, "write file: docs.jsonl, or run: with a command that prints documents", "data %s comes from a file or from a command", l.Name)
	}
	if raw.Run.given() {
		c := r.run(raw.Run, raw.Dir, raw.Env)
		l.Command = &c
	}
	if l.Format == "" {
		l.Format = map[string]string{".csv": "csv", ".tsv": "tsv", ".txt": "lines"}[strings.ToLower(filepath.Ext(strings.TrimSuffix(l.File, ".gz")))]
		if l.Format == "" {
			l.Format = "jsonl"
		}
	}
	if l.Parallel > 1000 {
		r.problem(raw.Parallel, "at most 1000", "%d requests at once are too many", l.Parallel)
	}
	if raw.Action.Given() && l.As != "bulk" {
		r.problem(raw.Action, "write as: bulk", "only bulk has an action")
	}
	if l.As == "single" {
		if raw.Batch.Given() && l.Batch != 1 {
			r.problem(raw.Batch, "leave batch out", "single is one document a request")
		}
		l.Batch = 1
	}
	// A generator is part of the stage; a file that set-up writes is not there yet.
	if l.File != "" && len(r.out.Setup) == 0 {
		if _, err := os.Stat(l.File); err != nil {
			r.problem(raw.File, "names are relative to the scenario's file", "%v", err)
		}
	}
	l.Method, l.URL = r.address(raw.Request)
	l.FinalMethod, l.FinalURL = r.address(raw.Finally)
	r.out.Loads = append(r.out.Loads, l)
}

func (r *reader) warmUp(raw *rawWarmUp) *WarmUp {
	w := &WarmUp{Steady: 0.03, AtLeast: span(raw.AtLeast, 3*time.Second), AtMost: span(raw.AtMost, time.Minute), Slot: raw.Slot.Duration, Need: raw.Need.Bool}
	if raw.Steady.OK {
		if w.Steady = raw.Steady.Number; w.Steady < 0.001 {
			r.problem(raw.Steady, "write one such as 3%", "no latency is as steady as %s", raw.Steady.S())
		}
	}
	if w.AtLeast > w.AtMost {
		r.p.Add(raw.Node.At, "", "at_least %s is more than at_most %s", w.AtLeast, w.AtMost)
	}
	if raw.Slot.OK && (w.Slot < 50*time.Millisecond || w.Slot*leastSlots > w.AtMost) {
		r.problem(raw.Slot, "from 50ms to a "+"tenth of at_most", "slots of %s tell nothing", w.Slot)
	}
	return w
}

// limits reads what of the generator's own error a run may have. A whole share
// is no limit: lateness is never more than the latency it is part of, and a thread
// never busier than always.
func (r *reader) limits(raw *rawLimits) {
	if raw == nil {
		return
	}
	of := func(t text) float64 {
		switch {
		case !t.OK:
			return 0
		case t.Number == 0:
			r.problem(t, "write one such as 20%", "nothing is ever sent without any error")
		case t.Number == 1:
			return math.Inf(1)
		}
		return t.Number
	}
	r.out.Limits.Share = of(raw.Late)
	r.out.Limits.Busiest = of(raw.CPU)
	r.out.Limits.Host = r.out.Limits.Busiest
}

func (r *reader) http(raw *rawFile) {
	s := r.out
	s.HTTP = load.Options{Connections: whole(raw.Connections, 64), Timeout: span(raw.Timeout, 30*time.Second), NoKeepAlive: raw.KeepAlive.OK && !raw.KeepAlive.Bool}
	if raw.Protocol.S() == "HTTP/2" {
		s.HTTP.Protocol = load.HTTP2
	}
	if t := raw.TLS; t != nil {
		s.TLS = TLS{CA: r.path(t.CA), ServerName: t.ServerName.S(), Insecure: t.Insecure.Bool}
		if s.Target != nil && s.Target.Scheme != "https" {
			r.p.Add(t.Node.At, "write target: https://…", "the target speaks no TLS")
		}
	}
}

func (r *reader) plan(raw *rawFile) {
	s := r.out
	words := map[string]bench.Arrivals{"constant": bench.Even, "poisson": bench.Poisson, "recorded": bench.Recorded, "closed": bench.Closed}
	recorded := raw.Record != nil || raw.AccessLog != nil
	s.Plan = bench.Plan{Arrivals: words[raw.Arrivals.Or("constant")], Seed: seed(raw.Seed)}
	s.Duration = raw.Duration.Duration
	if !raw.Arrivals.Given() && recorded && len(raw.Phases) == 0 {
		s.Plan.Arrivals = bench.Recorded
	}
	if s.Plan.Arrivals == bench.Recorded && !recorded {
		r.problem(raw.Arrivals, "write record: or access_log:, or constant", "nothing was recorded")
		return
	}
	if raw.Duration.Given() && s.Plan.Arrivals != bench.Recorded {
		r.problem(raw.Duration, "leave it out, as phases say how long they take", "duration is of a recording's or a log's own times")
	}
	closed := s.Plan.Arrivals == bench.Closed
	for i := range raw.Phases {
		ph := &raw.Phases[i]
		if ph.Node == nil || !ph.For.OK {
			continue
		}
		if closed || s.Plan.Arrivals == bench.Recorded {
			if ph.Rate.Given() {
				r.problem(ph.Rate, "leave rate out, or arrivals", "a plan of arrivals %s has no rate", raw.Arrivals.Or("recorded"))
			}
			s.Plan.Phases = append(s.Plan.Phases, bench.Phase{Name: ph.Name.Or(strconv.Itoa(i + 1)), For: ph.For.Duration})
			continue
		}
		if !ph.Rate.Given() {
			r.p.Add(ph.Node.At, "write rate: 200 in requests a second, 200..800 for a ramp, or arrivals: closed at the top", "a phase needs a rate")
			continue
		}
		parts, err := bench.ParsePhases(ph.Name.S(), ph.Rate.S(), ph.For.Duration)
		if err != nil {
			r.failed(ph.Rate, err)
			continue
		}
		s.Plan.Phases = append(s.Plan.Phases, parts...)
	}
	if !closed {
		r.noThought(raw)
	}
	if len(raw.Phases) == 0 && s.Plan.Arrivals != bench.Recorded {
		r.p.Add(raw.Node.At, "write phases: [{rate: 200, for: 30s}]", "the scenario has no phases")
		return
	}
	if r.p.Len() > 0 {
		return
	}
	if err := s.Plan.Validate(); err != nil {
		message, hint := parted(err)
		r.p.Add(raw.Node.Get("phases").At, hint, "%s", message)
	}
}

// noThought refuses think where nobody waits for it.
func (r *reader) noThought(raw *rawFile) {
	all := []text{raw.Think}
	for _, q := range raw.Queries {
		all = append(all, q.Think)
	}
	for _, t := range all {
		if t.Given() {
			r.problem(t, "leave it out, or write arrivals: closed", "only users of a closed loop think; a schedule waits for nobody")
		}
	}
}

func (r *reader) fault(raw *rawFault) {
	if raw.Node == nil {
		return
	}
	f := Fault{Name: raw.Name.S(), At: raw.At.Duration, For: raw.For.Duration, Every: raw.Every.Duration,
		Pause: raw.Pause.S(), Kill: raw.Kill.S(), Restart: raw.Restart.S()}
	for to, run := range map[**Command]rawRun{&f.Run: raw.Run, &f.Undo: raw.Undo} {
		if run.given() {
			c := r.run(run, text{}, nil)
			*to = &c
		}
	}
	if given(raw.Pause.Given(), raw.Kill.Given(), raw.Restart.Given(), f.Run != nil) != 1 {
		r.p.Add(raw.Node.At, "write one of pause: SERVER, kill: SERVER, restart: SERVER and run: COMMAND", "a fault is one thing")
		return
	}
	if f.Name == "" {
		f.Name = strings.TrimSpace(f.Sort() + " " + f.Server())
		if f.Run != nil {
			f.Name = f.Run.Name
		}
	}
	for _, t := range []text{raw.Pause, raw.Kill, raw.Restart} {
		if t.Given() {
			r.faulty(t, f.Pause != "")
		}
	}
	switch {
	case raw.Pause.Given() && f.For == 0:
		r.p.Add(raw.Node.At, "write for: 1s", "nothing says for how long %s is paused", f.Pause)
	case raw.Restart.Given() && raw.For.Given():
		r.problem(raw.For, "write kill: "+f.Restart, "a restart takes as long as it takes")
	case f.Undo != nil && f.Run == nil:
		r.p.Add(raw.Undo.node.At, "leave undo out", "only run is undone by a command")
	case f.Every > 0 && f.For >= f.Every:
		r.problem(raw.For, "shorter than every", "it would not be over when it comes again")
	}
	if total := r.out.Plan.Duration(); total > 0 && f.At >= total && raw.At.OK {
		r.problem(raw.At, "the phases take "+total.String(), "%s is after the end", raw.At.S())
	}
	r.out.Faults = append(r.out.Faults, f)
}

// faulty looks at the server a fault names.
func (r *reader) faulty(t text, pause bool) {
	var names []string
	for _, v := range r.out.Servers {
		names = append(names, v.Name)
		if v.Name != t.S() {
			continue
		}
		if v.Command == nil && !pause {
			r.problem(t, "pause it, or let run: start it", "server %s is not started here and cannot be started again", v.Name)
		}
		return
	}
	hint := strictyaml.Suggest(t.S(), names)
	if len(names) == 0 {
		hint = "write servers: [{name: " + t.S() + ", …}]"
	}
	r.problem(t, hint, "unknown server %s", t.S())
}

func (r *reader) thresholds(raw *rawFile) {
	for _, t := range raw.Thresholds {
		if !t.OK {
			continue
		}
		th, err := threshold.Parse(t.S())
		if err != nil {
			r.failed(t, err)
			continue
		}
		r.out.Thresholds = append(r.out.Thresholds, th)
	}
}

func span(t text, otherwise time.Duration) time.Duration {
	if t.OK {
		return t.Duration
	}
	return otherwise
}

func fields(of map[string]text) []load.Field {
	var out []load.Field
	for _, name := range sortedKeys(of) {
		out = append(out, load.Field{Name: name, Value: of[name].S()})
	}
	return out
}

// check is nil if nothing is asked for.
func check(raw *rawCheck) *requests.Check {
	if raw == nil {
		return nil
	}
	return &requests.Check{
		Status: strs(raw.Status), Header: texts(raw.Header), Contains: strs(raw.Contains), Matches: strs(raw.Matches),
		JSON: texts(raw.JSON), Size: raw.Size.S(),
	}
}
