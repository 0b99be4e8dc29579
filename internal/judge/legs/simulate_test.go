package legs

import (
	"tailscope/api"
	"tailscope/hist"
	"tailscope/internal/judge"
	"tailscope/internal/judge/legs/legstest"
	"tailscope/internal/query/querytest"
	"tailscope/stat"
)

const epoch = querytest.Epoch

// session is a simulated one.
type session struct{ legstest.Session }

func (s session) data() *data {
	d := &data{grid: grid{0, 10, s.Slots}, tenantStep: 10, duration: legs{}, ratio: legs{}, first: legs{}, bytes: legs{}, operations: map[string]*rowData{}, tenants: map[string]*rowData{}}
	add := func(row *rowData, m *legstest.Measured) {
		to, key := row.duration, legKey{m.Variant, m.Against}
		if m.Against != "" {
			to = row.ratio
		}
		l := to[key]
		if l == nil {
			l = newLeg(s.Slots)
			to[key] = l
		}
		if l.ok[m.Slot] == nil {
			l.ok[m.Slot] = hist.New(hist.DefaultSchema)
		}
		l.ok[m.Slot].Record(m.Value)
		l.all[m.Slot]++
		l.good++
	}
	s.Each(func(m legstest.Measured) {
		add(&rowData{d.duration, d.ratio}, &m)
		if m.Operation == "" {
			return
		}
		if d.operations[m.Operation] == nil {
			d.operations[m.Operation] = &rowData{legs{}, legs{}}
		}
		add(d.operations[m.Operation], &m)
	})
	return d
}

func (s session) verdict(live bool) (*api.MirrorVerdict, error) {
	j := &judgement{d: s.data(), primary: "primary", control: "control", measures: measures, limit: 20, o: stat.Options{Level: level}}
	if s.NoControl {
		j.control = ""
	}
	if live {
		j.o.Live = liveIn(10)
	}
	return j.candidate("candidate")
}

// alarms says whether a verdict finds anything at all.
func alarms(v *api.MirrorVerdict) bool {
	rows := [][]api.MirrorMeasure{v.Measures}
	for _, list := range [][]api.MirrorRow{v.Operations, v.Tenants} {
		for _, r := range list {
			rows = append(rows, r.Measures)
		}
	}
	for _, ms := range rows {
		for i := range ms {
			if judge.Moved(ms[i].Verdict) {
				return true
			}
		}
	}
	return false
}

func measureOf(v *api.MirrorVerdict, name string) *api.MirrorMeasure {
	for i := range v.Measures {
		if v.Measures[i].Name == name {
			return &v.Measures[i]
		}
	}
	return &api.MirrorMeasure{Verdict: judge.TooLittle}
}

var steadyOptions = stat.Options{Level: level}
