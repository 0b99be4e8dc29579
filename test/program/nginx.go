package program

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// Nginx is Debian's nginx, one process that is master and worker.
type Nginx struct {
	*Process
	Addr string // host:port, which $ADDR of the configuration stands for
}

// StartNginx runs nginx with what belongs inside http { } of its configuration;
// $ADDR in it becomes a free address, on which it listens once this returns.
// Its files are in dir, which is made.
func StartNginx(ctx context.Context, dir, http string) (*Nginx, error) {
	bin, err := exec.LookPath("nginx")
	if err != nil {
		if bin, err = exec.LookPath("/usr/sbin/nginx"); err != nil { // where not everybody looks
			return nil, errors.New("nginx is not installed: run scripts/install-servers")
		}
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	addr, err := freeAddr()
	if err != nil {
		return nil, err
	}
	user := ""
	if os.Getuid() == 0 {
		user = "user root;\n"
	}
	conf := filepath.Join(dir, "nginx.conf")
	text := user + fmt.Sprintf(`daemon off;
master_process off;
pid %[1]s/nginx.pid;
error_log %[1]s/error.log;
events { worker_connections 4096; }
http {
access_log off;
keepalive_requests 100000000;
client_body_temp_path %[1]s/body;
proxy_temp_path %[1]s/proxy;
fastcgi_temp_path %[1]s/fastcgi;
uwsgi_temp_path %[1]s/uwsgi;
scgi_temp_path %[1]s/scgi;
%[2]s
}
`, dir, strings.ReplaceAll(http, "$ADDR", addr))
	if err := os.WriteFile(conf, []byte(text), 0o644); err != nil {
		return nil, err
	}
	p, err := Start(filepath.Join(dir, "nginx.log"), nil, bin, "-c", conf)
	if err != nil {
		return nil, err
	}
	n := &Nginx{Process: p, Addr: addr}
	return n, p.until(ctx, func() bool { return listens(addr) })
}
