package cli

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"tailscope/internal/experiment/bench/tally"
	"tailscope/internal/report"
)

// reportFiles holds the formats in which a report is written, and its files.
type reportFiles struct {
	format  string
	outputs []string
}

func (f *reportFiles) register(fs *pflag.FlagSet) {
	fs.StringVar(&f.format, "report", "", "text, md, json or html: what is printed at the end; default text")
	fs.StringArrayVarP(&f.outputs, "output", "o", nil, "`file` for the report, its format by --report or its ending; may be given again")
}

// runOutput names a run or a search, and the server that it reports to.
type runOutput struct {
	streams
	reportFiles
	now               func() time.Time
	limits            tally.Limits // of the generator's own error
	name, service, to string
	quiet             bool
	command           string // that makes such a one again
}

func (f *runOutput) register(fs *pflag.FlagSet) {
	f.reportFiles.register(fs)
	fs.BoolVarP(&f.quiet, "quiet", "q", false, "show nothing while it runs")
}

// reportFormats maps the names of formats to the formats of reports.
var reportFormats = map[string]string{"text": "text", "txt": "text", "md": "md", "markdown": "md", "json": "json", "html": "html", "htm": "html"}

// complete checks that reports can be written, before anything is done for them.
func (f *reportFiles) complete() error {
	if f.format != "" && reportFormats[f.format] == "" {
		return usage{withHint(fmt.Errorf("--report %s is not known", f.format), "text, md, json or html")}
	}
	f.format = reportFormats[f.format]
	for _, name := range f.outputs {
		if f.formatOf(name) == "" {
			return usage{withHint(fmt.Errorf("--output %s: its ending names no format", name), "say it with --report, or end it in .html, .md, .json or .txt")}
		}
		if dir := filepath.Dir(name); name != "-" {
			if _, err := os.Stat(dir); err != nil {
				return usage{withHint(fmt.Errorf("--output %s: %w", name, err), "make the directory first: mkdir -p %s", dir)}
			}
		}
	}
	return nil
}

func (f *reportFiles) formatOf(name string) string {
	if by := reportFormats[strings.TrimPrefix(strings.ToLower(filepath.Ext(name)), ".")]; by != "" && (f.format == "" || len(f.outputs) > 1) {
		return by
	}
	return f.format
}

// write writes the report to every file, and prints it unless a file took it.
func (f *reportFiles) write(out io.Writer, d *report.Document) error {
	var errs []error
	to := func(name, format string) { errs = append(errs, toFile(name, out, d, format)) }
	for _, name := range f.outputs {
		to(name, f.formatOf(name))
	}
	format := f.format
	if format == "" || len(f.outputs) > 0 {
		format = "text"
	}
	if len(f.outputs) != 1 || f.outputs[0] != "-" {
		to("", format)
	}
	return errors.Join(errs...)
}
