package query

import (
	"strconv"
	"strings"

	"tailscope/api"
	"tailscope/hist"
)

// Quantile is one that was asked for; Key is how it was written.
type Quantile struct {
	Key string
	Q   float64
}

// ParseQuantiles reads a list such as "0.5,0.95,0.99"; empty means def.
func ParseQuantiles(s, def string) ([]Quantile, error) {
	if strings.TrimSpace(s) == "" {
		s = def
	}
	var qs []Quantile
	for key := range strings.SplitSeq(s, ",") {
		key = strings.TrimSpace(key)
		q, err := strconv.ParseFloat(key, 64)
		if err != nil || q != q {
			return nil, Invalid("q", "%s is not a quantile; write numbers between 0 and 1, such as 0.5,0.95,0.99", quote(key))
		}
		if q < 0 || q > 1 {
			if q > 1 && q <= 100 {
				return nil, Invalid("q", "quantile %s is not between 0 and 1; write %s", key, strconv.FormatFloat(q/100, 'g', 6, 64))
			}
			return nil, Invalid("q", "quantile %s is not between 0 and 1", key)
		}
		qs = append(qs, Quantile{key, q})
	}
	if len(qs) > 50 {
		return nil, Invalid("q", "%d quantiles are more than 50; ask for fewer", len(qs))
	}
	return qs, nil
}

func quantiles(h *hist.Histogram, qs []Quantile) map[string]api.Float {
	m := make(map[string]api.Float, len(qs))
	for _, q := range qs {
		m[q.Key] = api.Float(h.Quantile(q.Q))
	}
	return m
}
