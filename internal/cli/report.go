package cli

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"

	"tailscope/api"
	"tailscope/internal/report"
)

func newReport(io streams) *cobra.Command {
	return group(&cobra.Command{
		Use:   "report",
		Short: "write a report: how a service did by day, week or month, or what came of a session",
	}, newReportSLA(io), newReportSession(io))
}

// slaFlags holds the flags of `report sla`.
type slaFlags struct {
	*question
	wanted      api.SLARequest
	end, output string
}

func newReportSLA(io streams) *cobra.Command {
	f := slaFlags{question: newQuestion(io, "text", "markdown", "html", "csv", "json"), wanted: api.SLARequest{Period: "week", Zone: "UTC"}}
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
	f.registerPlaces(fs)
	bind(fs, &f.Selection, "match")
	bind(fs, &f.wanted, "period", "count", "tz", "objective", "under", "t")
	fs.StringVar(&f.end, "end", "now", "a `moment` in the last period: RFC 3339, a date, or now-7d")
	fs.StringVar(&f.output, "output", "", "`file` to write to instead of the terminal")
	cmd.RunE = f.run(func(ctx context.Context, _ []string) error {
		q, err := f.query()
		if err != nil {
			return err
		}
		r, err := f.client().SLA(ctx, q)
		if err != nil {
			return err
		}
		if r.All.Requests == 0 && f.format != "json" && f.format != "csv" {
			if err := errUnsent(r); err != nil {
				return err
			}
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

// toFile writes a report to the file of that name, or to out if the name is empty. It
// writes nothing if the report cannot be made.
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

// lastMoment returns the end of the report. A date is a whole day of the report's zone.
func (f *slaFlags) lastMoment() (time.Time, error) {
	if day, err := time.Parse(time.DateOnly, f.end); err == nil {
		if zone, err := time.LoadLocation(f.wanted.Zone); err == nil { // else the server says what is wrong
			return time.Date(day.Year(), day.Month(), day.Day()+1, 0, 0, 0, 0, zone), nil
		}
	}
	return parseMoment(f.end, f.now())
}

func (f *slaFlags) query() (api.SLARequest, error) {
	q := f.wanted
	if f.service == "" {
		return q, usage{withHint(errors.New("a report is of one service"), "name it with --service; tailscope query services lists them")}
	}
	if q.Count < 0 {
		return q, usage{fmt.Errorf("--count %d: write 1 or more", q.Count)}
	}
	q.Match = f.matchText()
	if f.end != "now" {
		at, err := f.lastMoment()
		if err != nil {
			return q, usage{fmt.Errorf("--end %w", err)}
		}
		q.End = unix(at.Unix())
	}
	if (q.Objective == 0) != (q.Under == 0) {
		return q, usage{errors.New("--objective and --under belong together: write --objective 99% --under 500ms")}
	}
	return q, nil
}
