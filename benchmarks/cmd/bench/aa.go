package main

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"tailscope/benchmarks/report"
	"tailscope/internal/experiment"
	"tailscope/internal/experiment/bench/tally"
	"tailscope/internal/judge"
	"tailscope/internal/judge/rounds"
)

// aaRepetitions is the number of experiments, aaRounds the rounds of each.
const aaRepetitions, aaRounds = 200, 5

// aaBench runs real experiments whose variant is the control under another name,
// and counts how often they find something.
func aaBench(ctx context.Context, o *options, r *report.Report) error {
	times := aaRepetitions
	if o.quick {
		times = 10
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	target := &http.Server{Handler: http.HandlerFunc(aaTarget), ReadHeaderTimeout: time.Minute}
	served := make(chan struct{})
	go func() { defer close(served); _ = target.Serve(l) }()
	defer func() { target.Close(); <-served }()
	path := filepath.Join(o.tmp, "aa.yaml")
	files := map[string]string{
		path: fmt.Sprintf(`experiment: one setting under two names
hypothesis: nothing differs
scenario: load.yaml
variable: name
control: {name: one}
variants: [{name: other}]
rounds: %d
`, aaRounds),
		filepath.Join(o.tmp, "load.yaml"): fmt.Sprintf(`scenario: load
target: http://%s
vars: {name: one}
queries:
  - {name: quick, request: "GET /quick?{{name}}", weight: 3}
  - {name: slow, request: "GET /slow?{{name}}"}
arrivals: poisson
connections: 16
phases: [{rate: 2000, for: 260ms}]
`, l.Addr()),
	}
	for name, text := range files {
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			return err
		}
	}
	x, problems := experiment.Load(path)
	if len(problems) > 0 {
		return problems[0]
	}
	s := r.Section("One setting under two names", fmt.Sprintf("%d experiments of %d rounds, each of a control and a variant that is the control under another name: 520 requests a run, Poisson arrivals, two queries, at a server in this process on loopback. An alarm of a measure is an interval of 95 %% that leaves out no difference; one of the verdict is any word but *same* and *no evidence*. The machine's own noise is what it is: the generator's limits are off, so no run is left out.", times, aaRounds))
	alarms, verdicts, queries, rows := map[string]int{}, 0, 0, 0
	begun := time.Now()
	for i := range times {
		if err := ctx.Err(); err != nil {
			return err
		}
		t, err := experiment.Run(ctx, x, experiment.Options{Limits: tally.Limits{Late: time.Hour, Share: 1e6, Busiest: 2, Starved: 2, Host: 2}})
		switch {
		case err != nil:
			return err
		case t.Failed != "":
			return fmt.Errorf("repetition %d: %s", i+1, t.Failed)
		case t.Stopping.Done != aaRounds:
			return fmt.Errorf("repetition %d has %d whole rounds of %d", i+1, t.Stopping.Done, aaRounds)
		}
		for _, row := range t.Rows {
			found := row.Verdict != judge.Same && row.Verdict != judge.NoEvidence
			if row.Query != "" {
				rows++
				if found {
					queries++
				}
				continue
			}
			if found {
				verdicts++
			}
			for _, m := range row.Measures {
				if math.IsNaN(float64(m.Low)) {
					continue
				}
				none := noEffect(m.Name)
				if _, ok := alarms[m.Name]; !ok {
					alarms[m.Name] = 0
				}
				if float64(m.Low) > none || float64(m.High) < none {
					alarms[m.Name]++
				}
			}
		}
		if (i+1)%20 == 0 {
			o.logf("aa: %d of %d after %s", i+1, times, time.Since(begun).Round(time.Second))
		}
	}
	s.Table = [][]string{{"what", "alarms", "of", "share", "95 % interval of the share", "nominal"}}
	line := func(what string, n, of int, nominal string) {
		low, high := binomial(n, of)
		s.Table = append(s.Table, []string{what, fmt.Sprint(n), fmt.Sprint(of), fmt.Sprintf("%.1f %%", 100*float64(n)/float64(of)), fmt.Sprintf("%.1f – %.1f %%", 100*low, 100*high), nominal})
	}
	for _, name := range rounds.Shown {
		if n, ok := alarms[name]; ok {
			line(judge.Title(name, rounds.Key{}.Of()), n, times, "5 %")
		}
	}
	line("the verdict", verdicts, times, "at most 5 %")
	line("a query's verdict", queries, rows, "at most 5 %")
	return nil
}

// noEffect returns the effect that is none.
func noEffect(measure string) float64 {
	if measure == "errors" {
		return 0
	}
	return 1
}

// aaTarget answers at once, or after a while that differs.
func aaTarget(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path == "/slow" {
		time.Sleep(time.Duration(float64(time.Millisecond) * math.Exp(0.5*rand.NormFloat64())))
	}
	_, _ = w.Write([]byte("ok"))
}

// binomial returns the interval of Wilson (1927) for a share, at 95 %.
func binomial(k, n int) (low, high float64) {
	const z = 1.959964
	p, N := float64(k)/float64(n), float64(n)
	middle := (p + z*z/(2*N)) / (1 + z*z/N)
	half := z / (1 + z*z/N) * math.Sqrt(p*(1-p)/N+z*z/(4*N*N))
	return max(0, middle-half), min(1, middle+half)
}
