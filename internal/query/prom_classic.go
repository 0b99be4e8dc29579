package query

import (
	"cmp"
	"fmt"
	"math"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/value"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/util/annotations"

	"tailscope/internal/series"
	"tailscope/internal/store"
)

// Dashboards and rules that were written for classic histograms ask for x_bucket by le, x_count
// and x_sum. Where x is a distribution these are views of it: the engine sees numbers that are
// made of its histograms (https://prometheus.io/docs/concepts/metric_types/#histogram).

// classic says which series of a classic histogram a selector of a distribution asks for.
type classic struct {
	suffix string // _bucket, _count or _sum; empty if it asks for histograms
	le     []*labels.Matcher
	as     string            // the alias that was asked for; see aliases
	job    bool              // the query names jobs
	filter []*labels.Matcher // on labels that are made of others
}

var classicSuffixes = [...]string{"_bucket", "_count", "_sum"}

// boundsOfSeconds are those that OpenTelemetry advises for durations of HTTP requests, and a few
// longer ones (https://opentelemetry.io/docs/specs/semconv/http/http-metrics).
var boundsOfSeconds = []float64{0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10, 30, 60}

// boundsOfNumbers are the default ones of OpenTelemetry's SDKs, and larger ones for sizes.
var boundsOfNumbers = []float64{0, 5, 10, 25, 50, 75, 100, 250, 500, 750, 1000, 2500, 5000, 7500, 10_000, 100_000, 1_000_000, 10_000_000, 100_000_000}

// classicOf returns the distribution of which a selector asks for the classic series, with its
// other matchers; that of an alias is the one of spans. The family is empty if it asks for
// something else by its job. ok is false if it asks for something else.
func classicOf(families map[string]store.FamilyInfo, ms []*labels.Matcher, job bool) (family string, c classic, rest []*labels.Matcher, ok bool) {
	for _, m := range ms {
		switch {
		case m.Name == labels.BucketLabel:
			c.le = append(c.le, m)
			continue
		case m.Name == labels.MetricName && m.Type == labels.MatchEqual && families[m.Value].Name == "":
			for _, suffix := range classicSuffixes {
				name, is := strings.CutSuffix(m.Value, suffix)
				if f := families[name]; is && f.Name != "" && f.Kind == series.Distribution {
					family, c.suffix = name, suffix
					m = labels.MustNewMatcher(labels.MatchEqual, labels.MetricName, name)
				}
			}
			if a, is := aliases[m.Value]; is && family == "" && families[series.SpanDuration].Name != "" {
				family, c.suffix, c.as = series.SpanDuration, a.suffix, m.Value
				m = labels.MustNewMatcher(labels.MatchEqual, labels.MetricName, family)
			}
		}
		rest = append(rest, m)
	}
	ok = family != "" && (c.suffix == "_bucket" || len(c.le) == 0)
	if !ok && job {
		family, c, rest, ok = "", classic{}, ms, true
	}
	if c.job = job; ok {
		rest = c.translate(rest)
	}
	return family, c, rest, ok
}

// classics has selectors of classic series select their distributions, and returns what each
// asks for.
func classics(families map[string]store.FamilyInfo, e parser.Expr, job bool) map[*parser.VectorSelector]classic {
	out := map[*parser.VectorSelector]classic{}
	parser.Inspect(e, func(n parser.Node, above []parser.Node) error {
		if vs, ok := n.(*parser.VectorSelector); ok {
			if family, c, rest, ok := classicOf(families, vs.LabelMatchers, job); ok {
				if (c.as != "" || c.job) && slices.ContainsFunc(above, readsMatchers) {
					return nil
				}
				if vs.LabelMatchers, out[vs] = rest, c; vs.Name != "" && family != "" {
					vs.Name = family
				}
			}
		}
		return nil
	})
	return out
}

// readsMatchers reports whether a node is a function that reads the matchers of its selectors:
// absent has them as labels, and info joins by them.
func readsMatchers(n parser.Node) bool {
	call, ok := n.(*parser.Call)
	return ok && (strings.HasPrefix(call.Func.Name, "absent") || call.Func.Name == "info")
}

// String encodes c for a marker.
func (c classic) String() string {
	var b strings.Builder
	b.WriteString(c.suffix)
	for _, m := range c.le {
		fmt.Fprintf(&b, ",%d%s", m.Type, url.QueryEscape(m.Value))
	}
	for _, m := range c.filter {
		fmt.Fprintf(&b, ",f%d%s=%s", m.Type, url.QueryEscape(m.Name), url.QueryEscape(m.Value))
	}
	if c.as != "" {
		b.WriteString(",a" + c.as)
	}
	if c.job {
		b.WriteString(",j")
	}
	return b.String()
}

// parseClassic reads what String wrote.
func parseClassic(s string) (classic, error) {
	parts := strings.Split(s, ",")
	c := classic{suffix: parts[0]}
	for _, p := range parts[1:] {
		name, into := labels.BucketLabel, &c.le
		switch {
		case p == "j":
			c.job = true
			continue
		case strings.HasPrefix(p, "a"):
			c.as = p[1:]
			continue
		case strings.HasPrefix(p, "f") && len(p) > 2:
			escaped, value, _ := strings.Cut(p[2:], "=")
			var err error
			if name, err = url.QueryUnescape(escaped); err != nil {
				return c, fmt.Errorf("classic %q: %w", s, err)
			}
			p, into = p[1:2]+value, &c.filter
		}
		if p == "" || p[0] < '0'+byte(labels.MatchEqual) || p[0] > '0'+byte(labels.MatchNotRegexp) {
			return c, fmt.Errorf("classic %q: %q is not a matcher", s, p)
		}
		text, err := url.QueryUnescape(p[1:])
		if err != nil {
			return c, fmt.Errorf("classic %q: %w", s, err)
		}
		m, err := labels.NewMatcher(labels.MatchType(p[0]-'0'), name, text)
		if err != nil {
			return c, fmt.Errorf("classic %q: %w", s, err)
		}
		*into = append(*into, m)
	}
	return c, nil
}

// le is the upper bound of a classic bucket, closed, with its text in the label.
type le struct {
	bound float64
	text  string
}

// bounds returns the buckets of a family that c asks for, in order. Those of explicit
// histograms are their own.
func (c classic) bounds(family string, samples []promSample) (out []le) {
	if c.suffix != "_bucket" {
		return nil
	}
	known := boundsOfNumbers
	if strings.HasSuffix(family, "_seconds") {
		known = boundsOfSeconds
	}
	var own, last []float64
	for _, s := range samples {
		if s.h != nil && s.h.Schema == histogram.CustomBucketsSchema && !slices.Equal(s.h.CustomValues, last) {
			last = s.h.CustomValues
			own = append(own, last...)
		}
	}
	if len(own) > 0 {
		known = own
	}
	all := slices.Clone(known)
	for i := range all {
		all[i] *= c.scale()
	}
	for _, text := range c.asked() { // what is asked for by its number is there
		if v, err := strconv.ParseFloat(text, 64); err == nil && !math.IsNaN(v) && !math.IsInf(v, 0) {
			all = append(all, v)
		}
	}
	all = append(all, math.Inf(1))
	slices.Sort(all)
	for _, bound := range slices.Compact(all) {
		x := le{bound, strconv.FormatFloat(bound, 'g', -1, 64)}
		for _, text := range c.asked() {
			if v, err := strconv.ParseFloat(text, 64); err == nil && v == bound {
				x.text = text // 1.0 and 1 are one bound
			}
		}
		if !slices.ContainsFunc(c.le, func(m *labels.Matcher) bool { return !m.Matches(x.text) }) {
			out = append(out, x)
		}
	}
	return out
}

// scale returns the units of the asked series in one of the distribution.
func (c classic) scale() float64 { return cmp.Or(aliases[c.as].scale, 1) }

// asked returns the texts of the bounds that matchers name one by one.
func (c classic) asked() (out []string) {
	for _, m := range c.le {
		switch m.Type {
		case labels.MatchEqual:
			out = append(out, m.Value)
		case labels.MatchRegexp:
			out = append(out, strings.Split(strings.NewReplacer(`\`, "", "(", "", ")", "").Replace(m.Value), "|")...)
		}
	}
	return out
}

// texts returns the values of the label le, in order of their text, of a family of which
// nothing else is known.
func (c classic) texts(family string) []string {
	out := []string{}
	for _, b := range c.bounds(family, nil) {
		out = append(out, b.text)
	}
	slices.Sort(out)
	return out
}

// keepAs holds samples of a distribution and adds their series, or the classic ones that are
// asked for.
func (s *promSet) keepAs(c classic, family string, l labels.Labels, samples []promSample) error {
	add := func(l labels.Labels, of func(*histogram.FloatHistogram) float64) error {
		out := make([]promSample, len(samples))
		for i, x := range samples {
			out[i].t = x.t
			switch {
			case x.h == staleHistogram:
				out[i].v = math.Float64frombits(value.StaleNaN)
			case x.h != nil:
				out[i].v = of(x.h)
			}
		}
		return s.keep(family+c.suffix, l, out)
	}
	switch c.suffix {
	case "":
		return s.keep(family, l, samples)
	case "_count":
		return add(l, func(h *histogram.FloatHistogram) float64 { return h.Count })
	case "_sum":
		return add(l, func(h *histogram.FloatHistogram) float64 { return h.Sum * c.scale() })
	case "_info":
		return add(l, func(*histogram.FloatHistogram) float64 { return 1 })
	}
	exact := true
	for _, b := range c.bounds(family, samples) {
		err := add(labels.NewBuilder(l).Set(labels.BucketLabel, b.text).Labels(), func(h *histogram.FloatHistogram) float64 {
			n, is := countUpTo(h, b.bound/c.scale())
			exact = exact && is
			return n
		})
		if err != nil {
			return err
		}
	}
	if !exact {
		s.warns.Add(fmt.Errorf("%w: counts of %s_bucket up to an le within one of the %s's own buckets are interpolated; quantiles of the distribution itself are closer: histogram_quantile(0.99, sum(rate(%s[5m]))), without le", annotations.PromQLInfo, family, family, family))
	}
	return nil
}

// countUpTo returns how many observations of a histogram are at most bound, and whether that is
// exact. Of a bucket that the bound cuts it takes the share below, by the logarithm.
func countUpTo(h *histogram.FloatHistogram, bound float64) (n float64, exact bool) {
	if math.IsInf(bound, 1) {
		return h.Count, true
	}
	exact = true
	for it := h.AllBucketIterator(); it.Next(); {
		b := it.At()
		switch {
		case b.Upper <= bound, b.Lower < 0 && b.Upper > 0 && !h.UsesCustomBuckets() && bound >= 0: // what is nearly 0 is 0
			n += b.Count
		case b.Lower < bound && b.Count > 0:
			exact = false
			share := (bound - b.Lower) / (b.Upper - b.Lower)
			if !h.UsesCustomBuckets() && b.Lower > 0 {
				share = math.Log(bound/b.Lower) / math.Log(b.Upper/b.Lower)
			}
			if math.IsInf(b.Upper, 1) || math.IsInf(b.Lower, -1) {
				share = 0
			}
			n += b.Count * share
		}
	}
	return n, exact
}
