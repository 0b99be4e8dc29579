package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"regexp"
	"strings"
	"syscall"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"tailscope/internal/config"
	"tailscope/internal/server"
	"tailscope/internal/store"
)

// stopWithin bounds the wait of a stopping mirror for requests under way; stopServing
// bounds that of a server. The steps of a server after it have bounds of their own, so
// that it stops within ten seconds, the time that container runtimes allow.
const (
	stopWithin  = 30 * time.Second
	stopServing = 3 * time.Second
)

func newServe(io streams) *cobra.Command {
	var file string
	var printConfig bool
	flags := &overrides{}
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "the server: takes OTLP, keeps distributions, answers the page and the API",
		Long: `Serve listens for spans, metrics and logs by OTLP, and answers the page and the API.

Settings come from a file (--config), then TAILSCOPE_* in the environment,
then flags; docs/configuration.md lists them. Those that have no flag are given by
--set, under their key in the file.`,
		Example: `  tailscope serve --data /var/lib/tailscope --set retention.10s=4d
  tailscope serve --set mirror.primary=http://a:8081 --set mirror.candidate=http://b:8082`,
		Args: exactArgs(0, ""),
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, err := loadConfig(config.Default(), file, os.Environ(), flags)
			if err != nil {
				return usage{err}
			}
			if cfg.Agent.To != "" {
				return usage{withHint(errors.New("agent.to: a server sends to no other"), "run tailscope agent --to %s, or leave it out", cfg.Agent.To)}
			}
			if cfg.Mirror.To != "" {
				return usage{withHint(errors.New("mirror.to: a server keeps what it mirrors itself"), "leave it out, or mirror with tailscope mirror")}
			}
			if cfg.Mirror.Wanted() {
				if err := checkMirror(cfg.Mirror, keyOf); err != nil {
					return err
				}
			}
			if printConfig {
				_, err := fmt.Fprint(io.out, cfg.YAML())
				return err
			}
			return serve(cmd.Context(), cfg, io)
		},
	}
	cmd.Flags().StringVar(&file, "config", "", "read settings from this YAML `file`")
	cmd.Flags().BoolVar(&printConfig, "print-config", false, "print the settings that result, as a file, and stop")
	cmd.AddCommand(&cobra.Command{
		Use: "schema", Short: "prints a JSON Schema of the configuration, for editors", Args: exactArgs(0, ""),
		RunE: func(*cobra.Command, []string) error {
			_, err := io.out.Write(config.Schema())
			return err
		},
	})
	flags.register(cmd.Flags())
	return cmd
}

// overrides collects settings given as flags, to be applied over the file and
// the environment once those are read.
type overrides struct {
	base *config.Config // what defaults are shown of; nil: those of a server
	set  []override
}

type override struct {
	setting config.Setting
	text    string
}

// register adds the flags of tailscope serve, and --set for every setting. A flag's
// text is checked when it is parsed, so that a bad one is named by its flag.
func (o *overrides) register(fs *pflag.FlagSet) {
	for _, s := range config.Settings {
		if s.HasFlag() {
			o.add(fs, s, s.Flag())
		}
	}
	(&settings{config: o}).addFlag(fs, "retention.10s=4d")
}

// add adds the flag of one setting under a name.
func (o *overrides) add(fs *pflag.FlagSet, s config.Setting, name string) {
	def := config.Default()
	if o.base != nil {
		def = *o.base
	}
	v := s.Value(&def)
	f := fs.VarPF(&overrideFlag{o, s, v.String(), v.Type()}, name, "", describeSetting(s))
	if v.Type() == "bool" {
		f.NoOptDefVal = "true"
	}
}

// docLink is a link within the page that documents the settings.
var docLink = regexp.MustCompile(`\[([^]]+)\]\(#[^)]+\)`)

// describeSetting returns the documentation of a setting without links and without
// backquotes, which pflag would read as the name of the flag's value.
func describeSetting(s config.Setting) string {
	return strings.ReplaceAll(docLink.ReplaceAllString(s.Doc, "$1 in docs/configuration.md"), "`", "")
}

func (o *overrides) apply(c *config.Config) {
	given := map[string]bool{}
	for _, s := range o.set { // parsed once already
		v := s.setting.Value(c)
		if more, ok := v.(interface{ Add(string) error }); ok && given[s.setting.Key] {
			_ = more.Add(s.text)
		} else {
			_ = v.Set(s.text)
		}
		given[s.setting.Key] = true
	}
}

type overrideFlag struct {
	all       *overrides
	setting   config.Setting
	text, typ string
}

func (f *overrideFlag) Set(text string) error {
	var scratch config.Config
	if err := f.setting.Value(&scratch).Set(text); err != nil {
		return err
	}
	f.text = text
	f.all.set = append(f.all.set, override{f.setting, text})
	return nil
}
func (f *overrideFlag) String() string { return f.text }
func (f *overrideFlag) Type() string   { return f.typ }

// loadConfig applies file, environment and flags over c and returns every
// problem at once.
func loadConfig(c config.Config, file string, environ []string, flags *overrides) (config.Config, error) {
	var errs []error
	if file != "" {
		content, err := os.ReadFile(file)
		if err != nil {
			return c, withHint(fmt.Errorf("read config: %w", err), "tailscope serve --print-config prints a file to start from")
		}
		errs = append(errs, c.File(file, content)...)
	}
	errs = append(errs, c.Environ(environ)...)
	flags.apply(&c)
	// A value that could not be read has its default, which is not a further problem.
	if err := c.Validate(); err != nil {
		errs = append(errs, err)
	}
	if len(errs) > 0 {
		return c, withHint(errors.Join(errs...), "docs/configuration.md lists every setting")
	}
	return c, nil
}

func newLogger(cfg config.Config, w io.Writer) *slog.Logger {
	var level slog.Level
	_ = level.UnmarshalText([]byte(cfg.LogLevel)) // validated
	o := &slog.HandlerOptions{Level: level}
	if cfg.LogFormat == "json" {
		return slog.New(slog.NewJSONHandler(w, o))
	}
	return slog.New(slog.NewTextHandler(w, o))
}

// serve runs a server until ctx is done or a part of it fails.
func serve(ctx context.Context, cfg config.Config, io streams) error {
	return runServer(ctx, cfg, io, func(srv *server.Server) {
		fmt.Fprintf(io.out, "tailscope is ready: http://%s\n", srv.Addr())
		printOTLP(io, srv)
		if m := srv.Mirror(); m != nil {
			fmt.Fprintf(io.out, "  mirrors %s on %s: http://%s/sessions/%s\n", cfg.Mirror.Primary, m.State().Listen, srv.Addr(), m.ID())
		}
	})
}

func printOTLP(io streams, srv *server.Server) {
	if a := srv.OTLPGRPC(); a != "" {
		fmt.Fprintf(io.out, "  OTLP over gRPC on %s\n", a)
	}
	if a := srv.OTLPHTTP(); a != "" {
		fmt.Fprintf(io.out, "  OTLP over HTTP on %s\n", a)
	}
}

// runServer runs a server, or an agent, until ctx is done or a part of it fails. announce
// is called once it is ready.
func runServer(ctx context.Context, cfg config.Config, io streams, announce func(*server.Server)) error {
	if err := refuseBackup(vfs.Default, cfg.Data, restoreHint, cfg.Data); err != nil {
		return err
	}
	defer server.PaceCollector()()
	log := newLogger(cfg, io.err)
	server.LimitHeap(cfg, log)
	srv, err := server.Start(ctx, server.Settings{Config: cfg, Log: log, Version: Version()})
	if err != nil {
		return startHint(err, cfg)
	}
	announce(srv)
	failed := untilStopped(ctx, srv, log)
	// The caller's context is done; what was accepted still has to be kept.
	closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopServing)
	defer cancel()
	return errors.Join(failed, srv.Close(closing))
}

// untilStopped waits until ctx is done or a part of the server fails, and reads the
// files of checks again whenever SIGHUP asks for it.
func untilStopped(ctx context.Context, srv *server.Server, log *slog.Logger) error {
	again := make(chan os.Signal, 1)
	signal.Notify(again, syscall.SIGHUP)
	defer signal.Stop(again)
	for {
		select {
		case <-again:
			_ = srv.Reload(ctx) // says itself what was wrong
		case <-ctx.Done():
			log.Info("stopping")
			return nil
		case err := <-srv.Failed():
			return err
		}
	}
}

func startHint(err error, cfg config.Config) error {
	switch {
	case errors.Is(err, store.ErrLocked):
		return withHint(err, "another tailscope has %s open: stop it, or give this one a directory of its own with --data", cfg.Data)
	case errors.Is(err, store.ErrCorrupt):
		return withHint(err, "nothing has been deleted: tailscope doctor --data %s explains, and with --repair puts it in order", cfg.Data)
	case errors.Is(err, store.ErrVersion):
		return withHint(err, "%s was written by another version of tailscope: use that version, or another directory with --data", cfg.Data)
	case errors.Is(err, store.ErrFull):
		return withHint(err, "free some space, or bound the store by retention.max_bytes")
	case errors.Is(err, server.ErrListen):
		return withHint(err, "choose another address with --listen, --otlp-grpc or --otlp-http")
	}
	return err
}
