package cli

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"tailscope/api"
	"tailscope/client"
	"tailscope/internal/experiment"
	"tailscope/internal/experiment/otlpsink"
	"tailscope/internal/liveview"
	"tailscope/internal/report"
)

// experimentFlags holds the flags of run and again.
type experimentFlags struct {
	streams
	now                                  func() time.Time
	to, toOTLP, output, format, baseline string
	seed                                 uint64
	quiet                                bool
	saveBaseline, again                  string
}

func (f *experimentFlags) register(cmd *cobra.Command) {
	acceptFormer(cmd, "to")
	fs := cmd.Flags()
	fs.StringVar(&f.to, "server", os.Getenv("TAILSCOPE_EXPERIMENT_TO"), "`address` of a server that keeps the log book and takes series, such as http://127.0.0.1:7099; also $TAILSCOPE_EXPERIMENT_TO")
	fs.StringVar(&f.toOTLP, "to-otlp", os.Getenv("TAILSCOPE_EXPERIMENT_TO_OTLP"), "`address` where that server takes OTLP over HTTP; default what it answers; also $TAILSCOPE_EXPERIMENT_TO_OTLP")
	fs.StringVarP(&f.output, "output", "o", "", "`file` for the whole result, as JSON; what gate reads")
	fs.StringVar(&f.format, "format", "text", "text, markdown or json: what is printed at the end")
	fs.StringVar(&f.saveBaseline, "save-baseline", "", "`file` to keep the result in as the baseline of a gate, if the experiment was whole and passed its gate")
	fs.StringVar(&f.baseline, "baseline", "", "`file` or id that the result is gated against, instead of that of the file's gate")
	fs.Uint64Var(&f.seed, "seed", 0, "of the order within rounds and of arrivals; default that of the file, or drawn")
	fs.BoolVarP(&f.quiet, "quiet", "q", false, "show nothing while it runs")
}

func newExperimentRun(io streams) *cobra.Command {
	f := &experimentFlags{streams: io, now: time.Now}
	cmd := &cobra.Command{
		Use:   "run FILE",
		Short: "run an experiment: rounds of all settings in random order, judged against the control",
		Long: `Run applies each setting, measures it, and applies the control again, whatever
happens: also after a failure, ctrl-c or SIGTERM. After a kill -9 the next start
of the same file, or tailscope experiment restore FILE, does.

It ends with 0; 1 if it failed, was interrupted, or the gate says that something
became worse; 2 if the file is wrong, before anything is applied or sent.`,
		Example: `  tailscope experiment run workers.yaml --server http://127.0.0.1:7099
  tailscope experiment run workers.yaml --output result.json
  tailscope experiment run workers.yaml --save-baseline base.json`,
		Args: exactArgs(1, experimentFile),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := f.check(); err != nil {
				return err
			}
			x, err := loadExperiment(io, args[0])
			if err != nil {
				return err
			}
			return f.run(cmd.Context(), x)
		},
	}
	f.register(cmd)
	return cmd
}

func (f *experimentFlags) check() error {
	switch f.format {
	case "text", "markdown", "json":
	default:
		return usage{fmt.Errorf("--format %s: write text, markdown or json", f.format)}
	}
	for _, name := range []string{f.output, f.saveBaseline} {
		if name == "" {
			continue
		}
		if _, err := os.Stat(filepath.Dir(name)); err != nil { // rather now than after the rounds
			return usage{withHint(fmt.Errorf("%s: %w", name, err), "make the directory first")}
		}
	}
	return nil
}

func (f *experimentFlags) run(ctx context.Context, x *experiment.Experiment) error {
	if f.seed != 0 {
		x.Seed = f.seed
	}
	if f.baseline != "" {
		if x.Gate == nil {
			x.Gate = &experiment.Gate{Allowed: experiment.Allowed}
		}
		x.Gate.Baseline = f.baseline
	}
	if x.Live != nil && f.to == "" {
		f.to = x.Live.To
	}
	view := liveview.NewExperiment(f.err, f.quiet, f.now)
	o := experiment.Options{
		ID:      "experiment-" + f.now().UTC().Format("20060102-150405") + "-" + strings.ToLower(rand.Text()[:6]),
		Version: Version(), Again: f.again, Note: view.Note, Progress: view.Show,
		Command: "tailscope experiment run " + x.File,
	}
	gate, err := f.loadGate(ctx, x)
	if err != nil {
		return err
	}
	if f.to != "" {
		if err := f.server(ctx, &o); err != nil {
			return err
		}
		o.Command = "tailscope experiment again " + o.ID
		view.Note("reported to " + pageOf(f.to) + "/sessions/" + o.ID)
	} else if x.Live != nil {
		return usage{withHint(errors.New("live traffic is measured through a server"), "name the one that has the mirror session: --server http://127.0.0.1:7099")}
	}
	o.Judged = gate
	ctx, release := persistent(ctx, view.Note)
	defer release()
	t, err := experiment.Run(ctx, x, o)
	view.Close()
	if t != nil {
		if err := f.write(t); err != nil {
			return err
		}
	}
	switch {
	case errors.Is(err, experiment.ErrRunning):
		return withHint(err, "wait for it, or end it with ctrl-c or tailscope session stop")
	case err != nil && t == nil:
		return err
	case err != nil:
		return withHint(err, "see to it, then run tailscope experiment restore %s", x.File)
	case t.Failed != "":
		return withHint(errors.New(t.Failed), "the control holds again; what was measured until then is above")
	case t.Gate != nil && !t.Gate.Passed:
		return ended{errSilent, exitFailed}
	}
	return nil
}

// persistent returns a context that is done at the first signal, a hang-up among them.
// Later signals do not end the program before the control is applied again.
func persistent(ctx context.Context, note func(string)) (context.Context, func()) {
	ctx, cancel := context.WithCancel(ctx)
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	done, gone := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(gone)
		for {
			select {
			case <-signals:
				note("the control is applied again first")
				cancel()
			case <-done:
				return
			}
		}
	}()
	return ctx, func() {
		signal.Stop(signals)
		close(done)
		<-gone
		cancel()
	}
}

// server prepares the reports of the experiment to a server.
func (f *experimentFlags) server(ctx context.Context, o *experiment.Options) error {
	hc := &http.Client{Timeout: 10 * time.Second}
	c := &client.Client{Address: f.to, HTTP: hc}
	address := findOTLP(c, f.toOTLP)
	asked, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	if _, err := address(asked); err != nil {
		return withHint(err, "--server takes the address of a server's page, such as http://127.0.0.1:7099; --to-otlp that of its OTLP over HTTP")
	}
	o.Sink = otlpsink.New(otlpsink.Options{Address: address, HTTP: hc, Scope: "tailscope.bench", Log: slog.New(slog.DiscardHandler)})
	o.Report = func(ctx context.Context, p api.SessionReport) (api.SessionReply, error) {
		return c.ReportSession(ctx, o.ID, p)
	}
	o.Live = experiment.Server{Client: c}
	return nil
}

// write writes the result and the baseline, and prints what is asked for.
func (f *experimentFlags) write(t *api.Experiment) error {
	d := report.Experiment(t)
	if f.output != "" {
		if err := toFile(f.output, f.out, d, "json"); err != nil {
			return err
		}
	}
	switch {
	case f.saveBaseline == "" || t.Failed != "":
	case t.Gate != nil && !t.Gate.Passed: // or the next would pass by having become worse
		fmt.Fprintf(f.err, "the gate failed: %s stays as it was (hint: --output FILE keeps the result, to be a baseline if it is meant to be)\n", f.saveBaseline)
	default:
		if err := toFile(f.saveBaseline, f.out, d, "json"); err != nil {
			return err
		}
	}
	return toFile("", f.out, d, f.format)
}
