package session

import "tailscope/api"

// Threshold is a condition on a result; threshold.Threshold is one.
type Threshold interface {
	// Judge says what came of it.
	Judge(r *api.BenchResult) api.BenchThreshold
	// Hopeless reports, while a run goes, that it should end since the threshold is
	// not met; never of a threshold that does not ask for it.
	Hopeless(r *api.BenchResult) bool
}
