package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/url"
	"slices"
	"strconv"
	"sync"
	"time"

	"tailscope/api"
	"tailscope/benchmarks/report"
	"tailscope/internal/series"
	"tailscope/test/payload"
	"tailscope/test/program"
	"tailscope/test/sender"
)

// Probes are sent one after another beside the load.
const (
	probeEvery    = 200 * time.Millisecond
	probePatience = 30 * time.Second
)

// freshness measures how long after its acknowledgement a span is in the answers of the
// API, and what asking costs ingest.
func freshness(ctx context.Context, o *options, r *report.Report) error {
	lasts := 2 * time.Minute
	if o.quick {
		lasts = 20 * time.Second
	}
	sec := r.Section("From acknowledged to visible", fmt.Sprintf(
		"Beside %d spans a second, a request of one span is sent by gRPC every %s. From its acknowledgement until GET /api/v1/distribution and PromQL, "+
			"asked one after another, count it: a client's wall time, with the time that the answers take. "+
			"Then the same load for as long without probes and questions; before both, once to warm up. CPU-seconds per million spans are of the server, its answers included.", pacedRate, probeEvery))
	p, end, err := o.start(ctx)
	if err != nil {
		return err
	}
	defer end()
	var took map[string][]time.Duration
	const warm, asked, alone = "warm-up", "load, probes and questions", "load alone"
	for _, phase := range []string{warm, asked, alone} {
		load, stop := context.WithTimeout(ctx, lasts)
		before, err := p.Usage()
		if err != nil {
			stop()
			return err
		}
		var sent int
		var failed error
		var running sync.WaitGroup
		running.Go(func() { sent, failed = pace(load, p.OTLPGRPC, payload.TracesAt, math.MaxInt) })
		if phase == asked {
			took, err = probe(load, p)
		}
		running.Wait()
		stop()
		if err := errors.Join(err, failed); err != nil {
			return fmt.Errorf("%w\n%s", err, p.Log())
		}
		after, err := p.Usage()
		if err != nil {
			return err
		}
		perMillion := (after.CPU() - before.CPU()).Seconds() / float64(sent) * 1e6
		o.logf("%-27s %d spans, %.3f CPU-s per million", phase, sent, perMillion)
		if phase == warm {
			continue
		}
		sec.Add("CPU", phase, "CPU-s per million spans", 0, perMillion)
	}
	for _, by := range []string{"distribution", "PromQL"} {
		list := took[by]
		if len(list) == 0 {
			return fmt.Errorf("no probe was seen by %s", by)
		}
		slices.Sort(list)
		for _, q := range []struct {
			name   string
			at     float64
			target float64
		}{{"p50", 0.5, 0}, {"p99", 0.99, 1000}, {"max", 1, 0}} {
			ms := list[min(int(q.at*float64(len(list))), len(list)-1)].Seconds() * 1e3
			o.logf("%-13s %s of %d: %.1f ms", by, q.name, len(list), ms)
			sec.Add(by+", "+q.name, "tailscope", "ms", q.target, ms)
		}
	}
	return nil
}

// probe sends probes and asks for each until it is seen, until ctx is done.
func probe(ctx context.Context, p *program.Tailscope) (took map[string][]time.Duration, err error) {
	s, err := sender.GRPC(p.OTLPGRPC, sender.Traces)
	if err != nil {
		return nil, err
	}
	defer s.Close()
	took = map[string][]time.Duration{}
	began := time.Now()
	for n := uint64(1); ctx.Err() == nil; n++ {
		if err := s.Send(ctx, payload.Probe(n, time.Now())); err != nil {
			if ctx.Err() != nil {
				break
			}
			if _, retry := wishesRetry(err); !retry {
				return took, err
			}
			n--
			continue
		}
		acknowledged := time.Now()
		for _, by := range []struct {
			name  string
			count func() (float64, error)
		}{
			{"distribution", func() (float64, error) { return probesSeen(ctx, p.URL, began) }},
			{"PromQL", func() (float64, error) { return probesCounted(ctx, p.URL) }},
		} {
			for {
				seen, err := by.count()
				if ctx.Err() != nil {
					return took, nil
				}
				if err != nil {
					return took, err
				}
				if seen > float64(n) {
					return took, fmt.Errorf("%s counts %v of %d probes", by.name, seen, n)
				}
				if seen == float64(n) {
					took[by.name] = append(took[by.name], time.Since(acknowledged))
					break
				}
				if time.Since(acknowledged) > probePatience {
					return took, fmt.Errorf("%s counts %v of %d probes after %s", by.name, seen, n, probePatience)
				}
			}
		}
		select {
		case <-ctx.Done():
		case <-time.After(time.Until(acknowledged.Add(probeEvery))):
		}
	}
	return took, nil
}

func probesSeen(ctx context.Context, server string, since time.Time) (float64, error) {
	r, err := ask[api.DistributionResponse](ctx, server, "/api/v1/distribution", url.Values{
		"match": {fmt.Sprintf(`{service=%q}`, payload.ProbeService)},
		"start": {strconv.FormatInt(since.Unix()-60, 10)}, "end": {strconv.FormatInt(time.Now().Unix()+60, 10)},
	})
	if err != nil || len(r.Groups) == 0 {
		return 0, err
	}
	return float64(r.Groups[0].Count), nil
}

// probesCounted asks at the end of the slot that is open: PromQL counts whole slots.
func probesCounted(ctx context.Context, server string) (float64, error) {
	r, err := ask[struct {
		Data struct {
			Result []struct{ Value [2]any }
		}
	}](ctx, server, "/prometheus/api/v1/query", url.Values{
		"query": {fmt.Sprintf(`histogram_count(sum(increase(%s{service=%q}[30m])))`, series.SpanDuration, payload.ProbeService)},
		"time":  {strconv.FormatInt(series.Base.Slot(time.Now().Unix())+int64(series.Base), 10)},
	})
	if err != nil || len(r.Data.Result) == 0 {
		return 0, err
	}
	text, _ := r.Data.Result[0].Value[1].(string)
	return strconv.ParseFloat(text, 64)
}

// pace sends the requests that build makes, at pacedRate at most, until so many spans
// were accepted or ctx is done. It returns how many were.
func pace(ctx context.Context, server string, build func(seed uint64, n int, start time.Time) [][]byte, most int) (spans int, err error) {
	s, err := sender.GRPC(server, sender.Traces)
	if err != nil {
		return 0, err
	}
	defer s.Close()
	const batch = 40 // requests made at once, so that making them is not a burst
	each := time.Second * payload.SpansPerRequest / pacedRate
	for n, begin := uint64(0), time.Now(); spans < most; n++ {
		for _, b := range build(n, batch, time.Now().Add(-time.Second)) {
			for {
				err := s.Send(ctx, b)
				if ctx.Err() != nil {
					return spans, nil
				}
				if err == nil {
					break
				}
				if _, retry := wishesRetry(err); !retry {
					return spans, err
				}
				time.Sleep(100 * time.Millisecond)
			}
			spans += payload.SpansPerRequest
			select {
			case <-time.After(time.Until(begin.Add(time.Duration(spans/payload.SpansPerRequest) * each))):
			case <-ctx.Done():
				return spans, nil
			}
		}
	}
	return spans, nil
}
