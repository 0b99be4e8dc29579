package cli

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"tailscope/api"
	"tailscope/internal/report"
)

// newReportSession is what came of anything in the log book, in full.
func newReportSession(io streams) *cobra.Command {
	f := &sessionReport{question: newQuestion(io, "text", "md", "markdown", "html", "json")}
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
	fs.StringVar(&f.start, "start", "", "of a mirror session, judge from this `moment` on: RFC 3339, Unix seconds, or now-6h; default from its beginning")
	fs.StringVar(&f.end, "end", "", "of a mirror session, judge up to this `moment`; default to its end")
	fs.StringVar(&f.measures, "measures", "", "of a mirror session, judge only these, such as `ratio,p99`: ratio, p50, p75, p90, p95, p99, p99.9, mean, errors, first_byte, bytes")
	fs.IntVar(&f.limit, "limit", 20, "how many operations and tenants of a mirror session to list")
	fs.StringVar(&f.output, "output", "", "`file` to write to instead of the terminal")
	var id string
	write := f.run(func(ctx context.Context) error { return f.report(ctx, id) })
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		id = args[0]
		return write(cmd, args)
	}
	return cmd
}

type sessionReport struct {
	*question
	measures, output string
	limit            int
}

func (f *sessionReport) report(ctx context.Context, id string) error {
	if f.limit < 1 {
		return usage{fmt.Errorf("--limit %d: write 1 or more", f.limit)}
	}
	x, err := f.client().Session(ctx, id)
	if err != nil {
		return f.failed(err)
	}
	var v *api.MirrorVerdictResponse
	if x.Kind == "mirror" {
		v, err = f.client().SessionVerdict(ctx, api.SessionVerdictRequest{ID: id, Start: api.Time(f.start), End: api.Time(f.end), Measures: splitList(f.measures), Limit: f.limit})
		if err != nil {
			return f.failed(err)
		}
	}
	return toFile(f.output, f.streams.out, report.Session(x, v, f.now()), f.format)
}
