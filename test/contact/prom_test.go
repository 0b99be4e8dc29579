//go:build servers

package contact

import (
	"context"
	"time"

	promapi "github.com/prometheus/client_golang/api"
	promv1 "github.com/prometheus/client_golang/api/prometheus/v1"
	"github.com/prometheus/common/model"
)

// instant asks a server's Prometheus API, by Prometheus' own client, for one number.
func instant(ctx context.Context, url, query string) (float64, error) {
	c, err := promapi.NewClient(promapi.Config{Address: url + "/prometheus"})
	if err != nil {
		return 0, err
	}
	v, _, err := promv1.NewAPI(c).Query(ctx, query, time.Now())
	if err != nil {
		return 0, err
	}
	sum := 0.0
	if samples, ok := v.(model.Vector); ok {
		for _, s := range samples {
			sum += float64(s.Value)
		}
	}
	return sum, nil
}
