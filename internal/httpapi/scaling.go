package httpapi

import (
	"context"

	"tailscope/api"
	"tailscope/internal/query"
)

type scalingInput struct {
	Match Selector `query:"match"`
	Start Time     `query:"start" doc:"beginning of the range, inclusive; six hours before end unless said otherwise"`
	End   Time     `query:"end" doc:"end of the range, exclusive; now unless said otherwise"`
	Grid
	Level List `query:"level" doc:"confidence of the intervals; 0.95 unless said otherwise"`
}

func (s *server) scaling(ctx context.Context, in *scalingInput) (*api.ScalingResponse, error) {
	sel, err := s.requests(in.Match, in.Start, in.End)
	if err != nil {
		return nil, err
	}
	r := query.ScalingRequest{Selection: sel}
	if r.Grid, err = in.Grid.parse(); err != nil {
		return nil, err
	}
	if r.Level, err = in.Level.one("level", "0.95"); err != nil {
		return nil, err
	}
	return query.Scaling(ctx, s.Store, r)
}
