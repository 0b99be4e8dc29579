package otlp

import (
	"math"
	"strings"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/zeebo/xxh3"

	"tailscope/internal/agg"
	"tailscope/internal/series"
	"tailscope/internal/store"
)

// LogRecords is the counter of log records by the labels of their resource and severity.
// Records are counted, and not kept.
const LogRecords = "log_records_total"

const labelSeverity = "severity"

// severities are the ranges of SeverityNumber, of four each from 1 on
// (https://opentelemetry.io/docs/specs/otel/logs/data-model/#field-severitynumber).
var severities = [...]string{"unspecified", "trace", "debug", "info", "warn", "error", "fatal"}

// severityOf returns the index in severities of a record; its text counts if it has no number.
func severityOf(number uint64, text []byte) int {
	if number >= 1 && number <= 24 {
		return int(number+3) / 4
	}
	switch strings.ToLower(view(text)) {
	case "trace", "finest":
		return 1
	case "debug", "verbose", "fine":
		return 2
	case "info", "information", "informational", "notice":
		return 3
	case "warn", "warning":
		return 4
	case "error", "err", "severe":
		return 5
	case "fatal", "critical", "crit", "alert", "emerg", "emergency", "panic":
		return 6
	}
	return 0
}

// logRun counts records of one resource and severity that follow each other within a slot.
type logRun struct {
	slot  int64
	last  int64 // Unix nanoseconds of the newest
	count int64
}

const slotNanos = int64(series.Base) * 1e9

// logs decodes an ExportLogsServiceRequest and counts its records in the batch.
func (d *decoder) logs(b []byte) error {
	from, to := d.batch.Accepts()
	var f field
	for i := 0; i < len(b); {
		var err error
		if i, err = f.next(b, i); err != nil {
			return err
		}
		if f.number == 1 && f.wire == bytesT {
			if err := d.resourceLogs(f.data, from, to); err != nil {
				return err
			}
		}
	}
	return nil
}

// resourceLogs decodes a ResourceLogs message: resource 1, scope_logs 2.
func (d *decoder) resourceLogs(b []byte, from, to int64) error {
	var err error
	if d.res, err = d.resource(b); err != nil {
		return err
	}
	var runs [len(severities)]logRun
	var f, scope field
	for i := 0; i < len(b); {
		if i, err = f.next(b, i); err != nil {
			return err
		}
		if f.number != 2 || f.wire != bytesT {
			continue
		}
		for j := 0; j < len(f.data); {
			if j, err = scope.next(f.data, j); err != nil {
				return err
			}
			if scope.number != 2 || scope.wire != bytesT {
				continue
			}
			if err := d.logRecord(scope.data, from, to, &runs); err != nil {
				return err
			}
		}
	}
	for severity := range runs {
		if err := d.countLogs(severity, &runs[severity]); err != nil {
			return err
		}
	}
	return nil
}

// logRecord decodes a LogRecord: time_unix_nano 1, severity_number 2, severity_text 3,
// observed_time_unix_nano 11. It counts at the first time that is set of 1 and 11, in its run.
func (d *decoder) logRecord(b []byte, from, to int64, runs *[len(severities)]logRun) error {
	var f field
	var at, observed, number uint64
	var text []byte
	for i := 0; i < len(b); {
		var err error
		if i, err = f.next(b, i); err != nil {
			return err
		}
		switch {
		case f.number == 1 && f.wire == fixed64:
			at = f.num
		case f.number == 2 && f.wire == varint:
			number = f.num
		case f.number == 3 && f.wire == bytesT:
			text = f.data
		case f.number == 11 && f.wire == fixed64:
			observed = f.num
		}
	}
	d.items++
	if at == 0 {
		at = observed
	}
	switch {
	case at == 0:
		d.refuse(NoTime)
		return nil
	case at > math.MaxInt64 || int64(at) > to:
		d.refuse(TooNew)
		return nil
	case int64(at) < from:
		d.refuse(TooOld)
		return nil
	}
	severity := severityOf(number, text)
	run := &runs[severity]
	if slot := int64(at) / slotNanos; run.count == 0 || slot != run.slot {
		if err := d.countLogs(severity, run); err != nil {
			return err
		}
		run.slot = slot
	}
	run.last = max(run.last, int64(at))
	run.count++
	return nil
}

// countLogs adds a run to the batch and begins another.
func (d *decoder) countLogs(severity int, run *logRun) error {
	if run.count == 0 {
		return nil
	}
	key := append(d.key[:0], LogRecords...)
	// Resources that differ only in what is not kept are one series, and so one running total.
	key = appendHash(append(key, byte(severity)), d.res.kept)
	id := xxh3.Hash128(key)
	d.key = key
	to, ok := d.r.cache.get(d.tables, id.Hi^d.r.seed)
	if !ok {
		ls, err := d.pointLabels(nil, 0, math.NaN())
		if err != nil {
			return err
		}
		ls = labels.NewBuilder(ls).Set(labelSeverity, severities[severity]).Labels()
		to.target = d.r.sink.MetricTarget(series.Series{Family: LogRecords, View: series.Full, Kind: series.Counter, Labels: ls})
		d.r.cache.put(d.tables.epoch, id.Hi^d.r.seed, to)
		d.r.sink.DeclareFamily(store.FamilyInfo{Name: LogRecords, Kind: series.Counter})
	}
	if to.target == 0 && d.r.sink.RefusesFamily(LogRecords) {
		d.refused[TooManyFamilies] += run.count
	} else {
		d.batch.DeltaNumber(to.target, agg.StreamID{id.Hi, id.Lo}, run.last, float64(run.count))
	}
	*run = logRun{}
	return nil
}
