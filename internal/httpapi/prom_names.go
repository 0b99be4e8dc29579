package httpapi

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/util/annotations"
)

func (s *server) promSeries(r *http.Request) (promAnswer, error) {
	limit, err := promLimit(r)
	if err != nil {
		return promAnswer{}, err
	}
	start, end, err := s.promRangeParams(r)
	if err != nil {
		return promAnswer{}, err
	}
	if len(r.Form["match[]"]) == 0 {
		return promAnswer{}, &promError{promBadData, errors.New("no match[] parameter provided")}
	}
	selections, err := s.promSelections(r)
	if err != nil {
		return promAnswer{}, err
	}
	found, truncated, err := s.prom.Series(r.Context(), start, end, selections, limit)
	if err != nil {
		return promAnswer{}, err
	}
	a := promAnswer{data: []byte{'['}}
	for i, l := range found {
		if i > 0 {
			a.data = append(a.data, ',')
		}
		a.data = appendLabels(a.data, l)
	}
	a.data = append(a.data, ']')
	if truncated {
		a.warned = append(a.warned, "results truncated due to limit")
	}
	return a, nil
}

func (s *server) promLabels(r *http.Request) (promAnswer, error) {
	return s.promNames(r, func(ms []*labels.Matcher, q promLabelQuerier) ([]string, annotations.Annotations, error) {
		return q.LabelNames(r.Context(), nil, ms...)
	})
}

func (s *server) promLabelValues(r *http.Request) (promAnswer, error) {
	name := r.PathValue("name")
	if len(name) > 3 && name[:3] == "U__" {
		name = model.UnescapeName(name, model.ValueEncodingEscaping)
	}
	if !model.UTF8Validation.IsValidLabelName(name) {
		return promAnswer{}, &promError{promBadData, fmt.Errorf("invalid label name: %q", name)}
	}
	return s.promNames(r, func(ms []*labels.Matcher, q promLabelQuerier) ([]string, annotations.Annotations, error) {
		return q.LabelValues(r.Context(), name, nil, ms...)
	})
}

// promNames answers a sorted list that is the union over the selections.
func (s *server) promNames(r *http.Request, list func([]*labels.Matcher, promLabelQuerier) ([]string, annotations.Annotations, error)) (promAnswer, error) {
	limit, err := promLimit(r)
	if err != nil {
		return promAnswer{}, err
	}
	start, end, err := s.promRangeParams(r)
	if err != nil {
		return promAnswer{}, err
	}
	selections, err := s.promSelections(r)
	if err != nil {
		return promAnswer{}, err
	}
	if len(selections) == 0 {
		selections = [][]*labels.Matcher{nil}
	}
	q, err := s.prom.Queryable().Querier(start.UnixMilli(), end.UnixMilli())
	if err != nil {
		return promAnswer{}, err
	}
	defer q.Close() //nolint:errcheck // holds nothing
	names := []string{}
	for _, ms := range selections {
		found, _, err := list(ms, q)
		if err != nil {
			return promAnswer{}, err
		}
		names = append(names, found...)
	}
	slices.Sort(names)
	names = slices.Compact(names)
	a := promAnswer{}
	if limit > 0 && len(names) > limit {
		names = names[:limit]
		a.warned = append(a.warned, "results truncated due to limit")
	}
	a.data, err = json.Marshal(names)
	return a, err
}

func (s *server) promMetadata(r *http.Request) (promAnswer, error) {
	limit, err := promLimit(r)
	if err != nil {
		return promAnswer{}, err
	}
	m, err := s.prom.Metadata(r.Context(), r.Form.Get("metric"))
	if err != nil {
		return promAnswer{}, err
	}
	if limit > 0 && len(m) > limit { // the first by name, whenever it is asked
		for _, name := range slices.Sorted(maps.Keys(m))[limit:] {
			delete(m, name)
		}
	}
	b, err := json.Marshal(m)
	return promAnswer{data: b}, err
}

func (s *server) promBuildInfo(*http.Request) (promAnswer, error) {
	// Grafana reads the version to know what it may ask for.
	b, err := json.Marshal(map[string]string{
		"version": promVersion, "application": "tailscope", "revision": s.Status.Version, "branch": "", "buildUser": "", "buildDate": "", "goVersion": goVersion,
	})
	return promAnswer{data: b}, err
}

func (s *server) promFormat(r *http.Request) (promAnswer, error) {
	e, err := s.promExpr(r)
	if err != nil {
		return promAnswer{}, err
	}
	b, err := json.Marshal(e.Pretty(0))
	return promAnswer{data: b}, err
}
