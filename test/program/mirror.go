package program

import (
	"context"
	"os"
	"path/filepath"
)

// Mirror is a running `tailscope mirror` with the server in its process.
type Mirror struct {
	*Process
	Addr string // where clients go, host:port
	URL  string // of the page and the API, http://host:port
}

// StartMirror runs `tailscope mirror` on free ports, with its data in the
// directory dir, which is made, and returns once it serves.
func StartMirror(ctx context.Context, dir string, args ...string) (*Mirror, error) {
	path, err := Build(ctx, "tailscope")
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	addr, err := freeAddr()
	if err != nil {
		return nil, err
	}
	page, err := freeAddr()
	if err != nil {
		return nil, err
	}
	p, err := Start(filepath.Join(dir, "mirror.log"), nil, path, append([]string{"mirror", "--listen", addr, "--page", page,
		"--data", filepath.Join(dir, "data")}, args...)...)
	if err != nil {
		return nil, err
	}
	m := &Mirror{Process: p, Addr: addr, URL: "http://" + page}
	return m, p.until(ctx, func() bool { return listens(addr) && answers(ctx, m.URL+"/readyz") })
}

// StartDuplicator runs the duplicator of benchmarks/peers, made with net/http
// or fasthttp, and returns its address.
func StartDuplicator(ctx context.Context, logPath, with, primary, candidate string) (*Process, string, error) {
	path, err := Build(ctx, "duplicator")
	if err != nil {
		return nil, "", err
	}
	addr, err := freeAddr()
	if err != nil {
		return nil, "", err
	}
	p, err := Start(logPath, nil, path, "-with", with, "-listen", addr, "-primary", primary, "-candidate", candidate)
	if err != nil {
		return nil, "", err
	}
	return p, addr, p.until(ctx, func() bool { return listens(addr) })
}
