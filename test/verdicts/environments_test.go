package verdicts

import (
	"strings"
	"testing"
	"time"

	"tailscope/api"
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
