package solr

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"tailscope/test/program"
)

// Start runs the example's cluster with a collection for each of these numbers of
// shards, all with the same documents in one segment a shard. It takes a minute, the
// first time more: Solr is fetched and documents are made in the directory work, and
// stay there. The process is the caller's to stop.
func Start(ctx context.Context, work string, documents int, shards ...int) (*Cluster, *program.Process, error) {
	dir, err := Example()
	if err != nil {
		return nil, nil, err
	}
	port, err := twoPorts()
	if err != nil {
		return nil, nil, err
	}
	layouts := strings.Trim(fmt.Sprint(shards), "[]")
	env := []string{"work=" + work, fmt.Sprint("documents=", documents), fmt.Sprint("port=", port), "layouts=" + layouts, "heap=2g"}
	prepare := exec.CommandContext(ctx, filepath.Join(dir, "prepare.sh"))
	prepare.Env = append(os.Environ(), env...)
	if out, err := prepare.CombinedOutput(); err != nil {
		return nil, nil, fmt.Errorf("prepare Solr: %w\n%s", err, out)
	}
	log := filepath.Join(work, "cluster.log")
	if err := os.Remove(log); err != nil && !os.IsNotExist(err) {
		return nil, nil, err
	}
	p, err := program.Start(log, env, filepath.Join(dir, "start.sh"))
	if err != nil {
		return nil, nil, err
	}
	c, err := New(p.Pid, fmt.Sprintf("http://127.0.0.1:%d/solr", port), work)
	if err == nil {
		err = c.fill(ctx, p, filepath.Join(work, "documents.jsonl"), shards)
	}
	if err != nil {
		p.Kill()
		return nil, nil, err
	}
	return c, p, nil
}

// fill waits for the cluster and puts the documents into each collection.
func (c *Cluster) fill(ctx context.Context, p *program.Process, documents string, shards []int) error {
	ready, cancel := context.WithTimeout(ctx, 3*time.Minute)
	defer cancel()
	for {
		if c.call(ready, http.MethodGet, "/ready/select?q=*:*", nil) == nil {
			break
		}
		select {
		case <-p.Done():
			return fmt.Errorf("cluster ended while starting\n%s", p.Log())
		case <-ready.Done():
			return fmt.Errorf("cluster is not ready: %w\n%s", ready.Err(), p.Log())
		case <-time.After(200 * time.Millisecond):
		}
	}
	for _, n := range shards {
		f, err := os.Open(documents)
		if err != nil {
			return err
		}
		err = c.call(ctx, http.MethodPost, fmt.Sprintf("/docs%d/update/json/docs", n), f)
		_ = f.Close()
		if err == nil {
			err = c.call(ctx, http.MethodPost, fmt.Sprintf("/docs%d/update", n), strings.NewReader(`{"optimize":{"maxSegments":1}}`))
		}
		if err != nil {
			return fmt.Errorf("load documents in %d shards: %w", n, err)
		}
	}
	return nil
}

func (c *Cluster) call(ctx context.Context, method, path string, body io.Reader) error {
	req, err := http.NewRequestWithContext(ctx, method, c.URL+path, body)
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := c.client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s answers %s: %.300s", path, resp.Status, text)
	}
	return err
}

// twoPorts finds a port that is free a moment ago, as is the next.
func twoPorts() (int, error) {
	for range 100 {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return 0, err
		}
		port := l.Addr().(*net.TCPAddr).Port
		next, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port+1)))
		_ = l.Close()
		if err == nil {
			return port, next.Close()
		}
	}
	return 0, fmt.Errorf("no two free ports beside each other")
}
