package client

import (
	"context"
	"testing"
	"time"

	"tailscope/api"
)

func TestChecks(t *testing.T) {
	ctx := context.Background()
	const id, escaped = `orders{operation="GET /a"}`, "id=orders%7Boperation%3D%22GET+%2Fa%22%7D"
	for _, c := range []struct {
		method, want, body string
		do                 func(c *Client) error
	}{
		{"GET", "/api/v1/checks?limit=5&match=%7Ba%3D%22b%22%7D&offset=10&q=x&state=bad", "", func(c *Client) error {
			_, err := c.Checks(ctx, api.ChecksRequest{State: "bad", Match: `{a="b"}`, Search: "x", Offset: 10, Limit: 5})
			return err
		}},
		{"GET", "/api/v1/check?end=now&" + escaped + "&start=now-1d&step=1m", "", func(c *Client) error {
			_, err := c.Check(ctx, api.CheckRequest{ID: id, Start: "now-1d", End: "now", Step: time.Minute})
			return err
		}},
		{"POST", "/api/v1/check/acknowledge?" + escaped, `{"user":"ann","comment":"disk ordered","until":1760000000}`, func(c *Client) error {
			_, err := c.AcknowledgeCheck(ctx, id, api.Ack{User: "ann", Comment: "disk ordered", Until: 1760000000})
			return err
		}},
		{"DELETE", "/api/v1/check/acknowledge?" + escaped + "&user=ann", "", func(c *Client) error {
			_, err := c.UnacknowledgeCheck(ctx, id, "ann")
			return err
		}},
		{"POST", "/api/v1/check/run?" + escaped, "", func(c *Client) error {
			_, err := c.RunCheck(ctx, id)
			return err
		}},
		{"POST", "/api/v1/checks/evaluate", `{"expression":"1+1"}`, func(c *Client) error {
			_, err := c.EvaluateCheck(ctx, api.CheckEvaluate{Expression: "1+1"})
			return err
		}},
		{"POST", "/api/v1/checks/backtest", `{"check":"orders","threshold":{"must":"\u003c","of":"100"},"every":60}`, func(c *Client) error {
			_, err := c.BacktestCheck(ctx, api.CheckBacktest{Check: "orders", Threshold: &api.CheckThreshold{Must: "<", Of: "100"}, Every: 60})
			return err
		}},
		{"GET", "/api/v1/incidents?check=orders&end=now&kind=marked&limit=3&open=true&start=now-1w", "", func(c *Client) error {
			_, err := c.Incidents(ctx, api.IncidentsRequest{Start: "now-1w", End: "now", Check: "orders", Kind: "marked", Open: true, Limit: 3})
			return err
		}},
		{"POST", "/api/v1/incidents", `{"name":"disk full","start":1,"end":2}`, func(c *Client) error {
			_, err := c.MarkIncident(ctx, api.MarkedIncident{Name: "disk full", Start: 1, End: 2})
			return err
		}},
		{"DELETE", "/api/v1/incidents/a%2Fb", "", func(c *Client) error { return c.DeleteIncident(ctx, "a/b") }},
		{"GET", "/api/v1/maintenance", "", func(c *Client) error {
			_, err := c.Maintenance(ctx)
			return err
		}},
		{"POST", "/api/v1/maintenance", `{"name":"upgrade","checks":["orders"],"start":0,"end":2,"active":false,"fixed":false}`, func(c *Client) error {
			_, err := c.AddMaintenance(ctx, api.Maintenance{Name: "upgrade", Checks: []string{"orders"}, End: 2})
			return err
		}},
		{"DELETE", "/api/v1/maintenance/7", "", func(c *Client) error { return c.EndMaintenance(ctx, "7") }},
	} {
		client, got := answer(t, 200, "{}")
		if err := c.do(client); err != nil {
			t.Fatal(err)
		}
		if got.Method != c.method || got.URL.RequestURI() != c.want || got.Header.Get("X-Body") != c.body {
			t.Errorf("got  %s %s %s\nwant %s %s %s", got.Method, got.URL.RequestURI(), got.Header.Get("X-Body"), c.method, c.want, c.body)
		}
	}
}
