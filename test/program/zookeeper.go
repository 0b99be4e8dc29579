package program

import (
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// zooKeeperJar is where Debian's package has ZooKeeper; its manifest names what it needs.
const zooKeeperJar = "/usr/share/java/zookeeper.jar"

// StartZooKeeper runs Debian's ZooKeeper with files in dir, and returns once it answers, with
// its address. The error wraps exec.ErrNotFound if it is not installed.
func StartZooKeeper(ctx context.Context, dir string) (*Process, string, error) {
	java, err := exec.LookPath("java")
	if _, jar := os.Stat(zooKeeperJar); jar != nil || err != nil {
		return nil, "", fmt.Errorf("zookeeper is not installed: run scripts/install-servers: %w", exec.ErrNotFound)
	}
	addr, err := freeAddr()
	if err != nil {
		return nil, "", err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, "", err
	}
	config := filepath.Join(dir, "zoo.cfg")
	text := fmt.Sprintf("tickTime=500\ndataDir=%s\nclientPort=%s\nclientPortAddress=127.0.0.1\nadmin.enableServer=false\n4lw.commands.whitelist=srvr\n", filepath.Join(dir, "data"), port(addr))
	if err := os.WriteFile(config, []byte(text), 0o644); err != nil {
		return nil, "", err
	}
	p, err := Start(filepath.Join(dir, "output"), nil, java, "-Xmx128m", "-cp", zooKeeperJar, "org.apache.zookeeper.server.quorum.QuorumPeerMain", config)
	if err != nil {
		return nil, "", err
	}
	if err := p.until(ctx, func() bool { return serves(addr) }); err != nil {
		p.Kill()
		return nil, "", err
	}
	return p, addr, nil
}

// serves asks a ZooKeeper whether it serves clients.
func serves(addr string) bool {
	c, err := net.DialTimeout("tcp", addr, time.Second)
	if err != nil {
		return false
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(time.Second))
	if _, err := io.WriteString(c, "srvr"); err != nil {
		return false
	}
	b, _ := io.ReadAll(c)
	return strings.Contains(string(b), "Mode: ")
}
