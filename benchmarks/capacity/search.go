package capacity

import (
	"context"
	"net/url"
	"time"

	"tailscope/api"
	"tailscope/internal/experiment/bench/load"
	"tailscope/internal/experiment/bench/requests"
	"tailscope/internal/experiment/bench/tally"
	searching "tailscope/internal/experiment/capacity"
	"tailscope/internal/experiment/capacity/objective"
	"tailscope/internal/experiment/capacity/search"
)

// Case is a search for capacity in this process, which can be looked at while it goes.
type Case struct {
	URL             string
	Objective       string
	Lowest, Highest float64 // requests a second
	Seed            uint64
	Tell            func(*api.Capacity)
}

// Search makes it. The generator's own limits are off: whether steps are valid is
// judged by what comes of it.
func Search(ctx context.Context, c Case) (*api.Capacity, error) {
	o, err := objective.Parse(c.Objective)
	if err != nil {
		return nil, err
	}
	set, err := requests.Compile(requests.Spec{Queries: []requests.Query{{Name: "all", Request: "GET " + c.URL}}, Seed: c.Seed})
	if err != nil {
		return nil, err
	}
	target, err := url.Parse(c.URL)
	if err != nil {
		return nil, err
	}
	l, err := searching.StartLoad(ctx, searching.LoadOptions{
		Target: &url.URL{Scheme: target.Scheme, Host: target.Host}, Set: set, Seed: c.Seed, Objective: o, Bounds: searching.DefaultBounds(),
		Load:    load.Options{Timeout: 10 * time.Second, Connections: 4096},
		Limits:  tally.Limits{Late: time.Hour, Share: 1e6, Busiest: 2, Starved: 2, Host: 2},
		Highest: c.Highest,
	})
	if err != nil {
		return nil, err
	}
	return searching.Run(ctx, l, searching.Options{
		Search: search.Options{Objective: o, Lowest: c.Lowest, Highest: c.Highest},
		Name:   "benchmark", Target: c.URL, Mode: "rate", Arrivals: "poisson", Seed: c.Seed, Bounds: searching.DefaultBounds(), Report: c.Tell,
	})
}
