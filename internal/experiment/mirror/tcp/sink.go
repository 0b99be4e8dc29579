package tcp

import (
	"context"

	"tailscope/internal/experiment/mirror/pair"
)

// A connection lasts as long as its client likes, so neither its duration nor the
// ratio of durations says anything of the servers. A turn or a connect is not a
// request to be counted. So only some families of each ledger are passed on, under
// these names.
var (
	connectionFamilies = map[string]string{
		pair.FamilyFirstByte: pair.FamilyFirstByte, pair.FamilyBytes: pair.FamilyBytes,
		pair.FamilyRequests: pair.FamilyRequests, pair.FamilyFailed: pair.FamilyFailed, pair.FamilyCopies: pair.FamilyCopies,
	}
	turnFamilies    = map[string]string{pair.FamilyDuration: pair.FamilyDuration, pair.FamilyRatio: pair.FamilyRatio}
	connectFamilies = map[string]string{pair.FamilyDuration: FamilyConnect}
)

// only passes on points of some families. It leaves out turns and connects that have
// failed: they are counted with their connection.
type only struct {
	to       pair.Sink
	families map[string]string
	whole    bool
}

func sinkOf(o pair.Options, to pair.Sink, families map[string]string) pair.Options {
	if to != nil {
		o.Sink = only{to, families, families[pair.FamilyCopies] == ""}
	}
	return o
}

func (s only) Put(ctx context.Context, points []pair.Point) error {
	out := make([]pair.Point, 0, len(points))
	for _, p := range points {
		name, ok := s.families[p.Family]
		if !ok || s.whole && p.Labels.Get("status") == pair.StatusError {
			continue
		}
		p.Family = name
		out = append(out, p)
	}
	if len(out) == 0 {
		return nil
	}
	return s.to.Put(ctx, out)
}
