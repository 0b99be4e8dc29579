//go:build !servers

package agg_test

const killRounds = 5
