package cli

import (
	"bufio"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"tailscope/api"
	"tailscope/client"
	"tailscope/internal/figure"
	"tailscope/internal/observe/accesslog"
	"tailscope/internal/report"
)

func newImport(io streams) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "import",
		Short: "take in what was recorded before: access logs",
		Args:  exactArgs(0, ""),
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newImportAccessLog(io))
	return cmd
}

// importLog is one run of `tailscope import access-log`.
type importLog struct {
	io streams
	serverFlag
	config  accesslog.Config
	since   string
	again   bool
	dry     bool
	now     func() time.Time
	source  *accesslog.Source
	earlier time.Time
	noticed bool // that there are no durations
}

func newImportAccessLog(io streams) *cobra.Command {
	run := &importLog{io: io, now: time.Now}
	cmd := &cobra.Command{
		Use:   "access-log FILE...",
		Short: "make requests of the lines of access logs",
		Long: `Import access-log reads access logs of nginx and others, and sends them to the
server, where their requests are counted as if they had been sent as spans:
with their time at upstreams and in queues, routes and tenants.

FILE may be packed (.gz), and - is the standard input. Several files are read
in the order of their first lines, whatever order they are given in.

A file that was imported before is refused; one that has grown since goes on
where it ended, and one whose import broke off goes on where it stopped.

The format is recognised by the lines, or given by --format: tailscope (the one recommended, see
docs/access-logs.md), combined-time, apache, haproxy, alb, envoy-text, traefik-text,
json, caddy, traefik, envoy, json:KEY=FIELD,…, or the log_format of nginx itself, in quotes.`,
		Example: `  tailscope import access-log --service shop /var/log/nginx/access.log*
  tailscope import access-log --service shop --format '$msec $request_time $status "$request"' --dry-run old.log.gz
  zcat old/*.gz | tailscope import access-log --service shop --tenant-from 'host:^([a-z]+)\.' -`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return usage{withHint(errors.New("tailscope import access-log needs a file"), "write %s, or - for the standard input", cmd.UseLine())}
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error { return run.run(cmd.Context(), args) },
	}
	fs := cmd.Flags()
	run.serverFlag.register(fs)
	fs.StringVar(&run.config.Service, "service", "", "`name` of the service whose requests these are (needed)")
	fs.StringVar(&run.config.Format, "format", "", "`format` of the lines; default by the first of them")
	fs.StringVar(&run.config.Tenant, "tenant-from", "", "where the tenant stands: `host, host:REGEX, path:REGEX or field:NAME`")
	fs.StringArrayVar(&run.config.Routes, "route", nil, "name requests whose path matches, before routes are learned: `'REGEX=NAME'`; may be repeated")
	fs.StringVar(&run.config.Version, "version-from", "", "`variable` or field that holds the version")
	fs.StringVar(&run.config.Variant, "variant-from", "", "`variable` or field that holds the variant")
	fs.StringVar(&run.since, "since", "", "pass over requests that ended before this `moment`: 2026-03-01, RFC 3339, or now-7d")
	fs.BoolVar(&run.again, "again", false, "import files that were imported before, and count their requests twice")
	fs.BoolVar(&run.dry, "dry-run", false, "send nothing; show the routes and tenants that were found")
	return cmd
}

func (r *importLog) run(ctx context.Context, args []string) error {
	if r.config.Service == "" && r.dry {
		r.config.Service = "dry-run"
	}
	if r.config.Service == "" {
		return usage{withHint(errors.New("whose requests these are is not said"), "add --service and a name, such as --service shop")}
	}
	var err error
	if r.source, err = r.config.Compile(); err != nil {
		return usage{withHint(err, "docs/access-logs.md lists the formats; --dry-run shows what is understood")}
	}
	if r.since != "" {
		if r.earlier, err = parseMoment(r.since, r.now()); err != nil {
			return usage{err}
		}
	}
	files, err := openLogs(args, r.io.in)
	defer func() {
		for _, f := range files {
			f.Close()
		}
	}()
	if err != nil {
		return err
	}
	if err := r.sortFiles(files); err != nil {
		return err
	}
	var errs []error
	known := 0
	sum := api.AccessLogImport{Refused: map[string]uint64{}}
	for _, f := range files {
		out, err := r.importFile(ctx, f)
		var answer *client.Error
		switch {
		case err == nil:
			r.printResult(f.name, out)
			sum.Lines += out.Lines
			sum.Accepted += out.Accepted
		case errors.As(err, &answer) && answer.Code == "conflict":
			known++
			errs = append(errs, fmt.Errorf("%s: %w", f.name, err))
		default:
			// What is wrong with one file is likely wrong with the next.
			return errors.Join(append(errs, r.hint(fmt.Errorf("%s: %w", f.name, err)))...)
		}
	}
	if len(files) > 1 {
		fmt.Fprintf(r.io.out, "%d files: %s lines, %s requests\n", len(files)-known, figure.Thousands(sum.Lines), figure.Thousands(sum.Accepted))
	}
	if known > 0 {
		return withHint(errors.Join(errs...), "--again counts their requests once more")
	}
	if sum.Lines > 0 && sum.Accepted == 0 {
		return withHint(errors.New("none of the lines could be used"), "the lines shown above say why; --format says what they are")
	}
	return nil
}

func (r *importLog) hint(err error) error {
	switch {
	case errors.Is(err, client.ErrUnreachable):
		return withHint(err, "start one with tailscope serve, or name another with --server or TAILSCOPE_SERVER; --dry-run needs none")
	}
	return err
}

// importFile imports a file, or only looks at it.
func (r *importLog) importFile(ctx context.Context, f *logFile) (*api.AccessLogImport, error) {
	p := newProgress(r.io.err, f.name, f.size, r.now)
	defer p.done()
	body := p.watch(f)
	// What the lines are not is known before they are sent.
	head, err := f.text.Peek(f.text.Size())
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	if _, err := r.source.ForLines(head); err != nil {
		return nil, err
	}
	if r.dry {
		in := accesslog.New(accesslog.Options{Now: r.now})
		return in.Import(ctx, body, accesslog.Import{Source: r.source, Since: r.earlier, Dry: true})
	}
	q := r.config.Values()
	if !r.earlier.IsZero() {
		q.Set("since", r.earlier.UTC().Format(time.RFC3339))
	}
	if r.again {
		q.Set("again", "true")
	}
	return r.client().ImportAccessLog(ctx, q, body)
}

// printResult prints the result of a file.
func (r *importLog) printResult(name string, o *api.AccessLogImport) {
	w := r.io.out
	verb := "imported"
	if r.dry {
		verb = "would import"
	}
	fmt.Fprintf(w, "%s: %s %s requests of %s lines (%s)", name, verb, figure.Thousands(o.Accepted), figure.Thousands(o.Lines), o.Format)
	if o.Accepted > 0 {
		at := func(f api.Float) string { return time.UnixMilli(int64(f * 1e3)).UTC().Format("2006-01-02 15:04:05") }
		fmt.Fprintf(w, ", %s to %s UTC", at(o.Start), at(o.End))
	}
	if o.ResumedAt > 0 {
		fmt.Fprintf(w, ", going on after %s that had been", report.Bytes(o.ResumedAt))
	}
	if o.Followed > 0 {
		fmt.Fprintf(w, ", passing over %s that the server followed", report.Bytes(o.Followed))
	}
	fmt.Fprintln(w)
	var reasons []string
	for reason, n := range o.Refused {
		reasons = append(reasons, fmt.Sprintf("%s %s", strings.ReplaceAll(reason, "_", " "), figure.Thousands(n)))
	}
	if slices.Sort(reasons); len(reasons) > 0 {
		fmt.Fprintf(w, "  not used: %s\n", strings.Join(reasons, ", "))
	}
	for _, p := range o.Problems {
		fmt.Fprintf(w, "  line %d, column %d: %s\n    %s\n", p.Line, p.Column, p.Message, report.Printable(p.Text))
	}
	if o.Notice != "" && !r.noticed {
		r.noticed = true // it is the same for the next file
		fmt.Fprintf(w, "  notice: %s\n", strings.ReplaceAll(o.Notice, "\n", "\n    "))
	}
	if !r.dry {
		return
	}
	shares(w, "routes", o.Routes, o.RouteCount, o.Accepted)
	shares(w, "tenants", o.Tenants, o.TenantCount, o.Accepted)
}

func shares(w io.Writer, what string, rows []api.AccessLogShare, all int, total uint64) {
	if len(rows) == 0 {
		return
	}
	fmt.Fprintf(w, "  %d %s\n", all, what)
	for _, s := range rows {
		fmt.Fprintf(w, "    %5.1f %%  %9s  %s\n", 100*float64(s.Requests)/float64(total), figure.Thousands(s.Requests), report.Printable(s.Name))
	}
	if all > len(rows) {
		fmt.Fprintf(w, "    and %d more\n", all-len(rows))
	}
}

// logFile is a log to be read once, unpacked.
type logFile struct {
	name   string
	size   int64 // as it lies on disk; 0 if not known
	file   io.ReadCloser
	onDisk *counted
	text   *bufio.Reader
}

// counted counts what is read of a file as it lies on disk.
type counted struct {
	r io.Reader
	n int64
}

func (c *counted) Read(b []byte) (int, error) {
	n, err := c.r.Read(b)
	c.n += int64(n)
	return n, err
}

func (f *logFile) Read(b []byte) (int, error) { return f.text.Read(b) }
func (f *logFile) Close()                     { _ = f.file.Close() }

// openLogs opens all files, so that a wrong name is known before the first is
// imported.
func openLogs(args []string, stdin io.Reader) ([]*logFile, error) {
	var files []*logFile
	for i, name := range args {
		if slices.Contains(args[:i], name) {
			return files, usage{fmt.Errorf("%s is given twice", name)}
		}
		f := &logFile{name: name}
		if name == "-" {
			f.name, f.file = "standard input", io.NopCloser(stdin)
		} else {
			file, err := os.Open(name)
			if err != nil {
				return files, err
			}
			f.file = file
			if info, err := file.Stat(); err == nil && info.Mode().IsRegular() {
				f.size = info.Size()
			}
		}
		files = append(files, f)
		f.onDisk = &counted{r: f.file}
		f.text = bufio.NewReaderSize(f.onDisk, 256<<10)
		if magic, _ := f.text.Peek(2); string(magic) == "\x1f\x8b" {
			z, err := gzip.NewReader(f.text)
			if err != nil {
				return files, fmt.Errorf("%s: %w", f.name, err)
			}
			f.text = bufio.NewReaderSize(z, 256<<10)
		}
	}
	return files, nil
}

// sortFiles sorts files by the time of their first line. A file without a readable line
// stays where it is.
func (r *importLog) sortFiles(files []*logFile) error {
	if len(files) < 2 {
		return nil
	}
	first := make(map[*logFile]time.Time, len(files))
	for _, f := range files {
		if f.name == "standard input" {
			continue // it may be long in coming
		}
		head, err := f.text.Peek(f.text.Size())
		if err != nil && !errors.Is(err, io.EOF) {
			return fmt.Errorf("%s: %w", f.name, err)
		}
		if t, ok := r.source.FirstTime(head); ok {
			first[f] = t
		}
	}
	slices.SortStableFunc(files, func(a, b *logFile) int {
		ta, oka := first[a]
		tb, okb := first[b]
		if !oka || !okb {
			return 0
		}
		return ta.Compare(tb)
	})
	return nil
}
