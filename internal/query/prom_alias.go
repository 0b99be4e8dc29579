package query

import (
	"context"
	"slices"
	"strings"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/storage"

	"tailscope/internal/route"
	"tailscope/internal/series"
	"tailscope/internal/store"
)

// Dashboards and rules of others ask for span metrics, for durations of HTTP requests and for
// target_info. Where no application sent a metric of that name, an alias answers from spans: its
// selectors select span_duration_seconds by its labels, and the answer has the alias' labels.

// alias says how a name is answered from spans.
type alias struct {
	suffix string  // of the classic series; _info is 1 wherever there was a span
	scale  float64 // units per second
	labels []derivedLabel
	only   []*labels.Matcher // on spans
}

// derivedLabel is a label that is made of a span's own.
type derivedLabel struct {
	name string
	own  []string
	of   func(labels.Labels) string // "" if the own labels are absent
	back func(*labels.Matcher) ([]*labels.Matcher, bool)
}

// labelJob is made as Prometheus makes it of OTLP: service.namespace/service.name.
const labelJob = "job"

var jobLabel = derivedLabel{
	name: labelJob, own: []string{labelJob, series.LabelService, series.LabelNamespace},
	of: func(l labels.Labels) string {
		service, namespace := l.Get(series.LabelService), l.Get(series.LabelNamespace)
		if service != "" && namespace != "" {
			return namespace + "/" + service
		}
		return service
	},
	back: func(m *labels.Matcher) ([]*labels.Matcher, bool) {
		if m.Type != labels.MatchEqual || m.Value == "" {
			return nil, false
		}
		i := strings.LastIndexByte(m.Value, '/')
		return []*labels.Matcher{
			labels.MustNewMatcher(labels.MatchEqual, series.LabelService, m.Value[i+1:]),
			labels.MustNewMatcher(labels.MatchEqual, series.LabelNamespace, m.Value[:max(i, 0)]),
		}, true
	},
}

// renamed returns a label that has the values of an own one.
func renamed(name, own string) derivedLabel {
	return derivedLabel{
		name: name, own: []string{own},
		of: func(l labels.Labels) string { return l.Get(own) },
		back: func(m *labels.Matcher) ([]*labels.Matcher, bool) {
			return []*labels.Matcher{labels.MustNewMatcher(m.Type, own, m.Value)}, true
		},
	}
}

// translated returns a label whose values stand for those of an own one, one for one.
func translated(name, own string, pairs ...string) derivedLabel {
	return derivedLabel{
		name: name, own: []string{own},
		of: func(l labels.Labels) string {
			if i := slices.Index(pairs, l.Get(own)); i >= 0 {
				return pairs[i+1]
			}
			return ""
		},
		back: func(m *labels.Matcher) ([]*labels.Matcher, bool) {
			var matched []string
			for i := 0; i < len(pairs); i += 2 {
				if m.Matches(pairs[i+1]) {
					matched = append(matched, pairs[i])
				}
			}
			if len(matched) == 0 {
				matched = []string{"-"} // no span has it
			}
			return []*labels.Matcher{labels.MustNewMatcher(labels.MatchRegexp, own, strings.Join(matched, "|"))}, true
		},
	}
}

// ofOperation returns a label that is a part of the operation of an HTTP request.
func ofOperation(name string, part func(method, path string) string) derivedLabel {
	return derivedLabel{
		name: name, own: []string{series.LabelOperation},
		of: func(l labels.Labels) string {
			method, path, _ := strings.Cut(l.Get(series.LabelOperation), " ")
			return part(method, path)
		},
		back: func(*labels.Matcher) ([]*labels.Matcher, bool) { return nil, false },
	}
}

var (
	serviceName = renamed("service_name", series.LabelService)

	spanLabels = []derivedLabel{
		jobLabel, serviceName, renamed("span_name", series.LabelOperation),
		translated("span_kind", series.LabelKind, "server", "SPAN_KIND_SERVER", "client", "SPAN_KIND_CLIENT",
			"internal", "SPAN_KIND_INTERNAL", "producer", "SPAN_KIND_PRODUCER", "consumer", "SPAN_KIND_CONSUMER"),
		translated("status_code", series.LabelStatus, "ok", "STATUS_CODE_UNSET", series.StatusError, "STATUS_CODE_ERROR"),
	}
	httpLabels = []derivedLabel{
		jobLabel, serviceName,
		ofOperation("http_request_method", func(method, _ string) string { return method }),
		ofOperation("http_route", func(_, path string) string { return path }),
		// Spans are counted by whether they failed, not by their code.
		translated("http_response_status_code", series.LabelStatus, "ok", "200", series.StatusError, "500"),
	}
	infoLabels = []derivedLabel{
		jobLabel, serviceName, renamed("service_version", series.LabelVersion),
		renamed("deployment_environment", series.LabelEnvironment), renamed("deployment_environment_name", series.LabelEnvironment),
		renamed("k8s_namespace_name", series.LabelK8s),
	}

	onlyHTTP = []*labels.Matcher{
		labels.MustNewMatcher(labels.MatchEqual, series.LabelKind, "server"),
		labels.MustNewMatcher(labels.MatchRegexp, series.LabelOperation, "(?:"+strings.Join(route.Methods[:], "|")+")(?: .*)?"),
	}

	// infoBy are the labels of which each combination is one target.
	infoBy = []string{series.LabelService, series.LabelNamespace, series.LabelInstance, series.LabelVersion, series.LabelEnvironment, series.LabelK8s}
)

// aliases holds the aliases by name.
var aliases = func() map[string]alias {
	out := map[string]alias{"target_info": {suffix: "_info", scale: 1, labels: infoLabels}}
	for name, scale := range map[string]float64{
		"traces_span_metrics_duration_milliseconds": 1000, "traces_span_metrics_duration_seconds": 1, // the collector's connector
		"duration_milliseconds": 1000, "duration_seconds": 1, // of older versions
		"traces_spanmetrics_latency": 1, // Tempo
	} {
		for _, suffix := range classicSuffixes {
			out[name+suffix] = alias{suffix: suffix, scale: scale, labels: spanLabels}
		}
	}
	for _, name := range []string{"traces_span_metrics_calls_total", "calls_total", "traces_spanmetrics_calls_total"} {
		out[name] = alias{suffix: "_count", scale: 1, labels: spanLabels}
	}
	for _, suffix := range classicSuffixes {
		out["http_server_request_duration_seconds"+suffix] = alias{suffix: suffix, scale: 1, labels: httpLabels, only: onlyHTTP}
	}
	return out
}()

// replaced are the labels of spans that those of aliases stand for. The service keeps its own
// label too, which is Tempo's.
var replaced = []string{series.LabelOperation, series.LabelKind, series.LabelStatus}

// derived returns the labels that c makes of others.
func (c classic) derived() []derivedLabel {
	if c.as != "" {
		return aliases[c.as].labels
	}
	if c.job {
		return []derivedLabel{jobLabel}
	}
	return nil
}

// find returns a label that c makes of others.
func (c classic) find(name string) (derivedLabel, bool) {
	for _, d := range c.derived() {
		if d.name == name {
			return d, true
		}
	}
	return derivedLabel{}, false
}

// translate returns matchers as the store needs them. Those that no matcher of its labels stands
// for become c's filter.
func (c *classic) translate(ms []*labels.Matcher) []*labels.Matcher {
	out := slices.Clone(aliases[c.as].only)
	// A family that is not of spans may have the label itself.
	spans := slices.ContainsFunc(ms, func(m *labels.Matcher) bool {
		return m.Name == labels.MetricName && m.Type == labels.MatchEqual && IsSpanFamily(m.Value)
	})
	for _, m := range ms {
		d, ok := c.find(m.Name)
		if !ok {
			out = append(out, m)
			continue
		}
		if own, ok := d.back(m); ok && spans {
			out = append(out, own...)
		} else {
			c.filter = append(c.filter, m)
		}
	}
	return out
}

// owns returns the store's labels that the named labels and the filter are made of.
func (c classic) owns(names []string) (out []string) {
	for _, name := range append(slices.Clone(names), matcherNames(c.filter)...) {
		own := []string{name}
		if d, ok := c.find(name); ok {
			own = d.own
		}
		for _, n := range own {
			if !slices.Contains(out, n) && (n != labels.BucketLabel || c.suffix == "") {
				out = append(out, n)
			}
		}
	}
	return out
}

// relabel returns the name and the labels of a series as they were asked for. It returns false
// if the filter drops the series.
func (c classic) relabel(family string, l labels.Labels) (string, labels.Labels, bool) {
	b := labels.NewBuilder(l)
	if c.as != "" {
		family = c.as
		b.Del(replaced...)
	}
	for _, d := range c.derived() {
		if v := d.of(l); v != "" && l.Get(d.name) == "" {
			b.Set(d.name, v)
		}
	}
	out := b.Labels()
	for _, m := range c.filter {
		if !m.Matches(out.Get(m.Name)) {
			return "", l, false
		}
	}
	return family, out, true
}

// listed returns what is told of the series that matchers select, if that takes their labels: of
// an alias, and of jobs.
func (q *promQuerier) listed(ctx context.Context, families map[string]store.FamilyInfo, name string, ms []*labels.Matcher, of func(labels.Labels)) (bool, error) {
	_, c, _, ok := classicOf(families, ms, name == labelJob || named(ms, labelJob))
	if !ok || c.as == "" && !c.job {
		return false, nil
	}
	if !named(ms, labels.MetricName) {
		ms = append(slices.Clone(ms), labels.MustNewMatcher(labels.MatchEqual, labels.MetricName, "target_info"))
	}
	set := q.Select(ctx, false, &storage.SelectHints{Start: q.mint, End: q.maxt, Func: seriesHint, Grouping: []string{name}}, ms...)
	for set.Next() {
		of(set.At().Labels())
	}
	return true, set.Err()
}
