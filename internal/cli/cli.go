// Package cli is the command line. Each command is a function of its arguments and
// streams. It writes to stderr, in lower case, what went wrong and what to do next.
package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime/debug"
	"strings"
	"unicode"

	"tailscope/internal/report"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// version is printed by `tailscope version`; the Makefile sets it.
var version = ""

// Version returns the version the program was built as.
func Version() string {
	if version != "" {
		return version
	}
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, s := range info.Settings {
			if s.Key == "vcs.revision" && len(s.Value) >= 12 {
				return "devel-" + s.Value[:12]
			}
		}
	}
	return "devel"
}

// The exit codes: 0 done, 1 failed, 2 wrong use.
const (
	exitOK = iota
	exitFailed
	exitUsage
)

// streams holds the input and the outputs of a command.
type streams struct {
	in       io.Reader
	out, err io.Writer
}

// hinted is an error with the reader's next step.
type hinted struct {
	error
	hint string
}

func (h hinted) Unwrap() error { return h.error }

func withHint(err error, format string, args ...any) error {
	return hinted{err, fmt.Sprintf(format, args...)}
}

// usage marks an error as wrong use rather than failure.
type usage struct{ error }

func (u usage) Unwrap() error { return u.error }

// Run executes one command line and returns the exit code. It ends when the
// command does, or soon after ctx is done.
func Run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	root := newRoot(streams{stdin, stdout, stderr})
	root.SetArgs(args)
	root.SetIn(stdin)
	root.SetOut(stdout)
	root.SetErr(stderr)
	err := root.ExecuteContext(ctx)
	if err == nil {
		return exitOK
	}
	code := exitFailed
	var e ended
	if errors.As(err, &e) {
		if code = e.code; errors.Is(err, errSilent) {
			return code
		}
	}
	for line := range strings.SplitSeq(err.Error(), "\n") {
		fmt.Fprintf(stderr, "tailscope: %s\n", report.Printable(line))
	}
	var h hinted
	if errors.As(err, &h) {
		fmt.Fprintf(stderr, "hint: %s\n", h.hint)
	}
	var u usage
	if errors.As(err, &u) && code == exitFailed {
		return exitUsage
	}
	return code
}

// helpWidth is the width of a line of help, in characters.
const helpWidth = 120

func newRoot(io streams) *cobra.Command {
	root := &cobra.Command{
		Use:   "tailscope",
		Short: "measure every request, keep the whole distribution",
		Long: `Tailscope takes spans and metrics by OTLP, keeps every timing in mergeable
histograms, and shows the whole distribution: in the browser, in the
terminal, or through its API.

  tailscope demo     the server and a small real shop under load, to look at
  tailscope serve    the server`,
		SilenceErrors: true,
		SilenceUsage:  true,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return nil
			}
			err := fmt.Errorf("unknown command %q", args[0])
			if near := cmd.SuggestionsFor(args[0]); len(near) > 0 {
				return usage{withHint(err, "did you mean tailscope %s?", near[0])}
			}
			return usage{withHint(err, "tailscope --help lists the commands")}
		},
	}
	version := root.Flags().BoolP("version", "v", false, "version for tailscope")
	root.RunE = func(cmd *cobra.Command, _ []string) error {
		if *version {
			return printVersion(io.out)
		}
		return cmd.Help()
	}
	root.SuggestionsMinimumDistance = 2
	root.SetUsageFunc(printUsage)
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return usage{flagError(cmd, err)}
	})
	root.AddCommand(newServe(io), newAgent(io), newDemo(io), newQuery(io), newCompare(io), newChanges(io), newApdex(io), newReport(io), newMark(io), newMirror(io), newExperiment(io), newSession(io), newBench(io), newCapacity(io), newSimulate(io), newCheck(io), newImport(io), newCluster(io), newDoctor(io), newBackup(io), newRestore(io), newVersion(io))
	return root
}

// printUsage prints what cobra's own function does, with lines of helpWidth. A template of cobra's
// would do, but its package calls methods by name, so that the linker would keep all there are.
func printUsage(cmd *cobra.Command) error {
	var b strings.Builder
	b.WriteString("Usage:")
	if cmd.Runnable() {
		fmt.Fprintf(&b, "\n  %s", cmd.UseLine())
	}
	if cmd.HasAvailableSubCommands() {
		fmt.Fprintf(&b, "\n  %s [command]", cmd.CommandPath())
	}
	if len(cmd.Aliases) > 0 {
		fmt.Fprintf(&b, "\n\nAliases:\n  %s", cmd.NameAndAliases())
	}
	if cmd.HasExample() {
		fmt.Fprintf(&b, "\n\nExamples:\n%s", cmd.Example)
	}
	if cmd.HasAvailableSubCommands() {
		b.WriteString("\n\nAvailable Commands:")
		for _, c := range cmd.Commands() {
			if c.IsAvailableCommand() || c.Name() == "help" {
				fmt.Fprintf(&b, "\n  %-*s %s", c.NamePadding(), c.Name(), c.Short)
			}
		}
	}
	flags := func(title string, fs *pflag.FlagSet) {
		fmt.Fprintf(&b, "\n\n%s:\n%s", title, strings.TrimRightFunc(fs.FlagUsagesWrapped(helpWidth), unicode.IsSpace))
	}
	if cmd.HasAvailableLocalFlags() {
		flags("Flags", cmd.LocalFlags())
	}
	if cmd.HasAvailableInheritedFlags() {
		flags("Global Flags", cmd.InheritedFlags())
	}
	if cmd.HasAvailableSubCommands() {
		fmt.Fprintf(&b, "\n\nUse \"%s [command] --help\" for more information about a command.", cmd.CommandPath())
	}
	b.WriteByte('\n')
	_, err := io.WriteString(cmd.OutOrStderr(), b.String())
	return err
}

// exactArgs is cobra.ExactArgs with a sentence that says what to write.
func exactArgs(n int, what string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) == n {
			return nil
		}
		if n == 0 {
			return usage{withHint(fmt.Errorf("%s takes no arguments, got %q", cmd.CommandPath(), args[0]),
				"%s --help shows how it is used", cmd.CommandPath())}
		}
		return usage{withHint(fmt.Errorf("%s needs %s", cmd.CommandPath(), what), "write %s", cmd.UseLine())}
	}
}

// group completes a command that only has others below it.
func group(cmd *cobra.Command, commands ...*cobra.Command) *cobra.Command {
	var names []string
	for _, c := range commands {
		names = append(names, c.Name())
	}
	last := len(names) - 1
	cmd.Args = func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 {
			return nil
		}
		return usage{withHint(fmt.Errorf("unknown command %q", args[0]), "write %s %s or %s", cmd.CommandPath(), strings.Join(names[:last], ", "), names[last])}
	}
	cmd.RunE = func(cmd *cobra.Command, _ []string) error { return cmd.Help() }
	cmd.AddCommand(commands...)
	return cmd
}

func printVersion(w io.Writer) error {
	_, err := fmt.Fprintf(w, "tailscope %s\n", Version())
	return err
}

func newVersion(io streams) *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "print the version",
		Args:  exactArgs(0, ""),
		RunE:  func(*cobra.Command, []string) error { return printVersion(io.out) },
	}
}
