package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"tailscope/benchmarks/report"
	"tailscope/internal/cluster"
	"tailscope/test/faults"
)

// faultCampaign holds the aggregator and the store, and then the program,
// against a ledger of what was acknowledged.
func faultCampaign(ctx context.Context, o *options, r *report.Report) error {
	seed, rounds := o.seed, o.rounds
	if seed == 0 {
		seed = uint64(time.Now().Unix())
	}
	if o.quick {
		rounds = min(rounds, 100)
	}
	// Others may build meanwhile: these rounds stay with one program.
	if err := os.Setenv("TAILSCOPE_TEST_CACHE", o.tmp); err != nil {
		return err
	}
	failed := 0
	if o.wants("virtual") {
		began := time.Now()
		res := faults.Virtual(ctx, faults.Options{Seed: seed, Rounds: rounds, Logf: o.logf})
		sec := r.Section("Crashes, on a file system in memory", fmt.Sprintf(
			"Seeds %d to %d: each a data directory that goes through one to six of the faults below, with requests of spans, histograms, running totals and samples meanwhile, and is started again, sometimes killed while it starts. "+
				"After each start every series and slot has to hold at least what was acknowledged and at most what was sent and not refused. A loss of power may take what was not synced. "+
				"Again with `go test ./test/faults -run TestVirtual -seed N -rounds 1`.", seed, seed+uint64(rounds)-1))
		failed += campaign(sec, res, time.Since(began))
	}
	if o.wants("damage") {
		began := time.Now()
		res := faults.Virtual(ctx, faults.Options{Seed: seed, Rounds: rounds, Damage: true, Logf: o.logf})
		sec := r.Section("Damaged files, on a file system in memory", fmt.Sprintf(
			"Seeds %d to %d: after up to two of the faults above and SIGTERM or kill -9, one file of the data directory, of a kind drawn first, gets a bit flipped, is cut or removed. "+
				"What is lost has to be named, and counted unless it is said that the count is not known; a start that is refused has to name the file; nothing may be doubled. "+
				"Again with `go test ./test/faults -run TestDamage -seed N -rounds 1`.", seed, seed+uint64(rounds)-1))
		failed += campaign(sec, res, time.Since(began))
	}
	for _, damage := range []bool{false, true} {
		if !o.wants("real") {
			continue
		}
		n, title := o.real, "The program itself"
		if o.quick {
			n = 15
		}
		if damage {
			n, title = n/2, "The program itself, with damaged files"
		}
		began := time.Now()
		res, err := faults.Real(ctx, faults.RealOptions{Seed: seed, Rounds: n, Damage: damage, Dir: filepath.Join(o.tmp, fmt.Sprint("real-", damage)), Logf: o.logf})
		sec := r.Section(title, fmt.Sprintf("Seed %d: the built program on a disk of 400 MB, spans by gRPC and HTTP and histograms by HTTP as fast as they are answered, an access log followed; "+
			"each round ends in SIGTERM or kill -9, now and then while the disk is full, and the ledger is compared after each restart.", seed))
		failed += campaign(sec, res, time.Since(began))
		if err != nil {
			return err
		}
	}
	if o.wants("clickhouse") {
		n := o.real / 5
		if o.quick {
			n = 5
		}
		began := time.Now()
		res, err := faults.Real(ctx, faults.RealOptions{Seed: seed, Rounds: n, Shards: 3, Dir: filepath.Join(o.tmp, "clickhouse"), Logf: o.logf})
		if errors.Is(err, exec.ErrNotFound) {
			o.logf("ClickHouse is left out: %v", err)
		} else {
			sec := r.Section("The program itself, its store in ClickHouse", fmt.Sprintf("Seed %d: the same on a cluster of three shards, one of which is killed and started again, "+
				"or all of which are read-only for a while, before the program ends or while it does.", seed))
			failed += campaign(sec, res, time.Since(began))
			if err != nil {
				return err
			}
		}
	}
	if o.wants("servers") {
		n := max(o.real/10, 8)
		frozen := time.Minute
		if o.quick {
			n, frozen = 8, cluster.Dead+2*cluster.Every
		}
		began := time.Now()
		res, err := faults.Several(ctx, faults.SeveralOptions{Seed: seed, Rounds: n, Servers: 3, Shards: 3, Rate: 1000, Frozen: frozen, Dir: filepath.Join(o.tmp, "servers"), Logf: o.logf})
		if errors.Is(err, exec.ErrNotFound) {
			o.logf("ClickHouse is left out: %v", err)
		} else {
			sec := r.Section("Several servers on one store in ClickHouse", fmt.Sprintf("Seed %d: three servers on three shards, each sent 1,000 spans a second and histograms; one thing is done to them after another, "+
				"and the ledger is compared on each server after each. A frozen server is the one that guards the checks; it sleeps for %v, while what its check looks at goes away. "+
				"While a shard is away, `/api/v1/cluster`, `/api/v1/status` and the error of a question name it. Again, shorter, with `go test -tags servers,campaign ./test/faults -run TestSeveral -seed N`.", seed, frozen))
			failed += campaign(sec, res, time.Since(began))
			sec.Add("observations lost", "tailscope", "", 0, float64(res.Lost))
			sec.Add("observations beyond what was sent", "tailscope", "", 0, float64(res.Doubled))
			sec.Add("incidents", "tailscope", "", 0, float64(res.Incidents))
			sec.Add("deliveries to the receiver", "tailscope", "", 0, float64(res.Deliveries))
			if err != nil {
				return err
			}
		}
	}
	if failed > 0 {
		o.failed = fmt.Errorf("%d rounds failed", failed)
	}
	return ctx.Err()
}

// campaign adds what rounds found.
func campaign(sec *report.Section, res *faults.Result, took time.Duration) (failed int) {
	sec.Add("rounds", "tailscope", "", 0, float64(res.Rounds))
	sec.Add("restarts", "tailscope", "", 0, float64(res.Restarts))
	sec.Add("took", "tailscope", "s", 0, took.Seconds())
	sec.Add("observations acknowledged", "tailscope", "", 0, float64(res.Counts.Acknowledged))
	sec.Add("observations refused", "tailscope", "", 0, float64(res.Counts.Refused))
	sec.Add("observations without an answer", "tailscope", "", 0, float64(res.Counts.Unknown))
	sec.Add("rounds with an acknowledged observation lost or doubled, or no start", "tailscope", "", 0, float64(len(res.Failures)))
	sec.Table = [][]string{{"fault", "met"}}
	for _, name := range slices.Sorted(maps.Keys(res.Met)) {
		sec.Table = append(sec.Table, []string{name, fmt.Sprint(res.Met[name])})
	}
	if len(res.Damage) > 0 {
		sec.Table = [][]string{{"file", "times", "nothing lost", "loss named", "observations lost", "of which counted", "start refused, file named", "questions refused"}}
		for _, name := range slices.Sorted(maps.Keys(res.Damage)) {
			d := res.Damage[name]
			row := []string{name}
			for _, v := range []any{d.Times, d.Unharmed, d.Named, d.Lost, d.Counted, d.Refused, d.Questions} {
				row = append(row, fmt.Sprint(v))
			}
			sec.Table = append(sec.Table, row)
		}
	}
	for _, f := range res.Failures {
		text, _, _ := strings.Cut(f.Text, "\n")
		sec.Text += fmt.Sprintf("\n\nFailed: seed %d, %s", f.Seed, text)
	}
	return len(res.Failures)
}
