package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"tailscope/api"
	"tailscope/internal/experiment/bench/session"
	"tailscope/internal/experiment/scenario"
	"tailscope/internal/figure"
	"tailscope/internal/report"
	"tailscope/internal/strictyaml"
)

// ofScenarios lists the flags that a scenario takes; its file has the others.
var ofScenarios = []string{"var", "seed", "threshold", "name", "service", "variant", "server", "to_otlp", "report", "output", "quiet", "logs"}

func (f *benchFlags) runScenario(cmd *cobra.Command, file string) error {
	var wrong error
	f.set.visit(func(name string) {
		if !slices.Contains(ofScenarios, name) && wrong == nil {
			wrong = usage{withHint(fmt.Errorf("%s is said in the file of a scenario", f.set.called(name)), "put a variable there, such as rate: \"{{rate}}\", and write --var rate=500")}
		}
	})
	if wrong != nil {
		return wrong
	}
	vars, err := parseVars(f.vars)
	if err != nil {
		return err
	}
	s, problems := scenario.Load(file, scenario.LoadOptions{Vars: vars})
	if len(problems) > 0 {
		return usage{joinProblems(problems)}
	}
	thresholds, err := f.parseThresholds()
	if err != nil {
		return err
	}
	if err := s.Judge(thresholds...); err != nil {
		return usage{hintWithin(err)}
	}
	if f.name == "" {
		f.name = s.Name
	}
	if f.service != "" {
		s.Service = f.service
	}
	seed := uint64(0)
	if f.set.given("seed") {
		seed = f.seed
	}
	return f.present(cmd.Context(), f.name, s.Service, func(ctx context.Context, h benchHooks) (*session.Outcome, error) {
		st, err := scenario.Open(ctx, s, scenario.Options{RunDir: f.logs, Note: h.note, Loading: func(l api.BenchLoad) { h.note(report.LoadText(&l)) }, Version: Version(), Command: f.command, Now: f.now})
		if err != nil {
			return nil, err
		}
		out, err := st.Measure(ctx, scenario.MeasureOptions{
			Name: f.name, Variant: f.variant, Experiment: h.id, Labels: h.labels, Seed: seed, Sink: h.sink, Limits: f.limits,
			Report: h.report, Progress: h.progress, Environment: h.environment,
		})
		// A further interrupt does not end the program before all is taken down, but
		// hastens it.
		closing, stop := signal.NotifyContext(context.WithoutCancel(ctx), os.Interrupt, syscall.SIGTERM)
		defer stop()
		err = errors.Join(err, st.Close(closing))
		if out != nil && err != nil {
			h.note(err.Error())
			if out.Result.Aborted == "" {
				out.Result.Aborted = firstLineOf(err.Error())
			}
			return out, nil
		}
		return out, err
	})
}

func firstLineOf(s string) string {
	line, _, _ := strings.Cut(s, "\n")
	return line
}

// parseVars reads name=value.
func parseVars(texts []string) (map[string]string, error) {
	vars := map[string]string{}
	for _, text := range texts {
		name, value, ok := strings.Cut(text, "=")
		if !ok {
			return nil, usage{withHint(fmt.Errorf("--var %q has no value", text), "write it as --var name=value")}
		}
		vars[name] = value
	}
	return vars, nil
}

// joinProblems returns one error of all mistakes of a file.
func joinProblems(problems []strictyaml.Problem) error { return strictyaml.Error(problems) }

func newBenchValidate(io streams) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "validate FILE...",
		Short: "say everything that is wrong with files of scenarios",
		Long: `Validate reads files of scenarios and says what is wrong with them, each mistake
with its file, line and column. It runs nothing and sends nothing. What set-up
commands write, such as data, is looked at when they have run.`,
		Example: `  tailscope bench validate search.yaml
  tailscope bench validate search.yaml --var shards=4`,
		Args: someFiles,
	}
	var texts []string
	cmd.Flags().StringArrayVar(&texts, "var", nil, "`name=value` of a variable; may be given again")
	cmd.RunE = func(_ *cobra.Command, args []string) error {
		vars, err := parseVars(texts)
		if err != nil {
			return err
		}
		var all []strictyaml.Problem
		for _, file := range args {
			s, problems := scenario.Load(file, scenario.LoadOptions{Vars: vars})
			all = append(all, problems...)
			if s != nil {
				fmt.Fprintf(io.out, "%s: no mistakes: %s\n", file, scenarioText(s))
			}
		}
		return joinProblems(all)
	}
	return cmd
}

// scenarioText describes a scenario in a line.
func scenarioText(s *scenario.Scenario) string {
	parts := []string{report.Plural(len(s.Plan.Phases), "phase")}
	if d := s.Plan.Duration(); d > 0 {
		parts[0] += " of " + d.String()
	}
	switch n := len(s.Requests.Queries); n {
	case 0:
	case 1:
		parts = append(parts, "1 query")
	default:
		parts = append(parts, figure.Thousands(uint64(n))+" queries")
	}
	for _, p := range []struct {
		n    int
		what string
	}{{len(s.Servers), "server"}, {len(s.Faults), "fault"}, {len(s.Thresholds), "threshold"}} {
		if p.n > 0 {
			parts = append(parts, report.Plural(p.n, p.what))
		}
	}
	return strings.Join(parts, ", ")
}

func newBenchSchema(io streams) *cobra.Command {
	return &cobra.Command{
		Use:   "schema",
		Short: "print a JSON Schema of scenarios, for editors",
		Long: `Schema prints a JSON Schema of files of scenarios. Editors that know
yaml-language-server complete keys and show mistakes as they are typed if the
file's first line is

  # yaml-language-server: $schema=scenario.schema.json`,
		Example: `  tailscope bench schema > scenario.schema.json`,
		Args:    exactArgs(0, ""),
		RunE: func(*cobra.Command, []string) error {
			_, err := io.out.Write(scenario.Schema())
			return err
		},
	}
}
