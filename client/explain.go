package client

import (
	"context"
	"net/url"
	"strconv"

	"tailscope/api"
)

// ExplainQuery asks what a rectangle of the heatmap has more often than the
// rest of the selection: [From, To) by (Low, High]. Empty fields are left to
// the server; a bound that is nil is none.
type ExplainQuery struct {
	Selection
	From, To  string // times, as Start and End
	Low, High *float64
	Labels    []string // only these
	Alone     bool     // no pairs
	Limit     int
}

// Explain answers which labels, and pairs of them, are over-represented.
func (c *Client) Explain(ctx context.Context, q ExplainQuery) (*api.ExplainResponse, error) {
	v := url.Values{}
	q.Selection.add(v)
	set(v, "from", q.From)
	set(v, "to", q.To)
	for name, bound := range map[string]*float64{"low": q.Low, "high": q.High} {
		if bound != nil {
			v.Set(name, strconv.FormatFloat(*bound, 'g', -1, 64))
		}
	}
	setList(v, "labels", q.Labels)
	if q.Alone {
		v.Set("pairs", "false")
	}
	setInt(v, "limit", q.Limit)
	return get[api.ExplainResponse](ctx, c, "/api/v1/explain", v)
}
