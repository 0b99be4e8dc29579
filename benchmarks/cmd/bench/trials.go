package main

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"tailscope/api"
	"tailscope/benchmarks/report"
	"tailscope/test/program"
)

// The examples of experiments, run as anybody would: by the program, from their
// files.

func solrBench(ctx context.Context, o *options, r *report.Report) error {
	return o.experiments(ctx, r, 20*time.Minute, "solr/shards.yaml")
}

func nginxWorkers(ctx context.Context, o *options, r *report.Report) error {
	return o.experiments(ctx, r, 8*time.Minute, "nginx-workers/workers.yaml")
}

func observer(ctx context.Context, o *options, r *report.Report) error {
	return o.experiments(ctx, r, 12*time.Minute, "observer/instrumentation.yaml", "observer/mirror.yaml", "observer/bench.yaml")
}

// experiments runs files of docs/examples one after another.
func (o *options) experiments(ctx context.Context, r *report.Report, within time.Duration, files ...string) error {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	root, err := program.Root()
	if err != nil {
		return err
	}
	bin, err := program.Build(ctx, "tailscope")
	if err != nil {
		return err
	}
	for _, f := range files {
		file := filepath.Join(root, "docs", "examples", f)
		if o.quick {
			if file, err = shortened(file, o.tmp); err != nil {
				return err
			}
		}
		t, err := runTrial(ctx, o, bin, file)
		if err != nil {
			return fmt.Errorf("%s: %w", f, err)
		}
		trialSections(r, t, "docs/examples/"+f)
	}
	return nil
}

// shortened copies an example and asks it for three rounds.
func shortened(file, tmp string) (string, error) {
	dir := filepath.Join(tmp, filepath.Base(filepath.Dir(file)))
	if err := os.RemoveAll(dir); err != nil {
		return "", err
	}
	if err := os.CopyFS(dir, os.DirFS(filepath.Dir(file))); err != nil {
		return "", err
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return "", err
	}
	lines := strings.Split(string(text), "\n")
	for i, l := range lines {
		if strings.HasPrefix(l, "rounds:") {
			lines[i] = "rounds: 3" // an interval needs so many
		}
	}
	out := filepath.Join(dir, filepath.Base(file))
	return out, os.WriteFile(out, []byte(strings.Join(lines, "\n")), 0o644)
}

// runTrial runs one file. When ctx ends the program is asked to end, so that it
// restores its control.
func runTrial(ctx context.Context, o *options, bin, file string) (*api.Experiment, error) {
	result := filepath.Join(o.tmp, "result.json")
	cmd := exec.CommandContext(ctx, bin, "experiment", "run", file, "--output", result)
	cmd.Env = append(os.Environ(), "TAILSCOPE="+bin)
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = 2 * time.Minute
	cmd.Stdout, cmd.Stderr = o.log, o.log
	if err := cmd.Run(); err != nil {
		return nil, err
	}
	text, err := os.ReadFile(result)
	if err != nil {
		return nil, err
	}
	var t api.Experiment
	if err := json.Unmarshal(text, &t); err != nil {
		return nil, fmt.Errorf("its report: %w", err)
	}
	if t.Failed != "" {
		return nil, fmt.Errorf("it failed: %s", t.Failed)
	}
	if !t.Restored && t.RestoreError != "" {
		return nil, fmt.Errorf("its control was not restored: %s", t.RestoreError)
	}
	return &t, nil
}

// trialSections writes what came of an experiment: of each question the best
// settings, then each setting against the control, then every figure.
func trialSections(r *report.Report, t *api.Experiment, file string) {
	text := fmt.Sprintf("`%s`: %s\n\n%s", file, t.Hypothesis, t.Headline)
	if len(t.Curves) > 0 {
		s := r.Section(t.Name+": which is best", text+fmt.Sprintf("\n\n%s, of each %s in random order. "+
			"Those that cannot be told from the best at %v %% are given with it; each figure is with its interval.", roundsOf(t), t.Variable, 100*float64(t.Stopping.Level)))
		head := []string{"query", "measure", "best", "or"}
		for _, x := range t.Settings {
			head = append(head, x.Name)
		}
		s.Table = append(s.Table, head)
		for i := range t.Curves {
			s.Table = append(s.Table, curveRow(t, &t.Curves[i]))
		}
		text = ""
	}
	if text != "" {
		text += "\n\n" + roundsOf(t) + "."
	} else {
		text = "Each setting against the control, " + t.Settings[0].Name + "."
	}
	s := r.Section(t.Name+": effects", text)
	s.Table = append(s.Table, []string{"setting", "query", "measure", "control", "setting", "effect", "interval", "verdict"})
	for i := range t.Rows {
		row := &t.Rows[i]
		if row.Tenant != "" {
			continue
		}
		for j := range row.Measures {
			m := &row.Measures[j]
			s.Table = append(s.Table, []string{row.Setting, all(row.Query), m.Name, amount(m.Name, m.Control), amount(m.Name, m.Variant), effect(m.Name, m.Effect), effect(m.Name, m.Low) + " – " + effect(m.Name, m.High), string(m.Verdict)})
		}
	}
	for _, l := range t.Loads {
		s.Add("loaded "+l.Name, t.Service, "documents/s", 0, float64(l.Rate))
	}
	valid := 0
	for i := range t.Rounds {
		if t.Rounds[i].Valid {
			valid++
		}
	}
	s.Add("runs that count", "of "+fmt.Sprint(len(t.Rounds)), "", 0, float64(valid))
}

func roundsOf(t *api.Experiment) string { return fmt.Sprintf("%d rounds", t.Stopping.Done) }

func curveRow(t *api.Experiment, c *api.ExperimentCurve) []string {
	var or []string
	for _, name := range c.Candidates {
		if name != c.Best {
			or = append(or, name)
		}
	}
	row := []string{all(c.Query), c.Measure, "**" + c.Best + "**", strings.Join(or, ", ")}
	for _, x := range t.Settings {
		cell := "–"
		for _, p := range c.Points {
			if p.Setting == x.Name {
				cell = fmt.Sprintf("%s (%s – %s)", amount(c.Measure, p.Value), amount(c.Measure, p.Low), amount(c.Measure, p.High))
			}
		}
		row = append(row, cell)
	}
	return row
}

func all(query string) string {
	if query == "" {
		return "*all*"
	}
	return query
}

// amount writes a figure in a unit that fits it.
func amount(measure string, v api.Float) string {
	f := float64(v)
	switch {
	case math.IsNaN(f):
		return "–"
	case measure == "errors":
		return fmt.Sprintf("%.2f %%", 100*f)
	case measure == "rate":
		return fmt.Sprintf("%.4g/s", f)
	case strings.Contains(measure, "per_request") && f < 1e-3:
		return fmt.Sprintf("%.3g µs", 1e6*f)
	}
	return fmt.Sprintf("%.3g ms", 1e3*f)
}

// effect writes a ratio as the share that it changes, and a difference of errors
// in points.
func effect(measure string, v api.Float) string {
	f := float64(v)
	switch {
	case math.IsNaN(f) || math.IsInf(f, 0):
		return "open"
	case measure == "errors":
		return fmt.Sprintf("%+.2f points", math.Round(1e4*f)/100+0) // no negative zero
	}
	return fmt.Sprintf("%+.1f %%", 100*(f-1))
}
