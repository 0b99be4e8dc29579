// Command fanout serves the parts of a scatter-gather system whose every time is
// known (benchmarks/fanout) and writes where, one line.
//
//	fanout -nodes 16 -threads 1 -work 1,2ms,0,false
//	fanout -aggregate 127.0.0.1:8080,127.0.0.1:8081
package main

import (
	"context"
	"flag"
	"fmt"
	"log"
	"os/signal"
	"strings"
	"syscall"

	"tailscope/benchmarks/fanout"
)

func main() {
	nodes := flag.Int("nodes", 0, "how many nodes")
	threads := flag.Int("threads", 0, "of each node; 0 is no limit")
	work := flag.String("work", "", "what leaves take: seed, fixed part, correlation, and whether they are even")
	aggregate := flag.String("aggregate", "", "addresses of the nodes, to be an aggregator")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	ready := func(addresses ...string) { fmt.Println("ready", strings.Join(addresses, ",")) }
	var err error
	if *aggregate != "" {
		err = fanout.ServeAggregator(ctx, strings.Split(*aggregate, ","), func(a string) { ready(a) })
	} else {
		var w fanout.Work
		if w, err = fanout.ParseWork(*work); err == nil {
			err = fanout.ServeNodes(ctx, *nodes, *threads, w, func(a []string) { ready(a...) })
		}
	}
	if err != nil {
		log.Fatal(err)
	}
}
