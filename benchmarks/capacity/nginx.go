package capacity

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"

	"tailscope/test/program"
)

// Nginx is Debian's nginx with one worker and a CPU limit.
type Nginx struct {
	*program.Nginx
	URL   string
	limit *Limit
}

// nginxWords is the number of words of the page that nginx packs for every request.
const nginxWords = 6000

// StartNginx runs one that packs a page anew for every request, with cores processors;
// its files are in dir.
func StartNginx(ctx context.Context, dir string, cores float64) (*Nginx, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(filepath.Join(dir, "www"), 0o755); err != nil {
		return nil, err
	}
	random := rand.New(rand.NewPCG(1, 2))
	var page strings.Builder
	for range nginxWords {
		fmt.Fprintf(&page, "%x ", random.Uint32N(1<<20))
	}
	if err := os.WriteFile(filepath.Join(dir, "www", "page.txt"), []byte(page.String()), 0o644); err != nil {
		return nil, err
	}
	limit, err := LimitCPU("tailscope-nginx", cores)
	if err != nil {
		return nil, err
	}
	n, err := program.StartNginx(ctx, filepath.Join(dir, "nginx"), fmt.Sprintf(`
gzip on;
gzip_comp_level 9;
gzip_http_version 1.0;
gzip_types text/plain;
server {
	listen $ADDR backlog=4096;
	root %s/www;
}`, dir))
	if err != nil {
		return nil, errors.Join(err, limit.Close())
	}
	x := &Nginx{Nginx: n, URL: "http://" + n.Addr + "/page.txt", limit: limit}
	if err := limit.Add(n.Pid); err != nil {
		return nil, errors.Join(err, x.Close())
	}
	return x, nil
}

// Close ends it.
func (n *Nginx) Close() error {
	n.Kill()
	<-n.Done()
	return n.limit.Close()
}
