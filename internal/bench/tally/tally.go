// Package tally counts what a run of load observes.
package tally
