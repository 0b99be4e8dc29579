package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"tailscope/api"
	"tailscope/client"
	"tailscope/internal/experiment"
	"tailscope/internal/judge"
	"tailscope/internal/report"
)

// readExperiment reads a result that run wrote, or asks a server for that of an id.
func readExperiment(ctx context.Context, c *client.Client, from, dir string) (*api.Experiment, error) {
	path := from
	if dir != "" && !filepath.IsAbs(path) {
		path = filepath.Join(dir, path)
	}
	content, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) && filepath.Base(from) == from && filepath.Ext(from) == "" {
		x, err := c.Session(ctx, from)
		if err != nil {
			return nil, withHint(fmt.Errorf("%s is not a file, and no experiment at %s: %w", from, c.Address, err), "write the path of a file that --output or --save-baseline wrote, or an id as tailscope session list shows it")
		}
		if x.Experiment == nil {
			return nil, fmt.Errorf("%s is not an experiment of settings but %s", from, x.Kind)
		}
		return x.Experiment, nil
	}
	if err != nil {
		return nil, withHint(err, "tailscope experiment run FILE --save-baseline %s writes one", from)
	}
	var t api.Experiment
	if err := json.Unmarshal(content, &t); err != nil || t.Format == 0 || len(t.Settings) == 0 {
		return nil, withHint(fmt.Errorf("%s is not a result of an experiment", path), "tailscope experiment run FILE --save-baseline %s writes one", from)
	}
	return &t, nil
}

// loadGate returns a function that judges a result by the gate of the file, or nil if the
// file has none. It reads the baseline, so that a wrong name fails before the rounds.
func (f *experimentFlags) loadGate(ctx context.Context, x *experiment.Experiment) (func(*api.Experiment) *api.ExperimentGate, error) {
	g := x.Gate
	if g == nil {
		return nil, nil
	}
	var base *api.Experiment
	if g.Baseline != "" {
		dir := x.Dir
		if f.baseline != "" {
			dir = "" // named on the command line
		}
		address := f.to
		if address == "" {
			address = os.Getenv("TAILSCOPE_SERVER")
		}
		var err error
		base, err = readExperiment(ctx, &client.Client{Address: address}, g.Baseline, dir)
		switch {
		case err != nil && f.saveBaseline != "" && errors.Is(err, fs.ErrNotExist):
			return nil, nil // it is about to be made
		case err != nil:
			return nil, err
		}
		switch err := experiment.Comparable(x.ResultSettings(), base.Settings, g.Absolute()); {
		case err != nil && f.saveBaseline != "":
			return nil, nil // another is about to be made
		case err != nil:
			return nil, usage{withHint(fmt.Errorf("%s: %w", g.Baseline, err), "tailscope experiment run %s --save-baseline FILE makes one of this experiment", x.File)}
		}
	}
	return func(t *api.Experiment) *api.ExperimentGate { return g.Judge(t, base) }, nil
}

func newExperimentGate(io streams) *cobra.Command {
	q := newQuestion(io, "text", "json")
	var g experiment.Gate
	var compare string
	cmd := &cobra.Command{
		Use:   "gate RESULT [BASELINE]",
		Short: "say whether something became worse: exit code 1 if it did",
		Long: `Gate holds a result against a baseline, each a file that run wrote or the id of
an experiment at the server: the ratio of every setting to its control against
the same ratio in the baseline. Without a baseline the settings are held against
the control of the result itself. What fails it is surely worse by more than is
allowed.`,
		Example: `  tailscope experiment gate result.json base.json
  tailscope experiment gate result.json --allowed 3%`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 1 || len(args) == 2 {
				return nil
			}
			return usage{withHint(fmt.Errorf("%s needs a result, and a baseline unless its own control is meant", cmd.CommandPath()), "write %s", cmd.UseLine())}
		},
	}
	fs := cmd.Flags()
	q.serverFlag.register(fs)
	q.registerFormat(fs)
	bindField(fs, &g.Allowed, "allowed", "share by which a measure may be worse; default 5%", `example:"0.05"`)
	bindField(fs, &g.Allow, "allow", "the same of single measures, such as p99=worse:10%,errors=0.2%", "")
	fs.StringVar(&compare, "compare", "ratio", "ratio, of settings to their control; or absolute, figures themselves")
	bindField(fs, &g.Measures, "measures", "only these may fail it, such as p99,errors; default p50, p95, p99, mean and errors", "")
	cmd.RunE = q.run(func(ctx context.Context, args []string) error {
		g.Allowed = cmp.Or(g.Allowed, experiment.Allowed)
		if _, err := judge.ParseGates(strings.Join(g.Allow, ",")); err != nil {
			return usage{fmt.Errorf("--allow %w", err)}
		}
		switch compare {
		case "ratio":
		case "absolute":
			g.Compare = compare
		default:
			return usage{fmt.Errorf("--compare %s: write ratio or absolute", compare)}
		}
		t, err := readExperiment(ctx, q.client(), args[0], "")
		if err != nil {
			return err
		}
		var base *api.Experiment
		if len(args) == 2 {
			g.Baseline = args[1]
			if base, err = readExperiment(ctx, q.client(), args[1], ""); err != nil {
				return err
			}
		}
		out := g.Judge(t, base)
		err = q.answer(report.Gate(out))
		if err == nil && !out.Passed {
			err = ended{errSilent, exitFailed}
		}
		return err
	})
	return cmd
}

func newExperimentAgain(io streams) *cobra.Command {
	f := &experimentFlags{streams: io, now: time.Now}
	var dir string
	cmd := &cobra.Command{
		Use:   "again ID",
		Short: "run an experiment of the log book again, with the files it had",
		Long: `Again lays out the experiment's file and the files it names as they were, in a
directory of its own or in --dir, and runs it. Files that were too large to be
kept have to be in --dir as they were. The result goes to the same log book and
says what it repeats.`,
		Args: exactArgs(1, sessionID),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := f.check(); err != nil {
				return err
			}
			if f.to == "" {
				f.to = defaultServer()
			}
			e, err := (&client.Client{Address: f.to}).Session(cmd.Context(), args[0])
			if err != nil {
				return withHint(err, "tailscope session list shows what there is; --server names another server")
			}
			if e.Experiment == nil {
				return usage{withHint(fmt.Errorf("%s is %s, not an experiment of settings", args[0], e.Kind), "run it again by its own command")}
			}
			if dir == "" {
				cache, err := os.UserCacheDir()
				if err != nil {
					cache = os.TempDir()
				}
				dir = filepath.Join(cache, "tailscope", "again", filepath.Base(args[0]))
			}
			path, err := experiment.LayOut(e.Experiment, dir)
			if err != nil {
				return withHint(err, "name the directory in which it ran with --dir, or an empty one")
			}
			f.again = args[0]
			fmt.Fprintf(io.err, "laid out in %s\n", report.Printable(dir))
			x, err := loadExperiment(io, path)
			if err != nil {
				return err
			}
			return f.run(cmd.Context(), x)
		},
	}
	f.register(cmd)
	cmd.Flags().StringVar(&dir, "dir", "", "`directory` to lay the files out in; default one in the user's cache")
	return cmd
}
