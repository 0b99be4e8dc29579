package experiments

import (
	"math"
	"math/rand/v2"

	"tailscope/api"
	"tailscope/hist"
	"tailscope/internal/compare"
	"tailscope/stat"
)

// session is a simulated one: requests are log-normal about a median that
// belongs to the request, times what a server makes of it.
type session struct {
	seed       uint64
	slots, per int     // requests a slot
	phi        float64 // correlation of slots
	shared     float64 // how much slots vary for all servers, standard deviation of the logarithm
	own        float64 // how much slots vary for each server by itself
	unlike     float64 // requests, by what they ask for
	noise      float64 // and by chance, each time they are answered
	path       float64 // factor that shadows take longer by than the primary
	slower     float64 // factor of the candidate
	tail       float64 // factor of the candidate's slowest 5 %
	noControl  bool
	operations int // apart from the whole; the change is of the first if there are any
}

func (s session) autoregression(r *rand.Rand, spread float64) []float64 {
	out := make([]float64, s.slots)
	x := spread * r.NormFloat64()
	for t := range out {
		if t > 0 {
			x = s.phi*x + spread*math.Sqrt(1-s.phi*s.phi)*r.NormFloat64()
		}
		out[t] = x
	}
	return out
}

func orOne(v float64) float64 {
	if v == 0 {
		return 1
	}
	return v
}

func (s session) data() *data {
	r := rand.New(rand.NewPCG(s.seed, 11))
	d := &data{grid: grid{0, 10, s.slots}, tenantStep: 10, duration: legs{}, ratio: legs{}, first: legs{}, bytes: legs{}, operations: map[string]*rowData{}, tenants: map[string]*rowData{}}
	names := []string{"primary", "control", "candidate"}
	shared := s.autoregression(r, s.shared)
	var own [3][]float64
	for i := range own {
		own[i] = s.autoregression(r, s.own)
	}
	add := func(to legs, key legKey, t int, v float64) {
		l := to[key]
		if l == nil {
			l = &leg{ok: make([]*hist.Histogram, s.slots), failed: make([]float64, s.slots), all: make([]float64, s.slots)}
			to[key] = l
		}
		if l.ok[t] == nil {
			l.ok[t] = hist.New(hist.DefaultSchema)
		}
		l.ok[t].Record(v)
		l.all[t]++
		l.good++
	}
	for t := range s.slots {
		for range s.per {
			base := math.Log(0.02) + shared[t] + s.unlike*r.NormFloat64()
			op := -1
			if s.operations > 0 {
				op = r.IntN(s.operations)
			}
			var took [3]float64
			for i := range took {
				luck := r.NormFloat64()
				x := base + own[i][t] + s.noise*luck
				if i > 0 {
					x += math.Log(orOne(s.path))
				}
				if i == 2 && op <= 0 {
					x += math.Log(orOne(s.slower))
					if luck > 1.645 {
						x += math.Log(orOne(s.tail))
					}
				}
				took[i] = math.Exp(x)
			}
			into := []*rowData{{d.duration, d.ratio}}
			if op >= 0 {
				name := "GET /" + string(rune('a'+op))
				if d.operations[name] == nil {
					d.operations[name] = &rowData{legs{}, legs{}}
				}
				into = append(into, d.operations[name])
			}
			for _, to := range into {
				for i, v := range took {
					if i != 1 || !s.noControl {
						add(to.duration, legKey{variant: names[i]}, t, v)
					}
				}
				add(to.ratio, legKey{"candidate", "primary"}, t, took[2]/took[0])
				if !s.noControl {
					add(to.ratio, legKey{"candidate", "control"}, t, took[2]/took[1])
					add(to.ratio, legKey{"control", "primary"}, t, took[1]/took[0])
				}
			}
		}
	}
	return d
}

func (s session) verdict(live bool) (*api.MirrorVerdict, error) {
	j := &judgement{d: s.data(), primary: "primary", control: "control", measures: measures, limit: 20, o: stat.Options{Level: level}}
	if s.noControl {
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
			if claims(&ms[i]) {
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
	return &api.MirrorMeasure{Verdict: compare.TooLittle}
}

var steadyOptions = stat.Options{Level: level}
