package httpapi

import (
	"context"

	"tailscope/api"
	"tailscope/internal/query"
)

func (s *server) scaling(ctx context.Context, in *api.ScalingRequest) (*api.ScalingResponse, error) {
	sel, err := s.requests(in.Requests)
	if err != nil {
		return nil, err
	}
	r := query.ScalingRequest{Selection: sel, Level: in.Level, Now: s.Now()}
	if r.Grid, err = grid(in.Grid); err != nil {
		return nil, err
	}
	if r.Target, err = s.target(ctx); err != nil {
		return nil, err
	}
	return query.Scaling(ctx, s.Store, r)
}
