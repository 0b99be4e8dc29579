package query

import (
	"context"
	"math"

	"github.com/prometheus/prometheus/model/labels"

	"tailscope/api"
	"tailscope/hist"
	"tailscope/internal/series"
	"tailscope/internal/store"
)

// DistributionRequest asks for whole distributions over a range.
type DistributionRequest struct {
	Selection
	By        []string
	Quantiles []Quantile
	At        []float64 // values to rank
	Buckets   bool
	Limit     int // > 0 keeps the groups with the most observations
}

// Distribution merges everything selected into one distribution per group.
func Distribution(ctx context.Context, st store.Store, r DistributionRequest) (*api.DistributionResponse, error) {
	if byCohort(r.Family, r.By) {
		var err error
		if st, err = settleNamed(ctx, st, &r.Selection); err != nil {
			return nil, err
		}
	}
	sel, err := resolve(ctx, st, r.Selection, r.By)
	if err != nil {
		return nil, err
	}
	if err := sel.wantDistribution("distribution"); err != nil {
		return nil, err
	}
	sel.q.TopK = r.Limit
	res, err := st.Query(ctx, sel.q)
	if err != nil {
		return nil, err
	}
	if err := checkGroups(len(res.Groups)); err != nil {
		return nil, err
	}
	out := &api.DistributionResponse{
		Range: api.Range{Start: res.Start, End: res.End}, Family: sel.info.Name,
		Slot: slotOf(res), Groups: make([]api.DistributionGroup, 0, len(res.Groups)),
	}
	for _, g := range res.Groups {
		if len(g.Points) > 0 && g.Points[0].Hist != nil {
			out.Groups = append(out.Groups, distributionGroup(g.Labels, g.Points[0].Hist, r.Quantiles, r.At, r.Buckets))
		}
	}
	return out, nil
}

// Effective returns, for an answer, how many independent observations say as much; 0 where
// each stands for itself.
func Effective(m hist.Moment) uint64 {
	if !m.Weighted {
		return 0
	}
	return uint64(math.Round(m.Effective()))
}

func checkGroups(n int) error {
	if n <= MaxGroups {
		return nil
	}
	return &Error{Code: CodeTooMany, Field: "by", Message: "the answer would have more than 20000 groups; group by fewer labels, add one to match or set a limit"}
}

func slotOf(res *store.Result) int64 {
	if res.Resolution == 0 {
		return int64(series.Base)
	}
	return int64(res.Resolution)
}

func distributionGroup(l labels.Labels, h *hist.Histogram, qs []Quantile, at []float64, buckets bool) api.DistributionGroup {
	g := api.DistributionGroup{
		Labels: labelMap(l), Count: h.Count, Sum: api.Float(h.Sum), Mean: api.Float(h.Mean()),
		Min: api.Float(h.Min), Max: api.Float(h.Max),
		Quantiles: quantiles(h, qs), Error: api.Float(h.RelativeError()), Weighted: h.Weighted, Effective: Effective(h.Moment()),
	}
	for _, v := range at {
		r := h.Rank(v)
		g.At = append(g.At, api.At{Value: api.Float(v), Below: api.Float(r.Below), Same: api.Float(r.Same), Above: api.Float(r.Above), Low: api.Float(r.Low), High: api.Float(r.High)})
	}
	if buckets {
		g.Buckets = []api.Bucket{}
		eachBucket(h, func(low, high float64, n uint64) {
			g.Buckets = append(g.Buckets, api.Bucket{Low: api.Float(low), High: api.Float(high), Count: n})
		})
	}
	return g
}

func labelMap(l labels.Labels) api.Labels {
	m := make(api.Labels, l.Len())
	l.Range(func(l labels.Label) { m[l.Name] = l.Value })
	return m
}
