package httpapi

import (
	"errors"
	"fmt"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"

	"tailscope/internal/query"
)

// maxSelections bounds the selections of one look-up of names or series.
const maxSelections = 100

func (s *server) promSelections(r *http.Request) ([][]*labels.Matcher, error) {
	texts := r.Form["match[]"]
	if len(texts) > maxSelections {
		return nil, badParam("match[]", fmt.Errorf("%d selections are given, at most %d are read; ask for the rest in another request", len(texts), maxSelections))
	}
	if err := query.CheckText("match[]", strings.Join(texts, " ")); err != nil {
		return nil, badParam("match[]", err)
	}
	sets, err := s.prom.Parser().ParseMetricSelectors(r.Form["match[]"])
	if err != nil {
		return nil, badParam("match[]", err)
	}
	for _, ms := range sets {
		if !slices.ContainsFunc(ms, func(m *labels.Matcher) bool { return !m.Matches("") }) {
			return nil, badParam("match[]", errors.New("match[] must contain at least one non-empty matcher"))
		}
	}
	return sets, nil
}

// promExpr reads the query, which is not run.
func (s *server) promExpr(r *http.Request) (parser.Expr, error) {
	e, err := s.prom.ParseExpr(r.Form.Get("query"))
	if err != nil {
		return nil, badParam("query", err)
	}
	return e, nil
}

// promRangeParams reads start and end of a look-up of names; without them the
// last day is looked at.
func (s *server) promRangeParams(r *http.Request) (start, end time.Time, err error) {
	if end, err = promTimeParam(r, "end", s.Now()); err != nil {
		return start, end, err
	}
	if start, err = promTimeParam(r, "start", end.Add(-24*time.Hour)); err != nil {
		return start, end, err
	}
	if end.Before(start) {
		return start, end, badParam("end", errors.New("end timestamp must not be before start time"))
	}
	return start, end, nil
}

func promOpts(r *http.Request) (promql.QueryOpts, error) {
	var lookback time.Duration
	if s := r.Form.Get("lookback_delta"); s != "" {
		d, err := promDuration(s)
		if err != nil {
			return nil, badParam("lookback_delta", err)
		}
		lookback = d
	}
	return promql.NewPrometheusQueryOpts(false, lookback), nil
}

func promLimit(r *http.Request) (int, error) {
	s := r.Form.Get("limit")
	if s == "" {
		return 0, nil
	}
	n, err := strconv.Atoi(s)
	if err != nil {
		return 0, badParam("limit", fmt.Errorf("cannot parse %q to a valid limit", s))
	}
	if n < 0 {
		return 0, badParam("limit", errors.New("limit must be non-negative"))
	}
	return n, nil
}

func promTimeParam(r *http.Request, name string, def time.Time) (time.Time, error) {
	s := r.Form.Get(name)
	if s == "" {
		return def, nil
	}
	t, err := promTime(s)
	if err != nil {
		return t, badParam(name, fmt.Errorf("invalid time value for '%s': %w", name, err))
	}
	return t, nil
}

// farthest is beyond what can be stored, in Unix seconds. Milliseconds of these
// years are beyond it too: who sends them is told.
const farthest = 1 << 40

// promTime reads Unix seconds or RFC 3339.
func promTime(s string) (time.Time, error) {
	if f, err := strconv.ParseFloat(s, 64); err == nil {
		if math.IsNaN(f) || math.Abs(f) >= farthest {
			return time.Time{}, fmt.Errorf("cannot parse %q to a valid timestamp", s)
		}
		sec, frac := math.Modf(f)
		return time.Unix(int64(sec), int64(math.Round(frac*1000)*1e6)).UTC(), nil
	}
	if t, err := time.Parse(time.RFC3339Nano, s); err == nil {
		return t, nil
	}
	return time.Time{}, fmt.Errorf("cannot parse %q to a valid timestamp", s)
}

func promDuration(s string) (time.Duration, error) {
	if f, err := strconv.ParseFloat(s, 64); err == nil {
		ns := f * 1e9
		if !(math.Abs(ns) < math.MaxInt64) {
			return 0, fmt.Errorf("cannot parse %q to a valid duration. It overflows int64", s)
		}
		return time.Duration(ns), nil
	}
	if d, err := model.ParseDuration(s); err == nil {
		return time.Duration(d), nil
	}
	return 0, fmt.Errorf("cannot parse %q to a valid duration", s)
}
