package main

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"tailscope/benchmarks/report"
	"tailscope/internal/query"
	"tailscope/internal/series"
	"tailscope/internal/store"
	"tailscope/internal/store/chstore"
	"tailscope/internal/store/pebblestore"
	"tailscope/test/program"
)

// The same requests of a day are put into the embedded store, into ClickHouse, on one node
// and on three, and as spans into a table of ClickHouse, and each is asked the same.

// batchSlots is the number of base slots put at once: a server that catches up.
const batchSlots = 60

// clickHouseBench compares the stores.
func clickHouseBench(ctx context.Context, o *options, r *report.Report, end time.Time) error {
	sh := shape{"5–15 observations", storeSeries, 24 * 360, 5, 15, 0.1, true}
	if o.quick {
		sh.slots = 2 * 360
	}
	b := &storesBench{o: o, sh: sh, start: end.Add(-time.Duration(sh.slots) * 10 * time.Second), end: end}
	b.sec = r.Section("ClickHouse: points of "+sh.what, fmt.Sprintf(
		"%d series, %.0f h; each is seen in a tenth of the slots of 10 s. Put in batches of %d slots. ClickHouse: Debian's, on this machine, files in memory; "+
			"spans: a table ORDER BY (service, tenant, ts), asked by quantilesTiming, which reads every span, knows whole milliseconds and tells large samples approximately. "+
			"Questions in process, rolled up; what p99 by tenant reads is as system.query_log has it, uncompressed.", sh.series, end.Sub(b.start).Hours(), batchSlots))
	dir, err := os.MkdirTemp(o.tmp, "stores-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	st, err := pebblestore.Open(ctx, pebblestore.Options{Dir: filepath.Join(dir, "store")})
	if err != nil {
		return err
	}
	err = b.measure(ctx, "pebblestore", st, nil, nil)
	if cerr := st.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		return err
	}
	for _, shards := range []int{1, 3} {
		err := b.onClickHouse(ctx, shards)
		if errors.Is(err, exec.ErrNotFound) {
			o.logf("ClickHouse is left out: %v", err)
			return nil
		}
		if err != nil {
			return err
		}
	}
	return nil
}

type storesBench struct {
	o          *options
	sh         shape
	start, end time.Time
	sec        *report.Section
	answers    [][]byte // of the first store
}

// onClickHouse measures the store on so many nodes, and spans on one.
func (b *storesBench) onClickHouse(ctx context.Context, shards int) error {
	c, err := program.StartClickHouse(ctx, shards)
	if err != nil {
		return err
	}
	defer c.Close()
	t := &logging{next: shortLived}
	st, err := chstore.Open(ctx, chstore.Options{Address: c.Address("bench"), Transport: t})
	if err != nil {
		return err
	}
	defer st.Close()
	who := fmt.Sprintf("ClickHouse, %d shards", shards)
	if shards == 1 {
		who = "ClickHouse, 1 node"
	}
	if err := b.measure(ctx, who, st, c, t); err != nil || shards > 1 {
		return err
	}
	return b.spans(ctx, c.Nodes[0])
}

// each calls yield with the points of batches of slots.
func (b *storesBench) each(ctx context.Context, yield func(slot int64, pts []point) error) error {
	g := newGenerator(b.sh)
	for slot := range b.sh.slots {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := yield(b.start.Unix()+int64(slot)*10, g.slot()); err != nil {
			return err
		}
	}
	return nil
}

// measure fills a store and asks it. nodes are those of ClickHouse, if it is in one.
func (b *storesBench) measure(ctx context.Context, who string, st store.Store, nodes *program.ClickHouse, t *logging) error {
	b.o.logf("%s: filling %d series × %d slots", who, b.sh.series, b.sh.slots)
	points, generation := 0, uint64(0)
	all := b.sh.all()
	batch := &store.Batch{}
	var wall, cpu, servers time.Duration
	timed := func(do func() error) error {
		begin, own := time.Now(), ownCPU()
		before, err := cpuOf(nodes)
		if err == nil {
			err = do()
		}
		after, uerr := cpuOf(nodes)
		wall, cpu, servers = wall+time.Since(begin), cpu+ownCPU()-own, servers+after-before
		if err == nil {
			err = uerr
		}
		return err
	}
	put := func() error {
		if len(batch.Points) == 0 {
			return nil
		}
		generation++
		points += len(batch.Points)
		batch.Writer, batch.Generation, batch.Resolution, batch.Series = "bench", generation, series.Base, all
		batch.Families = []store.FamilyInfo{{Name: storeFamily, Kind: series.Distribution}}
		err := timed(func() error { return st.Put(ctx, batch) })
		batch = &store.Batch{}
		return err
	}
	n := 0
	err := b.each(ctx, func(slot int64, pts []point) error {
		for _, p := range pts {
			batch.Points = append(batch.Points, store.Point{Series: uint32(p.series), Slot: slot, Data: bytes.Clone(p.data)})
		}
		if n++; n%batchSlots == 0 {
			return put()
		}
		return nil
	})
	if err == nil {
		err = put()
	}
	if err != nil {
		return fmt.Errorf("%s: %w", who, err)
	}
	b.sec.Add("Put", who, "1,000 points/s", 0, float64(points)/wall.Seconds()/1000)
	b.cost("Put", who, points, cpu, servers)
	wall, cpu, servers = 0, 0, 0
	if err := timed(func() error { return st.Maintain(ctx, b.end.Add(time.Hour)) }); err != nil {
		return fmt.Errorf("%s: %w", who, err)
	}
	b.cost("roll-ups and settling", who, points, cpu, servers)
	if err := b.onDisk(ctx, who, st, nodes, points); err != nil {
		return err
	}
	for i, q := range questionsOver(b.start, b.end)[:4] {
		var answer any
		var cold time.Duration
		var figure *report.Figure
		err := repeat(ctx, 5*b.o.reps, func() (err error) {
			answer, err = q.direct(ctx, st)
			return err
		}, func(first bool, d time.Duration) {
			if first {
				cold = d
				return
			}
			figure = b.sec.Add(q.name, who, "ms", 0, ms(d))
		})
		if err != nil {
			return fmt.Errorf("%s: %s: %w", who, q.name, err)
		}
		figure.Note = fmt.Sprintf("first answer %.1f ms", ms(cold))
		j, err := json.Marshal(answer)
		if err != nil {
			return err
		}
		if nodes == nil {
			b.answers = append(b.answers, j)
		} else if !bytes.Equal(j, b.answers[i]) {
			return fmt.Errorf("%s: %s: it answers %.200q, the embedded store %.200q", who, q.name, j, b.answers[i])
		}
	}
	if nodes == nil {
		return nil
	}
	t.on.Store(true)
	_, err = byTenant(ctx, st, b.start, b.end)
	t.on.Store(false)
	if err != nil {
		return err
	}
	return b.read(ctx, who, nodes)
}

// byTenant is the question whose reading is counted.
func byTenant(ctx context.Context, st store.Store, start, end time.Time) (any, error) {
	return query.Distribution(ctx, st, query.DistributionRequest{Selection: query.Selection{Family: storeFamily, Start: start, End: end},
		By: []string{"tenant"}, Quantiles: []query.Quantile{{Key: "0.99", Q: .99}}})
}

func (b *storesBench) cost(what, who string, points int, own, servers time.Duration) {
	f := b.sec.Add(what, who, "CPU-s per million points", 0, (own+servers).Seconds()/float64(points)*1e6)
	if servers > 0 {
		f.Note = fmt.Sprintf("%.0f %% of it ClickHouse's", 100*servers.Seconds()/(own+servers).Seconds())
	}
}

// onDisk notes the bytes of the base slots.
func (b *storesBench) onDisk(ctx context.Context, who string, st store.Store, nodes *program.ClickHouse, points int) error {
	var size int64
	if p, ok := st.(*pebblestore.Store); ok {
		if err := p.Compact(ctx); err != nil {
			return err
		}
		u, err := measureUsage(p)
		if err != nil {
			return err
		}
		size = u.base
	} else {
		n, err := onDisk(ctx, nodes, "table LIKE 'points%' AND partition LIKE '(10,%'")
		if err != nil {
			return err
		}
		size = n
	}
	b.sec.Add("10 s points on disk", who, "B per point", 0, float64(size)/float64(points))
	return nil
}

// onDisk returns the bytes of the parts of all nodes that satisfy a condition.
func onDisk(ctx context.Context, c *program.ClickHouse, where string) (sum int64, err error) {
	for _, n := range c.Nodes {
		out, err := askNode(ctx, n, "SELECT sum(bytes_on_disk) FROM system.parts WHERE active AND "+where, nil)
		if err != nil {
			return 0, err
		}
		size, err := strconv.ParseInt(strings.TrimSpace(out), 10, 64)
		if err != nil {
			return 0, err
		}
		sum += size
	}
	return sum, nil
}

func cpuOf(c *program.ClickHouse) (sum time.Duration, err error) {
	if c == nil {
		return 0, nil
	}
	for _, n := range c.Nodes {
		u, err := n.Usage()
		if err != nil {
			return 0, err
		}
		sum += u.CPU()
	}
	return sum, nil
}

// logging has ClickHouse log the statements that are sent while it is on.
type logging struct {
	next http.RoundTripper
	on   atomic.Bool
}

// shortLived closes idle connections before ClickHouse does.
var shortLived = &http.Transport{IdleConnTimeout: 2 * time.Second, MaxIdleConnsPerHost: 16, DisableCompression: true}

func (l *logging) RoundTrip(r *http.Request) (*http.Response, error) {
	if l.on.Load() {
		r = r.Clone(r.Context())
		q := r.URL.Query()
		q.Set("log_queries", "1")
		r.URL.RawQuery = q.Encode()
	}
	return l.next.RoundTrip(r)
}

// read notes what the logged statements have read, on all nodes, and forgets them.
func (b *storesBench) read(ctx context.Context, who string, c *program.ClickHouse) error {
	var statements, rows, size float64
	for _, n := range c.Nodes {
		if _, err := askNode(ctx, n, "SYSTEM FLUSH LOGS", nil); err != nil {
			return err
		}
		out, err := askNode(ctx, n, "SELECT count(), sum(read_rows), sum(read_bytes) FROM system.query_log WHERE type = 2", nil)
		if err != nil {
			return err
		}
		var k, r, s float64
		if _, err := fmt.Sscan(out, &k, &r, &s); err != nil {
			return fmt.Errorf("query log of %s: %q: %w", n.HTTP, out, err)
		}
		statements, rows, size = statements+k, rows+r, size+s
		if _, err := askNode(ctx, n, "DROP TABLE system.query_log", nil); err != nil {
			return err
		}
	}
	b.sec.Add("p99 by tenant reads", who, "rows", 0, rows)
	b.sec.Add("p99 by tenant reads", who, "MB", 0, size/1e6).Note = fmt.Sprintf("%.0f statements", statements)
	return nil
}

// askNode sends a statement to a node, with rows in RowBinary if it is an insertion.
func askNode(ctx context.Context, n *program.ClickHouseNode, statement string, rows []byte) (string, error) {
	return askBy(ctx, shortLived, n, statement, rows)
}

func askBy(ctx context.Context, t http.RoundTripper, n *program.ClickHouseNode, statement string, rows []byte) (string, error) {
	body := statement
	target := "http://" + n.HTTP + "/"
	if rows != nil {
		target, body = target+"?query="+url.QueryEscape(statement), string(rows)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, target, strings.NewReader(body))
	if err != nil {
		return "", err
	}
	res, err := (&http.Client{Transport: t}).Do(req)
	if err != nil {
		return "", err
	}
	defer res.Body.Close()
	out, err := io.ReadAll(res.Body)
	if err == nil && res.StatusCode != http.StatusOK {
		err = fmt.Errorf("ClickHouse: %.300s", out)
	}
	return string(out), err
}

// spans puts every request as a row into a table, and asks that.
func (b *storesBench) spans(ctx context.Context, n *program.ClickHouseNode) error {
	const who = "spans in ClickHouse"
	for _, q := range []string{"CREATE DATABASE IF NOT EXISTS raw", "CREATE TABLE raw.spans (ts DateTime, service String, operation String, tenant String, ms Float32) " +
		"ENGINE = MergeTree() PARTITION BY toYYYYMMDD(ts) ORDER BY (service, tenant, ts)"} {
		if _, err := askNode(ctx, n, q, nil); err != nil {
			return err
		}
	}
	one := &program.ClickHouse{Nodes: []*program.ClickHouseNode{n}}
	var rows []byte
	var wall time.Duration
	own, count, points := ownCPU(), 0, 0
	before, err := cpuOf(one)
	if err != nil {
		return err
	}
	generated := time.Duration(0) // CPU of drawing, which is not the store's
	insert := func() error {
		begin := time.Now()
		_, err := askNode(ctx, n, "INSERT INTO raw.spans (ts, service, operation, tenant, ms) FORMAT RowBinary", rows)
		rows, wall = rows[:0], wall+time.Since(begin)
		return err
	}
	text := func(s string) { rows = append(binary.AppendUvarint(rows, uint64(len(s))), s...) }
	k := 0
	last := ownCPU()
	err = b.each(ctx, func(slot int64, pts []point) error {
		generated += ownCPU() - last
		points += len(pts)
		for _, p := range pts {
			for _, ns := range p.nanos {
				rows = binary.LittleEndian.AppendUint32(rows, uint32(slot))
				text(serviceOf(p.series))
				text(oneOperation)
				text(tenantOf(p.series))
				rows = binary.LittleEndian.AppendUint32(rows, math.Float32bits(float32(ns)/1e6))
				count++
			}
		}
		var err error
		if k++; k%batchSlots == 0 {
			err = insert()
		}
		last = ownCPU()
		return err
	})
	if err == nil && len(rows) > 0 {
		err = insert()
	}
	after, uerr := cpuOf(one)
	if err == nil {
		err = uerr
	}
	if err != nil {
		return fmt.Errorf("%s: %w", who, err)
	}
	b.sec.Add("Put", who, "1,000 spans/s", 0, float64(count)/wall.Seconds()/1000)
	b.cost("Put", who, points, ownCPU()-own-generated, after-before)
	size, err := onDisk(ctx, one, "table = 'spans'")
	if err != nil {
		return err
	}
	b.sec.Add("10 s points on disk", who, "B per point", 0, float64(size)/float64(points)).Note = fmt.Sprintf("%.1f B per span", float64(size)/float64(count))
	where := fmt.Sprintf(" FROM raw.spans WHERE ts >= toDateTime(%d) AND ts < toDateTime(%d)", b.start.Unix(), b.end.Unix())
	service := where + " AND service = '" + oneService + "'"
	sql := []string{
		"SELECT quantilesTiming(0.5, 0.95, 0.99)(ms)" + where,
		"SELECT tenant, quantileTiming(0.99)(ms)" + where + " GROUP BY tenant",
		"SELECT toStartOfMinute(ts) AS t, quantileTiming(0.99)(ms)" + service + " GROUP BY t ORDER BY t",
		"SELECT toStartOfMinute(ts) AS t, floor(log2(ms) * 8) AS row, count()" + service + " GROUP BY t, row ORDER BY t, row",
	}
	for i, q := range questionsOver(b.start, b.end)[:4] {
		if err := repeat(ctx, b.o.reps, func() error {
			_, err := askNode(ctx, n, sql[i], nil)
			return err
		}, func(first bool, d time.Duration) {
			if !first {
				b.sec.Add(q.name, who, "ms", 0, ms(d))
			}
		}); err != nil {
			return fmt.Errorf("%s: %s: %w", who, q.name, err)
		}
	}
	logged := &logging{next: shortLived}
	logged.on.Store(true)
	if _, err := askBy(ctx, logged, n, sql[1], nil); err != nil {
		return err
	}
	return b.read(ctx, who, one)
}
