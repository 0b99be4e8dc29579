package program

import (
	"context"
	"strings"
)

// StartFanout runs the nodes or the aggregator of a fan-out (benchmarks/cmd/fanout)
// and returns their addresses, between commas.
func StartFanout(ctx context.Context, logPath string, args ...string) (p *Process, addresses string, err error) {
	path, err := Build(ctx, "fanout")
	if err != nil {
		return nil, "", err
	}
	if p, err = Start(logPath, nil, path, args...); err != nil {
		return nil, "", err
	}
	return p, addresses, p.until(ctx, func() bool {
		line, whole := strings.CutSuffix(p.Log(), "\n")
		if !whole {
			return false
		}
		_, addresses, whole = strings.Cut(line, "ready ")
		return whole
	})
}
