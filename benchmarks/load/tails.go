package load

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"tailscope/test/program"
)

// Witness is a program that is asked what a target's tail is.
type Witness struct {
	Name string
	// Ours says that it is Tailscope.
	Ours bool
	find func(context.Context) (string, error)
	// args are those of a run; read reads the tail, or several of different clocks,
	// once it has ended, from its output and the files in j.dir.
	args func(j job) ([]string, error)
	read func(ctx context.Context, j job, output string) ([]Tail, error)
}

// FrozenRate is the rate at which the freezing target is asked by senders that can
// keep one, in requests a second.
const FrozenRate = 1000

const few = "10" // connections, workers, virtual users

// Witnesses take turns, Tailscope first: its tail, and the one that it would give
// if it counted from when requests are sent.
func Witnesses() []Witness {
	return []Witness{
		{"tailscope", true, built("tailscope"), func(j job) ([]string, error) {
			args, err := tailscope(j)
			return append(args, "--output", filepath.Join(j.dir, "run.json")), err
		}, readTailscope},
		{"vegeta, 10 workers", false, built("vegeta"), func(j job) ([]string, error) {
			args, err := vegeta(j)
			for i, a := range args {
				if a == "-workers" || a == "-max-workers" || a == "-connections" {
					args[i+1] = few
				}
			}
			return args, err
		}, readVegeta},
		{"hey, 10 workers", false, built("hey"), func(j job) ([]string, error) {
			return []string{"-z", j.during.String(), "-c", few, "-q", strconv.Itoa(j.rate / 10), "-o", "csv", j.url}, nil
		}, func(_ context.Context, _ job, output string) ([]Tail, error) {
			return column(output, ",", 0, time.Second)
		}},
		{"ab, 10 connections", false, installed("ab"), func(j job) ([]string, error) {
			n := int(7000 * j.during.Seconds()) // at the end of a time it fails where nothing answers
			return []string{"-q", "-k", "-c", few, "-n", strconv.Itoa(n), "-g", filepath.Join(j.dir, "times"), j.url}, nil
		}, func(_ context.Context, j job, _ string) ([]Tail, error) {
			b, err := os.ReadFile(filepath.Join(j.dir, "times"))
			if err != nil {
				return nil, err
			}
			return column(string(b), "\t", 4, time.Millisecond)
		}},
		{"k6, 10 virtual users", false, built("k6"), k6Closed, readK6},
		{"wrk, 10 connections", false, installed("wrk"), wrkClosed, readWrk},
	}
}

// Ask runs a witness against a target that freezes, a new one, for a time.
func (w *Witness) Ask(ctx context.Context, during time.Duration, dir string) (tails []Tail, err error) {
	path, err := w.find(ctx)
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	target, url, err := StartFrozen(ctx, dir)
	if err != nil {
		return nil, err
	}
	defer target.Kill()
	j := job{url: url, protocol: Plain, rate: FrozenRate, during: during, dir: dir}
	args, err := w.args(j)
	if err != nil {
		return nil, err
	}
	p, err := program.Start(filepath.Join(dir, "log"), nil, path, args...)
	if err != nil {
		return nil, err
	}
	defer p.Kill()
	select {
	case <-p.Done():
	case <-time.After(during + 30*time.Second):
		return nil, fmt.Errorf("it does not end: %s", tail(p.Log()))
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	tails, err = w.read(ctx, j, p.Log())
	if err != nil {
		err = fmt.Errorf("%w; it says: %s", err, tail(p.Log()))
	}
	return tails, err
}

func readTailscope(_ context.Context, j job, _ string) ([]Tail, error) {
	type latency struct {
		Max       float64            `json:"max"`
		Quantiles map[string]float64 `json:"quantiles"`
	}
	var run struct {
		Valid       bool     `json:"valid"`
		Invalid     []string `json:"invalid"`
		Latency     latency  `json:"latency"`
		Uncorrected latency  `json:"uncorrected"`
	}
	b, err := os.ReadFile(filepath.Join(j.dir, "run.json"))
	if err != nil {
		return nil, err
	}
	if err := json.Unmarshal(b, &run); err != nil {
		return nil, err
	}
	if !run.Valid {
		return nil, fmt.Errorf("the run is not valid: %s", strings.Join(run.Invalid, "; "))
	}
	var tails []Tail
	for _, l := range []latency{run.Latency, run.Uncorrected} {
		tails = append(tails, Tail{P50: l.Quantiles["0.5"], P99: l.Quantiles["0.99"], P999: l.Quantiles["0.999"], Max: l.Max})
	}
	return tails, nil
}

func readVegeta(ctx context.Context, j job, _ string) ([]Tail, error) {
	path, err := program.Build(ctx, "vegeta")
	if err != nil {
		return nil, err
	}
	b, err := exec.CommandContext(ctx, path, "encode", "-to", "csv", filepath.Join(j.dir, "results")).Output()
	if err != nil {
		return nil, err
	}
	return column(string(b), ",", 2, time.Nanosecond)
}

func k6Closed(j job) ([]string, error) {
	script := filepath.Join(j.dir, "script.js")
	err := os.WriteFile(script, fmt.Appendf(nil, `import http from "k6/http";
export const options = { vus: %s, duration: "%s", summaryTrendStats: ["p(50)", "p(99)", "p(99.9)", "max"] };
export default function () { http.get(%q); }
export function handleSummary(data) {
	const v = data.metrics.http_req_duration.values;
	return { %q: [v["p(50)"], v["p(99)"], v["p(99.9)"], v["max"]].join(" ") };
}
`, few, j.during, j.url, filepath.Join(j.dir, "tail")), 0o644)
	return []string{"run", "--quiet", "--no-usage-report", "--address", "", script}, err
}

func readK6(_ context.Context, j job, _ string) ([]Tail, error) {
	b, err := os.ReadFile(filepath.Join(j.dir, "tail"))
	if err != nil {
		return nil, err
	}
	return four(string(b), 1e-3)
}

// wrkClosed asks wrk for its figures as it corrects them: for an answer that took
// more than twice the mean time between two requests of a connection, it adds those
// that the connection would have had meanwhile (stats_correct in stats.c of 4.0 to
// 4.2, of which Debian has 4.1).
func wrkClosed(j job) ([]string, error) {
	script := filepath.Join(j.dir, "tail.lua")
	err := os.WriteFile(script, []byte(`done = function(summary, latency, requests)
	print(string.format("tail: %f %f %f %f", latency:percentile(50), latency:percentile(99), latency:percentile(99.9), latency.max))
end
`), 0o644)
	return []string{"-t1", "-c" + few, "-d" + j.seconds() + "s", "-s", script, j.url}, err
}

func readWrk(_ context.Context, _ job, output string) ([]Tail, error) {
	_, line, _ := strings.Cut(output, "tail: ")
	return four(line, 1e-6)
}

// four reads the four figures of a tail, in units of so many seconds.
func four(text string, unit float64) ([]Tail, error) {
	var t Tail
	if _, err := fmt.Sscan(text, &t.P50, &t.P99, &t.P999, &t.Max); err != nil {
		return nil, fmt.Errorf("its tail %q: %w", text, err)
	}
	return []Tail{{unit * t.P50, unit * t.P99, unit * t.P999, unit * t.Max}}, nil
}

// column returns the tail of the i-th column of a table; a head is passed over.
func column(table, separator string, i int, unit time.Duration) ([]Tail, error) {
	var all []time.Duration
	s := bufio.NewScanner(strings.NewReader(table))
	s.Buffer(nil, 1<<20)
	for s.Scan() {
		fields := strings.Split(s.Text(), separator)
		if len(fields) <= i {
			continue
		}
		if v, err := strconv.ParseFloat(fields[i], 64); err == nil {
			all = append(all, time.Duration(v*float64(unit)))
		}
	}
	if err := s.Err(); err != nil {
		return nil, err
	}
	if len(all) == 0 {
		return nil, errors.New("it wrote down no times")
	}
	slices.Sort(all)
	return []Tail{TailOf(all)}, nil
}
