package cli

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"tailscope/api"
	"tailscope/client"
	"tailscope/internal/experiment/bench/session"
	"tailscope/internal/experiment/otlpsink"
	"tailscope/internal/figure"
	"tailscope/internal/liveview"
	"tailscope/internal/report"
)

// exitInvalid is the code of a run in which the generator could not keep up.
const exitInvalid = 3

// benchOutput names a run, the server that it reports to, and its reports.
type benchOutput struct {
	runOutput
	variant, toOTLP string
}

func (f *benchOutput) register(fs *pflag.FlagSet) {
	fs.StringVar(&f.name, "name", "", "what the run is called; default what it sends to")
	fs.StringVar(&f.service, "service", "", "label of its series; default the target's host")
	fs.StringVar(&f.variant, "variant", "", "label of its series: what was different this time")
	fs.StringVar(&f.to, "server", "", "`address` of a server that takes series and reports, such as http://127.0.0.1:7099; also $TAILSCOPE_BENCH_TO")
	fs.StringVar(&f.toOTLP, "to-otlp", "", "`address` where that server takes OTLP over HTTP; default what it answers; also $TAILSCOPE_BENCH_TO_OTLP")
	f.runOutput.register(fs)
}

func (f *benchOutput) complete() error {
	if f.to == "" {
		f.to = os.Getenv("TAILSCOPE_BENCH_TO")
	}
	if f.toOTLP == "" {
		f.toOTLP = os.Getenv("TAILSCOPE_BENCH_TO_OTLP")
	}
	return f.reportFiles.complete()
}

// benchHooks connects a run to the view, the reports and the server.
type benchHooks struct {
	id          string // in the log book, and label experiment of its series; empty without a server
	command     string
	environment *api.Environment
	labels      map[string]string
	sink        session.Sink
	refused     func() uint64 // points that the server did not take, for good; nil without one
	report      func(ctx context.Context, r *api.BenchResult) error
	stop        func(why error) // ends the run; what there is of it is reported
	progress    func(session.Moment)
	note        func(line string) // shows what is done besides
}

// present runs load, shows it while it goes, writes the reports, and ends as the
// result says.
func (f *benchOutput) present(ctx context.Context, name, service string, run func(context.Context, benchHooks) (*session.Outcome, error)) error {
	environment := session.FindEnvironment(ctx, Version())
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	h := benchHooks{environment: &environment, command: f.command, stop: stop}
	page := ""
	if f.to != "" {
		var err error
		if page, err = f.server(ctx, &h, name, service); err != nil {
			return err
		}
	}
	view := liveview.NewBench(f.err, name, f.quiet, f.now)
	h.progress, h.note = view.Show, view.Note
	if page != "" {
		view.Note("reported to " + page)
	}
	out, err := run(ctx, h)
	view.Close()
	if mistake := (session.Mistake{}); errors.As(err, &mistake) {
		return usage{hintWithin(mistake.Err)}
	}
	if err != nil {
		return hintWithin(err)
	}
	if err := f.write(f.out, report.Bench(out.Result)); err != nil {
		return err
	}
	if out.Trouble != "" {
		fmt.Fprintf(f.err, "%s\n", report.Printable(out.Trouble))
	}
	if h.refused != nil && h.refused() > 0 {
		fmt.Fprintf(f.err, "the server refused %s points, which its series lack; its log says why\n", figure.Thousands(h.refused()))
	}
	if page != "" {
		fmt.Fprintf(f.err, "%s\n", page)
	}
	return benchEnd(out)
}

// benchEnd returns the error that the command ends with. It does not repeat what the
// report says.
func benchEnd(out *session.Outcome) error {
	r := out.Result
	switch {
	case !r.Valid:
		return ended{errSilent, exitInvalid}
	case r.Account.Sent > 0 && r.Account.Answered == 0:
		return ended{errSilent, exitFailed}
	case out.Missed || r.Aborted != "":
		return ended{errSilent, exitFailed}
	}
	return nil
}

// server prepares the reports of the run to a server, and returns the address of its page.
func (f *benchOutput) server(ctx context.Context, h *benchHooks, name, service string) (page string, err error) {
	hc := &http.Client{Timeout: 10 * time.Second}
	c := &client.Client{Address: f.to, HTTP: hc}
	address := findOTLP(c, f.toOTLP)
	asked, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	if _, err := address(asked); err != nil {
		return "", withHint(err, "--server takes the address of a server's page, such as http://127.0.0.1:7099; --set to_otlp=URL that of its OTLP over HTTP")
	}
	h.id = "bench-" + f.now().UTC().Format("20060102-150405") + "-" + strings.ToLower(rand.Text()[:6])
	sink := otlpsink.New(otlpsink.Options{Address: address, HTTP: hc, Scope: "tailscope.bench", Log: slog.New(slog.DiscardHandler)})
	h.sink, h.refused = sink, func() uint64 { return sink.Stats().Rejected }
	h.labels = map[string]string{}
	if host, err := os.Hostname(); err == nil {
		h.labels["instance"] = host
	}
	var start api.Float // as it was reported first, which identifies the run
	stop := h.stop
	h.report = func(ctx context.Context, r *api.BenchResult) error {
		if start == 0 {
			start = r.Start
		}
		reply, err := c.ReportSession(ctx, h.id, api.SessionReport{
			Kind: "bench", Name: name, Service: service, Start: start, Ended: !report.IsNaN(r.End), Bench: r,
		})
		if reply.Stop {
			stop(errors.New("somebody stopped it at " + pageOf(f.to)))
		}
		return err
	}
	return pageOf(f.to) + "/sessions/" + h.id, nil
}

func pageOf(address string) string {
	if !strings.Contains(address, "://") {
		address = "http://" + address
	}
	return strings.TrimRight(address, "/")
}
