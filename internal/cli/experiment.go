package cli

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"tailscope/internal/experiment"
	"tailscope/internal/report"
)

func newExperiment(io streams) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "experiment",
		Short: "measure what one change does, in rounds, against a control",
		Long: `An experiment is a file: a control, settings that differ from it in one
variable, commands that apply them, and a scenario as tailscope bench takes.
Every round measures every setting once, in random order; the control is
always applied again. tailscope session list shows those that ran.`,
		Example: `  tailscope experiment validate workers.yaml
  tailscope experiment run workers.yaml --server http://127.0.0.1:7099`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return usage{withHint(fmt.Errorf("unknown command %q", args[0]), "write tailscope experiment run, validate, schema, again, gate or restore; tailscope session has list, show, stop and forget")}
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newExperimentRun(io), newExperimentValidate(io), newExperimentSchema(io), newExperimentAgain(io), newExperimentGate(io), newExperimentRestore(io))
	return cmd
}

const experimentFile = "the file of an experiment, such as workers.yaml"

// loadExperiment reads a file, and reports everything that is wrong with it.
func loadExperiment(io streams, path string) (*experiment.Experiment, error) {
	x, problems := experiment.Load(path)
	if len(problems) == 0 {
		return x, nil
	}
	for _, p := range problems {
		fmt.Fprintln(io.err, report.Printable(p.Error()))
	}
	return nil, usage{withHint(fmt.Errorf("%s: %s", path, report.Plural(len(problems), "problem")), "nothing was applied or sent; tailscope experiment schema describes the file for editors")}
}

func newExperimentValidate(io streams) *cobra.Command {
	return &cobra.Command{
		Use:   "validate FILE",
		Short: "read an experiment and its scenario, and say what it will do; nothing is applied or sent",
		Args:  exactArgs(1, experimentFile),
		RunE: func(cmd *cobra.Command, args []string) error {
			x, err := loadExperiment(io, args[0])
			if err != nil {
				return err
			}
			for _, line := range x.Describe() {
				fmt.Fprintln(io.out, report.Printable(line))
			}
			return nil
		},
	}
}

func newExperimentSchema(io streams) *cobra.Command {
	return &cobra.Command{
		Use:   "schema",
		Short: "print the JSON Schema of experiments, for editors",
		Args:  exactArgs(0, ""),
		RunE: func(*cobra.Command, []string) error {
			_, err := io.out.Write(experiment.Schema())
			return err
		},
	}
}

func newExperimentRestore(io streams) *cobra.Command {
	return &cobra.Command{
		Use:   "restore FILE",
		Short: "apply the control that a killed experiment of the file left unapplied",
		Args:  exactArgs(1, experimentFile),
		RunE: func(cmd *cobra.Command, args []string) error {
			did, err := experiment.Restore(cmd.Context(), args[0], func(line string) { fmt.Fprintln(io.err, report.Printable(line)) })
			switch {
			case errors.Is(err, experiment.ErrRunning):
				return withHint(err, "end it with ctrl-c or tailscope session stop: it restores by itself")
			case err != nil:
				return withHint(err, "what is left to do is in %s", experiment.JournalPath(args[0]))
			case !did:
				fmt.Fprintln(io.out, "nothing to restore")
			default:
				fmt.Fprintln(io.out, "the control holds again")
			}
			return nil
		},
	}
}
