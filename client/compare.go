package client

import (
	"context"
	"net/url"

	"tailscope/api"
)

// CompareQuery asks what differs between two sides of the requests that Match
// names: two windows A and B ("start/end"), before and after a Mark, or two
// values A and B of a Label within Start and End. Empty fields are left to the
// server.
type CompareQuery struct {
	Selection
	A, B           string
	Mark           string // id
	Label          string
	Settle, Window string  // durations, of a mark
	Level          float64 // confidence
	Within         float64 // relative change that is still the same
	Measures       []string
	Limit          int
	// Days, if above 0, makes side A of that many earlier days Like those of B
	// (day, weekday, workday), by the clocks of Zone; A is then left out.
	Days       int
	Like, Zone string
	Per        string   // request: numbers for each request of the service
	Live       bool     // intervals that hold at every look
	Include    []string // curve, heat
	Width      int      // the most columns of a side of the heat
	Rows       int      // and its most rows
}

func (c *Client) Compare(ctx context.Context, q CompareQuery) (*api.CompareResponse, error) {
	v := url.Values{}
	q.Selection.add(v)
	set(v, "a", q.A)
	set(v, "b", q.B)
	set(v, "mark", q.Mark)
	set(v, "label", q.Label)
	set(v, "settle", q.Settle)
	set(v, "window", q.Window)
	setFloat(v, "level", q.Level)
	setFloat(v, "within", q.Within)
	setList(v, "measures", q.Measures)
	setInt(v, "limit", q.Limit)
	setInt(v, "days", q.Days)
	set(v, "like", q.Like)
	set(v, "tz", q.Zone)
	set(v, "per", q.Per)
	if q.Live {
		v.Set("live", "true")
	}
	setList(v, "include", q.Include)
	setInt(v, "width", q.Width)
	setInt(v, "rows", q.Rows)
	return get[api.CompareResponse](ctx, c, "/api/v1/compare", v)
}
