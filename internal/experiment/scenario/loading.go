package scenario

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"tailscope/api"
	"tailscope/hist"
	"tailscope/internal/experiment/bench/load"
	"tailscope/internal/experiment/bench/requests"
	"tailscope/internal/experiment/bench/tally"
	"tailscope/internal/proc"
)

// loader sends one DataLoad.
type loader struct {
	*DataLoad
	client *http.Client
	set    *requests.Set // of the check; nil if there is none
	began  time.Time

	mu      sync.Mutex
	latency *hist.Histogram
	out     api.BenchLoad
	first   error // failure of a batch
}

// loadData loads data, and calls report with its progress now and then.
func (st *Stage) loadData(ctx context.Context, s *Scenario, l *DataLoad, report func(api.BenchLoad)) (api.BenchLoad, error) {
	conf, err := s.TLS.Config(s.Target)
	if err != nil {
		return api.BenchLoad{}, err
	}
	transport := &http.Transport{TLSClientConfig: conf, MaxConnsPerHost: l.Parallel, MaxIdleConnsPerHost: l.Parallel, ForceAttemptHTTP2: s.HTTP.Protocol == load.HTTP2, DisableCompression: true}
	defer transport.CloseIdleConnections()
	x := &loader{DataLoad: l, client: &http.Client{Transport: transport, Timeout: l.Timeout}, latency: hist.New(hist.DefaultSchema), began: time.Now()}
	x.out.Name = l.Name
	if l.Check != nil {
		x.set, err = requests.Compile(requests.Spec{Base: s.Target.String(), Vars: s.Vars, Queries: []requests.Query{{Name: l.Name, Request: l.Method + " " + l.URL, Check: l.Check}}})
		if err != nil {
			return x.out, fmt.Errorf("data %s: %w", l.Name, err)
		}
		defer x.set.Close()
	}
	in, name, end, err := st.dataOf(ctx, s, l)
	if err != nil {
		return x.out, fmt.Errorf("data %s: %w", l.Name, err)
	}
	docs, err := readDocuments(in, name, l.Format)
	if err == nil {
		err = x.send(ctx, docs, report)
	}
	err = errors.Join(err, end(err != nil || l.AtMost > 0))
	if err == nil && l.FinalURL != "" {
		if _, err = x.ask(ctx, l.FinalMethod, l.FinalURL, []byte(l.FinalBody), false); err != nil {
			err = fmt.Errorf("%s %s: %w", l.FinalMethod, l.FinalURL, err)
		}
	}
	out := x.result()
	switch {
	case err != nil:
		return out, fmt.Errorf("data %s: %w", l.Name, err)
	case out.Documents == 0 && out.Errors == 0:
		return out, fmt.Errorf("data %s: there are no documents in %s", l.Name, name)
	case float64(out.Errors) > l.Errors*float64(out.Batches):
		return out, fmt.Errorf("data %s: %d of %d batches failed: %w", l.Name, out.Errors, out.Batches, x.first)
	}
	return out, nil
}

// dataOf opens the data. end must be called, and returns the error of a command; with
// the rest of its output unread it does not.
func (st *Stage) dataOf(ctx context.Context, s *Scenario, l *DataLoad) (in io.Reader, name string, end func(early bool) error, err error) {
	if l.Command == nil {
		f, err := os.Open(l.File)
		if err != nil {
			return nil, "", nil, fmt.Errorf("%w (hint: names are relative to %s)", err, s.Dir)
		}
		return f, l.File, func(bool) error { return f.Close() }, nil
	}
	c := *l.Command
	cmd := c.Run.command()
	cmd.Dir, cmd.Env = c.Dir, st.env(s, c.Env)
	proc.OwnGroup(cmd)
	log := filepath.Join(st.dir, fileName("load-"+l.Name)+".log")
	errs, err := os.Create(log)
	if err != nil {
		return nil, "", nil, err
	}
	defer errs.Close()
	cmd.Stderr = errs
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, "", nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, "", nil, fmt.Errorf("%s does not start: %w", c.Name, err)
	}
	kill := func() { _ = proc.Signal(-cmd.Process.Pid, syscall.SIGKILL) }
	stop := context.AfterFunc(ctx, kill) // what reads from it ends then
	return out, c.Name, func(early bool) error {
		if early && stop() {
			kill() // nobody reads on
		}
		err := cmd.Wait()
		if stop() || early {
			kill() // what it left behind
		}
		if early || err == nil {
			return nil
		}
		p := &process{name: c.Name, log: log, err: err}
		return p.failed(p.how())
	}, nil
}

// send sends all batches, Parallel at once. It stops at the first failure if none is
// allowed.
func (x *loader) send(ctx context.Context, docs *documents, report func(api.BenchLoad)) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	work := make(chan batch)
	var workers sync.WaitGroup
	for range x.Parallel {
		workers.Go(func() {
			for b := range work {
				x.sendOne(ctx, b, cancel)
			}
		})
	}
	last := time.Now()
	err := docs.batches(x.DataLoad, func(b batch) error {
		select {
		case work <- b:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		if now := time.Now(); report != nil && now.Sub(last) >= time.Second {
			last = now
			report(x.result())
		}
		return nil
	})
	close(work)
	workers.Wait()
	if err == nil && ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	return err
}

func (x *loader) sendOne(ctx context.Context, b batch, cancel context.CancelCauseFunc) {
	if ctx.Err() != nil {
		return
	}
	took, err := x.ask(ctx, x.Method, x.URL, b.body, true)
	x.mu.Lock()
	defer x.mu.Unlock()
	x.out.Batches++
	if err != nil {
		if ctx.Err() != nil && errors.Is(err, context.Canceled) {
			return // the others failed, or all is ended
		}
		x.out.Errors++
		if x.first == nil {
			x.first = err
		}
		if x.Errors == 0 {
			cancel(fmt.Errorf("batch %d failed: %w", b.number, err))
		}
		return
	}
	x.out.Documents += b.documents
	x.out.Bytes += uint64(len(b.body))
	_ = x.latency.Record(took.Seconds()) // a duration is always valid
}

// ask sends one request and checks its answer.
func (x *loader) ask(ctx context.Context, method, address string, body []byte, checked bool) (time.Duration, error) {
	req, err := http.NewRequestWithContext(ctx, method, address, bytes.NewReader(body))
	if err != nil {
		return 0, err
	}
	if len(body) > 0 {
		req.Header.Set("Content-Type", contentType(x.As))
	}
	for _, f := range x.Header {
		if strings.EqualFold(f.Name, "host") {
			req.Host = f.Value
			continue
		}
		req.Header.Set(f.Name, f.Value)
	}
	begin := time.Now()
	res, err := x.client.Do(req)
	if err != nil {
		return 0, err
	}
	defer res.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(res.Body, 1<<20))
	if err == nil {
		_, err = io.Copy(io.Discard, res.Body)
	}
	took := time.Since(begin)
	switch {
	case err != nil:
		return took, err
	case x.set != nil && checked:
		var header []load.Field
		for name, values := range res.Header {
			for _, v := range values {
				header = append(header, load.Field{Name: name, Value: v})
			}
		}
		if failed := x.set.Checker().Check(0, res.StatusCode, header, answer); failed >= 0 {
			return took, fmt.Errorf("the answer %s fails the check %s: %s", res.Status, x.set.Checks()[failed], short(answer))
		}
	case res.StatusCode >= 300:
		return took, fmt.Errorf("the answer is %s: %s", res.Status, short(answer))
	}
	return took, nil
}

func short(b []byte) string {
	s := strings.Join(strings.Fields(strings.ToValidUTF8(string(b), "?")), " ")
	if len(s) > 300 {
		s = s[:300] + " …"
	}
	return s
}

func (x *loader) result() api.BenchLoad {
	x.mu.Lock()
	defer x.mu.Unlock()
	out := x.out
	took := time.Since(x.began).Seconds()
	out.Seconds = api.Float(took)
	if took > 0 {
		out.Rate = api.Float(float64(out.Documents) / took)
	}
	out.Latency = tally.Latency(x.latency, true)
	return out
}
