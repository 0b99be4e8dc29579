package faults

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"tailscope/internal/backoff"
	"tailscope/test/program"
)

// RealOptions of rounds with the program itself.
type RealOptions struct {
	Seed   uint64
	Rounds int
	Damage bool   // damage files too
	Shards int    // of a cluster of ClickHouse that keeps the store, in place of the directory; 0: none
	Dir    string // for data and logs
	Logf   func(format string, args ...any)
}

// perDirectory bounds the rounds that use one data directory. A directory whose
// files were damaged is not used again.
const perDirectory = 15

// Real runs the program, round after round on the same directory: senders by
// gRPC and HTTP, of spans and histograms, then a fault, a restart, and the
// ledger. An access log is followed all the time.
func Real(ctx context.Context, o RealOptions) (*Result, error) {
	r := &real{o: o, rng: rand.New(rand.NewPCG(o.Seed, 5)), res: &Result{Met: map[string]int{}, Damage: map[string]*Outcome{}}}
	for r.res.Rounds < o.Rounds {
		if err := r.directory(ctx); err != nil {
			return r.res, err
		}
	}
	return r.res, ctx.Err()
}

type real struct {
	o    RealOptions
	rng  *rand.Rand
	res  *Result
	dirs int
}

func (r *real) fail(err error) {
	f := Failure{r.o.Seed, err.Error()}
	r.res.Failures = append(r.res.Failures, f)
	if r.o.Logf != nil {
		r.o.Logf("%v", f)
	}
}

// directory puts one data directory through rounds. Its error is of the
// campaign; what the product does wrong is a failure.
func (r *real) directory(ctx context.Context) error {
	r.dirs++
	dir := filepath.Join(r.o.Dir, fmt.Sprint("faults-", r.dirs))
	disk := filepath.Join(dir, "disk")
	if err := os.MkdirAll(disk, 0o755); err != nil {
		return err
	}
	small := program.MountSmallDisk(disk, 400) == nil
	defer func() {
		if small {
			_ = syscall.Unmount(disk, syscall.MNT_DETACH)
		}
	}()
	begun := time.Now()
	config, log := filepath.Join(dir, "tailscope.yaml"), filepath.Join(dir, "access.log")
	if err := os.WriteFile(config, []byte(followConfig(log)), 0o644); err != nil {
		return err
	}
	a, err := writeLog(ctx, log, 200)
	if err != nil {
		return err
	}
	defer func() { a.stop(); a.done.Wait() }()
	data := filepath.Join(disk, "data")
	flags := []string{"--ingest-flush=200ms", "--config", config}
	var c *program.ClickHouse
	if r.o.Shards > 0 {
		if c, err = program.StartClickHouse(ctx, r.o.Shards); err != nil {
			return err
		}
		defer c.Close()
		flags = append(flags, "--store", c.Address("faults"))
	}
	start := func() (*program.Tailscope, error) { return program.StartTailscope(ctx, data, flags...) }
	t, err := start()
	if err != nil {
		return err
	}
	defer func() {
		if t != nil {
			t.Kill()
		}
	}()
	all := map[Line]Bounds{}
	crashes := 0
	rounds := min(perDirectory, r.o.Rounds-r.res.Rounds)
	for i := range rounds {
		stretch := fmt.Sprint(r.dirs, "-", i)
		l, err := startLoad(ctx, t, stretch, 2, 0)
		if err != nil {
			return err
		}
		name := kill
		if r.rng.IntN(4) == 0 {
			name = stop
		}
		if small && r.rng.IntN(5) == 0 {
			name = diskFull + ", " + name
			if err := r.fill(ctx, disk); err != nil {
				return err
			}
		}
		var mend func() error // nil: the cluster is whole
		if c != nil {
			var fault string
			if fault, mend, err = r.hurt(ctx, c); err != nil {
				return err
			}
			name = fault + ", " + name
		}
		if err := backoff.Sleep(ctx, time.Duration(20+r.rng.IntN(400))*time.Millisecond); err != nil {
			return err
		}
		if mend != nil && r.rng.IntN(2) == 0 { // else the program ends while the cluster is hurt
			if err := mend(); err != nil {
				return err
			}
			mend = nil
			if err := backoff.Sleep(ctx, time.Duration(r.rng.IntN(1000))*time.Millisecond); err != nil {
				return err
			}
		}
		hurts := r.o.Damage && i == rounds-1
		if strings.HasSuffix(name, stop) {
			within, cancel := context.WithTimeout(ctx, 30*time.Second)
			_, err = t.Stop(within)
			cancel()
			// What it cannot store any more stays in its journal, and it says so.
			if err != nil && mend == nil {
				r.fail(fmt.Errorf("round %s, %s: %w", stretch, name, err))
			}
		} else {
			t.Kill()
			crashes++
		}
		if mend != nil {
			if err := mend(); err != nil {
				return err
			}
		}
		for line, b := range l.end() {
			all[line] = b
		}
		r.res.Counts.add(l.ledger.Counts())
		var hurt damaged
		var o *Outcome
		if hurts {
			if hurt, err = r.damage(data); err != nil {
				return err
			}
			name += ", " + hurt.String()
			if o = r.res.Damage[hurt.String()]; o == nil {
				o = &Outcome{}
				r.res.Damage[hurt.String()] = o
			}
			o.Times++
		}
		r.res.Rounds++
		r.res.Restarts++
		r.res.Met[name]++
		if t, err = start(); err != nil {
			t = nil
			switch {
			case hurts && names(err.Error(), hurt.file):
				o.Refused++
			default:
				r.fail(fmt.Errorf("round %s, %s: no start: %w", stretch, name, err))
			}
			return ctx.Err()
		}
		patience := 20 * time.Second
		if hurts {
			patience = 3 * time.Second
		}
		d, err := awaitAgreement(ctx, t, all, begun, patience)
		switch named := hurts && r.named(ctx, t, hurt.file); {
		case d.Doubled > 0:
			r.fail(fmt.Errorf("round %s, %s: %v", stretch, name, d))
		case d.Ok() && err == nil:
			if hurts {
				o.Unharmed++
			}
		case named && err != nil:
			o.Questions++
		case named:
			o.Named++
			o.Lost += d.Lost
		default:
			r.fail(errors.Join(fmt.Errorf("round %s, %s: %v\n%s", stretch, name, d, lastLines(t.Log(), 20)), err))
		}
		if hurts || !d.Ok() {
			return ctx.Err()
		}
	}
	bounds, err := a.end(crashes)
	if err != nil {
		return err
	}
	if d, err := awaitAgreement(ctx, t, bounds, begun, 30*time.Second); err != nil || !d.Ok() {
		r.fail(errors.Join(fmt.Errorf("access log of directory %d: %v", r.dirs, d), err))
	}
	return ctx.Err()
}

func (c *Counts) add(d Counts) {
	c.Sent += d.Sent
	c.Acknowledged += d.Acknowledged
	c.Refused += d.Refused
	c.Unknown += d.Unknown
}

// hurt kills a node of the cluster, or makes it read-only. mend undoes that, and returns once
// all nodes answer.
func (r *real) hurt(ctx context.Context, c *program.ClickHouse) (fault string, mend func() error, err error) {
	if err := backoff.Sleep(ctx, time.Duration(r.rng.IntN(600))*time.Millisecond); err != nil {
		return "", nil, err
	}
	if r.rng.IntN(3) == 0 {
		return "cluster read-only", func() error { return c.ReadOnly(ctx, false) }, c.ReadOnly(ctx, true)
	}
	n := c.Nodes[r.rng.IntN(len(c.Nodes))]
	n.Kill()
	return "kill -9 of a shard", func() error { return c.Restart(ctx, n) }, nil
}

// fill fills the disk for a while, down to what must stay free and perhaps to
// the last byte, then makes room again.
func (r *real) fill(ctx context.Context, dir string) error {
	leave := int64(r.rng.IntN(300 << 20))
	if r.rng.IntN(2) == 0 {
		leave = int64(r.rng.IntN(1 << 20))
	}
	free, err := program.FillDisk(dir, leave)
	if err != nil {
		return err
	}
	return errors.Join(backoff.Sleep(ctx, time.Duration(100+r.rng.IntN(900))*time.Millisecond), free())
}

// damage damages a file of a stopped data directory.
func (r *real) damage(data string) (d damaged, err error) {
	kinds := map[string][]string{}
	var order []string
	err = filepath.WalkDir(data, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() || e.Name() == "LOCK" {
			return err
		}
		k := kindOf(e.Name())
		if kinds[k] == nil {
			order = append(order, k)
		}
		kinds[k] = append(kinds[k], path)
		return nil
	})
	if err != nil || len(order) == 0 {
		return d, errors.Join(err, errors.New("the data directory is empty"))
	}
	some := kinds[order[r.rng.IntN(len(order))]]
	path := some[r.rng.IntN(len(some))]
	d = damaged{damages[r.rng.IntN(len(damages))], filepath.Base(path)}
	b, err := os.ReadFile(path)
	if err != nil {
		return d, err
	}
	if len(b) == 0 {
		d.how = removeFile
	}
	switch d.how {
	case flipBit:
		b[r.rng.IntN(len(b))] ^= 1 << r.rng.IntN(8)
		return d, os.WriteFile(path, b, 0o600)
	case cutFile:
		return d, os.Truncate(path, int64(r.rng.IntN(len(b))))
	}
	return d, os.Remove(path)
}

// named reports whether the program says that a file is damaged, or that it
// is degraded.
func (r *real) named(ctx context.Context, t *program.Tailscope, file string) bool {
	if names(t.Log(), file) {
		return true
	}
	status, body, err := fetch(ctx, t.URL+"/readyz", nil)
	return err == nil && status == http.StatusOK && strings.Contains(string(body), "degraded")
}
