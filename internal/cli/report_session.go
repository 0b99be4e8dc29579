package cli

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"tailscope/api"
	"tailscope/internal/report"
)

// newReportSession returns the command that reports a session of the log book in full.
func newReportSession(io streams) *cobra.Command {
	f := &sessionReport{question: newQuestion(io, "text", "md", "markdown", "html", "json"), wanted: api.SessionVerdictRequest{Limit: 20}}
	cmd := &cobra.Command{
		Use:   "session ID",
		Short: "what came of a mirror session, a run of load, an experiment, a search for capacity or a simulation",
		Example: `  tailscope report session 5f1c0de5f1c0de11
  tailscope report session 5f1c0de5f1c0de11 --format html --output cache.html`,
		Args: exactArgs(1, sessionID),
	}
	fs := cmd.Flags()
	f.serverFlag.register(fs)
	f.registerFormat(fs)
	bind(fs, &f.wanted, "start", "end", "measures", "allow", "limit")
	fs.StringVar(&f.output, "output", "", "`file` to write to instead of the terminal")
	cmd.RunE = f.run(func(ctx context.Context, args []string) error { return f.report(ctx, args[0]) })
	return cmd
}

type sessionReport struct {
	*question
	wanted api.SessionVerdictRequest
	output string
}

func (f *sessionReport) report(ctx context.Context, id string) error {
	if f.wanted.Limit < 1 {
		return usage{fmt.Errorf("--limit %d: write 1 or more", f.wanted.Limit)}
	}
	x, err := f.client().Session(ctx, id)
	if err != nil {
		return err
	}
	var v *api.MirrorVerdictResponse
	if x.Kind == "mirror" {
		f.wanted.ID = id
		v, err = f.client().SessionVerdict(ctx, f.wanted)
		if err != nil {
			return err
		}
	}
	return toFile(f.output, f.streams.out, report.Session(x, v, f.now()), f.format)
}
