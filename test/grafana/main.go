// Command grafana asks a server what panels of Grafana ask it, by the backend of Grafana's
// own Prometheus data source with its defaults. It reads panels as JSON from its input and
// answers each with a line of JSON.
//
// The data source is under the AGPL. So this is a module of its own, which a test builds
// where it runs and which is part of no release.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/grafana/grafana-plugin-sdk-go/backend"
	"github.com/grafana/grafana-plugin-sdk-go/backend/log"
	"github.com/grafana/grafana/pkg/promlib"
)

// panel is a graph as the browser sends it.
type panel struct {
	Query      string
	From, To   time.Time
	Points     int64 // as wide as the graph is
	IntervalMs int64 // as the browser works it out
}

// answer is one series of a panel; Times are Unix milliseconds.
type answer struct {
	Query  string // as the backend sent it, with its variables replaced
	Times  []int64
	Values []float64
}

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: grafana URL")
		os.Exit(2)
	}
	if err := run(os.Args[1], os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(url string, in io.Reader, out io.Writer) error {
	source := promlib.NewService(nil, log.NewNullLogger(), nil)
	settings := backend.PluginContext{OrgID: 1, DataSourceInstanceSettings: &backend.DataSourceInstanceSettings{
		ID: 1, UID: "tailscope", Type: "prometheus", URL: url, JSONData: []byte(`{}`),
	}}
	from, to := json.NewDecoder(in), json.NewEncoder(out)
	for {
		var p panel
		if err := from.Decode(&p); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return fmt.Errorf("reading a panel: %w", err)
		}
		a, err := ask(source, settings, p)
		if err != nil {
			return fmt.Errorf("asking %s: %w", p.Query, err)
		}
		if err := to.Encode(a); err != nil {
			return err
		}
	}
}

func ask(source *promlib.Service, settings backend.PluginContext, p panel) (a answer, err error) {
	model, err := json.Marshal(map[string]any{"refId": "A", "expr": p.Query, "range": true, "intervalMs": p.IntervalMs, "maxDataPoints": p.Points})
	if err != nil {
		return a, err
	}
	res, err := source.QueryData(context.Background(), &backend.QueryDataRequest{PluginContext: settings, Queries: []backend.DataQuery{{
		RefID: "A", MaxDataPoints: p.Points, Interval: time.Duration(p.IntervalMs) * time.Millisecond,
		TimeRange: backend.TimeRange{From: p.From, To: p.To}, JSON: model,
	}}})
	if err != nil {
		return a, err
	}
	got := res.Responses["A"]
	if got.Error != nil {
		return a, got.Error
	}
	if len(got.Frames) != 1 || len(got.Frames[0].Fields) != 2 {
		return a, fmt.Errorf("%d frames were answered, want one of a time and a value", len(got.Frames))
	}
	frame := got.Frames[0]
	if frame.Meta != nil {
		a.Query = frame.Meta.ExecutedQueryString
	}
	for i := range frame.Rows() {
		at, ok := frame.Fields[0].ConcreteAt(i)
		v, err := frame.Fields[1].NullableFloatAt(i)
		if err != nil || !ok || v == nil {
			continue // no value at this step
		}
		a.Times, a.Values = append(a.Times, at.(time.Time).UnixMilli()), append(a.Values, *v)
	}
	return a, nil
}
