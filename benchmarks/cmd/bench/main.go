// Command bench measures Tailscope beside its peers and writes what it found
// to benchmarks/results, with the targets beside the figures.
//
//	go -C benchmarks run ./cmd/bench ingest       spans by gRPC, HTTP, HTTP with gzip
//	go -C benchmarks run ./cmd/bench histograms   histograms that arrive as metrics
//	go -C benchmarks run ./cmd/bench wire         bytes and CPU of spans as JSON and OTLP, as histograms, packed
//	go -C benchmarks run ./cmd/bench traces       traces put together and broken down; 100,000 open
//	go -C benchmarks run ./cmd/bench backfill     spans of a day, sent at once, and old ones at full rate
//	go -C benchmarks run ./cmd/bench memory       memory at 100,000 active series
//	go -C benchmarks run ./cmd/bench resident     memory at 40,000 spans a second, and what it is made of
//	go -C benchmarks run ./cmd/bench wide         what folds of 10,000 tenants of 8 services, 30 routes and 4 processes each
//	go -C benchmarks run ./cmd/bench freshness    how long after its acknowledgement a span is in the answers
//	go -C benchmarks run ./cmd/bench store        bytes per point and queries, 1,000 series × 6 h
//	go -C benchmarks run ./cmd/bench page         the service page on a week of the ingest load
//	go -C benchmarks run ./cmd/bench compare      comparisons of 1,000 series over 24 h
//	go -C benchmarks run ./cmd/bench micro        recording, merging, encoding, decoding
//	go -C benchmarks run ./cmd/bench calibrate    false alarms and power of judgements of change
//	go -C benchmarks run ./cmd/bench changes      change points where people or a simulation say they are
//	go -C benchmarks run ./cmd/bench verdicts     whole servers asked what changed, in 100 worlds a case
//	go -C benchmarks run ./cmd/bench mirror       what duplicating requests costs
//	go -C benchmarks run ./cmd/bench mirror-faults  what clients notice of a candidate that misbehaves
//	go -C benchmarks run ./cmd/bench mirror-soak  a candidate that comes and goes, for long
//	go -C benchmarks run ./cmd/bench check        thresholds computed from history
//	go -C benchmarks run ./cmd/bench checks       10,000 checks at 10 s
//	go -C benchmarks run ./cmd/bench load         what sending load costs
//	go -C benchmarks run ./cmd/bench solr         which number of shards is best for which question to Solr
//	go -C benchmarks run ./cmd/bench nginx-workers  how many workers nginx should have
//	go -C benchmarks run ./cmd/bench observer     what instrumentation, mirror and generator cost
//	go -C benchmarks run ./cmd/bench aa           how often experiments find what is not there
//	go -C benchmarks run ./cmd/bench freeze       the tail of a target that freezes, as told by those who send
//	go -C benchmarks run ./cmd/bench simulate     simulations against a fan-out of timed leaves; their speed
//	go -C benchmarks run ./cmd/bench simulate-solr  what Solr in 4 and 8 shards will do, told by its leaves
//	go -C benchmarks run ./cmd/bench capacity     searches of servers whose limit is known, and of others twice
//	go -C benchmarks run ./cmd/bench capacity-calibrate  how sure its answers are, in virtual time
//	go -C benchmarks run ./cmd/bench faults       crashes and damage, held against a ledger of what was acknowledged
//	go -C benchmarks run ./cmd/bench soak         load, kill -9, questions, a mirror and checks, for an hour
//	go -C benchmarks run ./cmd/bench all          all of them
//
// Programs are measured as processes of their own, by the CPU time and the
// peak memory that the kernel counts; peers take turns with Tailscope in the
// same run, so that ratios hold even where the machine is slower than yours.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"tailscope/benchmarks/report"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout, os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// options are the flags that measurements share.
type options struct {
	out       string // where results go
	reps      int
	quick     bool
	trials    int    // simulated, of each cell of calibrate
	worlds    int    // of each case of verdicts
	only      string // cases whose name contains this
	peers     bool
	keep      string // directory of what page, compare, tenants, capacity and verdicts go on from
	log       io.Writer
	tmp       string
	long      time.Duration // of soak and mirror-soak
	killEvery time.Duration // of soak
	rate      float64       // of soak
	seed      uint64        // of faults
	rounds    int           // of faults, virtual
	real      int           // of faults, with the real program
	failed    error         // what a campaign found; its results are written all the same
	lasting   time.Duration // of resident
	flags     string        // of the servers that ingest and resident start
	runs      int           // of capacity, of servers whose limit is known
	atOnce    int           // of them
	within    time.Duration // each of them
	tcpd      string        // directory of the Turing Change Point Dataset
}

type measurement struct {
	name, title string
	run         func(context.Context, *options, *report.Report) error
}

var measurements = []measurement{
	{"ingest", "Ingest of spans", ingest},
	{"histograms", "Ingest of histograms", histograms},
	{"wire", "Forms on the wire", wire},
	{"traces", "Assembly of traces", assembly},
	{"backfill", "Old spans", backfill},
	{"memory", "Memory of active series", memory},
	{"resident", "Memory under load", resident},
	{"wide", "Tenants of many routes", wide},
	{"freshness", "From acknowledged to visible", freshness},
	{"store", "Storage and queries", storeBench},
	{"servers", "Servers that share a store", servers},
	{"page", "The service page", page},
	{"compare", "Comparisons", compareBench},
	{"tenants", "10,000 tenants", tenantsBench},
	{"micro", "Hot paths", micro},
	{"calibrate", "Calibration of judgements", calibrate},
	{"changes", "Change points", changes},
	{"verdicts", "Verdicts of whole servers", verdicts},
	{"mirror", "Mirroring", mirrorBench},
	{"mirror-faults", "Misbehaving candidates", mirrorFaults},
	{"check", "Thresholds computed from history", checkBench},
	{"checks", "10,000 checks", checksBench},
	{"load", "Sending load", loadBench},
	{"solr", "Shards of Solr", solrBench},
	{"nginx-workers", "Workers of nginx", nginxWorkers},
	{"observer", "The cost of watching", observer},
	{"aa", "Experiments of nothing", aaBench},
	{"freeze", "A target that freezes", freezeBench},
	{"simulate", "Simulations against systems built for it", simulateBench},
	{"simulate-solr", "A simulation of Solr against Solr", simulateSolr},
	{"capacity", "Searches for capacity", capacityBench},
	{"capacity-calibrate", "Searches for capacity in virtual time", capacityCalibrate},
	{"mirror-soak", "Soak of a mirror", mirrorSoak},
	{"faults", "Fault campaign", faultCampaign},
	{"soak", "Soak", soak},
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	names := make([]string, len(measurements))
	for i, m := range measurements {
		names[i] = m.name
	}
	fs := flag.NewFlagSet("bench", flag.ContinueOnError)
	fs.SetOutput(stderr)
	o := &options{log: stderr}
	fs.StringVar(&o.out, "o", "results", "directory of the results; empty prints only")
	fs.IntVar(&o.reps, "reps", 5, "how often each case is measured; peers take turns")
	fs.IntVar(&o.trials, "trials", 4000, "how often each cell of calibrate is simulated")
	fs.IntVar(&o.worlds, "worlds", 100, "in how many worlds each case of verdicts is played")
	fs.BoolVar(&o.quick, "quick", false, "a tenth of the work, once: to see that everything runs")
	fs.StringVar(&o.only, "only", "", "only cases whose name contains this, or any of several between |")
	fs.BoolVar(&o.peers, "peers", true, "measure the peers too")
	fs.StringVar(&o.keep, "keep", "", "keep the store that page, compare or tenants fills in this directory, and ask it again if it is there; of capacity the searches, and of verdicts the worlds, to go on after the last")
	fs.StringVar(&o.tcpd, "tcpd", os.Getenv("TAILSCOPE_TCPD"), "directory with a copy of the Turing Change Point Dataset; empty fetches one")
	fs.IntVar(&o.runs, "runs", 50, "how many servers of known limit capacity searches")
	fs.IntVar(&o.atOnce, "at-once", 13, "how many of them at once")
	fs.DurationVar(&o.within, "within", 4*time.Minute, "how long each of them may take")
	fs.DurationVar(&o.long, "for", 0, "how long soak and mirror-soak last; default 60m and 30m")
	fs.Float64Var(&o.rate, "rate", 0, "spans a second of soak; default 70 % of what a calibration finds")
	fs.Uint64Var(&o.seed, "seed", 0, "seed of the first round of faults; default by the clock")
	fs.IntVar(&o.rounds, "rounds", 2000, "virtual rounds of faults, and as many with damage")
	fs.IntVar(&o.real, "real", 300, "rounds of faults with the real program")
	fs.DurationVar(&o.killEvery, "kill-every", 0, "how often soak kills the server, about; default a fifteenth of its time, at most 4m")
	fs.DurationVar(&o.lasting, "lasting", 3*time.Minute, "how long resident sends")
	fs.StringVar(&o.flags, "flags", "", "further flags of the servers that ingest and resident start")
	fs.Usage = func() {
		fmt.Fprintf(stderr, "usage: bench [%s|all] [flags]\n", strings.Join(names, "|"))
		fs.PrintDefaults()
	}
	if len(args) == 0 {
		fs.Usage()
		return errors.New("say what to measure, or all")
	}
	what := args[0]
	if err := fs.Parse(args[1:]); err != nil {
		return err
	}
	if what != "all" && !slices.Contains(names, what) {
		return fmt.Errorf("nothing called %q can be measured: write one of %s, or all", what, strings.Join(names, ", "))
	}
	if o.quick {
		o.reps = 1
	}
	var err error
	if o.tmp, err = os.MkdirTemp("", "tailscope-bench-"); err != nil {
		return err
	}
	defer os.RemoveAll(o.tmp)
	for _, m := range measurements {
		if what != "all" && what != m.name {
			continue
		}
		r := report.New(m.title, time.Now())
		if err := m.run(ctx, o, r); err != nil {
			return fmt.Errorf("%s: %w", m.name, err)
		}
		fmt.Fprintln(stdout, r.Markdown())
		if o.out == "" {
			continue
		}
		path, err := r.Write(o.out, m.name)
		if err != nil {
			return err
		}
		fmt.Fprintf(stderr, "wrote %s\n", path)
	}
	return o.failed
}

func (o *options) logf(format string, args ...any) { fmt.Fprintf(o.log, format+"\n", args...) }

// wants reports whether a case was asked for.
func (o *options) wants(name string) bool {
	return slices.ContainsFunc(strings.Split(o.only, "|"), func(part string) bool { return strings.Contains(name, part) })
}
