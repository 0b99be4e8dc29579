package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"tailscope/benchmarks/report"
	"tailscope/hist"
	"tailscope/internal/series"
	"tailscope/internal/store"
	"tailscope/internal/store/pebblestore"
	"tailscope/test/payload"
	"tailscope/test/program"
	"tailscope/test/sender"
)

// templateSlots is the number of slots of the load that are really ingested. The time
// is then filled with them, one after the other.
const templateSlots = 10

// template is the content of the store after one ingested slot. The slots of its
// points are to be set.
type template struct{ full, others store.Batch }

// page measures the questions of the service page on a week of the load that
// ingest is measured with.
func page(ctx context.Context, o *options, r *report.Report) error {
	week, recent := 7*24*time.Hour, 6*time.Hour
	if o.quick {
		week, recent = 26*time.Hour, time.Hour
	}
	dir := o.keep
	if dir == "" {
		dir = filepath.Join(o.tmp, "page")
	}
	data := filepath.Join(dir, "data")
	f, err := readFilled(dir)
	if errors.Is(err, fs.ErrNotExist) {
		var templates []template
		if templates, err = ingestTemplates(ctx, o, filepath.Join(dir, "template")); err == nil {
			f, err = fillWeek(ctx, o, filepath.Join(data, "store"), templates, week, recent)
		}
		if err == nil {
			err = f.write(dir)
		}
	}
	if err != nil {
		return err
	}
	start, end := time.Unix(f.Start, 0), time.Unix(f.End, 0)

	sec := r.Section("The service page on the ingest load", fmt.Sprintf(
		"%d ingested slots of the load of the ingest benchmark (%d spans/s, %d distinct series in them, %d points of every view in a slot) fill a week, one after the other: "+
			"the last %s whole (%d points), before that without tenants and one slot a minute. A client's wall time for `tailscope serve` to answer over HTTP, JSON included. "+
			"The end is now, so the last hour is not settled.",
		templateSlots, payload.SpansPerSecond, f.Series, f.Points/max(1, int(recent/(10*time.Second))), recent, f.Points))
	// Retention stays as it is by default: what it would drop meanwhile is not asked for.
	p, err := program.StartTailscope(ctx, data)
	if err != nil {
		return err
	}
	defer p.Kill()
	unix := func(t time.Time) string { return strconv.FormatInt(t.Unix(), 10) }
	q := func(from time.Time, kv ...string) url.Values {
		v := url.Values{"family": {series.SpanDuration}, "start": {unix(from)}, "end": {unix(end)}}
		for i := 0; i < len(kv); i += 2 {
			v.Set(kv[i], kv[i+1])
		}
		return v
	}
	const checkout = `{service="checkout"}`
	six := end.Add(-recent)
	for _, c := range []struct {
		name   string
		target float64
		path   string
		params url.Values
	}{
		{"services of 6 h", 0, "/api/v1/services", q(six)},
		{"heatmap of 6 h at 1,280 columns", 20, "/api/v1/heatmap", q(six, "match", checkout, "width", "1280")},
		{"heatmap of 6 h, server spans only", 0, "/api/v1/heatmap", q(six, "match", `{service="checkout",kind="server"}`, "width", "1280")},
		{"heatmap of 6 h, one operation", 0, "/api/v1/heatmap", q(six, "match", `{service="checkout",operation="GET /api/cart/{id}"}`, "width", "1280")},
		{"heatmap of 6 h, one tenant", 0, "/api/v1/heatmap", q(six, "match", `{service="checkout",tenant="tenant-00000"}`, "width", "1280")},
		{"heatmap of a week at 1,280 columns", 50, "/api/v1/heatmap", q(start, "match", checkout, "width", "1280")},
		{"timeline of 6 h at 1,280 columns: mean, p50, p95, p99", 0, "/api/v1/timeline", q(six, "match", checkout, "width", "1280", "q", "0.5,0.95,0.99")},
		{"top tenants of 6 h", 100, "/api/v1/tenants", q(six, "match", checkout, "sort", "requests", "limit", "50")},
		{"labels of 6 h", 0, "/api/v1/labels", q(six, "match", checkout)},
		{"p99 by operation of 6 h", 0, "/api/v1/distribution", q(six, "match", checkout, "by", "operation", "q", "0.99")},
		{"p99 by tenant of 6 h", 0, "/api/v1/distribution", q(six, "match", checkout, "by", "tenant", "q", "0.99")},
	} {
		if !o.wants(c.name) {
			continue
		}
		if err := askTimes(ctx, sec, p, c.name, c.target, 4*o.reps, c.path, c.params, nil); err != nil {
			return err
		}
	}
	u, err := p.Usage()
	if err != nil {
		return err
	}
	sec.Add("peak memory of the server that answers", "tailscope", "MB", 0, float64(u.PeakBytes)/1e6)
	size, err := dirSize(filepath.Join(data, "store"))
	if err != nil {
		return err
	}
	sec.Add("store on disk", "tailscope", "MB", 0, float64(size)/1e6)
	return nil
}

// fillWeek puts a week that ends now into a store and compacts it: the recent part
// whole, the older one without tenants and one slot a minute.
func fillWeek(ctx context.Context, o *options, dir string, templates []template, week, recent time.Duration) (f filled, err error) {
	st, err := pebblestore.Open(ctx, pebblestore.Options{Dir: dir})
	if err != nil {
		return f, err
	}
	defer func() { err = errors.Join(err, st.Close()) }()
	distinct := map[series.ID]bool{}
	for i := range templates {
		for _, one := range templates[i].full.Series {
			id, _ := one.ID(nil)
			distinct[id] = true
		}
	}
	end := time.Now().Truncate(time.Minute).Add(-time.Minute)
	f = filled{Start: end.Add(-week).Unix(), End: end.Unix(), Series: len(distinct)}
	generation := uint64(0)
	o.logf("filling a week, the last %s of it with every tenant", recent)
	began, cpu := time.Now(), ownCPU()
	for at := f.Start; at < f.End; at += 10 {
		whole := f.End-at <= int64(recent/time.Second)
		if !whole && at%60 != 0 {
			continue // rollups of this time are read, not its base slots
		}
		t := &templates[int(at/10)%templateSlots]
		put := []*store.Batch{&t.others}
		if whole {
			put = append(put, &t.full)
			f.Points += len(t.others.Points) + len(t.full.Points)
		}
		for _, b := range put {
			generation++
			b.Generation = generation
			for i := range b.Points {
				b.Points[i].Slot = at
			}
			if err := st.Put(ctx, b); err != nil {
				return f, err
			}
		}
		if at%600 == 0 {
			if err := st.Maintain(ctx, time.Unix(at, 0)); err != nil {
				return f, err
			}
		}
	}
	if err := st.Maintain(ctx, end.Add(time.Minute)); err != nil {
		return f, err
	}
	o.logf("filled in %s, %.0f CPU-s", time.Since(began).Round(time.Second), (ownCPU() - cpu).Seconds())
	return f, nil
}

// ingestTemplates sends some slots of the load to a server, as the ingest
// benchmark does, and reads back what it has stored of each.
func ingestTemplates(ctx context.Context, o *options, dir string) ([]template, error) {
	const perSlot = 10 * payload.SpansPerSecond / payload.SpansPerRequest
	o.logf("ingesting %d slots", templateSlots)
	first := time.Now().Add(-time.Hour).Truncate(10 * time.Second)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	p, err := program.StartTailscope(ctx, filepath.Join(dir, "data"))
	if err != nil {
		return nil, err
	}
	defer p.Kill()
	s, err := sender.GRPC(p.OTLPGRPC, sender.Traces)
	if err != nil {
		return nil, err
	}
	defer s.Close()
	payloads := payload.TracesAt(1, templateSlots*perSlot, first)
	if _, _, err := sender.All(ctx, s, payloads, 4, wishesRetry); err != nil {
		return nil, err
	}
	if _, err := p.Stop(ctx); err != nil {
		return nil, err
	}

	st, err := pebblestore.Open(ctx, pebblestore.Options{Dir: filepath.Join(dir, "data", "store")})
	if err != nil {
		return nil, err
	}
	defer st.Close()
	out := make([]template, templateSlots)
	for i := range out {
		slot := first.Unix() + int64(i)*10
		for _, view := range []series.View{series.Full, series.Marginal, series.Total} {
			b := &out[i].others
			if view == series.Full {
				b = &out[i].full
			}
			b.Writer, b.Resolution = "bench", series.Base
			b.Families = []store.FamilyInfo{{Name: series.SpanDuration, Kind: series.Distribution}}
			res, err := st.Query(ctx, store.Query{Family: series.SpanDuration, View: view, Start: slot, End: slot + 10, Step: 10, Each: true, Schema: hist.DefaultSchema})
			if err != nil {
				return nil, err
			}
			for _, g := range res.Groups {
				data, err := g.Points[0].Hist.AppendBinary(nil)
				if err != nil {
					return nil, err
				}
				b.Points = append(b.Points, store.Point{Series: uint32(len(b.Series)), Data: data})
				b.Series = append(b.Series, series.Series{Family: series.SpanDuration, View: view, Kind: g.Kind, Labels: g.Labels})
			}
		}
	}
	return out, nil
}
