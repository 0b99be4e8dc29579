// Package check guards values by thresholds that are computed from history.
//
// A definition (package spec) has a source of values, a schedule and a threshold. An
// Engine runs all definitions: it measures a value, evaluates the threshold over history
// (packages expr and history) or a profile of the day (package profile), turns runs into
// states and incidents (package state), stores all of it as series, and notifies
// receivers.
package check

import (
	"context"

	"tailscope/internal/guard/check/event"
	"tailscope/internal/guard/check/spec"
)

// Families of what checks store, all gauges with the label check, those of
// the definition, and those of the series that it is applied to. What is null is
// absent.
const (
	FamilyValue        = "check_value"
	FamilyThreshold    = "check_threshold"
	FamilyLowCritical  = "check_low_critical"
	FamilyLowWarning   = "check_low_warning"
	FamilyHighWarning  = "check_high_warning"
	FamilyHighCritical = "check_high_critical"
	FamilyState        = "check_state"   // hard state, 0 to 3
	FamilyPerf         = "check_perf"    // label perf
	FamilySeconds      = "check_seconds" // how long measuring took
	LabelCheck         = "check"
)

// Prober measures what lies outside of the store: http, tcp, tls, command, sql.
// It honours ctx's deadline, never panics, and returns failures in the Reading.
type Prober interface {
	Probe(ctx context.Context, s *spec.Source) event.Reading
}

// Notifier notifies receivers. Neither method waits for any of them.
type Notifier interface {
	// Results hands over the results of runs, for receivers that want every one.
	Results(receivers []string, results []event.Result)
	// Events hands over events in their order. When it returns nil they are on
	// disk and will be delivered at least once.
	Events(ctx context.Context, receivers []string, events []event.Event) error
	// Lacking returns a function that returns the receivers that have neither got nor for
	// good refused all events that they were handed so far.
	Lacking(receivers []string) func() []string
	// Take begins a turn of this server, of those that share a store: it delivers until ctx
	// is done. What waits of an earlier turn is dropped. known are, by receiver, events of
	// the open incidents that it may know of, oldest first. holds is asked before each
	// delivery; its error says why the turn may be over.
	Take(ctx context.Context, known map[string][]event.Event, holds func(context.Context) error) error
}
