package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"tailscope/api"
	"tailscope/internal/guard/check/expr"
	"tailscope/internal/guard/check/spec"
	"tailscope/internal/report"
	"tailscope/internal/server"
)

func newCheckValidate(io streams) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "validate FILE...",
		Short: "say everything that is wrong with files of checks",
		Long: `Validate reads files of checks, or patterns of files, as one set, and says what
is wrong with them, each mistake with its file, line and column. It needs no
server, runs nothing, and reads no secret.`,
		Example: `  tailscope check validate /etc/tailscope/checks/*.yaml
  tailscope check validate --print checks.yaml`,
		Args: someFiles,
	}
	var print, asJSON bool
	cmd.Flags().BoolVar(&print, "print", false, "print each check with its templates merged in")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print problems as JSON")
	cmd.RunE = func(_ *cobra.Command, args []string) error {
		file, problems := server.ReadChecks(args)
		if asJSON {
			out := struct {
				Problems []spec.Problem `json:"problems"`
			}{problems}
			if err := report.WriteJSON(io.out, out); err != nil {
				return err
			}
			if len(problems) > 0 {
				return ended{errSilent, exitFailed}
			}
			return nil
		}
		if len(problems) > 0 {
			return problemsError(problems)
		}
		if print {
			var b strings.Builder
			for i := range file.Checks {
				b.WriteString(strings.TrimPrefix(file.Checks[i].YAML(), "checks:\n"))
			}
			_, err := fmt.Fprintf(io.out, "checks:\n%s", b.String())
			return err
		}
		_, err := fmt.Fprintf(io.out, "%s, %s, %s in %s: no mistakes\n", report.Plural(len(file.Checks), "check"),
			report.Plural(len(file.Profiles), "profile"), report.Plural(len(file.Receivers), "receiver"), report.Plural(len(file.Files), "file"))
		return err
	}
	return cmd
}

func someFiles(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return usage{withHint(fmt.Errorf("%s needs a file", cmd.CommandPath()), "write %s", cmd.UseLine())}
	}
	return nil
}

func problemsError(problems []spec.Problem) error {
	var errs []error
	for _, p := range problems {
		errs = append(errs, p)
	}
	return withHint(errors.Join(errs...), "%s; docs/checks.md has every key", report.Plural(len(problems), "mistake"))
}

func newCheckSchema(io streams) *cobra.Command {
	return &cobra.Command{
		Use:   "schema",
		Short: "print a JSON Schema of files of checks, for editors",
		Long: `Schema prints a JSON Schema (draft 2020-12). Editors with YAML's language server
use it for files that begin with

  # yaml-language-server: $schema=checks.schema.json`,
		Args: exactArgs(0, ""),
		RunE: func(*cobra.Command, []string) error {
			_, err := io.out.Write(spec.Schema())
			return err
		},
	}
}

func newCheckRun(io streams) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "run NAME",
		Short: "run a check now, and end with its level as Nagios plugins do",
		Long: `Run measures once and prints one line, with performance data, as a Nagios plugin
does: exit code 0 is OK, 1 WARNING, 2 CRITICAL and 3 UNKNOWN.

With --file it runs here and needs no server, which is how a command, a request
or a query of SQL is tried out; there is no history here. With --server a server
runs it, besides its schedule, and stores what it comes to.`,
		Example: `  tailscope check run 'front page' --file checks.yaml
  tailscope check run orders --server http://127.0.0.1:7099`,
		Args: func(cmd *cobra.Command, args []string) error {
			if err := exactArgs(1, "the name of a check")(cmd, args); err != nil {
				return ended{err, exitCode("UNKNOWN")}
			}
			return nil
		},
	}
	// Wrong use is UNKNOWN too: 2 would be CRITICAL to whoever reads the code.
	cmd.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return ended{usage{withHint(err, "%s --help lists the flags", cmd.CommandPath())}, exitCode("UNKNOWN")}
	})
	var files []string
	var q checkQuestion
	q.question = newQuestion(io, "table")
	f := cmd.Flags()
	acceptFormer(cmd, "to")
	f.StringArrayVar(&files, "file", nil, "`file` of checks, or a pattern of files; may be given again")
	f.StringVar(&q.url, "server", "", "`url` of the server that is to run it")
	f.BoolVar(&q.json, "json", false, "print the check as the server would answer it")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		c, err := q.runOnce(cmd.Context(), files, args[0])
		if err != nil {
			if !q.json {
				// What reads the output of plugins does not read their errors.
				first, _, _ := strings.Cut(err.Error(), "\n")
				if _, err := fmt.Fprintln(io.out, report.Printable("UNKNOWN "+args[0]+": "+strings.ReplaceAll(first, "|", "/"))); err != nil {
					return err
				}
			}
			return ended{err, exitCode("UNKNOWN")}
		}
		err = q.answer(nil, func() *report.Document { return report.OneLine(c, report.PluginLine(c)) })
		if code := exitCode(c.Level); err == nil && code != 0 {
			return ended{errSilent, code}
		}
		return err
	}
	return cmd
}

func (q *checkQuestion) runOnce(ctx context.Context, files []string, name string) (*api.Check, error) {
	switch {
	case len(files) > 0 && q.url != "":
		return nil, usage{errors.New("--file runs it here and --server on a server: write one of them")}
	case q.url != "":
		c, err := q.client().RunCheck(ctx, name)
		if err != nil {
			return nil, q.failed(err)
		}
		return c, nil
	case len(files) == 0:
		return nil, usage{withHint(errors.New("no file and no server is named"), "write --file checks.yaml, or --server http://127.0.0.1:7099")}
	}
	file, problems := server.ReadChecks(files)
	if len(problems) > 0 {
		return nil, problemsError(problems)
	}
	i := slices.IndexFunc(file.Checks, func(c spec.Check) bool { return c.Name == name })
	if i < 0 {
		var names []string
		for _, c := range file.Checks {
			names = append(names, c.Name)
		}
		return nil, withHint(fmt.Errorf("no check is called %q", name), "there are %s", strings.Join(names, ", "))
	}
	c := file.Checks[i]
	if c.Each != nil {
		return nil, withHint(fmt.Errorf("%s is applied to each of several series, which only a server knows", name), "write --server with the server's address, and the id of one of them")
	}
	if readsHistory(&c) {
		fmt.Fprintf(q.streams.err, "tailscope: %s reads history, and there is none here: --server asks a server that has it\n", name)
	}
	return server.RunCheck(ctx, file, c)
}

func readsHistory(c *spec.Check) bool {
	t := c.Threshold
	looks := func(p *expr.Program) bool { return p != nil && len(p.Selectors()) > 0 }
	return looks(c.Value.Expr) || c.Value.Query != nil || c.Value.PromQL != "" || t != nil && looks(t.Of.Expr)
}
