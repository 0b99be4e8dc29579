package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"tailscope/api"
	"tailscope/benchmarks/capacity"
	"tailscope/benchmarks/clock"
	"tailscope/benchmarks/report"
	"tailscope/test/program"
)

// capacityBench searches servers for what they can take: some whose limit is known, and
// some whose is not, twice.
func capacityBench(ctx context.Context, o *options, r *report.Report) error {
	program.Precede(-15)
	c := clock.New()
	ticking, stop := context.WithCancel(ctx)
	var clocks sync.WaitGroup
	clocks.Go(func() { c.Run(ticking) })
	defer clocks.Wait()
	defer stop()
	for _, part := range []struct {
		name string
		run  func(context.Context, *options, *clock.Clock, *report.Report) error
	}{{"known", knownLimits}, {"broken", brokenInTheMiddle}, {"nginx", twiceNginx}, {"shop", twiceShop}} {
		if !o.wants(part.name) {
			continue
		}
		begun := time.Now()
		if err := part.run(ctx, o, c, r); err != nil {
			return fmt.Errorf("%s: %w", part.name, err)
		}
		o.logf("%s: took %s", part.name, time.Since(begun).Round(time.Second))
	}
	return nil
}

func knownLimits(ctx context.Context, o *options, c *clock.Clock, r *report.Report) error {
	plan := capacity.Plan(o.runs)
	if o.quick {
		plan = plan[:min(3, len(plan))]
	}
	done, kept, err := resumed(o.keep, plan)
	if err != nil {
		return err
	}
	defer kept.Close()
	begun := time.Now()
	var mu sync.Mutex
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(max(1, o.atOnce))
	for i := range plan {
		if done[i] {
			continue
		}
		group.Go(func() error {
			k, err := plan[i].Run(ctx, c, o.within)
			if err != nil {
				return fmt.Errorf("%s, seed %d: %w", plan[i].Shape, plan[i].Seed, err)
			}
			mu.Lock()
			defer mu.Unlock()
			plan[i] = k
			if k.Real {
				o.logf("%2d %-12s found %7.1f (%s), its truth is computed at the end; %s", i+1, k.Shape, k.Value, openInterval(k.Low, k.High), time.Since(begun).Round(time.Second))
				return nil
			}
			return reportSearch(o, kept, i, k)
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	for i := range plan {
		if done[i] || !plan[i].Real {
			continue
		}
		if err := plan[i].Tell(); err != nil {
			return err
		}
		if err := reportSearch(o, kept, i, plan[i]); err != nil {
			return err
		}
	}
	knownReport(o, plan, r)
	return nil
}

// reportSearch logs the result of the ith search, and keeps it.
func reportSearch(o *options, kept io.Writer, i int, k capacity.Known) error {
	o.logf("%2d %-12s truth %7.1f found %7.1f (%s) off %5.2f %% %s %s %.0f s, %d requests, late %.2f ms", i+1, k.Shape, k.Truth, k.Value, openInterval(k.Low, k.High),
		100*k.Off(), map[bool]string{true: "covered", false: "MISSED"}[k.Covers()], k.Verdict, k.Seconds, k.Requests, 1000*k.Late)
	if !k.Covers() {
		for _, doubt := range k.Doubts {
			o.logf("   %s", doubt)
		}
	}
	return json.NewEncoder(kept).Encode(k)
}

// resumed opens the file of runs in the directory keep, and puts those that it has
// into plan. Without keep nothing is kept.
func resumed(keep string, plan []capacity.Known) (done []bool, kept *os.File, err error) {
	done = make([]bool, len(plan))
	path := os.DevNull
	if keep != "" {
		if err := os.MkdirAll(keep, 0o755); err != nil {
			return nil, nil, err
		}
		path = filepath.Join(keep, "capacity.jsonl")
	}
	kept, err = os.OpenFile(path, os.O_CREATE|os.O_RDWR|os.O_APPEND, 0o644)
	if err != nil {
		return nil, nil, err
	}
	lines := bufio.NewScanner(kept)
	for lines.Scan() {
		var k capacity.Known
		if json.Unmarshal(lines.Bytes(), &k) != nil {
			continue // the last line, if it was cut
		}
		if i := slices.IndexFunc(plan, func(p capacity.Known) bool { return p.Shape == k.Shape && p.Seed == k.Seed }); i >= 0 {
			plan[i], done[i] = k, true
		}
	}
	return done, kept, lines.Err()
}

func knownReport(o *options, plan []capacity.Known, r *report.Report) {
	s := r.Section("Servers whose limit is known", fmt.Sprintf("%d searches over loopback HTTP by the program's own search and generator, %d at once, each within %s: Poisson arrivals, no hint of the truth. "+
		"Queues serve at the times of a queue with so many workers (kept account of by the clock, so that an answer that leaves late delays nobody else); of plain queues every third round has real workers, "+
		"goroutines that wait out each service, and its truth is that of a virtual queue with the services as they were measured. "+
		"Other truths are closed forms or long runs in virtual time: package internal/experiment/capacity/virtual. Covered is that the interval of 95 %% holds the truth; open are intervals that end where nothing was held beyond.", len(plan), o.atOnce, o.within))
	s.Table = [][]string{{"server", "truth, requests/s", "searches", "covered", "mean off", "most off", "interval, ±", "open", "seconds", "answers late, p99"}}
	names := []string{}
	for _, k := range plan {
		if !slices.Contains(names, k.Shape) {
			names = append(names, k.Shape)
		}
	}
	all := 0
	var offs []float64
	for _, name := range append(names, "all") {
		n, covered, open := 0, 0, 0
		var off, worst, half, seconds, truth, late float64
		for _, k := range plan {
			if name != "all" && k.Shape != name {
				continue
			}
			n++
			if k.Covers() {
				covered++
			}
			off += k.Off()
			worst = max(worst, k.Off())
			if k.Open() {
				open++
			} else {
				half += (k.High - k.Low) / 2 / k.Truth
			}
			seconds += k.Seconds
			late += k.Late
			truth += k.Truth
			if name == "all" {
				offs = append(offs, k.Off())
			}
		}
		f := float64(n)
		truths := fmt.Sprintf("%.1f", truth/f)
		if name == "all" {
			all, truths = covered, ""
		}
		s.Table = append(s.Table, []string{name, truths, fmt.Sprint(n), fmt.Sprint(covered), percent(off / f), percent(worst), percent(half / (f - float64(open))), fmt.Sprint(open), fmt.Sprintf("%.0f", seconds/f), fmt.Sprintf("%.2f ms", 1000*late/f)})
	}
	low, high := binomial(all, len(plan))
	missed := s.Add("intervals that do not hold the truth", "tailscope", "%", 10, 100*(1-float64(all)/float64(len(plan))))
	missed.Note = fmt.Sprintf("%d of %d hold it: %.0f – %.0f %% at 95 %%", all, len(plan), 100*low, 100*high)
	mean, within := 0.0, 0
	for _, off := range offs {
		mean += off / float64(len(offs))
		if off <= 0.03 {
			within++
		}
	}
	f := s.Add("mean distance from the truth", "tailscope", "%", 3, 100*mean)
	f.Note = fmt.Sprintf("%d of %d within 3 %%", within, len(offs))
	slices.Sort(offs)
	s.Add("median distance from the truth", "tailscope", "%", 3, 100*offs[len(offs)/2])
}

func percent(share float64) string { return fmt.Sprintf("%.2f %%", 100*share) }

// brokenInTheMiddle breaks servers under search, and looks when load ends.
func brokenInTheMiddle(ctx context.Context, o *options, c *clock.Clock, r *report.Report) error {
	times := 5
	if o.quick {
		times = 1
	}
	s := r.Section("An objective that breaks in the middle", "A server with 16 workers of 10 ms is searched far from its limit, by *p99 < 100ms and errors < 1%*, and breaks at a moment of its own choosing. "+
		"From the break: until the last request arrived, by the server's clock. From certainty: until the last was sent after the objective was surely broken, by the search's.")
	for _, how := range capacity.Troubles {
		for i := range times {
			t, err := capacity.Troubled(ctx, c, how, uint64(i))
			if err != nil {
				return err
			}
			o.logf("%s: last request %s after the break, %s after it was sure, at %.0f/s", how, t.After.Round(time.Millisecond), t.Sure.Round(time.Millisecond), t.Rate)
			s.Add("from the break, a server that "+how, "tailscope", "ms", 1000, 1000*t.After.Seconds())
			s.Add("from certainty, a server that "+how, "tailscope", "ms", 1000, 1000*t.Sure.Seconds())
		}
	}
	return nil
}

// twiceBudget bounds a search of a server of unknown limit.
const twiceBudget = 105 * time.Second

// twiceObjective is the objective of servers of unknown limit.
const twiceObjective = "p99 < 100ms and errors < 0.1%"

func twiceNginx(ctx context.Context, o *options, _ *clock.Clock, r *report.Report) error {
	n, err := capacity.StartNginx(ctx, filepath.Join(o.tmp, "nginx"), 0.4)
	if err != nil {
		return err
	}
	err = twice(ctx, o, r, "nginx", "Debian's nginx, one worker in a control group with 0.4 of a processor (4 ms of every 10 ms), that packs a page of 36 kB with gzip at level 9 for every request.",
		n.URL, "--header", "Accept-Encoding: gzip", "--set", fmt.Sprintf("watch_pid=%d", n.Pid))
	return errors.Join(err, n.Close())
}

func twiceShop(ctx context.Context, o *options, _ *clock.Clock, r *report.Report) error {
	s, err := capacity.StartShop(ctx, o.tmp, 0.8)
	if err != nil {
		return err
	}
	file := filepath.Join(o.tmp, "shop.yaml")
	err = os.WriteFile(file, fmt.Appendf(nil, `scenario: the demo shop
target: %s
header: {%s: %s}
order: random
servers: [{name: shop, pid: %d}]
phases: [{rate: 20, for: 1s}]
queries:
  - {name: cart, request: "GET /cart?customer={{random 1..100}}", weight: 4}
  - {name: products, request: "GET /products?category={{random 1..8}}", weight: 4}
  - {name: search, request: "GET /search?q=red"}
`, s.URL, capacity.ShopHeader, s.Tenant, s.Pid), 0o644)
	if err == nil {
		err = twice(ctx, o, r, "the demo shop", "`tailscope demo` in a control group with 0.8 of a processor: shop, database and the server that takes its spans. Carts, lists of products and searches of its largest tenant, 4 : 4 : 1; 5,000 orders, and hardly any load of the demo's own.",
			file)
	}
	return errors.Join(err, s.Close())
}

// twice searches a server of unknown limit two times.
func twice(ctx context.Context, o *options, r *report.Report, what, text string, args ...string) error {
	s := r.Section("Twice "+what, text+fmt.Sprintf(" The objective is *%s*; Poisson arrivals; %s a search at most, by `tailscope capacity`.", twiceObjective, twiceBudget))
	s.Table = [][]string{{"search", "verdict", "requests/s", "95 % interval", "law", "cores at the answer", "seconds"}}
	within := twiceBudget
	if o.quick {
		within = 30 * time.Second
	}
	var found [2]*api.Capacity
	for i := range found {
		got, err := capacity.Ask(ctx, append(args, "--objective", twiceObjective, "--lowest", "20", "--highest", "5000", "--seed", fmt.Sprint(i+1), "--within", within.String())...)
		if err != nil {
			return err
		}
		if got.Failed != "" {
			return fmt.Errorf("search %d: %s", i+1, got.Failed)
		}
		if got.Answer == nil {
			return fmt.Errorf("search %d found nothing: %s", i+1, got.Headline)
		}
		found[i] = got
		law := "none"
		if got.Law != nil {
			law = got.Law.Sentence
		}
		a := got.Answer
		o.logf("%s, search %d: %s, %s; law: %s", what, i+1, got.Verdict, got.Headline, law)
		s.Table = append(s.Table, []string{fmt.Sprint(i + 1), string(got.Verdict), fmt.Sprintf("%.1f", float64(a.Value)), openInterval(float64(a.Low), float64(a.High)), law,
			fmt.Sprintf("%.2f", coresAt(got)), fmt.Sprintf("%.0f", float64(got.End-got.Start))})
	}
	a, b := found[0].Answer, found[1].Answer
	holds := func(x *api.CapacityAnswer, v api.Float) bool { return v == v && !(v < x.Low) && !(v > x.High) } // an end that is open is not a number
	inside := holds(a, b.Value) || holds(b, a.Value)
	f := s.Add("difference of the two answers", "tailscope", "%", 0, 200*math.Abs(float64(a.Value-b.Value))/float64(a.Value+b.Value))
	f.Note = "an answer lies in the interval of the other"
	if !inside {
		f.Note = "no answer lies in the interval of the other"
		if !(a.Low > b.High) && !(b.Low > a.High) {
			f.Note += ", which meet"
		}
	}
	return nil
}

// coresAt returns how many cores the target was busy with at the step nearest the answer.
func coresAt(c *api.Capacity) float64 {
	cores, best := math.NaN(), math.Inf(1)
	for _, s := range c.Steps {
		if away := math.Abs(math.Log(float64(s.X / c.Answer.Value))); away < best && !math.IsNaN(float64(s.CPU)) {
			cores, best = float64(s.CPU), away
		}
	}
	return cores
}

// openInterval writes the ends of an interval that some load was held beyond.
func openInterval(low, high float64) string {
	switch above := math.IsNaN(high) || high == math.MaxFloat64; {
	case (math.IsNaN(low) || low == 0) && above:
		return "open"
	case above:
		return fmt.Sprintf("from %.1f", low)
	case math.IsNaN(low) || low == 0:
		return fmt.Sprintf("up to %.1f", high)
	}
	return fmt.Sprintf("%.1f – %.1f", low, high)
}
