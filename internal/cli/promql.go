package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"tailscope/api"
	"tailscope/client"
	"tailscope/internal/report"
)

func newQueryPromQL(io streams) *cobra.Command {
	q := newQuestion(io, "table", "json", "csv")
	at := api.Time("now")
	var step string
	cmd := &cobra.Command{
		Use:   "promql EXPRESSION",
		Short: "evaluate PromQL, at a moment or over a range",
		Example: `  tailscope query promql 'histogram_quantile(0.99, sum by (tenant) (rate(span_duration_seconds[5m])))'
  tailscope query promql 'go_goroutine_count' --since 10m --step 30s`,
		Args: exactArgs(1, "an expression, in quotes"),
	}
	q.serverFlag.register(cmd.Flags())
	q.registerFormat(cmd.Flags())
	f := cmd.Flags()
	bindField(f, &at, "at", "when to evaluate", "")
	f.StringVar(&q.since, "since", "", "evaluate over a range that begins so long ago, such as `15m`")
	q.End = "now"
	bindField(f, &q.Start, "start", "evaluate over a range that begins then", "")
	bindField(f, &q.End, "end", "end of the range", "")
	f.StringVar(&step, "step", "", "step of a range; default a thirtieth of it")
	cmd.RunE = q.run(func(ctx context.Context, args []string) error {
		path, v, err := promRequest(q, args[0], at, step)
		if err != nil {
			return usage{err}
		}
		body, err := askPrometheus(ctx, q.url, path, v)
		if err != nil {
			return err
		}
		var r promResponse
		if err := json.Unmarshal(body, &r); err != nil {
			return fmt.Errorf("%s does not answer like Prometheus: %w", q.url, err)
		}
		for _, w := range slices.Concat(r.Warnings, r.Infos) {
			fmt.Fprintln(io.err, "tailscope: "+w)
		}
		if q.format == "json" { // as it came
			_, err := fmt.Fprintf(io.out, "%s\n", r.Data)
			return err
		}
		samples, err := r.samples()
		if err != nil {
			return err
		}
		return q.answer(report.Samples(samples, q.now().Location()))
	})
	return cmd
}

// promRequest returns the request of an instant query, or of a range query if a beginning
// is given.
func promRequest(q *question, expression string, at api.Time, step string) (path string, v url.Values, err error) {
	v = url.Values{"query": {expression}}
	now := q.now()
	stamp := func(t time.Time) string { return strconv.FormatFloat(float64(t.UnixMilli())/1e3, 'f', -1, 64) }
	if q.since == "" && q.Start == "" {
		v.Set("time", stamp(momentOf(at, now)))
		return "/prometheus/api/v1/query", v, nil
	}
	start, end := momentOf(q.Start, now), momentOf(q.End, now)
	if q.Start == "" {
		back, err := parseSince(q.since)
		if err != nil {
			return "", nil, fmt.Errorf("--since %w", err)
		}
		start = end.Add(-back)
	}
	if !start.Before(end) {
		return "", nil, errors.New("the range ends before it begins")
	}
	every := max((end.Sub(start) / 30).Round(time.Second), time.Second)
	if step != "" {
		if every, err = parseSince(step); err != nil {
			return "", nil, fmt.Errorf("--step %w", err)
		}
	}
	v.Set("start", stamp(start))
	v.Set("end", stamp(end))
	v.Set("step", strconv.FormatFloat(every.Seconds(), 'f', -1, 64))
	return "/prometheus/api/v1/query_range", v, nil
}

// promResponse is Prometheus' envelope.
type promResponse struct {
	Status   string          `json:"status"`
	Error    string          `json:"error"`
	Warnings []string        `json:"warnings"`
	Infos    []string        `json:"infos"`
	Data     json.RawMessage `json:"data"`
}

func askPrometheus(ctx context.Context, server, path string, v url.Values) ([]byte, error) {
	base := strings.TrimRight(server, "/")
	if !strings.Contains(base, "://") {
		base = "http://" + base
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, base+path+"?"+v.Encode(), nil)
	if err != nil {
		return nil, fmt.Errorf("address %s: %w", base, err)
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		var u *url.Error
		if errors.As(err, &u) {
			err = u.Err
		}
		return nil, fmt.Errorf("%w at %s: %w", client.ErrUnreachable, base, err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return nil, fmt.Errorf("read answer of %s: %w", base, err)
	}
	if resp.StatusCode != http.StatusOK {
		var r promResponse
		if json.Unmarshal(body, &r) == nil && r.Error != "" {
			return nil, errors.New(r.Error)
		}
		return nil, fmt.Errorf("%s answered %s", base, resp.Status)
	}
	return body, nil
}

// promValue is [time, "value"].
type promValue struct {
	at    float64
	value string
}

func (p *promValue) UnmarshalJSON(b []byte) error {
	return json.Unmarshal(b, &[]any{&p.at, &p.value})
}

// promHistogram is [time, {count, sum, buckets}].
type promHistogram struct {
	at   float64
	body struct {
		Count string `json:"count"`
		Sum   string `json:"sum"`
	}
}

func (p *promHistogram) UnmarshalJSON(b []byte) error {
	return json.Unmarshal(b, &[]any{&p.at, &p.body})
}

// samples returns the values of each series and moment.
func (r *promResponse) samples() ([]report.Sample, error) {
	var data struct {
		Type   string          `json:"resultType"`
		Result json.RawMessage `json:"result"`
	}
	if err := json.Unmarshal(r.Data, &data); err != nil {
		return nil, fmt.Errorf("read the answer: %w", err)
	}
	type series struct {
		Metric     map[string]string `json:"metric"`
		Value      *promValue        `json:"value"`
		Values     []promValue       `json:"values"`
		Histogram  *promHistogram    `json:"histogram"`
		Histograms []promHistogram   `json:"histograms"`
	}
	var all []series
	switch data.Type {
	case "scalar", "string":
		var v promValue
		if err := json.Unmarshal(data.Result, &v); err != nil {
			return nil, fmt.Errorf("read the answer: %w", err)
		}
		all = []series{{Value: &v}}
	default:
		if err := json.Unmarshal(data.Result, &all); err != nil {
			return nil, fmt.Errorf("read the answer: %w", err)
		}
	}
	var out []report.Sample
	add := func(at float64, name, value string) {
		out = append(out, report.Sample{Time: at, Series: name, Value: value})
	}
	for _, s := range all {
		name := promName(s.Metric)
		if s.Value != nil {
			add(s.Value.at, name, s.Value.value)
		}
		for _, v := range s.Values {
			add(v.at, name, v.value)
		}
		if s.Histogram != nil {
			s.Histograms = append(s.Histograms, *s.Histogram)
		}
		for _, h := range s.Histograms {
			add(h.at, name, "count "+h.body.Count+" sum "+h.body.Sum)
		}
	}
	return out, nil
}

// promName writes a series as PromQL would select it.
func promName(metric map[string]string) string {
	name := metric["__name__"]
	var labels []string
	for _, l := range labelNames(metric) {
		if l != "__name__" {
			labels = append(labels, l+"="+strconv.Quote(metric[l]))
		}
	}
	if len(labels) == 0 && name != "" {
		return name
	}
	return name + "{" + strings.Join(labels, ",") + "}"
}
