package main

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"

	"tailscope/benchmarks/report"
	"tailscope/test/program"
)

// microPackages are those whose benchmarks are of the hot paths.
var microPackages = []struct{ path, text string }{
	{"./hist", "Recording, merging, encoding and reading distributions."},
	{"./internal/store/runcodec", "The entropy coder of settled runs."},
	{"./internal/observe/...", "Decoding OTLP, mapping attributes, taking literals out of SQL."},
	{"./internal/agg", "Observations into open slots, journalled."},
}

// micro runs the packages' own benchmarks and keeps their figures.
func micro(ctx context.Context, o *options, r *report.Report) error {
	root, err := program.Root()
	if err != nil {
		return err
	}
	for _, p := range microPackages {
		if !o.wants(p.path) {
			continue
		}
		benchtime := "200ms"
		if o.quick {
			benchtime = "10ms"
		}
		o.logf("go test -bench . %s", p.path)
		var out bytes.Buffer
		cmd := exec.CommandContext(ctx, "go", "test", "-run", "^$", "-bench", ".", "-benchmem", "-benchtime", benchtime,
			"-count", strconv.Itoa(o.reps), "-timeout", "10m", p.path)
		cmd.Dir, cmd.Stdout, cmd.Stderr = root, &out, os.Stderr
		if err := cmd.Run(); err != nil {
			return fmt.Errorf("go test -bench . %s: %w\n%s", p.path, err, out.Bytes())
		}
		parseBench(r.Section(strings.TrimPrefix(p.path, "./"), p.text), &out)
	}
	return nil
}

// benchLine is a line of Go's benchmark output; the procs suffix is dropped.
var benchLine = regexp.MustCompile(`^Benchmark(\S+?)(?:-\d+)?\s+\d+\s+(.*)$`)

// parseBench adds what `go test -bench` printed.
func parseBench(sec *report.Section, out *bytes.Buffer) {
	for s := bufio.NewScanner(out); s.Scan(); {
		m := benchLine.FindStringSubmatch(s.Text())
		if m == nil {
			continue
		}
		fields := strings.Fields(m[2])
		for i := 0; i+1 < len(fields); i += 2 {
			if v, err := strconv.ParseFloat(fields[i], 64); err == nil {
				sec.Add(m[1], "tailscope", fields[i+1], 0, v)
			}
		}
	}
}
