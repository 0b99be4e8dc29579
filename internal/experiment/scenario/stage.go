package scenario

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"tailscope/api"
	"tailscope/internal/experiment/bench/requests"
	"tailscope/internal/strictyaml"
)

// Options configures a stage.
type Options struct {
	// RunDir is the directory for logs of servers and commands, created if it is
	// missing. Default a new temporary directory, which is kept if anything went
	// wrong.
	RunDir string
	// Note is called with a line for each action. Default none.
	Note func(line string)
	// Loading is called with the progress of loading data. Default none.
	Loading func(api.BenchLoad)
	Version string           // of tailscope
	Command string           // that makes such a run again
	Now     func() time.Time // time.Now if nil
}

// Stage is a scenario that is set up: its servers run, its data is loaded.
type Stage struct {
	o         Options
	s         *Scenario // as it stands, with its variables
	dir       string
	temporary bool
	servers   []*server
	versions  map[string]string

	mu     sync.Mutex
	events []api.BenchEvent
	loads  []api.BenchLoad
	failed bool
	closed bool
}

// Open sets the stage up. If it fails, or ctx ends, it takes everything down again
// before it returns.
func Open(ctx context.Context, s *Scenario, o Options) (*Stage, error) {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Note == nil {
		o.Note = func(string) {}
	}
	st := &Stage{o: o, s: s, dir: o.RunDir}
	var err error
	if st.dir == "" {
		st.temporary = true
		st.dir, err = os.MkdirTemp("", "tailscope-"+fileName(s.Name)+"-")
	} else if err = os.MkdirAll(st.dir, 0o755); err == nil {
		st.dir, err = filepath.Abs(st.dir)
	}
	if err != nil {
		return nil, fmt.Errorf("directory for logs: %w", err)
	}
	if err := st.open(ctx); err != nil {
		st.failed = true
		return nil, errors.Join(err, st.Close(ctx))
	}
	return st, nil
}

// Dir returns the directory of the logs.
func (st *Stage) Dir() string { return st.dir }

func (st *Stage) open(ctx context.Context) error {
	s := st.s
	for i := range s.Setup {
		if err := st.command(ctx, s, "set-up", &s.Setup[i]); err != nil {
			return err
		}
	}
	for i := range s.Servers {
		v := &server{Server: s.Servers[i], text: textOf(s.Servers[i], s.Env)}
		st.servers = append(st.servers, v)
		if err := st.launch(ctx, s, v); err != nil {
			return err
		}
	}
	set, err := s.compile()
	if err != nil {
		return err
	}
	if err := set.Close(); err != nil {
		return err
	}
	if err := st.reach(ctx, s); err != nil {
		return err
	}
	st.versions = map[string]string{}
	for _, name := range sortedKeys(s.Versions) {
		c := Command{Name: name, Run: Program{Args: []string{s.Versions[name]}, Shell: true}, Dir: s.Dir, Timeout: 30 * time.Second}
		out, err := run(ctx, &c, st.env(s, nil), st.log("version-"+name))
		if err != nil {
			return fmt.Errorf("version of %w", err)
		}
		st.versions[name] = firstLine(out)
	}
	for i := range s.Loads {
		if err := st.fill(ctx, s, i); err != nil {
			return err
		}
	}
	return nil
}

// compile compiles the requests. It returns an error if they are wrong or their data
// runs out before the plan ends.
func (s *Scenario) compile() (*requests.Set, error) {
	set, err := requests.Compile(s.Requests)
	if err != nil {
		return nil, err
	}
	wrong := []error{s.enough(set)}
	for _, t := range s.Thresholds {
		wrong = append(wrong, s.judges(t, set))
	}
	if err := errors.Join(wrong...); err != nil {
		return nil, errors.Join(err, set.Close())
	}
	return set, nil
}

// reach connects to the target once.
func (st *Stage) reach(ctx context.Context, s *Scenario) error {
	port := s.Target.Port()
	if port == "" {
		port = map[string]string{"https": "443"}[s.Target.Scheme]
	}
	if port == "" {
		port = "80"
	}
	d := net.Dialer{Timeout: 5 * time.Second}
	conn, err := d.DialContext(ctx, "tcp", net.JoinHostPort(s.Target.Hostname(), port))
	if err != nil {
		hint := "start it"
		if s.File != "" {
			hint += ", or let servers: do so"
		}
		return fmt.Errorf("the target %s is not reached: %w (hint: %s)", s.Target, err, hint)
	}
	return conn.Close()
}

// launch starts a server and waits for it.
func (st *Stage) launch(ctx context.Context, s *Scenario, v *server) error {
	begin := st.o.Now()
	if v.Command == nil {
		st.o.Note("looking for " + v.Name)
	} else {
		st.o.Note("starting " + v.Name)
		if probe, err := v.probe(); err == nil && probe != nil && v.Ready.Log == "" {
			look, cancel := context.WithTimeout(ctx, time.Second)
			err := probe(look)
			cancel()
			if err == nil {
				return fmt.Errorf("server %s: something answers at %s%s already, and would be measured in its place (hint: end it first, or write port: instead of run:)", v.Name, v.Ready.HTTP, v.Ready.TCP)
			}
		}
	}
	err := v.launch(ctx, st.env(s, v.env()), st.log(v.Name))
	text := ""
	if err == nil {
		text = fmt.Sprintf("ready after %s", st.o.Now().Sub(begin).Round(time.Millisecond))
		st.o.Note(v.Name + " is " + text)
	}
	st.happened("server", v.Name, text, begin, err)
	return err
}

// command runs a command of set-up or tear-down.
func (st *Stage) command(ctx context.Context, s *Scenario, what string, c *Command) error {
	begin := st.o.Now()
	st.o.Note(what + ": " + c.Name)
	_, err := run(ctx, c, st.env(s, c.Env), st.log(what+"-"+c.Name))
	if err != nil {
		err = fmt.Errorf("%s: %w", what, err)
	}
	st.happened("command", c.Name, what, begin, err)
	return err
}

// fill loads the i-th data, in place of what it loaded before.
func (st *Stage) fill(ctx context.Context, s *Scenario, i int) error {
	begin := st.o.Now()
	st.o.Note("loading " + s.Loads[i].Name)
	out, err := st.loadData(ctx, s, &s.Loads[i], st.o.Loading)
	text := fmt.Sprintf("%d documents in %.3g s, %.0f/s", out.Documents, float64(out.Seconds), float64(out.Rate))
	st.happened("load", out.Name, text, begin, err)
	if err != nil {
		return err
	}
	st.o.Note(out.Name + ": " + text)
	st.mu.Lock()
	defer st.mu.Unlock()
	at := slices.IndexFunc(st.loads, func(l api.BenchLoad) bool { return l.Name == out.Name })
	if at < 0 {
		st.loads = append(st.loads, out)
	} else {
		st.loads[at] = out
	}
	return nil
}

// happened adds an event to the time line.
func (st *Stage) happened(kind, name, text string, begin time.Time, err error) {
	e := api.BenchEvent{Time: unix(begin), End: unix(st.o.Now()), Kind: kind, Name: name, Text: text}
	if err != nil {
		e.Failed = true
		e.Text, _, _ = strings.Cut(err.Error(), "\n")
	}
	st.mu.Lock()
	defer st.mu.Unlock()
	st.events = append(st.events, e)
}

func unix(t time.Time) api.Float {
	if t.IsZero() {
		return api.Float(math.NaN())
	}
	return api.Float(float64(t.UnixNano()) / 1e9)
}

// env returns a command's environment: that of this process, the scenario's, its
// variables, and the command's own.
func (st *Stage) env(s *Scenario, own map[string]string) []string {
	all := map[string]string{"TAILSCOPE_RUN": st.dir}
	maps.Copy(all, s.Env)
	maps.Copy(all, s.Vars)
	maps.Copy(all, own)
	out := os.Environ()
	for _, name := range sortedKeys(all) {
		out = append(out, name+"="+all[name])
	}
	return out
}

func (v *server) env() map[string]string {
	if v.Command == nil {
		return nil
	}
	return v.Command.Env
}

func (st *Stage) log(name string) string { return filepath.Join(st.dir, fileName(name)+".log") }

var notInNames = regexp.MustCompile(`[^A-Za-z0-9._-]+`)

// fileName makes a file name of a text.
func fileName(s string) string {
	s = strings.Trim(notInNames.ReplaceAllString(s, "-"), "-.")
	return s[:min(len(s), 60)]
}

// textOf returns a definition as text, to see whether variables changed it.
func textOf(of ...any) string {
	b, err := json.Marshal(of)
	if err != nil {
		panic(err) // plain values
	}
	return string(b)
}

// Apply changes the stage to other variables. It repeats the parts that use them:
// set-up commands first, then servers, then data. Everything else stays as it is. The
// names must be those of the scenario.
func (st *Stage) Apply(ctx context.Context, vars map[string]string) error {
	if len(vars) == 0 {
		return nil
	}
	next, problems := st.s.With(vars)
	if err := strictyaml.Error(problems); err != nil {
		return err
	}
	was := st.s
	for i := range next.Setup {
		if textOf(next.Setup[i]) != textOf(was.Setup[i]) {
			if err := st.command(ctx, next, "set-up", &next.Setup[i]); err != nil {
				return err
			}
		}
	}
	for i, v := range st.servers {
		text := textOf(next.Servers[i], next.Env)
		if text == v.text && v.running() != nil || v.Command == nil && text == v.text {
			continue
		}
		if err := v.end(ctx, signals[v.Stop]); err != nil {
			return err
		}
		v.Server, v.text = next.Servers[i], text
		if err := st.launch(ctx, next, v); err != nil {
			return err
		}
	}
	for i := range next.Loads {
		if textOf(next.Loads[i]) != textOf(was.Loads[i]) {
			if err := st.fill(ctx, next, i); err != nil {
				return err
			}
		}
	}
	st.s = next
	return nil
}

// Close ends what was started, undoes what was done, and runs the tear-down, even if
// ctx has ended already. If ctx ends meanwhile, servers and commands are killed
// without grace. It may be called again.
func (st *Stage) Close(ctx context.Context) error {
	st.mu.Lock()
	closed := st.closed
	st.closed = true
	st.mu.Unlock()
	if closed {
		return nil
	}
	if ctx.Err() != nil {
		ctx = context.WithoutCancel(ctx)
	}
	var wrong []error
	for _, v := range slices.Backward(st.servers) {
		begin := st.o.Now()
		if v.running() == nil && v.Command != nil {
			continue
		}
		st.o.Note("ending " + v.Name)
		err := v.end(ctx, signals[v.Stop])
		if v.Command != nil {
			st.happened("server", v.Name, "ended", begin, err)
		}
		if err != nil {
			// The server has ended nevertheless, and what was measured counts.
			st.o.Note(err.Error())
			if left := v.running(); left != nil || strings.Contains(err.Error(), "still there") {
				wrong = append(wrong, err)
			}
		}
	}
	for i := range st.s.Teardown {
		wrong = append(wrong, st.command(ctx, st.s, "tear-down", &st.s.Teardown[i]))
	}
	err := errors.Join(wrong...)
	if st.temporary && !st.failed && err == nil {
		err = os.RemoveAll(st.dir)
	}
	return err
}
