package report

import (
	"strings"
	"testing"
	"time"

	"tailscope/api"
)

// Where longest parts were asked for, what requests have in common comes first.
func TestTracesSayWhereTheyWaited(t *testing.T) {
	insert := api.TracePart{Service: "shop", Operation: "INSERT cart_lines", Component: "db", Share: 0.91}
	r := &api.TracesResponse{
		Traces: []api.TraceRow{
			{TraceID: "a1", Service: "shop", Operation: "POST /orders", Tenant: "acme", Start: 60, Duration: 4.25, Longest: &insert, Why: []string{"slow"}},
			{TraceID: "b2", Service: "shop", Operation: "POST /orders", Tenant: "globex", Start: 70, Duration: 1.5, Failed: true, Longest: &insert, Why: []string{"failed"}},
			{TraceID: "c3", Service: "shop", Operation: "GET /", Start: 80, Duration: 0.3, Why: []string{"exemplar"}},
		},
		Groups: []api.TraceGroup{{Service: "shop", Operation: "POST /orders", Longest: insert, Requests: 2, Failed: 1, Min: 1.5, Max: 4.25, Tenants: 2}},
	}
	for format, want := range map[Format]string{
		Text: `
requests  operation     longest part       share             took  tenant
  2 of 3  POST /orders  INSERT cart_lines   91 %  1.50 s … 4.25 s  2 tenants

time                 service  operation     tenant  duration          longest part       why       trace
Jan 01 00:01:00.000  shop     POST /orders  acme      4.25 s          INSERT cart_lines  slow      a1
Jan 01 00:01:10.000  shop     POST /orders  globex    1.50 s  failed  INSERT cart_lines  failed    b2
Jan 01 00:01:20.000  shop     GET /                   300 ms                             exemplar  c3
`,
		CSV: `
start_unix_seconds,service,operation,tenant,duration_seconds,failed,why,trace_id,span_id,longest_service,longest_operation,longest_component,longest_share
60,shop,POST /orders,acme,4.25,false,slow,a1,,shop,INSERT cart_lines,db,0.91
70,shop,POST /orders,globex,1.5,true,failed,b2,,shop,INSERT cart_lines,db,0.91
80,shop,GET /,,0.3,false,exemplar,c3,,,,,
`,
	} {
		var b strings.Builder
		if err := Traces(r, time.UTC).Write(&b, format); err != nil {
			t.Fatal(err)
		}
		if got := "\n" + b.String(); got != want {
			t.Errorf("format %d, got\n%s\nwant\n%s", format, got, want)
		}
	}
}
