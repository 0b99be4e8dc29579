package cli

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"tailscope/api"
	"tailscope/client"
	"tailscope/internal/experiment"
	"tailscope/internal/experiment/simulate"
	"tailscope/internal/experiment/simulate/answer"
	"tailscope/internal/experiment/simulate/measured"
	"tailscope/internal/experiment/simulate/spec"
	"tailscope/internal/figure"
	"tailscope/internal/liveview"
	"tailscope/internal/query"
	"tailscope/internal/report"
	"tailscope/internal/strictyaml"
)

// simulateFlags holds the flags of a simulation; simple holds those that describe it.
type simulateFlags struct {
	streams
	now                    func() time.Time
	serverFlag             // whose store leaves are in, and whose log book the simulation
	keep                   bool
	to                     string
	format, output, save   string
	queries, asks, moments string
	seed                   uint64
	workers                int
	quiet                  bool
	command                string // that makes it again
	simple                 simpleFlags
	said                   *saidFile // nil if a file says it
	set                    *settings
}

const simulateFile = "the file of a simulation, such as search.yaml, or flags: --leaves, --nodes, --shards and --rate"

func newSimulate(io streams) *cobra.Command {
	f := &simulateFlags{streams: io, now: time.Now, set: &settings{}}
	f.simple.set = f.set
	cmd := &cobra.Command{
		Use:   "simulate [FILE]",
		Short: "what layouts of a scatter-gather system would do, from what leaves were measured to take",
		Long: `A query asks a leaf of every shard and waits for the slowest. Out of what leaves
took, slot by slot, simulate plays queries through layouts: nodes, shards,
threads, cores, replicas, hedged and cached requests, pauses, a slow node, an
aggregator. It answers p50 to p99.9, utilisation and cost of each.

Leaves are the requests of a service in a server's store (--server), a result of
tailscope bench, leaves of tailscope simulate leaves, or given as a
distribution. It ends with 0; 1 if it failed; 2 if the file is wrong.`,
		Example: `  tailscope simulate search.yaml --server http://127.0.0.1:7099
  tailscope simulate --leaves 'solr/GET /select' --nodes 1..32 --shards 16 --rate 50
  tailscope simulate --leaves 5ms --nodes 4,6,8 --shards 8 --threads 1 --rate 20 --format html --output stairs.html`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 1 {
				return usage{withHint(fmt.Errorf("simulate takes one file, got %d", len(args)), "write the layouts to compare into one")}
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := f.check(args); err != nil {
				return err
			}
			f.command = f.formatCommand(args)
			name, content, err := f.readSimulation(args)
			if err != nil {
				return err
			}
			return f.run(cmd.Context(), name, content)
		},
	}
	fs := pflag.NewFlagSet("", pflag.ContinueOnError)
	f.simple.register(fs)
	acceptFormer(cmd, "from")
	f.serverFlag.register(fs)
	fs.Lookup("server").Usage = "`url` of the server whose store leaves are in; TAILSCOPE_SERVER in the environment"
	fs.BoolVar(&f.keep, "keep", false, "keep the simulation in that server's log book, to be looked at on its page")
	fs.StringVar(&f.to, "to", "", "`url` of the server of the log book")
	fs.Lookup("to").Hidden = true // what --keep was, with a server of its own
	fs.StringVar(&f.format, "format", "text", "text, markdown, html or json")
	fs.StringVarP(&f.output, "output", "o", "", "`file` to write to instead of the terminal")
	fs.StringVar(&f.save, "save", "", "`file` to write the simulation to that the flags say, and to play it")
	fs.StringVar(&f.queries, "queries", "", "how `many` are simulated for each layout, such as 500k; as the file says, else 100k")
	fs.StringVar(&f.asks, "asks", "", "the `quantile` of queries that the answer is about; as the file says, else p99")
	fs.StringVar(&f.moments, "moments", "", "what changes from slot to slot as measured: all, leaves or none; as the file says, else all")
	fs.Uint64Var(&f.seed, "seed", 0, "of all that is drawn; as the file says, else 1")
	fs.IntVar(&f.workers, "workers", 0, "cores to use; default those there are")
	fs.BoolVarP(&f.quiet, "quiet", "q", false, "show nothing while it runs")
	f.set.register(cmd, fs, "leaves.shards=8", "leaves", "nodes", "shards", "threads", "cores", "replicas", "rate", "split", "speed", "since", "server", "keep", "to", "format",
		"output", "save", "queries", "asks", "seed", "quiet")
	cmd.AddCommand(newSimulateValidate(io), newSimulateSchema(io), newSimulateLeaves(io))
	return cmd
}

func newSimulateValidate(io streams) *cobra.Command {
	return &cobra.Command{
		Use:   "validate FILE",
		Short: "read the file of a simulation, and say what it will do; nothing is read or simulated",
		Args:  exactArgs(1, "the file of a simulation, such as search.yaml"),
		RunE: func(cmd *cobra.Command, args []string) error {
			s, _, err := (&simulateFlags{streams: io}).load(args[0], nil)
			if err != nil {
				return err
			}
			for _, line := range describeSimulation(s) {
				fmt.Fprintln(io.out, report.Printable(line))
			}
			return nil
		},
	}
}

func newSimulateSchema(io streams) *cobra.Command {
	return &cobra.Command{
		Use:   "schema",
		Short: "print the JSON Schema of simulations, for editors",
		Args:  exactArgs(0, ""),
		RunE: func(*cobra.Command, []string) error {
			_, err := io.out.Write(spec.Schema())
			return err
		},
	}
}

// newSimulateLeaves returns the command that writes the durations of leaves into a file,
// so that they can be simulated without the server.
func newSimulateLeaves(io streams) *cobra.Command {
	q := newQuestion(io, "json")
	wanted := api.LeavesRequest{Classes: 20}
	var output string
	cmd := &cobra.Command{
		Use:   "leaves SERVICE[/OPERATION]",
		Short: "write what a service's requests took, slot by slot, into a file that is simulated without the server",
		Example: `  tailscope simulate leaves solr --since 2h --output leaves.json
  tailscope simulate leaves 'solr/GET /select' --output select.json`,
		Args: exactArgs(1, "the service whose requests leaves are, such as solr, or 'solr/GET /select'"),
	}
	fs := cmd.Flags()
	q.serverFlag.register(fs)
	q.registerRange(fs, "1h")
	bind(fs, &q.Selection, "match")
	bind(fs, &wanted, "step", "classes")
	fs.StringVarP(&output, "output", "o", "", "`file` to write to instead of the terminal")
	cmd.RunE = q.run(func(ctx context.Context, args []string) (err error) {
		of := spec.From{Match: q.Match}
		of.Service, of.Operation, _ = strings.Cut(args[0], "/")
		wanted.Match = of.Selector()
		if wanted.Start, wanted.End, err = q.timeRange(); err != nil {
			return err
		}
		leaves, err := q.client().Leaves(ctx, wanted)
		if err != nil {
			return err
		}
		text, err := json.Marshal(leaves)
		if err != nil {
			return err
		}
		return bytesToFile(output, io.out, append(text, '\n'))
	})
	return cmd
}

func (f *simulateFlags) check(args []string) error {
	switch f.format {
	case "text", "markdown", "md", "html", "json":
	default:
		return usage{fmt.Errorf("--format %s: write text, markdown, html or json", f.format)}
	}
	given := f.simple.given()
	switch {
	case len(args) == 1 && len(given) > 0:
		return usage{withHint(fmt.Errorf("%s is of a simulation without a file", f.set.called(given[0])), "write it into %s, or leave the file out", args[0])}
	case len(args) == 1 && f.save != "":
		return usage{errors.New("--save writes what flags say into a file; leave it out")}
	case len(args) == 0 && len(given) == 0:
		return usage{withHint(errors.New("there is nothing to simulate"), "name %s", simulateFile)}
	}
	return nil
}

// formatCommand returns the command line without the server and the files of reports.
func (f *simulateFlags) formatCommand(args []string) string {
	line := "tailscope simulate"
	for _, file := range args {
		line += " " + shellWord(file)
	}
	for _, name := range append(f.simple.given(), "queries", "asks", "moments", "seed") {
		if !f.set.given(name) {
			continue
		}
		if flag := f.set.own.Lookup(name); flag != nil {
			line += " --set " + shellWord(name+"="+flag.Value.String())
		} else {
			line += " --" + name + " " + shellWord(f.set.flags.Lookup(name).Value.String())
		}
	}
	return line
}

// readSimulation returns the simulation, from its file or from flags.
func (f *simulateFlags) readSimulation(args []string) (name string, content []byte, err error) {
	if len(args) == 1 {
		return args[0], nil, nil
	}
	if f.said, err = f.simple.file(); err != nil {
		return "", nil, err
	}
	name, content = "flags", []byte(f.said.text.String())
	if f.save != "" {
		if err := os.WriteFile(f.save, content, 0o644); err != nil {
			return "", nil, fmt.Errorf("write the simulation: %w", err)
		}
		name = f.save
	}
	return name, content, nil
}

// load reads a file, and reports everything that is wrong with it. It reads the content
// from path if content is nil.
func (f *simulateFlags) load(path string, content []byte) (*spec.Spec, []byte, error) {
	if content == nil {
		var err error
		if content, err = os.ReadFile(path); err != nil {
			return nil, nil, usage{withHint(err, "tailscope simulate schema says what such a file has")}
		}
	}
	s, problems := spec.Read(path, content)
	if len(problems) == 0 {
		return s, content, nil
	}
	return nil, nil, f.wrong(path, problems)
}

// wrong reports the problems of the file, or of the settings in its place.
func (f *simulateFlags) wrong(path string, problems []strictyaml.Problem) error {
	if f.said != nil {
		var errs []error
		for _, p := range problems {
			errs = append(errs, errors.New(f.said.called(p, f.set.called)))
		}
		return usage{withHint(errors.Join(errs...), "nothing was simulated; tailscope simulate --help lists what can be set")}
	}
	for _, p := range problems {
		fmt.Fprintln(f.err, report.Printable(p.Error()))
	}
	return usage{withHint(fmt.Errorf("%s: %s", path, report.Plural(len(problems), "problem")), "nothing was simulated; tailscope simulate schema describes the file for editors")}
}

func (f *simulateFlags) run(ctx context.Context, name string, content []byte) error {
	s, content, err := f.load(name, content)
	if err != nil {
		return err
	}
	if s, content, err = f.override(s, name, content); err != nil {
		return err
	}
	m, problems, err := measured.Load(ctx, s, f.sources(filepath.Dir(name)))
	if err != nil {
		return f.unreachable(err)
	}
	if len(problems) > 0 {
		return f.wrong(name, problems)
	}
	workers := f.workers
	if workers <= 0 {
		workers = runtime.GOMAXPROCS(0)
	}
	view := liveview.NewExperiment(f.err, f.quiet, f.now)
	o := answer.Options{Now: f.now, Workers: workers, Command: f.command}
	if s.Stores() {
		o.Command += " --server " + shellWord(f.url)
	}
	if view.Draws() {
		o.Progress = func(done, of int, name string) {
			view.Show(experiment.Moment{Text: fmt.Sprintf("layout %d of %d: %s", done+1, of, name)})
		}
	}
	out, err := answer.Play(ctx, s, m, o)
	view.Close()
	switch {
	case errors.Is(err, simulate.ErrInvalid):
		return usage{withHint(err, "change the layout, or its leaves")}
	case err != nil:
		return err
	}
	out.File = string(content)
	if err := toFile(f.output, f.out, report.Simulation(out, f.now()), f.format); err != nil {
		return err
	}
	if f.to != "" || f.keep {
		return f.report(ctx, cmp.Or(f.to, f.url), out)
	}
	return nil
}

// override replaces values of the file by those of flags.
func (f *simulateFlags) override(s *spec.Spec, name string, content []byte) (*spec.Spec, []byte, error) {
	// A file of these alone says what is wrong with them.
	more := &saidFile{}
	more.add("", "{simulate: x, leaves: [{from: {takes: 1ms}}], layout: {nodes: 1, shards: 1, rate: 1}")
	for _, o := range [][2]string{{"queries", f.queries}, {"asks", f.asks}, {"moments", f.moments}} {
		if o[1] != "" {
			more.add(o[0], ", "+o[0]+": "+o[1])
		}
	}
	if f.seed != 0 {
		more.add("seed", ", seed: "+strconv.FormatUint(f.seed, 10))
	}
	if len(more.names) == 1 {
		return s, content, nil
	}
	of, problems := spec.Read("flags", []byte(more.text.String()+"}"))
	if len(problems) > 0 {
		return nil, nil, usage{errors.New(more.called(problems[0], f.set.called))}
	}
	if f.queries != "" {
		s.Queries = of.Queries
	}
	if f.asks != "" {
		s.Asks = of.Asks
	}
	if f.moments != "" {
		s.Moments = of.Moments
	}
	if f.seed != 0 {
		s.Seed = of.Seed
	}
	return s, content, nil
}

// sources returns the server that --server names, and the files beside the simulation's.
func (f *simulateFlags) sources(dir string) measured.Sources {
	out := measured.Sources{
		File: func(name string) ([]byte, error) {
			if !filepath.IsAbs(name) {
				name = filepath.Join(dir, name)
			}
			return os.ReadFile(name)
		},
	}
	c, now := f.client(), f.now()
	out.Store = func(ctx context.Context, from spec.From) (*api.Leaves, error) {
		start, end := from.Range(now)
		l, err := c.Leaves(ctx, api.LeavesRequest{Match: from.Selector(), Start: api.Time(start), End: api.Time(end), Step: from.Every})
		var said *client.Error
		if errors.As(err, &said) && said.Status < 500 && said.RetryAfter == 0 {
			return nil, &query.Error{Code: said.Code, Message: said.Message}
		}
		return l, err
	}
	return out
}

func (f *simulateFlags) unreachable(err error) error {
	if errors.Is(err, client.ErrUnreachable) {
		return withHint(err, "name the server that has the leaves with --server, or simulate a file: tailscope simulate leaves writes one")
	}
	return (&question{serverFlag: f.serverFlag}).failed(err)
}

// report adds the simulation to the log book of a server.
func (f *simulateFlags) report(ctx context.Context, server string, s *api.Simulation) error {
	id := "simulation-" + f.now().UTC().Format("20060102-150405") + "-" + strings.ToLower(rand.Text()[:6])
	service := s.Service
	if service == "" {
		service = s.Name
	}
	_, err := (&client.Client{Address: server}).ReportSession(ctx, id, api.SessionReport{
		Kind: "simulation", Name: s.Name, Service: service, Start: s.Start, Ended: true, Simulation: s,
	})
	if err != nil {
		q := question{serverFlag: serverFlag{server}}
		return q.failed(err)
	}
	fmt.Fprintln(f.err, "kept as "+pageOf(server)+"/sessions/"+id)
	return nil
}

// describeSimulation returns lines that describe what a file will do.
func describeSimulation(s *spec.Spec) []string {
	out := []string{s.Name}
	for _, l := range s.Leaves {
		for _, from := range l.From {
			what := "leaves "
			if l.Name != "" {
				what += "of " + l.Name + " "
			}
			switch {
			case from.Service != "":
				what += "out of the store: " + from.Selector()
			case from.File != "":
				what += "out of the file " + from.File
			default:
				what += "given: " + from.Said
			}
			if from.Shards > 0 {
				what += fmt.Sprintf(", measured at %s", report.Plural(int(from.Shards), "shard"))
			}
			out = append(out, what)
		}
	}
	out = append(out, fmt.Sprintf("%s of %s queries each, about %s", report.Plural(len(s.Layouts), "layout"), figure.Thousands(s.Queries), figure.Percentile(s.Asks)))
	for i := range s.Layouts {
		l := &s.Layouts[i]
		rate := report.PerTime(api.Float(l.Rate))
		if l.Arrivals == simulate.Closed {
			rate = report.Plural(l.Users, "user")
		}
		out = append(out, fmt.Sprintf("  %s: %s, %s, %s", l.Name, report.Plural(l.Nodes, "node"), report.Plural(l.InShards(), "shard"), rate))
	}
	return out
}
