package main

import (
	"context"

	"tailscope/benchmarks/report"
)

func storeBench(ctx context.Context, o *options, r *report.Report) error { return nil }
func page(ctx context.Context, o *options, r *report.Report) error       { return nil }
