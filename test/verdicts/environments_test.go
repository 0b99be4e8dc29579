package verdicts

import (
	"strings"
	"testing"
	"time"

	"tailscope/api"
	"tailscope/internal/judge"
)

// env returns a load in an environment.
func env(name string, l load) load {
	l.resource = []string{"deployment.environment.name", name}
	return l
}

// inEnvironments returns shop in production, and in staging, where it takes longer.
func inEnvironments(perSecond float64) (production, staging load) {
	l := load{service: "shop", operation: "GET /cart", tenant: "a", perSecond: perSecond, median: 0.05}
	production = env("production", l)
	l.median = 0.9
	return production, env("staging", l)
}

// Staging is mostly above the rectangle's lower bound before already, production never: of
// staging what is above its own threshold counts, so that its getting slower is told.
func TestExplainSlowerEnvironment(t *testing.T) {
	production, staging := inEnvironments(5)
	trials(t, 0.95, func(w *world) (bool, string) {
		w.send(time.Hour, production, staging)
		w.send(time.Hour, production, slower(staging, 1.5))
		x := w.explain(0.5)
		own := x.Before.Own
		return len(x.Items) > 0 && x.Items[0].Labels["environment"] == "staging" && len(own) == 1 && own[0].Environment == "staging",
			all(x.Sentence, own, x.Notes)
	})
}

// An environment that gets its name with the change has the threshold of before.
func TestExplainNamedEnvironment(t *testing.T) {
	_, staging := inEnvironments(5)
	bare := staging
	bare.resource = nil
	trials(t, 0.95, func(w *world) (bool, string) {
		w.send(time.Hour, bare)
		w.send(time.Hour, staging)
		x := w.explain(0.5)
		return len(x.Items) == 0 && strings.HasPrefix(x.Sentence, "nothing became slower"), all(x.Sentence, x.Before.Own)
	})
}

func slower(l load, factor float64) load { return with([]load{l}, slow("", "", factor))[0] }

// explain asks what became slower than low seconds in the second of two hours.
func (w *world) explain(low float64) *api.ExplainResponse {
	w.t.Helper()
	r := api.ExplainRequest{Selection: ofService("shop"), Low: &low, From: unix(epoch.Add(time.Hour))}
	r.Start, r.End = unix(epoch), unix(epoch.Add(2*time.Hour))
	x, err := w.Explain(w.t.Context(), r)
	if err != nil {
		w.t.Fatal(err)
	}
	return x
}

// What staging does is no change of production: not that it begins, which is slow, nor that
// production sends less beside it.
func TestCompareEnvironmentsApart(t *testing.T) {
	production, staging := inEnvironments(6)
	less, more := production, staging
	less.perSecond, more.perSecond = 1, 3
	for _, c := range []struct {
		name        string
		first, then []load
	}{
		{"staging begins", []load{production}, []load{production, more}},
		{"a little of it", []load{production}, []load{production, slowly(staging)}},
		{"production sends less", []load{production, staging}, []load{less, staging}},
	} {
		t.Run(c.name, func(t *testing.T) {
			trials(t, 0.95, func(w *world) (bool, string) {
				w.send(time.Hour, c.first...)
				w.send(time.Hour, c.then...)
				r := w.compare("shop", window{0, time.Hour}, window{time.Hour, 2 * time.Hour})
				return !judge.Moved(r.Verdict) && r.Verdict != judge.TooLittle, all(r.Verdict, r.Sentence, r.Warnings)
			})
		})
	}
}

func slowly(l load) load { l.perSecond = 0.1; return l }

// A change of every environment, of staging alone, and of a service whose environment gets
// its name with it, is a change.
func TestCompareFindsInEnvironments(t *testing.T) {
	production, staging := inEnvironments(5)
	bare := production
	bare.resource = nil
	for _, c := range []struct {
		name        string
		first, then []load
	}{
		{"both", []load{production, staging}, []load{slower(production, 1.3), slower(staging, 1.3)}},
		{"staging", []load{production, staging}, []load{production, slower(staging, 1.5)}},
		{"it gets its name", []load{bare}, []load{slower(production, 1.5)}},
	} {
		t.Run(c.name, func(t *testing.T) {
			trials(t, 0.95, func(w *world) (bool, string) {
				w.send(time.Hour, c.first...)
				w.send(time.Hour, c.then...)
				r := w.compare("shop", window{0, time.Hour}, window{time.Hour, 2 * time.Hour})
				return r.Verdict == judge.Regression, all(r.Verdict, r.Sentence, r.StrataBy, r.Warnings)
			})
		})
	}
}

// Staging that begins after a mark is no provisional finding: not of the mark, and not of
// who watches a comparison of it. Of a change of production both tell within a minute, and a
// mark of production does so too.
func TestProvisionalOfEnvironments(t *testing.T) {
	production, staging := inEnvironments(40)
	staging.perSecond = 20
	trials(t, 0.95, func(w *world) (bool, string) {
		w.sendEvery(8*time.Minute, 5*time.Second, production)
		begins := w.mark("staging begins", "shop")
		for at := 5 * time.Second; at <= 3*time.Minute; at += 5 * time.Second {
			w.sendEvery(5*time.Second, 5*time.Second, production, staging)
			if v := w.verdict(begins); judge.Moved(v.Verdict) {
				return false, all("of staging, after", at, v.State, v.Sentence)
			}
		}
		code, output := w.tailscope("compare", "--service", "shop", "--mark", begins, "--watch", "--for", "1s")
		if code == 1 {
			return false, output
		}
		w.sendEvery(8*time.Minute, 5*time.Second, production, staging)
		ids := []string{w.mark("deploy", "shop")}
		m, err := w.PutMark(w.t.Context(), api.Mark{Name: "deploy of production", Service: "shop", Environment: "production"})
		if err != nil {
			w.t.Fatal(err)
		}
		ids = append(ids, m.ID)
		told := map[string]string{}
		for at := 5 * time.Second; at <= time.Minute; at += 5 * time.Second {
			w.sendEvery(5*time.Second, 5*time.Second, slower(production, 2), staging)
			for _, id := range ids {
				if v := w.verdict(id); v.State == "provisional" && v.Verdict == judge.Regression && told[id] == "" {
					told[id] = all(at, v.Sentence)
				}
			}
		}
		return len(told) == 2, all(told)
	})
}

// A deploy that makes requests slower and gives the service's environment its name has a
// verdict: before and after are of the same requests.
func TestMarkNamesEnvironment(t *testing.T) {
	production, _ := inEnvironments(6)
	bare := production
	bare.resource = nil
	trials(t, 0.95, func(w *world) (bool, string) {
		w.send(time.Hour, bare)
		id := w.mark("deploy", "shop")
		w.send(time.Hour, slower(production, 1.5))
		v := w.final(id)
		return v.Verdict == judge.Regression && len(v.Services) == 1, all(v.Verdict, v.Sentence)
	})
}
