package report

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"tailscope/api"
	"tailscope/internal/figure"
	"tailscope/internal/judge"
)

// whole writes a count for scripts.
func whole(n uint64) string { return strconv.FormatUint(n, 10) }

// worth writes a count for people, and of sampled requests how many unsampled ones say as
// much.
func worth(n, effective uint64) string {
	if effective == 0 {
		return figure.Thousands(n)
	}
	return figure.Thousands(n) + " worth " + figure.Thousands(effective)
}

// effectively writes what sampled requests are worth for scripts, nothing of others.
func effectively(effective uint64) string {
	if effective == 0 {
		return ""
	}
	return whole(effective)
}

// unixSeconds writes a moment for scripts.
func unixSeconds(t int64) string { return strconv.FormatInt(t, 10) }

// quantileOf returns a quantile, NaN if it is missing.
func quantileOf(m map[string]api.Float, q string) api.Float {
	if v, ok := m[q]; ok {
		return v
	}
	return api.Float(math.NaN())
}

// addQuantiles adds a column for each quantile.
func (t *Table) addQuantiles(qs []string) {
	for _, q := range qs {
		t.Column(QuantileName(q), true)
	}
}

// quantileCells returns the quantiles of a row, each written by write.
func quantileCells(m map[string]api.Float, qs []string, write func(api.Float) string) (cells []string) {
	for _, q := range qs {
		cells = append(cells, write(quantileOf(m, q)))
	}
	return cells
}

// Services returns every service: requests, rate, errors, Apdex, quantiles.
func Services(r *api.ServicesResponse) *Document {
	d := &Document{Name: "services", Data: r}
	columns := []string{"service", ">requests", ">rate", ">errors", ">apdex", ">mean"}
	environments := slices.ContainsFunc(r.Services, func(s api.Service) bool { return s.Environment != "" })
	if environments {
		columns = slices.Insert(columns, 1, "environment")
	}
	t := Columns(columns...)
	var qs []string
	if len(r.Services) > 0 {
		qs = SortedQuantiles(r.Services[0].Quantiles)
	}
	t.addQuantiles(qs)
	var rows [][]string
	for _, s := range r.Services {
		cells := []string{s.Name, worth(s.Requests, s.Effective), PerTime(s.Rate), ratio(s.ErrorRate), Score(s.Apdex), SecondsUnit.Value(s.Mean)}
		if environments {
			cells = slices.Insert(cells, 1, OrNone(s.Environment))
		}
		t.Add(append(cells, quantileCells(s.Quantiles, qs, SecondsUnit.Value)...)...)
		row := append([]string{s.Name, whole(s.Requests), Raw(s.Rate), Raw(s.ErrorRate), Raw(s.Apdex), Raw(s.Mean)}, quantileCells(s.Quantiles, qs, Raw)...)
		rows = append(rows, append(row, s.Environment, effectively(s.Effective)))
	}
	d.Table(t)
	for _, s := range r.Services {
		if s.Why != "" {
			d.Line(judge.Where(s.Name, s.Environment, "") + " is " + map[api.ServiceState]string{api.Worse: "worse than usual", api.Odd: "not as usual"}[s.State] + " now: " + s.Why)
		}
	}
	d.Sheet(append(append([]string{"service", "requests", "rate", "error_ratio", "apdex", "mean"}, qs...), "environment", "effective"), rows)
	return d
}

// Distribution returns quantiles of a range, and the shares below, at and above values,
// by the labels.
func Distribution(r *api.DistributionResponse, by []string) *Document {
	d := &Document{Name: "distribution", Data: r}
	u := UnitOf(r.Family)
	qs := SortedQuantiles(r.Groups[0].Quantiles)
	t := Columns(slices.Concat(by, []string{">count", ">mean", ">min"})...)
	t.addQuantiles(qs)
	t.Column("max", true)
	t.Column("error", true)
	header := slices.Concat(by, []string{"count", "sum", "mean", "min", "max", "error"}, qs)
	for _, a := range r.Groups[0].At {
		for _, h := range []string{"below " + u.Value(a.Value), "same", "above"} {
			t.Column(h, true)
		}
		v := Raw(a.Value)
		header = append(header, "below_"+v, "same_"+v, "above_"+v)
	}
	var rows [][]string
	for _, g := range r.Groups {
		var cells, row []string
		for _, name := range by {
			cells, row = append(cells, OrNone(g.Labels[name])), append(row, g.Labels[name])
		}
		cells = append(cells, worth(g.Count, g.Effective), u.Value(g.Mean), u.Value(g.Min))
		cells = append(append(cells, quantileCells(g.Quantiles, qs, u.Value)...), u.Value(g.Max), "±"+ratio(g.Error))
		row = append(row, whole(g.Count), Raw(g.Sum), Raw(g.Mean), Raw(g.Min), Raw(g.Max), Raw(g.Error))
		row = append(row, quantileCells(g.Quantiles, qs, Raw)...)
		for _, a := range g.At {
			cells = append(cells, ratio(a.Below), ratio(a.Same), ratio(a.Above))
			row = append(row, Raw(a.Below), Raw(a.Same), Raw(a.Above))
		}
		t.Add(cells...)
		rows = append(rows, append(row, effectively(g.Effective)))
	}
	d.Table(t)
	d.Sheet(append(header, "effective"), rows)
	return d
}

// Timeline returns rate, errors, mean and quantiles over time: a line for each step and
// group. Number families have a value instead of a distribution.
func Timeline(r *api.TimelineResponse, by []string, zone *time.Location) *Document {
	d := &Document{Name: "timeline", Data: r}
	u := UnitOf(strings.TrimSuffix(r.Family, "_total"))
	t := Columns(append([]string{"time"}, by...)...)
	header := append([]string{"time"}, by...)
	qs := SortedQuantiles(r.Groups[0].Quantiles)
	numbers := len(r.Groups[0].Value) > 0
	if numbers {
		t.Column("value", true)
		header = append(header, "value")
	} else {
		for _, h := range []string{"count", "rate", "errors", "mean"} {
			t.Column(h, true)
		}
		t.addQuantiles(qs)
		header = append(append(header, "count", "rate", "error_ratio", "mean"), qs...)
	}
	var rows [][]string
	for _, g := range r.Groups {
		for i, at := range r.Times {
			if numbers && IsNaN(g.Value[i]) || !numbers && g.Count[i] == 0 {
				continue
			}
			cells, row := []string{time.Unix(at, 0).In(zone).Format("Jan 02 15:04:05")}, []string{unixSeconds(at)}
			for _, name := range by {
				cells, row = append(cells, OrNone(g.Labels[name])), append(row, g.Labels[name])
			}
			if numbers {
				cells, row = append(cells, u.Value(g.Value[i])), append(row, Raw(g.Value[i]))
			} else {
				errors := api.Float(math.NaN())
				if i < len(g.ErrorRate) {
					errors = g.ErrorRate[i]
				}
				cells = append(cells, figure.Thousands(g.Count[i]), PerTime(g.Rate[i]), ratio(errors), u.Value(g.Mean[i]))
				row = append(row, whole(g.Count[i]), Raw(g.Rate[i]), Raw(errors), Raw(g.Mean[i]))
				for _, q := range qs {
					cells, row = append(cells, u.Value(g.Quantiles[q][i])), append(row, Raw(g.Quantiles[q][i]))
				}
			}
			t.Add(cells...)
			rows = append(rows, row)
		}
	}
	d.Table(t)
	d.Sheet(header, rows)
	return d
}

// Tenants returns the cohorts, then the tenants.
func Tenants(r *api.TenantsResponse, family string) *Document {
	d := &Document{Name: "tenants", Data: r}
	u := UnitOf(family)
	qs := SortedQuantiles(r.Everyone.Quantiles)
	head := func(last string, names ...string) *Table {
		t := Columns(names...)
		t.addQuantiles(qs)
		for i := range r.Bands {
			t.Column("≤ "+u.Tick(r.Bands[i]), true)
		}
		t.Column("beyond "+u.Tick(r.Slow), true)
		t.Column(last, true)
		return t
	}
	t := head("not rare", "cohort", ">tenants", ">requests", ">share", ">errors", ">mean")
	for _, c := range append(r.Cohorts, r.Everyone) {
		t.Add(slices.Concat([]string{c.Name, strconv.Itoa(c.Tenants), worth(c.Requests, c.Effective), ratio(c.Share), figure.Thousands(c.Errors), u.Value(c.Mean)},
			quantileCells(c.Quantiles, qs, u.Value), upTo(c.InBands), []string{ratio(c.SlowShare), strconv.Itoa(c.NotRare)})...)
	}
	d.Table(t)
	t = head("95 % interval", "tenant", ">cohort", ">requests", ">share", ">errors", ">mean")
	header := slices.Concat([]string{"tenant", "requests", "share", "errors", "mean"}, qs,
		[]string{"cohort", "instant", "flow", "patience", "losing", "lost", "slow", "slow_low", "slow_high", "not_rare", "effective"})
	var rows [][]string
	for _, x := range r.Tenants {
		interval := "too few"
		if !IsNaN(x.SlowLow) {
			interval = ends(ratio(x.SlowLow), ratio(x.SlowHigh))
		}
		if x.NotRare {
			interval = "not rare: " + interval
		}
		t.Add(slices.Concat([]string{OrNone(x.Name), x.Cohort, worth(x.Requests, x.Effective), ratio(x.Share), figure.Thousands(x.Errors), u.Value(x.Mean)},
			quantileCells(x.Quantiles, qs, u.Value), upTo(x.InBands), []string{ratio(x.SlowShare), interval})...)
		row := append([]string{x.Name, whole(x.Requests), Raw(x.Share), whole(x.Errors), Raw(x.Mean)}, quantileCells(x.Quantiles, qs, Raw)...)
		row = append(row, x.Cohort)
		for _, v := range x.InBands {
			row = append(row, Raw(v))
		}
		rows = append(rows, append(row, Raw(x.SlowShare), Raw(x.SlowLow), Raw(x.SlowHigh), strconv.FormatBool(x.NotRare), effectively(x.Effective)))
	}
	d.Gap()
	if len(r.Tenants) == 0 {
		d.Line("no tenant is like that")
	} else {
		d.Table(t)
		d.more(r.Total, len(r.Tenants))
	}
	d.Sheet(header, rows)
	return d
}

// more adds a line with the number of rows that were not written.
func (d *Document) more(total, written int) {
	if more := total - written; more > 0 {
		d.Line(fmt.Sprintf("and %d more: --limit %d shows them", more, total))
	}
}

// upTo returns the shares of requests up to each end of a band.
func upTo(bands []api.Float) []string {
	var out []string
	sum := api.Float(0)
	for i := range max(0, len(bands)-1) {
		sum += bands[i]
		out = append(out, ratio(sum))
	}
	return out
}

// Apdex returns the Apdex of services or operations.
func Apdex(r *api.ApdexResponse) *Document {
	d := &Document{Name: "apdex", Data: r}
	t := Columns("service", "operation", ">T", "from", ">apdex", "between", ">satisfied", ">tolerating", ">frustrated", ">requests", ">rate")
	var rows [][]string
	thin := false
	for _, a := range r.Rows {
		score, between := Score(a.Apdex), ""
		if low, high := Score(a.Low), Score(a.High); low != high {
			between = ends(low, high)
		}
		if a.Thin {
			thin = true
			score = "(" + score + ")"
		}
		n := api.Float(a.Requests)
		t.Add(a.Service, a.Operation, SecondsUnit.Value(a.T), a.From, score, between, Share(a.Satisfied/n), Share(a.Tolerating/n), Share(a.Frustrated/n), figure.Thousands(a.Requests), PerTime(a.Rate))
		rows = append(rows, []string{a.Service, a.Operation, Raw(a.T), a.From, Raw(a.Apdex), Raw(a.Low), Raw(a.High), Raw(a.Satisfied), Raw(a.Tolerating), Raw(a.Frustrated),
			whole(a.Requests), Raw(a.Rate), strconv.FormatBool(a.Thin)})
	}
	d.Table(t)
	if thin {
		d.Gap()
		d.Line("(…) below 100 requests a minute, where Apdex means little")
	}
	d.Sheet([]string{"service", "operation", "t_seconds", "t_from", "apdex", "apdex_low", "apdex_high", "satisfied", "tolerating", "frustrated", "requests", "rate_per_second", "thin"}, rows)
	return d
}

// ApdexTargets returns the times that satisfy users.
func ApdexTargets(r *api.ApdexTargetsResponse) *Document {
	d := &Document{Name: "targets", Data: r}
	t := Columns("service", "operation", ">T")
	var rows [][]string
	for _, a := range r.Targets {
		t.Add(a.Service, a.Operation, SecondsUnit.Value(a.T))
		rows = append(rows, []string{a.Service, a.Operation, Raw(a.T)})
	}
	if len(t.Rows) > 0 {
		d.Table(t)
	}
	d.Line(SecondsUnit.Value(r.Default) + " unless set")
	d.Sheet([]string{"service", "operation", "t_seconds"}, rows)
	return d
}

// Sample is a value of a series at a moment, in Unix seconds.
type Sample struct {
	Time          float64
	Series, Value string
}

// Samples returns what PromQL answered: a line for each series and moment.
func Samples(all []Sample, zone *time.Location) *Document {
	d := &Document{Name: "samples", Data: all}
	t := Columns("time", "series", ">value")
	var rows [][]string
	for _, s := range all {
		t.Add(time.UnixMilli(int64(s.Time*1e3)).In(zone).Format("Jan 02 15:04:05"), s.Series, s.Value)
		rows = append(rows, []string{unixFloat(api.Float(s.Time)), s.Series, s.Value})
	}
	if len(t.Rows) == 0 {
		d.Line("no series")
	} else {
		d.Table(t)
	}
	d.Sheet(t.Header, rows)
	return d
}
