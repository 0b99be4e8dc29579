package httpapi

import (
	"net/url"
	"reflect"
	"testing"
	"time"

	"tailscope/api"
)

// Every request is decoded as it was encoded.
func TestRequestsAreDecodedAsEncoded(t *testing.T) {
	for _, request := range []any{
		new(api.ServicesRequest), new(api.DistributionRequest), new(api.HeatmapRequest), new(api.TimelineRequest),
		new(api.ScalingRequest), new(api.LabelsRequest), new(api.TenantsRequest), new(api.NearestRequest), new(api.FamiliesRequest),
		new(api.BreakdownRequest), new(api.OperationsRequest), new(api.CallersRequest), new(api.TracesRequest), new(api.TraceRequest),
		new(api.CompareRequest), new(api.ExplainRequest), new(api.ChangesRequest), new(api.ApdexRequest), new(api.SLARequest),
		new(api.LeavesRequest), new(api.MarksRequest), new(api.MarkRequest), new(api.SessionsRequest), new(api.SessionRequest),
		new(api.SessionVerdictRequest), new(api.ChecksRequest), new(api.CheckRequest), new(api.IncidentsRequest),
	} {
		zero := reflect.New(reflect.TypeOf(request).Elem())
		if q := api.Parameters(zero.Interface()); len(q) != 0 {
			t.Errorf("%T: an empty request has the parameters %s", request, q.Encode())
		}
		v := reflect.ValueOf(request).Elem()
		path := map[string]string{}
		for _, f := range reflect.VisibleFields(v.Type()) {
			if name := f.Tag.Get("path"); name != "" {
				path[name] = "a/b"
			} else if f.Tag.Get("query") == "" {
				continue
			}
			fill(t, v.FieldByIndex(f.Index))
		}
		sent, err := url.ParseQuery(api.Parameters(request).Encode())
		if err != nil {
			t.Fatal(err)
		}
		got := zero.Interface()
		if err := decode(got, sent.Get, func(name string) string { return path[name] }); err != nil {
			t.Errorf("%T: %v in %s", request, err, sent.Encode())
		}
		if !reflect.DeepEqual(got, request) {
			t.Errorf("%s was read as %+v, want %+v", sent.Encode(), got, request)
		}
	}
}

// fill gives a field a value that is not its zero.
func fill(t *testing.T, v reflect.Value) {
	number, truth, duration := -0.25, false, time.Duration(0)
	switch p := v.Addr().Interface().(type) {
	case *string:
		*p = "a/b"
	case *api.Time:
		*p = "now-1h"
	case *bool:
		*p = true
	case *int:
		*p = 3
	case *float64:
		*p = 0.1
	case *api.Quantile:
		*p = 0.999
	case *api.Share:
		*p = 0.01
	case *time.Duration:
		*p = 90*time.Minute + 250*time.Microsecond
	case *[]float64:
		*p = []float64{0.2, 1e-7}
	case *[]string:
		*p = []string{"service", "operation"}
	case *api.Quantiles:
		*p = api.Quantiles{"0.50", "0.999"}
	case **float64:
		*p = &number
	case **bool:
		*p = &truth
	case **time.Duration:
		*p = &duration
	default:
		t.Fatalf("no value for a field of type %s", v.Type())
	}
}
