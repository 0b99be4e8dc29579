package check

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"tailscope/internal/series"
	"tailscope/test/program"
)

// Redis is a running redis-server on a socket of the file system, the quickest
// way to it, and one connection.
type Redis struct {
	*program.Process
	conn  net.Conn
	r     *bufio.Reader
	w     *bufio.Writer
	Calls int // answers waited for, those of a pipeline once
}

// ErrNoRedis says that redis-server is not installed.
var ErrNoRedis = errors.New("redis-server is not installed")

// StartRedis runs a server that keeps everything in memory and nothing on disk.
func StartRedis(ctx context.Context, dir string) (*Redis, error) {
	path, err := exec.LookPath("redis-server")
	if err != nil {
		return nil, ErrNoRedis
	}
	sock := filepath.Join(dir, "redis.sock")
	p, err := program.Start(filepath.Join(dir, "redis.log"), nil, path, "--port", "0", "--unixsocket", sock, "--save", "", "--appendonly", "no", "--dir", dir)
	if err != nil {
		return nil, err
	}
	r := &Redis{Process: p}
	for begin := time.Now(); ; time.Sleep(5 * time.Millisecond) {
		if r.conn, err = net.Dial("unix", sock); err == nil {
			break
		}
		if ctx.Err() != nil || time.Since(begin) > 20*time.Second {
			p.Kill()
			return nil, fmt.Errorf("redis-server does not answer: %w", err)
		}
	}
	r.r, r.w = bufio.NewReaderSize(r.conn, 1<<16), bufio.NewWriterSize(r.conn, 1<<16)
	return r, nil
}

// Close ends the server.
func (r *Redis) Close() error {
	err := r.conn.Close()
	r.Kill()
	<-r.Done()
	return err
}

func (r *Redis) send(args ...string) {
	_, _ = fmt.Fprintf(r.w, "*%d\r\n", len(args))
	for _, a := range args {
		_, _ = r.w.WriteString("$")
		_, _ = r.w.WriteString(strconv.Itoa(len(a)))
		_, _ = r.w.WriteString("\r\n")
		_, _ = r.w.WriteString(a)
		_, _ = r.w.WriteString("\r\n")
	}
}

// answer reads one; of an array its elements, of which none may be one.
func (r *Redis) answer() ([]string, error) {
	line, err := r.r.ReadString('\n')
	if err != nil {
		return nil, err
	}
	line = strings.TrimSuffix(line, "\r\n")
	switch line[0] {
	case '-':
		return nil, errors.New("redis: " + line[1:])
	case '+', ':':
		return []string{line[1:]}, nil
	}
	n, err := strconv.Atoi(line[1:])
	if err != nil || n < 0 {
		return nil, err
	}
	if line[0] == '*' {
		var all []string
		for range n {
			one, err := r.answer()
			if err != nil {
				return nil, err
			}
			all = append(all, one...)
		}
		return all, nil
	}
	b := make([]byte, n+2)
	if _, err := io.ReadFull(r.r, b); err != nil {
		return nil, err
	}
	return []string{string(b[:n])}, nil
}

func (r *Redis) call(args ...string) ([]string, error) {
	r.send(args...)
	if err := r.w.Flush(); err != nil {
		return nil, err
	}
	r.Calls++
	return r.answer()
}

// pipeline sends what calls queue and reads as many answers.
func (r *Redis) pipeline(n int, queue func(i int)) ([][]string, error) {
	for i := range n {
		queue(i)
	}
	if err := r.w.Flush(); err != nil {
		return nil, err
	}
	r.Calls++
	all := make([][]string, n)
	var errs error
	for i := range all {
		var err error
		if all[i], err = r.answer(); err != nil {
			errs = errors.Join(errs, err)
		}
	}
	return all, errs
}

func list(service int) string   { return "list:" + strconv.Itoa(service) }
func sorted(service int) string { return "sorted:" + strconv.Itoa(service) }

func member(v series.Sample) string {
	return strconv.FormatInt(v.TimeMillis, 10) + ":" + strconv.FormatFloat(v.Value, 'g', -1, 64)
}

func parse(s string) (v series.Sample, err error) {
	t, f, _ := strings.Cut(s, ":")
	if v.TimeMillis, err = strconv.ParseInt(t, 10, 64); err != nil {
		return v, err
	}
	v.Value, err = strconv.ParseFloat(f, 64)
	return v, err
}

// Push adds samples of a service, in order of time, to its list, newest first,
// and to its sorted set, and drops what is beyond keep.
func (r *Redis) Push(service int, ss []series.Sample, keep int) error {
	push, add := []string{"LPUSH", list(service)}, []string{"ZADD", sorted(service)}
	for _, v := range ss {
		push = append(push, member(v))
		add = append(add, strconv.FormatInt(v.TimeMillis, 10), member(v))
	}
	commands := [][]string{push, add, {"LTRIM", list(service), "0", strconv.Itoa(keep - 1)}, {"ZREMRANGEBYRANK", sorted(service), "0", strconv.Itoa(-keep - 1)}}
	_, err := r.pipeline(len(commands), func(i int) { r.send(commands[i]...) })
	return err
}

// closer returns that of two samples which is closer to t, the earlier if neither is;
// either may be missing.
func closer(before, after []string, t int64) (series.Sample, error) {
	switch {
	case len(before) == 0 && len(after) == 0:
		return series.Sample{}, errors.New("no sample")
	case len(before) == 0:
		return parse(after[0])
	case len(after) == 0:
		return parse(before[0])
	}
	b, err := parse(before[0])
	if err != nil {
		return b, err
	}
	a, err := parse(after[0])
	if err == nil && a.TimeMillis-t < t-b.TimeMillis {
		return a, nil
	}
	return b, err
}

func (r *Redis) at(service, i int) ([]string, error) {
	return r.call("LINDEX", list(service), strconv.Itoa(i))
}

// Linear walks down the list, one element a call, as Bischeck 1.1.0 did.
func (r *Redis) Linear(service int, t int64) (series.Sample, error) {
	var after []string
	for i := 0; ; i++ {
		e, err := r.at(service, i)
		if err != nil {
			return series.Sample{}, err
		}
		if len(e) == 0 {
			return closer(nil, after, t)
		}
		v, err := parse(e[0])
		if err != nil {
			return v, err
		}
		if v.TimeMillis <= t {
			return closer(e, after, t)
		}
		after = e
	}
}

// Binary searches the list, one element a call, as Bischeck 1.1.1 did.
func (r *Redis) Binary(service int, t int64) (series.Sample, error) {
	n, err := r.call("LLEN", list(service))
	if err != nil {
		return series.Sample{}, err
	}
	lo, hi := 0, 0
	if hi, err = strconv.Atoi(n[0]); err != nil {
		return series.Sample{}, err
	}
	var before, after []string
	for lo < hi {
		mid := (lo + hi) / 2
		e, err := r.at(service, mid)
		if err != nil {
			return series.Sample{}, err
		}
		v, err := parse(e[0])
		if err != nil {
			return v, err
		}
		if v.TimeMillis <= t {
			before, hi = e, mid
		} else {
			after, lo = e, mid+1
		}
	}
	return closer(before, after, t)
}

func (r *Redis) around(service int, t int64, i int) []string {
	if i == 0 {
		return []string{"ZREVRANGEBYSCORE", sorted(service), strconv.FormatInt(t, 10), "-inf", "LIMIT", "0", "1"}
	}
	return []string{"ZRANGEBYSCORE", sorted(service), "(" + strconv.FormatInt(t, 10), "+inf", "LIMIT", "0", "1"}
}

// Sorted asks the sorted set for the neighbours of t, one after the other.
func (r *Redis) Sorted(service int, t int64) (series.Sample, error) {
	before, err := r.call(r.around(service, t, 0)...)
	if err != nil {
		return series.Sample{}, err
	}
	after, err := r.call(r.around(service, t, 1)...)
	if err != nil {
		return series.Sample{}, err
	}
	return closer(before, after, t)
}

// Pipelined asks for the neighbours of all moments at once.
func (r *Redis) Pipelined(service int, ts []int64, dst []series.Sample) ([]series.Sample, error) {
	all, err := r.pipeline(2*len(ts), func(i int) { r.send(r.around(service, ts[i/2], i%2)...) })
	if err != nil {
		return dst, err
	}
	for i, t := range ts {
		v, err := closer(all[2*i], all[2*i+1], t)
		if err != nil {
			return dst, err
		}
		dst = append(dst, v)
	}
	return dst, nil
}
