package otlp

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	collectorlogs "go.opentelemetry.io/proto/otlp/collector/logs/v1"
	common "go.opentelemetry.io/proto/otlp/common/v1"
	logspb "go.opentelemetry.io/proto/otlp/logs/v1"
	resourcepb "go.opentelemetry.io/proto/otlp/resource/v1"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"tailscope/internal/agg"
)

// logsOf is a request of one resource, each record in a scope of its own.
func logsOf(attrs []*common.KeyValue, records ...*logspb.LogRecord) *collectorlogs.ExportLogsServiceRequest {
	var scopes []*logspb.ScopeLogs
	for _, r := range records {
		scopes = append(scopes, &logspb.ScopeLogs{Scope: &common.InstrumentationScope{Name: "x"}, LogRecords: []*logspb.LogRecord{r}})
	}
	return &collectorlogs.ExportLogsServiceRequest{ResourceLogs: []*logspb.ResourceLogs{{Resource: &resourcepb.Resource{Attributes: attrs}, ScopeLogs: scopes}}}
}

func record(seconds float64, severity int32, text string) *logspb.LogRecord {
	return &logspb.LogRecord{TimeUnixNano: uint64(seconds * 1e9), SeverityNumber: logspb.SeverityNumber(severity), SeverityText: text, Body: str("", "it happened").Value, Attributes: []*common.KeyValue{str("tenant.id", "acme")}}
}

// Records are counted by the labels of their resource, severity and slot, whatever else they
// say, and as often by each protocol.
func TestLogs(t *testing.T) {
	shop := []*common.KeyValue{str("service.name", "shop"), str("service.version", "2"), str("deployment.environment.name", "prod"), str("process.pid", "1")}
	observed := &logspb.LogRecord{ObservedTimeUnixNano: 13e9, SeverityNumber: 9}
	for _, c := range []struct {
		name    string
		records []*logspb.LogRecord
		want    string // without what all have in common
		refused int64
		message string
	}{
		{"each severity", []*logspb.LogRecord{record(10, 1, ""), record(10, 4, ""), record(10, 8, ""), record(10, 9, ""), record(10, 16, ""), record(10, 17, ""), record(10, 24, ""), record(10, 0, "")},
			"debug: +1 at 10000000000|error: +1 at 10000000000|fatal: +1 at 10000000000|info: +1 at 10000000000|trace: +2 at 10000000000|unspecified: +1 at 10000000000|warn: +1 at 10000000000", 0, ""},
		{"by text", []*logspb.LogRecord{record(10, 0, "WARNING"), record(11, 0, "Error"), record(12, 0, "critical"), record(13, 17, "INFO"), record(14, 0, "loud")},
			"error: +2 at 13000000000|fatal: +1 at 12000000000|unspecified: +1 at 14000000000|warn: +1 at 10000000000", 0, ""},
		{"by slot", []*logspb.LogRecord{record(10, 9, ""), record(19.5, 9, ""), record(19, 9, ""), record(20, 9, ""), record(20, 17, ""), record(15, 9, "")},
			"error: +1 at 20000000000|info: +1 at 15000000000|info: +1 at 20000000000|info: +3 at 19500000000", 0, ""},
		{"when it was observed", []*logspb.LogRecord{observed}, "info: +1 at 13000000000", 0, ""},
		{"without a time, and too old", []*logspb.LogRecord{record(0, 9, ""), record(4, 9, ""), record(5, 9, "")}, "info: +1 at 5000000000", 2, "2 of 3 log records refused: 1 older than anything that is kept: see the retention settings; 1 without a time"},
		{"too new", []*logspb.LogRecord{{TimeUnixNano: 1 << 63, SeverityNumber: 9}}, "", 1, "1 of 1 log records refused: 1 too far in the future: check the clocks of the hosts"},
	} {
		t.Run(c.name, func(t *testing.T) {
			l := newLedger()
			l.from = 5e9
			s := start(t, Options{Sink: l})
			req := logsOf(shop, c.records...)
			resp, err := collectorlogs.NewLogsServiceClient(dial(t, s)).Export(context.Background(), req)
			if err != nil {
				t.Fatal(err)
			}
			if p := resp.GetPartialSuccess(); p.GetRejectedLogRecords() != c.refused || p.GetErrorMessage() != c.message {
				t.Errorf("partial success %v, want %d and %q", p, c.refused, c.message)
			}
			of := func(severity string) string {
				return fmt.Sprintf(`counter log_records_total{environment="prod", service="shop", severity="%s", version="2"}`, severity)
			}
			var want []string
			for _, w := range strings.FieldsFunc(c.want, func(r rune) bool { return r == '|' }) {
				severity, rest, _ := strings.Cut(w, ": ")
				want = append(want, of(severity)+": "+rest)
			}
			if got := l.text(); got != sortLines(strings.Join(want, "\n")) {
				t.Errorf("got\n%s\nwant\n%s", got, strings.Join(want, "\n"))
			}
			first := l.text()
			l.clear()
			body, err := protojson.MarshalOptions{UseEnumNumbers: true}.Marshal(req)
			if err != nil {
				t.Fatal(err)
			}
			r := post(t, s, "/v1/logs", "application/json", "", body)
			if r.StatusCode != 200 || l.text() != first {
				t.Errorf("JSON: status %d, got\n%s", r.StatusCode, l.text())
			}
			if st := s.Stats(); st.LogRecords != 2*uint64(int64(len(c.records))-c.refused) {
				t.Errorf("%d log records are counted", st.LogRecords)
			}
		})
	}
}

// Processes of one service that differ in what is not kept are one running total.
func TestLogsOfSeveralProcesses(t *testing.T) {
	l := &streamLedger{ledger: newLedger(), of: map[agg.StreamID]int{}}
	r := testReceiver(t, l)
	for _, pid := range []string{"1", "2", "1"} {
		req := logsOf([]*common.KeyValue{str("service.name", "shop"), str("process.pid", pid)}, record(10, 9, ""))
		if _, err := r.ingest(context.Background(), logSignal, marshal(t, req)); err != nil {
			t.Fatal(err)
		}
	}
	req := logsOf([]*common.KeyValue{str("service.name", "shop"), str("service.instance.id", "a")}, record(10, 9, ""), record(10, 17, ""))
	if _, err := r.ingest(context.Background(), logSignal, marshal(t, req)); err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprint(slices.Sorted(maps.Values(l.of))); got != "[1 1 3]" {
		t.Errorf("streams have %s increments, want 3 of one, and one each of two", got)
	}
}

// streamLedger counts the increments of each stream.
type streamLedger struct {
	*ledger
	of map[agg.StreamID]int
}

func (l *streamLedger) NewBatch() Batch {
	return &streamBatch{l.ledger.NewBatch().(*ledgerBatch), l.of}
}

type streamBatch struct {
	*ledgerBatch
	of map[agg.StreamID]int
}

func (b *streamBatch) DeltaNumber(t agg.Target, id agg.StreamID, nanos int64, v float64) {
	b.of[id]++
	b.ledgerBatch.DeltaNumber(t, id, nanos, v)
}

// FuzzLogs: what the reference can read, we can, and each record is counted or refused.
func FuzzLogs(f *testing.F) {
	f.Add(marshal(f, logsOf([]*common.KeyValue{str("service.name", "a")}, record(10, 9, "INFO"), record(0, 17, ""), record(30, 0, "warn"))))
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, b []byte) {
		l := newLedger()
		p, err := testReceiver(t, l).ingest(context.Background(), logSignal, b)
		if err != nil {
			var bad *MalformedError
			if !errors.As(err, &bad) || l.len() != 0 {
				t.Fatalf("%v, and %d observations", err, l.len())
			}
		}
		var req collectorlogs.ExportLogsServiceRequest
		if (proto.UnmarshalOptions{DiscardUnknown: true}).Unmarshal(b, &req) != nil {
			return
		}
		if err != nil {
			t.Fatalf("refused: %v", err)
		}
		n := int64(0)
		for _, rl := range req.ResourceLogs {
			for _, sl := range rl.ScopeLogs {
				n += int64(len(sl.LogRecords))
			}
		}
		counted := int64(0)
		for _, e := range l.entries {
			var v, at int64
			if _, err := fmt.Sscanf(e.text, "+%d at %d", &v, &at); err != nil {
				t.Fatal(e, err)
			}
			counted += v
		}
		if p.Items != n || counted != n-p.Rejected {
			t.Fatalf("%d records, %d counted, %d refused; the reference has %d", p.Items, counted, p.Rejected, n)
		}
	})
}
