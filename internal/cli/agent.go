package cli

import (
	"errors"
	"fmt"
	"os"
	"slices"

	"github.com/spf13/cobra"

	"tailscope/internal/config"
	"tailscope/internal/server"
)

// agentFlags are the settings that have a flag of tailscope agent, beside those of the
// section agent.
var agentFlags = []string{"data", "listen", "allowed_hosts", "otlp.grpc", "otlp.http", "labels.tenant", "labels.extra", "limits.memory", "ingest.flush", "log.level", "log.format", "debug.listen"}

func newAgent(io streams) *cobra.Command {
	var file string
	var printConfig bool
	flags := &overrides{}
	cmd := &cobra.Command{
		Use:   "agent --to URL",
		Short: "beside the application: aggregates what it measures, and sends a server the distributions",
		Long: `Agent stands beside an application. It takes OTLP and follows access logs as a server
does, breaks requests down, and sends a server the distributions in the packed form: a
fraction of the bytes, and of the work at the server. What the server does not take waits
on disk, and counts exactly once when it is back.

Settings are those of tailscope serve, and the section agent: docs/agent.md. Those that
have no flag are given by --set, under their key in the file.`,
		Example: `  tailscope agent --to http://tailscope:4318 --data /var/lib/tailscope-agent
  tailscope agent --to http://tailscope:4318 --config agent.yaml --set agent.spool=4GiB`,
		Args: exactArgs(0, ""),
	}
	f := cmd.Flags()
	f.StringVar(&file, "config", "", "read settings from this YAML `file`")
	f.BoolVar(&printConfig, "print-config", false, "print the settings that result, as a file, and stop")
	base := agentDefaults()
	flags.base = &base
	for _, s := range config.Settings {
		switch {
		case s.Key == "agent.to":
			flags.add(f, s, "to")
		case s.Key == "agent.name":
			flags.add(f, s, "name")
		case s.Key == "agent.forward":
			flags.add(f, s, "forward")
		case slices.Contains(agentFlags, s.Key):
			flags.add(f, s, s.Flag())
		}
	}
	(&settings{config: flags}).addFlag(f, "agent.spool=4GiB")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		cfg, err := loadConfig(base, file, os.Environ(), flags)
		if err != nil {
			return usage{err}
		}
		if err := checkAgent(&cfg); err != nil {
			return usage{err}
		}
		if printConfig {
			_, err := fmt.Fprint(io.out, cfg.YAML())
			return err
		}
		return runServer(cmd.Context(), cfg, io, func(srv *server.Server) {
			fmt.Fprintf(io.out, "tailscope agent is ready, and sends to %s\n", cfg.Agent.To)
			printOTLP(io, srv)
			fmt.Fprintf(io.out, "  state and metrics on http://%s\n", srv.Addr())
		})
	}
	return cmd
}

// agentDefaults returns the default settings of an agent. It has a directory and an address
// of its own, so that it starts beside a server.
func agentDefaults() config.Config {
	c := config.Default()
	c.Data, c.Listen = "agent-data", "127.0.0.1:7098"
	return c
}

// checkAgent reports settings that an agent does not have.
func checkAgent(c *config.Config) error {
	switch {
	case c.Agent.To == "":
		return withHint(errors.New("--to: an agent needs a server"), "write tailscope agent --to http://SERVER:4318, the server's OTLP over HTTP")
	case c.Store != "": // with it the agent would join the servers of that store
		return withHint(errors.New("store: an agent stores nothing in ClickHouse"), "give the address to the server")
	case len(c.Checks) > 0:
		return withHint(errors.New("checks: an agent guards nothing"), "give the files to the server")
	case c.Mirror.Wanted():
		return withHint(errors.New("mirror: an agent mirrors nothing"), "run tailscope mirror")
	}
	return nil
}
