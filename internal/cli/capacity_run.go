package cli

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/signal"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/spf13/pflag"

	"tailscope/api"
	"tailscope/client"
	"tailscope/internal/experiment/bench/session"
	"tailscope/internal/experiment/capacity"
	"tailscope/internal/experiment/capacity/search"
	"tailscope/internal/experiment/scenario"
	"tailscope/internal/liveview"
	"tailscope/internal/report"
)

// capacityOutput names a search, the server that it reports to, and its reports.
type capacityOutput struct{ runOutput }

func (f *capacityOutput) register(fs *pflag.FlagSet) {
	fs.StringVar(&f.name, "name", "", "what the search is called; default what it loads")
	fs.StringVar(&f.service, "service", "", "whose capacity it is; default the target's host")
	fs.StringVar(&f.to, "server", "", "`address` of a server that shows and keeps the search, such as http://127.0.0.1:7099; also $TAILSCOPE_CAPACITY_TO")
	f.runOutput.register(fs)
}

func (f *capacityOutput) complete() error {
	if f.to == "" {
		f.to = os.Getenv("TAILSCOPE_CAPACITY_TO")
	}
	return f.reportFiles.complete()
}

// capacityHooks connects a search to the view, the reports and the server.
type capacityHooks struct {
	environment api.Environment
	command     string
	report      func(*api.Capacity)
	note        func(line string)
}

// present searches, shows it while it goes, writes the reports, and ends as the
// result says. search returns an error if there is no result; otherwise the last argument
// of report is the result.
func (f *capacityOutput) present(ctx context.Context, name, service string, search func(context.Context, capacityHooks) error) error {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	view := liveview.NewCapacity(f.err, name, f.quiet, f.now)
	var r *capacityReporter
	if f.to != "" {
		var err error
		if r, err = f.reporter(ctx, name, service, stop); err != nil {
			return err
		}
		defer r.close()
		view.Note("reported to " + r.page)
	}
	var result *api.Capacity
	err := search(ctx, capacityHooks{environment: session.FindEnvironment(ctx, Version()), command: f.command, note: view.Note, report: func(c *api.Capacity) {
		result = c
		view.Show(c)
		r.report(c)
	}})
	view.Close()
	if mistake := (session.Mistake{}); errors.As(err, &mistake) {
		return usage{hintWithin(mistake.Err)}
	}
	if result == nil || report.IsNaN(result.End) {
		if err == nil {
			err = errors.New("nothing was searched")
		}
		return hintWithin(err)
	}
	if err != nil {
		fmt.Fprintf(f.err, "%s\n", report.Printable(firstLineOf(err.Error())))
	}
	if wrong := f.write(f.out, report.Capacity(result)); wrong != nil {
		return wrong
	}
	if r != nil {
		if said := r.close(); said != "" {
			fmt.Fprintln(f.err, report.Printable(said))
		}
		fmt.Fprintln(f.err, r.page)
	}
	return capacityEnd(result)
}

// capacityEnd returns the error that the command ends with. It does not repeat what the
// report says.
func capacityEnd(c *api.Capacity) error {
	switch {
	case c.RestoreError != "", c.Failed != "", c.Verdict == search.Below:
		return ended{errSilent, exitFailed}
	case c.Verdict != search.Found && c.Verdict != search.AtLeast:
		return ended{errSilent, exitInvalid}
	case c.Verdict == search.AtLeast && c.Answer != nil && c.Answer.Next != "": // more could not be tried
		return ended{errSilent, exitInvalid}
	}
	return nil
}

// search opens the stage, holds load of our own, and closes the stage.
func (f *capacityFlags) search(ctx context.Context, s *scenario.Scenario, a *asked, h capacityHooks) error {
	r := &f.requests
	st, err := scenario.Open(ctx, s, scenario.Options{RunDir: f.logs, Note: h.note, Loading: func(l api.BenchLoad) { h.note(report.LoadText(&l)) }, Version: Version(), Command: f.command, Now: f.now})
	if err != nil {
		return err
	}
	err = st.Hold(ctx, scenario.MeasureOptions{Name: s.Name, Seed: r.seed, Limits: f.limits, Environment: &h.environment}, func(ctx context.Context, held *scenario.Held) error {
		o := capacity.LoadOptions{
			Target: held.Session.Target, Set: held.Set, Load: held.Session.Load, Limits: held.Session.Limits, Even: r.arrivals == "constant", Seed: r.seed,
			Objective: a.search.Objective, Bounds: capacity.DefaultBounds(), Timings: a.times, Highest: a.search.Highest, Pool: a.pool, Note: h.note, Now: f.now,
		}
		mode := "rate"
		if a.pool != nil {
			o.Highest, mode = a.rate, "servers"
			if p, ok := a.pool.(*capacity.CommandPool); ok {
				p.Note, p.Dir, p.Env = h.note, held.Dir, held.Env
			}
		}
		if held.Watched() {
			o.Usage = held.Usage
		}
		l, err := capacity.StartLoad(ctx, o)
		if err != nil {
			return err
		}
		_, err = capacity.Run(ctx, l, capacity.Options{
			Search: a.search, Name: s.Name, Service: s.Service, Target: s.Target.String(), Command: h.command, Mode: mode, Arrivals: r.arrivals, Seed: r.seed,
			Environment: held.Environment, Bounds: o.Bounds, Report: h.report, Events: held.Events, Now: f.now,
		})
		return err
	})
	// A further interrupt does not end the program before all is taken down, but
	// hastens it.
	closing, stop := signal.NotifyContext(context.WithoutCancel(ctx), os.Interrupt, syscall.SIGTERM)
	defer stop()
	return errors.Join(err, st.Close(closing))
}

// capacityReporter sends the latest state of a search to a server, about once a second.
// A slow server delays nothing.
type capacityReporter struct {
	page   string
	wake   chan struct{}
	ended  chan struct{}
	cancel context.CancelFunc

	mu     sync.Mutex
	latest *api.Capacity
	last   bool
	said   string
}

// reportWithin bounds the time that the last report of a search may take.
const reportWithin = 10 * time.Second

func (f *capacityOutput) reporter(ctx context.Context, name, service string, stop context.CancelCauseFunc) (*capacityReporter, error) {
	c := &client.Client{Address: f.to, HTTP: &http.Client{Timeout: 10 * time.Second}}
	asked, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	if _, err := c.Sessions(asked, api.SessionsRequest{Limit: 1}); err != nil {
		return nil, withHint(err, "--server takes the address of a server's page, such as http://127.0.0.1:7099")
	}
	id := "capacity-" + f.now().UTC().Format("20060102-150405") + "-" + strings.ToLower(rand.Text()[:6])
	r := &capacityReporter{page: pageOf(f.to) + "/sessions/" + id, wake: make(chan struct{}, 1), ended: make(chan struct{})}
	reporting, end := context.WithCancel(context.WithoutCancel(ctx))
	r.cancel = end
	go func() {
		defer close(r.ended)
		for range r.wake {
			r.mu.Lock()
			latest, last := r.latest, r.last
			r.latest = nil
			r.mu.Unlock()
			if latest != nil {
				reply, err := c.ReportSession(reporting, id, api.SessionReport{
					Kind: "capacity", Name: name, Service: service, Start: latest.Start, Ended: !report.IsNaN(latest.End), Capacity: latest,
				})
				r.mu.Lock()
				if r.said = ""; err != nil {
					r.said = "the server does not take reports: " + err.Error()
				}
				r.mu.Unlock()
				if reply.Stop {
					stop(errors.New("somebody stopped it at " + pageOf(f.to)))
				}
			}
			if last {
				return
			}
		}
	}()
	return r, nil
}

func (r *capacityReporter) report(c *api.Capacity) {
	if r == nil {
		return
	}
	r.mu.Lock()
	r.latest = c
	r.mu.Unlock()
	r.poke()
}

func (r *capacityReporter) poke() {
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

// close sends the last report, and returns an error of the server. It may be called
// again.
func (r *capacityReporter) close() string {
	r.mu.Lock()
	r.last = true
	r.mu.Unlock()
	r.poke()
	late := time.AfterFunc(reportWithin, r.cancel)
	<-r.ended
	late.Stop()
	r.cancel()
	return r.said
}
