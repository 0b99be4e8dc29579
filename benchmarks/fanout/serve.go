package fanout

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"tailscope/benchmarks/clock"
)

// ServeNodes serves nodes nodes, each on a port of its own, until ctx ends; ready
// gets their addresses. A node works on as many leaves at once as it has threads, on
// others in order of arrival; 0 threads is no limit.
func ServeNodes(ctx context.Context, nodes, threads int, w Work, ready func(addresses []string)) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var all sync.WaitGroup
	defer all.Wait()
	defer cancel()
	bell := clock.New()
	all.Go(func() { bell.Run(ctx) })

	failed := make(chan error, nodes)
	var addresses []string
	for range nodes {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return err
		}
		addresses = append(addresses, l.Addr().String())
		var threadsFree chan struct{}
		if threads > 0 {
			threadsFree = make(chan struct{}, threads)
		}
		all.Go(func() { failed <- serve(ctx, l, node(bell, threadsFree, w)) })
	}
	ready(addresses)
	select {
	case err := <-failed:
		return err
	case <-ctx.Done():
		return nil
	}
}

// node answers one leaf: /?query=1&shard=0&shards=16.
func node(c *clock.Clock, threads chan struct{}, w Work) http.HandlerFunc {
	return func(rw http.ResponseWriter, r *http.Request) {
		query, err1 := strconv.ParseUint(r.FormValue("query"), 10, 64)
		shard, err2 := strconv.Atoi(r.FormValue("shard"))
		shards, err3 := strconv.Atoi(r.FormValue("shards"))
		if err := errors.Join(err1, err2, err3); err != nil || shards < 1 {
			http.Error(rw, fmt.Sprint("query, shard and shards are numbers: ", err), http.StatusBadRequest)
			return
		}
		if threads != nil {
			select {
			case threads <- struct{}{}: // who waits longest is first
			case <-r.Context().Done():
				return
			}
			defer func() { <-threads }()
		}
		if takes := w.Takes(query, shard, shards); takes > 0 {
			c.Until(r.Context(), time.Now().Add(takes))
		}
	}
}

// ServeAggregator answers queries until ctx ends, on a port of its own that ready is
// given: /?query=1&leaves=8&shards=16 asks the nodes for the first 8 of 16 shards, which
// are dealt out in turn, and answers with the last of them.
func ServeAggregator(ctx context.Context, nodes []string, ready func(address string)) error {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	client := newClient()
	defer client.CloseIdleConnections()
	ready(l.Addr().String())
	return serve(ctx, l, func(rw http.ResponseWriter, r *http.Request) {
		leaves, err := strconv.Atoi(r.FormValue("leaves"))
		if err != nil || leaves < 1 {
			http.Error(rw, "leaves is not a number", http.StatusBadRequest)
			return
		}
		answers := make(chan error, leaves)
		for shard := range leaves {
			go func() {
				answers <- getURL(r.Context(), client, fmt.Sprintf("http://%s/?query=%s&shard=%d&shards=%s", nodes[shard%len(nodes)], r.FormValue("query"), shard, r.FormValue("shards")))
			}()
		}
		var failed []error
		for range leaves {
			failed = append(failed, <-answers)
		}
		if err := errors.Join(failed...); err != nil {
			http.Error(rw, err.Error(), http.StatusBadGateway)
		}
	})
}

// serve serves until ctx ends, and lets nobody wait then.
func serve(ctx context.Context, l net.Listener, h http.HandlerFunc) error {
	s := &http.Server{Handler: h, ReadHeaderTimeout: time.Minute}
	stop := context.AfterFunc(ctx, func() { _ = s.Close() })
	defer stop()
	if err := s.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// newClient is one that keeps its connections.
func newClient() *http.Client {
	return &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 1 << 12}}
}

// getURL asks and reads the answer.
func getURL(ctx context.Context, client *http.Client, url string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s", resp.Status, strings.TrimSpace(string(text)))
	}
	return err
}
