package program

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
)

// Database is a server of a database with files of its own, which Close removes.
type Database struct {
	*Process
	Addr string // host:port
	dir  string
}

// Close ends the server at once and removes its files.
func (d *Database) Close() error {
	// PostgreSQL's children die with it this way, others die by it too.
	if err := d.cmd.Process.Signal(syscall.SIGQUIT); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	<-d.done
	return os.RemoveAll(d.dir)
}

// StartPostgres runs PostgreSQL with an empty database named postgres, whose user
// postgres has the password given.
func StartPostgres(ctx context.Context, password string) (*Database, error) {
	found, err := filepath.Glob("/usr/lib/postgresql/*/bin")
	if err != nil || len(found) == 0 {
		return nil, errors.New("postgresql is not installed: run scripts/install-servers")
	}
	bin := slices.Max(found)
	return startDatabase(ctx, "postgres", func(dir, host, port string) [][]string {
		return [][]string{
			{filepath.Join(bin, "initdb"), "--pgdata", dir + "/data", "--username", "postgres", "--auth", "scram-sha-256", "--pwfile", dir + "/password",
				"--encoding", "UTF8", "--locale", "C", "--no-sync"},
			{filepath.Join(bin, "postgres"), "-D", dir + "/data", "-h", host, "-p", port, "-k", dir, "-c", "fsync=off", "-c", "shared_buffers=8MB"},
		}
	}, password)
}

// StartMariaDB runs MariaDB, whose user root has the password given and the
// database test all to itself.
func StartMariaDB(ctx context.Context, password string) (*Database, error) {
	bin, err := exec.LookPath("mariadbd")
	if err != nil {
		if bin, err = exec.LookPath("/usr/sbin/mariadbd"); err != nil {
			return nil, errors.New("mariadb is not installed: run scripts/install-servers")
		}
	}
	return startDatabase(ctx, "mysql", func(dir, host, port string) [][]string {
		init := "CREATE DATABASE test;\nALTER USER root@localhost IDENTIFIED BY '" + password + "';\n"
		if err := os.WriteFile(dir+"/init.sql", []byte(init), 0o644); err != nil {
			init = "" // the server says that the file is missing
		}
		return [][]string{
			{"mariadb-install-db", "--no-defaults", "--datadir=" + dir + "/data", "--auth-root-authentication-method=normal", "--skip-test-db"},
			{bin, "--no-defaults", "--datadir=" + dir + "/data", "--socket=" + dir + "/socket", "--pid-file=" + dir + "/pid", "--bind-address=" + host, "--port=" + port,
				"--init-file=" + dir + "/init.sql", "--innodb-buffer-pool-size=16M", "--innodb-log-file-size=8M", "--innodb-flush-log-at-trx-commit=0"},
		}
	}, password)
}

// startDatabase runs commands one after the other, the last of which is the
// server. They run as another user than root, whom databases refuse: as who is
// named, or as nobody.
func startDatabase(ctx context.Context, as string, commands func(dir, host, port string) [][]string, password string) (_ *Database, err error) {
	dir, err := os.MkdirTemp("", "tailscope-"+as+"-")
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.RemoveAll(dir))
		}
	}()
	if err := os.WriteFile(dir+"/password", []byte(password+"\n"), 0o644); err != nil {
		return nil, err
	}
	var drop []string
	if os.Getuid() == 0 {
		who, err := user.Lookup(as)
		if err != nil {
			if who, err = user.Lookup("nobody"); err != nil {
				return nil, err
			}
		}
		uid, err := strconv.Atoi(who.Uid)
		if err != nil {
			return nil, err
		}
		if err := os.Chown(dir, uid, -1); err != nil {
			return nil, err
		}
		drop = []string{"setpriv", "--reuid", who.Uid, "--regid", who.Gid, "--clear-groups", "--pdeathsig", "KILL"}
	}
	addr, err := freeAddr()
	if err != nil {
		return nil, err
	}
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, err
	}
	all := commands(dir, host, port)
	for _, c := range all[:len(all)-1] {
		c = slices.Concat(drop, c)
		cmd := exec.CommandContext(ctx, c[0], c[1:]...)
		cmd.Dir = dir
		if out, err := cmd.CombinedOutput(); err != nil {
			return nil, fmt.Errorf("prepare a database for %s: %w\n%s", as, err, out)
		}
	}
	last := slices.Concat(drop, all[len(all)-1])
	p, err := Start(filepath.Join(dir, "log"), nil, last[0], last[1:]...)
	if err != nil {
		return nil, err
	}
	return &Database{p, addr, dir}, p.until(ctx, func() bool { return listens(addr) })
}
