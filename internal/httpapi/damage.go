package httpapi

import (
	"context"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"tailscope/api"
	"tailscope/internal/query"
)

type acknowledgeDamageInput struct {
	RawBody []byte `contentType:"application/json"`
}

func (s *server) registerDamage(a huma.API) {
	const path = "/api/v1/damage/acknowledge"
	change(s, a, http.MethodPost, path, "post-damage-acknowledge", "Report no longer what was found damaged before", http.StatusOK,
		func(_ context.Context, in *acknowledgeDamageInput) (*api.DamageAcknowledged, error) {
			if len(in.RawBody) > 0 {
				var none api.DamageAcknowledge
				if err := decodeStrict(in.RawBody, &none, "acknowledgement", "leave the body away, or write {}"); err != nil {
					return nil, err
				}
			}
			if s.AcknowledgeDamage == nil {
				return nil, &query.Error{Code: query.CodeNotFound, Message: "this server does not watch its files"}
			}
			return s.AcknowledgeDamage()
		})
	describeBody[api.DamageAcknowledge](a, a.OpenAPI().Paths[path].Post, "DamageAcknowledge")
}
