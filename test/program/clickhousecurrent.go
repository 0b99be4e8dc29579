package program

import (
	"context"
	"crypto/sha512"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
)

// The package of npm that holds today's ClickHouse as a library, and the digest of its
// archive. Newer ones may lack what test/clickhouse uses, which is not documented.
const (
	currentPackage = "@chdb/lib-linux-x64-gnu@26.7.3-stable.1"
	currentDigest  = "XP97mMqnc5tZpKQywR8N7cLTsHNiTmHr30pC5mzo3jWmukjKn2IBa60c2B/gWUNcuFjOMjWoorQICCqBVj5wpw=="
)

// StartCurrentClickHouse is StartClickHouse with today's engine, which it fetches by npm
// into the cache once: 178 MB, a quarter of a minute.
func StartCurrentClickHouse(ctx context.Context, shards int) (*ClickHouse, error) {
	library, err := currentLibrary(ctx)
	if err != nil {
		return nil, err
	}
	launcher, err := Build(ctx, "clickhouse")
	if err != nil {
		return nil, err
	}
	c, err := newClickHouse(shards, 1, func(c *ClickHouse, n *ClickHouseNode) error {
		config := filepath.Join(n.dir, "config.xml")
		if err := os.WriteFile(config, []byte(c.currentConfig(n)), 0o644); err != nil {
			return err
		}
		var err error
		n.Process, err = Start(filepath.Join(n.dir, "output"), nil, launcher, library, "--path", filepath.Join(n.dir, "data"), "--config-file", config,
			"--listen_host", "127.0.0.1", "--http_port", port(n.HTTP), "--tcp_port", port(n.tcp), "--structure", "x String", "--input-format", "LineAsString",
			"--query", "SYSTEM START LISTEN HTTP; SYSTEM START LISTEN TCP; SELECT count() FROM table")
		return err
	})
	if err != nil {
		return nil, err
	}
	return c, c.startAll(ctx)
}

func (c *ClickHouse) currentConfig(n *ClickHouseNode) string {
	return fmt.Sprintf("<clickhouse><listen_host>127.0.0.1</listen_host><http_port>%s</http_port><tcp_port>%s</tcp_port><path>%s/data/</path><timezone>UTC</timezone>%s</clickhouse>\n",
		port(n.HTTP), port(n.tcp), n.dir, c.remoteServers())
}

// currentLibrary returns the path of the library, and fetches it if it is not there.
func currentLibrary(ctx context.Context) (string, error) {
	cache, err := CacheDir()
	if err != nil {
		return "", err
	}
	building.Lock()
	defer building.Unlock()
	dir := filepath.Join(cache, "clickhouse-current")
	library := filepath.Join(dir, "package", "libchdb.so")
	if _, err := os.Stat(library); !errors.Is(err, fs.ErrNotExist) {
		return library, err
	}
	tmp, err := os.MkdirTemp(cache, "clickhouse-current-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(tmp)
	run := func(name string, args ...string) error {
		cmd := exec.CommandContext(ctx, name, args...)
		cmd.Dir = tmp
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("fetch %s: %s: %w\n%s", currentPackage, name, err, out)
		}
		return nil
	}
	if err := run("npm", "pack", currentPackage); err != nil {
		return "", err
	}
	archives, err := filepath.Glob(filepath.Join(tmp, "*.tgz"))
	if err != nil || len(archives) != 1 {
		return "", fmt.Errorf("fetch %s: got %v, %w", currentPackage, archives, err)
	}
	if err := checkDigest(archives[0], currentDigest); err != nil {
		return "", err
	}
	if err := run("tar", "xzf", archives[0], "package/libchdb.so"); err != nil {
		return "", err
	}
	if err := errors.Join(os.Remove(archives[0]), os.Rename(tmp, dir)); err != nil {
		return "", err
	}
	return library, nil
}

func checkDigest(path, want string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	h := sha512.New()
	if _, err := io.Copy(h, f); err != nil {
		return err
	}
	if got := base64.StdEncoding.EncodeToString(h.Sum(nil)); got != want {
		return fmt.Errorf("%s has the SHA-512 %s, want %s", path, got, want)
	}
	return nil
}
