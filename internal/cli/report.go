package cli

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"tailscope/api"
	"tailscope/internal/config"
	"tailscope/internal/report"
)

func newReport(io streams) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "report",
		Short: "write a report: how a service did by day, week or month, or what came of a session",
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return usage{withHint(fmt.Errorf("unknown report %q", args[0]), "tailscope report --help lists them")}
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newReportSLA(io), newReportSession(io))
	return cmd
}

// slaFlags are what `report sla` was asked for.
type slaFlags struct {
	*question
	period, zone, objective, under, t, output string
	count                                     int
}

func newReportSLA(io streams) *cobra.Command {
	f := slaFlags{question: newQuestion(io, "text", "markdown", "html", "csv", "json")}
	cmd := &cobra.Command{
		Use:   "sla",
		Short: "requests, Apdex, quantiles and errors by day, week or month",
		Example: `  tailscope report sla --service shop --period week --count 8 --tz Europe/Berlin --objective 99% --under 500ms
  tailscope report sla --service shop --period month --format html --output shop.html`,
		Args: exactArgs(0, ""),
	}
	fs := cmd.Flags()
	f.serverFlag.register(fs)
	f.registerFormat(fs)
	f.registerNames(fs, "the service; needed")
	fs.StringVar(&f.match, "match", "", "further PromQL matchers, such as '{version=\"1.4\"}'")
	fs.StringVar(&f.period, "period", "week", "day, week (from Monday) or month")
	fs.IntVar(&f.count, "count", 0, "how many periods; default 7 days, 8 weeks or 6 months")
	fs.StringVar(&f.zone, "tz", "UTC", "time `zone` in which days begin, such as Europe/Berlin")
	fs.StringVar(&f.end, "end", "now", "a `moment` in the last period: RFC 3339, a date, or now-7d")
	fs.StringVar(&f.objective, "objective", "", "`share` of requests that should be good, such as 99% or 0.99; needs --under")
	fs.StringVar(&f.under, "under", "", "`time` within which a good request is answered, such as 500ms")
	fs.StringVar(&f.t, "t", "", "`time` that satisfies a user; default the service's target")
	fs.StringVar(&f.output, "output", "", "`file` to write to instead of the terminal")
	cmd.RunE = f.run(func(ctx context.Context) error {
		q, err := f.query()
		if err != nil {
			return err
		}
		r, err := f.client().SLA(ctx, q)
		if err != nil {
			return f.failed(err)
		}
		if r.All.Requests == 0 && f.format != "json" && f.format != "csv" {
			return withHint(fmt.Errorf("%s has no requests in those periods", f.service), "tailscope query services --since 30d shows what there is; a larger --count looks further back")
		}
		zone, err := time.LoadLocation(r.Zone)
		if err != nil && f.format != "json" {
			return fmt.Errorf("the server answered in the zone %s, which this machine does not know: %w", r.Zone, err)
		}
		return toFile(f.output, io.out, report.SLA(r, cmp.Or(zone, time.UTC), f.now()), f.format)
	})
	return cmd
}

// toFile writes a report to the file of that name, or to out if there is none.
// Nothing is written of a report that cannot be made.
func toFile(name string, out io.Writer, d *report.Document, format string) error {
	var b bytes.Buffer
	if err := d.Write(&b, report.FormatOf(format)); err != nil {
		return err
	}
	return bytesToFile(name, out, b.Bytes())
}

func bytesToFile(name string, out io.Writer, content []byte) error {
	if name == "" || name == "-" {
		_, err := out.Write(content)
		return err
	}
	if err := os.WriteFile(name, content, 0o644); err != nil {
		return fmt.Errorf("write the report: %w", err)
	}
	return nil
}

// lastMoment is where the report ends. A date is a whole day of the report's zone.
func (f *slaFlags) lastMoment() (time.Time, error) {
	if day, err := time.Parse(time.DateOnly, f.end); err == nil {
		if zone, err := time.LoadLocation(f.zone); err == nil { // else the server says what is wrong
			return time.Date(day.Year(), day.Month(), day.Day()+1, 0, 0, 0, 0, zone), nil
		}
	}
	return parseMoment(f.end, f.now())
}

func (f *slaFlags) query() (api.SLARequest, error) {
	q := api.SLARequest{Period: f.period, Count: f.count, Zone: f.zone}
	if f.service == "" {
		return q, usage{withHint(errors.New("a report is of one service"), "name it with --service; tailscope query services lists them")}
	}
	if f.count < 0 {
		return q, usage{fmt.Errorf("--count %d: write 1 or more", f.count)}
	}
	q.Match = matchText(f.matchers())
	if f.end != "now" {
		at, err := f.lastMoment()
		if err != nil {
			return q, usage{fmt.Errorf("--end %w", err)}
		}
		q.End = unix(at.Unix())
	}
	if (f.objective == "") != (f.under == "") {
		return q, usage{errors.New("--objective and --under belong together: write --objective 99% --under 500ms")}
	}
	var err error
	if f.objective != "" {
		if q.Objective, err = parseShare(f.objective, "99%"); err != nil {
			return q, usage{fmt.Errorf("--objective %w", err)}
		}
		if q.Under, err = parseSeconds(f.under); err != nil {
			return q, usage{fmt.Errorf("--under %w", err)}
		}
	}
	if f.t != "" {
		if q.T, err = parseSeconds(f.t); err != nil {
			return q, usage{fmt.Errorf("--t %w", err)}
		}
	}
	return q, nil
}

// parseShare reads 99%, 99.9 % or 0.99; example is one, for the error.
func parseShare(s, example string) (float64, error) {
	v, isPercent, err := shareNumber(s)
	switch {
	case err != nil || math.IsNaN(v):
	case v > 0 && v < 1:
		return math.Round(v*1e9) / 1e9, nil
	case !isPercent && v > 1 && v < 100:
		return 0, fmt.Errorf("%q is more than everything: write %s%%", s, strings.TrimSpace(s))
	}
	return 0, fmt.Errorf("%q is not a share: write one between 0%% and 100%%, such as %s", s, example)
}

// shareNumber reads 99% as 0.99, and a number without the sign as it is.
func shareNumber(s string) (v float64, isPercent bool, err error) {
	number, isPercent := strings.CutSuffix(strings.TrimSpace(s), "%")
	v, err = strconv.ParseFloat(strings.TrimSpace(number), 64)
	if isPercent {
		v /= 100
	}
	return v, isPercent, err
}

// parseSeconds reads 500ms, 1.5h, 1d or plain seconds, from a nanosecond to 100 years.
func parseSeconds(s string) (float64, error) {
	v, err := strconv.ParseFloat(s, 64)
	if err != nil {
		var d time.Duration
		if d, err = config.ParseDuration(s); err == nil {
			v = d.Seconds()
		}
	}
	if err != nil || !(v >= 1e-9 && v <= 36500*86400) {
		return 0, fmt.Errorf("%q is not a time: write one such as 500ms or 0.5", s)
	}
	return v, nil
}
