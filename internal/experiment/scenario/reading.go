package scenario

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/prometheus/model/labels"

	"tailscope/api"
	"tailscope/hist"
	"tailscope/internal/experiment/bench/session"
	"tailscope/internal/series"
)

// Families of readings; with the labels service, process, and those of the run.
const (
	FamilyCPU      = "bench_process_cpu_seconds_total"
	FamilyResident = "bench_process_resident_bytes"
	FamilyThreads  = "bench_process_threads"
)

// readings holds the usage of processes under test, once a second.
type readings struct {
	servers []*server
	labels  map[string]string // of series
	sink    session.Sink
	trouble func(string)

	mu   sync.Mutex
	rows map[[2]string]*row // by process and name
	said map[string]bool

	slot   int64 // of what is to be sent, in units of slotSeconds
	points map[[2]string]*series.Point
}

// row is one reading over time.
type row struct {
	api.BenchResource
	adds        bool
	last, total float64
	first, at   time.Time // of the first value and of last
}

func newReadings(servers []*server, trouble func(string)) *readings {
	return &readings{servers: servers, trouble: trouble, rows: map[[2]string]*row{}, points: map[[2]string]*series.Point{}}
}

const (
	readEvery   = time.Second
	slotSeconds = 10
)

// follow reads until ctx ends, and once more then.
func (r *readings) follow(ctx context.Context) {
	var readers sync.WaitGroup
	each := func(read func(context.Context)) {
		readers.Go(func() {
			tick := time.NewTicker(readEvery)
			defer tick.Stop()
			for {
				read(ctx)
				select {
				case <-tick.C:
				case <-ctx.Done():
					last, cancel := context.WithTimeout(context.WithoutCancel(ctx), metricsTimeout)
					defer cancel()
					read(last)
					return
				}
			}
		})
	}
	each(r.processes)
	client := &http.Client{Timeout: metricsTimeout, Transport: &http.Transport{}}
	defer client.CloseIdleConnections()
	for _, v := range r.servers {
		for i := range v.Metrics {
			each(func(ctx context.Context) { r.metrics(ctx, client, v.Name, &v.Metrics[i]) })
		}
	}
	readers.Wait()
	r.flush(context.WithoutCancel(ctx))
}

// processes reads the processes of all servers.
func (r *readings) processes(ctx context.Context) {
	all, err := table()
	if err != nil {
		r.reportTrouble("processes cannot be read: " + err.Error())
		return
	}
	now := time.Now()
	for _, v := range r.servers {
		u, files, ok := v.usage(all)
		if !ok {
			continue
		}
		r.mu.Lock()
		r.addReading(now, v.Name, "cpu_cores", "cores", true, u.cpu)
		r.addReading(now, v.Name, "resident_bytes", "bytes", false, u.resident)
		if u.threads >= 0 {
			r.addReading(now, v.Name, "threads", "", false, float64(u.threads))
		}
		if files >= 0 {
			r.addReading(now, v.Name, "open_files", "", false, float64(files))
		}
		r.mu.Unlock()
	}
	if r.sink != nil && now.Unix()/slotSeconds != r.slot {
		r.flush(ctx)
	}
}

func (r *readings) metrics(ctx context.Context, client *http.Client, process string, m *Metrics) {
	figures, err := m.read(ctx, client)
	if err != nil && ctx.Err() == nil {
		r.reportTrouble(fmt.Sprintf("metrics of %s: %v", process, err))
	}
	now := time.Now()
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, f := range figures {
		r.addReading(now, process, f.name, f.unit, f.adds, f.value)
	}
}

// reportTrouble reports trouble once.
func (r *readings) reportTrouble(text string) {
	r.mu.Lock()
	known := r.said[text]
	if r.said == nil {
		r.said = map[string]bool{}
	}
	r.said[text] = true
	r.mu.Unlock()
	if !known && r.trouble != nil {
		r.trouble(text)
	}
}

// addReading keeps a value. For one that adds up it keeps the growth per second.
func (r *readings) addReading(now time.Time, process, name, unit string, adds bool, v float64) {
	key := [2]string{process, name}
	x := r.rows[key]
	if x == nil {
		if adds && unit != "cores" {
			unit = unit + "/s"
		}
		x = &row{BenchResource: api.BenchResource{Process: process, Name: name, Unit: unit}, adds: adds, last: v, first: now, at: now}
		r.rows[key] = x
		if adds {
			return // how much it grew is known from the second on
		}
	}
	shown := v
	if adds {
		grew, took := v-x.last, now.Sub(x.at).Seconds()
		if grew < 0 {
			grew = v // it began again
		}
		if took < 0.05 {
			return // the last reading is too near for a rate
		}
		x.total += grew
		x.last, x.at, shown = v, now, grew/took
		r.point(now, process, name, grew)
	} else {
		r.point(now, process, name, v)
	}
	x.Times = append(x.Times, api.Float(float64(now.UnixNano())/1e9))
	x.Values = append(x.Values, api.Float(shown))
}

// point adds a value for the store: CPU as a counter, the rest as distributions of
// the second's values.
func (r *readings) point(now time.Time, process, name string, v float64) {
	family := map[string]string{"cpu_cores": FamilyCPU, "resident_bytes": FamilyResident, "threads": FamilyThreads}[name]
	if r.sink == nil || family == "" {
		return
	}
	p := r.points[[2]string{process, family}]
	if p == nil {
		ls := map[string]string{"process": process}
		for k, v := range r.labels {
			if v != "" {
				ls[k] = v
			}
		}
		p = &series.Point{Family: family, Labels: labels.FromMap(ls), TimeNanos: now.UnixNano()}
		if p.Kind = series.Counter; family != FamilyCPU {
			p.Kind, p.Hist = series.Distribution, hist.New(hist.DefaultSchema)
		}
		r.points[[2]string{process, family}] = p
	}
	if p.Hist != nil {
		_ = p.Hist.Record(v) // finite
	} else {
		p.Value += v
	}
}

// flush sends what was kept. Points that the sink refuses are lost: the result has
// them too.
func (r *readings) flush(ctx context.Context) {
	if r.sink == nil {
		return
	}
	r.mu.Lock()
	var out []series.Point
	for _, p := range r.points {
		if p.Kind == series.Distribution || p.Value > 0 {
			out = append(out, *p)
		}
	}
	clear(r.points)
	r.slot = time.Now().Unix() / slotSeconds
	r.mu.Unlock()
	if len(out) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	if err := r.sink.Put(ctx, out); err != nil {
		r.reportTrouble("readings of processes are not taken: " + err.Error())
	}
}

// result returns what was read so far.
func (r *readings) result(answered uint64) []api.BenchResource {
	r.mu.Lock()
	defer r.mu.Unlock()
	out := make([]api.BenchResource, 0, len(r.rows))
	for _, x := range r.rows {
		b := x.BenchResource
		b.Times, b.Values = slices.Clone(b.Times), slices.Clone(b.Values)
		b.PerRequest, b.Mean, b.Max = api.Float(math.NaN()), api.Float(math.NaN()), api.Float(math.NaN())
		if x.adds && answered > 0 {
			b.PerRequest = api.Float(x.total / float64(answered))
		}
		if n := len(b.Values); n > 0 {
			sum := 0.0
			for _, v := range b.Values {
				sum += float64(v)
			}
			b.Mean, b.Max = api.Float(sum/float64(n)), slices.Max(b.Values)
			if took := x.at.Sub(x.first).Seconds(); x.adds && took > 0 {
				b.Mean = api.Float(x.total / took)
			}
		}
		out = append(out, b)
	}
	slices.SortFunc(out, func(a, b api.BenchResource) int {
		return cmp.Or(cmp.Compare(a.Process, b.Process), cmp.Compare(a.Name, b.Name))
	})
	return out
}

// between returns the means of the readings in a time, by process and name, and the
// cores of all processes together. A reading that adds up is the rate of the second
// before it, so one at the very beginning belongs to the time before.
func (r *readings) between(from, to time.Time) (cores float64, means map[string]float64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	cores, means = math.NaN(), map[string]float64{}
	for _, x := range r.rows {
		begin := from
		if x.adds {
			begin = from.Add(readEvery / 2)
		}
		sum, n := 0.0, 0
		for i, at := range x.Times {
			if t := float64(at); t > float64(unix(begin)) && t <= float64(unix(to))+readEvery.Seconds()/10 {
				sum, n = sum+float64(x.Values[i]), n+1
			}
		}
		if n == 0 {
			continue
		}
		mean := sum / float64(n)
		if means[x.Process+" "+x.Name] = mean; x.Name == "cpu_cores" {
			if math.IsNaN(cores) {
				cores = 0
			}
			cores += mean
		}
	}
	return cores, means
}
