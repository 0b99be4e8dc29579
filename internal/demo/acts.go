package demo

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"tailscope/api"
	"tailscope/internal/experiment/logbook"
)

// An act is something that the demo does while its shop is under load. Acts come one
// after another. Those with a mark lie so far apart that each can be judged by itself.
type act struct {
	name  string        // for the banner
	text  string        // what is done, and what is seen of it
	wait  time.Duration // from the end of the act before, or from the start of the load
	lasts time.Duration // about
	again bool          // comes again after all others

	// An act has a mark, whose verdict tells what came of it, or the kind of a session of
	// the log book, whose headline does.
	mark api.Mark
	late bool // the mark is set once it is done, for it works from then on
	kind string

	page   string // address of the page where it is seen, in a range; empty: that of its mark or session
	do     func(context.Context) error
	report string // what is said once it is done
}

// The times of acts that are not settings.
const (
	importFor       = time.Minute
	mirrorFor       = 4 * time.Minute
	betweenSessions = 30 * time.Second
)

// acts lists what the demo does, in order: first what a mark tells of, then what is kept in
// the log book. The latter needs the program.
func (d *demo) acts() []act {
	pace := d.BackupEvery / 2
	list := []act{d.theIndex(), d.theBackup(pace), d.theImport(pace)}
	if d.Program != "" {
		list = append(list,
			act{
				name: "mirror", kind: logbook.KindMirror, wait: pace, lasts: mirrorFor + 10*time.Second, do: d.mirror, report: "mirrored the shop's requests",
				text: "The shoppers go through a mirror, which gives copies of their requests to two other shops: one as it is, and one that keeps products in memory.",
			},
			act{
				name: "experiment", kind: logbook.KindExperiment, wait: betweenSessions, lasts: 2 * time.Minute, do: d.experiment, report: "tried both ways to read a cart",
				text: "Another shop reads carts by one query for each product, and by one query for all, in rounds of random order.",
			},
			act{
				name: "capacity", kind: logbook.KindCapacity, wait: betweenSessions, lasts: capacityWithin + 10*time.Second, do: d.capacity, report: "searched for the most checkouts",
				text: "Another shop, with two connections to the payments, gets more and more checkouts until p95 is too high.",
			},
			act{
				name: "simulation", kind: logbook.KindSimulation, wait: time.Second, lasts: 5 * time.Second, do: d.simulate, report: "simulated the shop on more nodes",
				text: "What lists of products took is played through layouts of one to eight nodes.",
			})
	}
	for _, a := range []act{d.theBackup(d.BackupEvery), d.theImport(d.BackupEvery)} {
		a.again = true
		list = append(list, a)
	}
	return list
}

func (d *demo) theIndex() act {
	if d.NoChange {
		return act{
			name: "no change", wait: d.ChangeAfter, text: "A mark is set and nothing is done.",
			mark: api.Mark{Name: "nothing changed", Description: "a mark at which nothing was done"},
			do:   func(context.Context) error { return nil }, report: "changed nothing, and set a mark",
		}
	}
	return act{
		name: "index", wait: d.ChangeAfter, lasts: time.Second, late: true,
		text: "The index that GET /orders lacks is made: a customer's orders are found without reading all of the tenant's.",
		mark: api.Mark{Name: "index added", Description: theChange + ": a customer's orders are found without reading all of the tenant's"},
		do: func(ctx context.Context) error {
			_, err := d.db.ExecContext(ctx, theChange)
			return err
		},
		report: "made the index orders_by_customer",
	}
}

func (d *demo) theBackup(wait time.Duration) act {
	return act{
		name: "backup", wait: wait, lasts: 10 * time.Second,
		text: "Every tenant is backed up. It takes the write lock while it copies one, and orders wait.",
		mark: api.Mark{Name: "backup started", Description: "it takes the write lock while it copies a tenant, and orders wait"},
		page: "/services/shop?l.operation==POST+/orders",
		do:   d.backup, report: "backed up every tenant",
	}
}

func (d *demo) theImport(wait time.Duration) act {
	t := d.importer().name
	return act{
		name: "bulk import", wait: wait, lasts: importFor,
		text: fmt.Sprintf("The tenant %s imports its price list again and again for a minute. Each time takes the write lock, and the orders of all tenants wait.", t),
		mark: api.Mark{Name: "bulk import of " + t, Description: "its price list, again and again for a minute: each time takes the write lock, and the orders of all tenants wait"},
		page: "/tenants?l.service==shop&tenant=" + t,
		do:   d.importPrices, report: "took the price list of " + t,
	}
}

// events does one act after the other.
func (d *demo) events(ctx context.Context) {
	d.say("%s", d.story.preview())
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(d.story.untilNext()):
		}
		s := d.story.begin()
		if !s.late {
			d.mark(ctx, s)
		}
		err := d.step(ctx, s.report, func() error { return s.do(ctx) })
		d.story.end(s, err)
		if s.late && err == nil {
			d.mark(ctx, s)
		}
	}
}

// mark sets the mark of an act that has one.
func (d *demo) mark(ctx context.Context, s *scene) {
	if s.mark.Name != "" {
		d.story.identify(s, d.setMark(ctx, s.mark))
	}
}

// setMark sets a mark and returns its id, which is empty if it could not be set.
func (d *demo) setMark(ctx context.Context, m api.Mark) string {
	if m.User = "demo"; m.Service == "" {
		m.Service = "shop"
	}
	set, err := d.api.PutMark(ctx, m)
	switch {
	case err == nil:
		return set.ID
	case ctx.Err() == nil:
		d.say("the mark %q could not be set: %v", m.Name, err)
	}
	return ""
}

// step does one thing and says how long it took.
func (d *demo) step(ctx context.Context, done string, do func() error) error {
	begin := time.Now()
	err := do()
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case err != nil:
		d.say("not %s: %v", done, err)
	default:
		d.say("%s, which took %s", done, took(time.Since(begin).Seconds()))
	}
	return err
}

// verdicts looks every few seconds for what came of the acts, and says it.
func (d *demo) verdicts(ctx context.Context) {
	tick := time.NewTicker(5 * time.Second)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		for _, s := range d.story.open() {
			if err := d.look(ctx, s); err != nil && ctx.Err() == nil {
				d.Log.Debug("look for a verdict", "act", s.name, "error", err)
			}
		}
	}
}

// session returns the newest session of a kind that began at a moment or later; nil if there is
// none.
func (d *demo) session(ctx context.Context, kind string, from time.Time) (*api.Session, error) {
	list, err := d.api.Sessions(ctx, api.SessionsRequest{Kind: kind, Start: api.Time(strconv.FormatInt(from.Unix(), 10)), Limit: 1})
	if err != nil || len(list.Sessions) == 0 {
		return nil, err
	}
	return &list.Sessions[0], nil
}

// look asks for the verdict of an act's mark, or for the headline of its session.
func (d *demo) look(ctx context.Context, s *scene) error {
	var told string
	var err error
	if s.kind == "" {
		var m *api.Mark
		if m, err = d.api.Mark(ctx, d.story.id(s)); err == nil && m.Verdict != nil {
			told = d.story.judged(s, m.Verdict)
		}
	} else {
		var kept *api.Session
		if kept, err = d.session(ctx, s.kind, s.begun); kept != nil {
			told = d.story.kept(s, kept)
		}
	}
	if told != "" {
		d.say("%s: %s  http://%s%s", s.name, told, d.srv.Addr(), d.story.page(s))
	}
	return err
}
