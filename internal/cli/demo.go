package cli

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"time"

	"github.com/spf13/cobra"

	"tailscope/internal/config"
	"tailscope/internal/demo"
	"tailscope/internal/liveview"
	"tailscope/internal/server"
)

func newDemo(io streams) *cobra.Command {
	def := config.Default()
	cfg := def
	cfg.Data = ""
	var rate float64
	var orders int
	var duration, change, changeAfter, backupEvery, history string
	var noOpen, verbose bool
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "the server and a small real shop under load, to look at",
		Long: `Demo runs the server and a small shop that serves two dozen tenants over HTTP
and SQLite, some far larger than others, under load that does not wait for it.
It begins with a month of history: requests of this very shop, recorded for some
seconds with an index and without it, and sent again as of other times. In its
last hour a release loses the index. After three and a half minutes the demo
makes it again, with a mark that is judged some four minutes later. Further acts
follow within half an hour: a backup and a tenant's bulk import get in the way of
orders, a mirror tries a candidate, then come an experiment, a search for
capacity and a simulation; from then on a backup and an import in turn. A line
on the page says what comes when and where it is seen, and each verdict is
printed with its address. Everything shown is measured; the shop is instrumented
with the OpenTelemetry SDK as any application would be.`,
		Args: exactArgs(0, ""),
	}
	f := cmd.Flags()
	f.StringVar(&cfg.Data, "data", "", "keep the measurements in this `directory`; default a temporary one")
	f.StringVar(&cfg.Listen, "listen", def.Listen, "address of the page and the API; a free port if taken")
	f.StringVar(&cfg.OTLPGRPC, "otlp-grpc", def.OTLPGRPC, "address that takes OTLP over gRPC; a free port if taken")
	f.StringVar(&cfg.OTLPHTTP, "otlp-http", def.OTLPHTTP, "address that takes OTLP over HTTP; a free port if taken")
	f.Float64Var(&rate, "rate", 60, "requests per second, due whether or not the shop keeps up")
	f.IntVar(&orders, "orders", 110_000, "orders in the shop's history: more make the hot query slower")
	f.StringVar(&duration, "duration", "0", "how long to run; until interrupted if 0")
	f.StringVar(&history, "history", "30d", "how long a past the shop has at the start, made of requests recorded then; none if 0")
	f.StringVar(&change, "change", "index", "what changes: index, or none, which sets a mark and does nothing")
	f.StringVar(&changeAfter, "change-after", "3m30s", "when to make the change: judged are three minutes and a half before it or more")
	f.StringVar(&backupEvery, "backup-every", "10m", "how often to back up once all acts have come; acts with a mark are half as far apart")
	f.BoolVar(&noOpen, "no-open", false, "do not open the page in a browser")
	f.BoolVar(&verbose, "verbose", false, "say what the server does")
	cmd.RunE = func(cmd *cobra.Command, _ []string) (err error) {
		o := demo.Options{Server: cfg, Version: Version(), Out: io.out, Rate: rate, Orders: orders}
		if o.Program, err = os.Executable(); err != nil {
			return err
		}
		for _, d := range []struct {
			flag, text string
			into       *time.Duration
		}{{"duration", duration, &o.Duration}, {"change-after", changeAfter, &o.ChangeAfter}, {"backup-every", backupEvery, &o.BackupEvery}, {"history", history, &o.History}} {
			v, err := config.ParseDuration(d.text)
			if err != nil {
				return usage{fmt.Errorf("--%s %w", d.flag, err)}
			}
			*d.into = v
		}
		if change != "index" && change != "none" {
			return usage{fmt.Errorf("--change %q is neither index nor none", change)}
		}
		o.NoChange = change == "none"
		if !(rate > 0) || orders < 1 {
			return usage{errors.New("--rate and --orders must be positive")}
		}
		check := cfg
		if check.Data == "" {
			check.Data = "temporary"
		}
		if err := check.Validate(); err != nil {
			return usage{err}
		}
		if cfg.OTLPGRPC == "" || cfg.OTLPHTTP == "" {
			return usage{errors.New("the demo needs both --otlp-grpc and --otlp-http: the shop sends spans by one and metrics by the other")}
		}
		cfg.LogLevel = "warn"
		if verbose {
			cfg.LogLevel = "debug"
		}
		o.Log = newLogger(cfg, io.err)
		o.Ready = func(s *server.Server) {
			if !noOpen && liveview.IsTerminal(io.out) {
				openBrowser("http://" + s.Addr())
			}
		}
		if err := demo.Run(cmd.Context(), o); err != nil {
			return startHint(err, cfg)
		}
		return nil
	}
	return cmd
}

// openBrowser shows a page if there is a desktop. It ignores failures, since the address
// has been printed.
func openBrowser(url string) {
	var cmd *exec.Cmd
	switch {
	case runtime.GOOS == "darwin":
		cmd = exec.Command("open", url)
	case os.Getenv("DISPLAY") != "" || os.Getenv("WAYLAND_DISPLAY") != "":
		cmd = exec.Command("xdg-open", url)
	default:
		return
	}
	if cmd.Start() == nil {
		go func() { _ = cmd.Wait() }() // reaps it; it ends with the program at the latest
	}
}
