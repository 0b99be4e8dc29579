package httpapi

import (
	"encoding/hex"
	"net/http"
	"strconv"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"

	"tailscope/internal/query"
	"tailscope/internal/series"
	"tailscope/internal/store"
)

// promExemplars answers the kept traces that stand for their buckets, for every
// selector of the query, with labels trace_id and span_id as OpenMetrics has
// them: a dashboard draws them on the chart and links to the trace.
// https://prometheus.io/docs/prometheus/latest/querying/api/#querying-exemplars
func (s *server) promExemplars(r *http.Request) (promAnswer, error) {
	start, end, err := s.promRangeParams(r)
	if err != nil {
		return promAnswer{}, err
	}
	e, err := s.promExpr(r)
	if err != nil {
		return promAnswer{}, err
	}
	type key struct {
		service, operation, tenant string
		failed                     bool
	}
	by := map[key][]store.TraceHit{}
	var order []key
	type span struct {
		trace store.TraceID
		id    [8]byte
	}
	seen := map[span]bool{} // a query may name one family twice
	for _, ms := range parser.ExtractSelectors(e) {
		hits, err := query.Exemplars(r.Context(), s.Store, ms, start, end)
		if err != nil {
			return promAnswer{}, err
		}
		for _, h := range hits {
			if seen[span{h.ID, h.Span}] {
				continue
			}
			seen[span{h.ID, h.Span}] = true
			k := key{h.Service, h.Operation, h.Tenant, h.Failed}
			if by[k] == nil {
				order = append(order, k)
			}
			by[k] = append(by[k], h)
		}
	}
	b := []byte{'['}
	for i, k := range order {
		if i > 0 {
			b = append(b, ',')
		}
		status := "ok"
		if k.failed {
			status = "error"
		}
		l := labels.NewBuilder(labels.EmptyLabels())
		l.Set(labels.MetricName, series.SpanDuration).Set(series.LabelService, k.service).Set(series.LabelOperation, k.operation).Set(series.LabelTenant, k.tenant).Set(series.LabelStatus, status)
		b = appendLabels(append(b, `{"seriesLabels":`...), l.Labels())
		b = append(b, `,"exemplars":[`...)
		for j, h := range by[k] {
			if j > 0 {
				b = append(b, ',')
			}
			b = appendExemplar(b, h)
		}
		b = append(b, "]}"...)
	}
	return promAnswer{data: append(b, ']')}, nil
}

func appendExemplar(b []byte, h store.TraceHit) []byte {
	b = appendLabels(append(b, `{"labels":`...), labels.FromStrings("trace_id", hex.EncodeToString(h.ID[:]), "span_id", hex.EncodeToString(h.Span[:])))
	b = append(b, `,"value":"`...)
	b = strconv.AppendFloat(b, float64(h.DurationNanos)/1e9, 'g', -1, 64)
	b = append(b, `","timestamp":`...)
	return append(appendMillis(b, (h.StartNanos+h.DurationNanos)/1e6), '}')
}
