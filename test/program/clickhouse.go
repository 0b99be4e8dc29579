package program

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// ClickHouse is one server of ClickHouse, or several that are the shards of a cluster named
// tailscope, or the replicas of its shards. Close ends them and removes their files.
type ClickHouse struct {
	Nodes  []*ClickHouseNode // replicas of a shard one after the other
	keeper *Process          // nil: no shard has replicas
	keptBy string            // its host:port
	dir    string
	mounts []string
	start  func(*ClickHouse, *ClickHouseNode) error
}

// ClickHouseNode is one server.
type ClickHouseNode struct {
	*Process
	HTTP string // host:port

	tcp, interserver string
	dir              string
	shard, replica   int // from 1
}

// Address returns the address of a store in the database, as tailscope takes it.
func (c *ClickHouse) Address(database string) string {
	hosts := make([]string, len(c.Nodes))
	for i, n := range c.Nodes {
		hosts[i] = n.HTTP
	}
	return c.AddressBy(hosts, database)
}

// AddressBy is Address of a store whose nodes are reached at hosts, in the nodes' order.
func (c *ClickHouse) AddressBy(hosts []string, database string) string {
	a := "clickhouse://" + strings.Join(hosts, ",") + "/" + database
	if len(c.Nodes) > 1 {
		a += "?cluster=tailscope"
	}
	if c.keeper != nil {
		a += "&replicated=true"
	}
	return a
}

// Close ends the servers at once and removes their files.
func (c *ClickHouse) Close() error {
	for _, n := range c.Nodes {
		if n.Process != nil {
			n.Kill()
		}
	}
	if c.keeper != nil {
		c.keeper.Kill()
	}
	var err error
	for _, dir := range c.mounts {
		err = errors.Join(err, syscall.Unmount(dir, 0))
	}
	return errors.Join(err, os.RemoveAll(c.dir))
}

// clickHouseServer returns the path of Debian's clickhouse-server. The error wraps
// exec.ErrNotFound if it is not installed.
func clickHouseServer() (string, error) {
	for _, path := range []string{"clickhouse-server", "/usr/sbin/clickhouse-server"} {
		if bin, err := exec.LookPath(path); err == nil {
			return bin, nil
		}
	}
	return "", fmt.Errorf("clickhouse-server is not installed: run scripts/install-servers: %w", exec.ErrNotFound)
}

// StartClickHouse runs Debian's ClickHouse with so many shards, each of one node, and
// returns once all of them answer.
func StartClickHouse(ctx context.Context, shards int) (*ClickHouse, error) {
	return startClickHouse(ctx, shards, 1)
}

// StartReplicatedClickHouse is StartClickHouse with so many replicas of each shard, at least
// two, and Debian's ZooKeeper.
func StartReplicatedClickHouse(ctx context.Context, shards, replicas int) (*ClickHouse, error) {
	return startClickHouse(ctx, shards, replicas)
}

func startClickHouse(ctx context.Context, shards, replicas int) (*ClickHouse, error) {
	bin, err := clickHouseServer()
	if err != nil {
		return nil, err
	}
	c, err := newClickHouse(shards, replicas, func(c *ClickHouse, n *ClickHouseNode) error {
		config := filepath.Join(n.dir, "config.xml")
		if err := os.WriteFile(config, []byte(c.config(n)), 0o644); err != nil {
			return err
		}
		var err error
		n.Process, err = Start(filepath.Join(n.dir, "output"), nil, bin, "--config-file="+config)
		return err
	})
	if err != nil {
		return nil, err
	}
	if replicas > 1 {
		if c.keeper, c.keptBy, err = StartZooKeeper(ctx, filepath.Join(c.dir, "keeper")); err != nil {
			return nil, errors.Join(err, c.Close())
		}
	}
	return c, c.startAll(ctx)
}

// startAll starts all nodes and waits for them, or closes them.
func (c *ClickHouse) startAll(ctx context.Context) error {
	for _, n := range c.Nodes {
		if err := c.start(c, n); err != nil {
			return errors.Join(err, c.Close())
		}
	}
	for _, n := range c.Nodes {
		if err := n.untilReady(ctx); err != nil {
			return errors.Join(err, c.Close())
		}
	}
	return nil
}

// Restart starts a node that has ended anew, on its files and ports, and returns once it
// answers.
func (c *ClickHouse) Restart(ctx context.Context, n *ClickHouseNode) error {
	if err := c.start(c, n); err != nil {
		return err
	}
	return n.untilReady(ctx)
}

// MoveToSmallDisk moves the files of a node that has ended onto a disk in memory of so many
// MiB, and returns its directory. The error wraps os.ErrPermission if this process may not
// mount one.
func (c *ClickHouse) MoveToSmallDisk(n *ClickHouseNode, mib int) (dir string, err error) {
	dir = filepath.Join(n.dir, "data")
	kept := dir + ".moved"
	if err := os.Rename(dir, kept); err != nil {
		return "", err
	}
	if err := os.Mkdir(dir, 0o755); err != nil {
		return "", err
	}
	if err := MountSmallDisk(dir, mib); err != nil {
		return "", errors.Join(err, os.Remove(dir), os.Rename(kept, dir))
	}
	c.mounts = append(c.mounts, dir)
	if err := os.CopyFS(dir, os.DirFS(kept)); err != nil {
		return "", err
	}
	return dir, os.RemoveAll(kept)
}

// ReadOnly has all nodes refuse to write, or write again. It returns once they do.
func (c *ClickHouse) ReadOnly(ctx context.Context, on bool) error {
	users := clickHouseUsers
	if on { // 2: settings may still be changed
		users = strings.Replace(users, "<default>", "<default><readonly>2</readonly>", 1)
	}
	for _, n := range c.Nodes {
		if err := os.WriteFile(filepath.Join(n.dir, "users.xml"), []byte(users), 0o644); err != nil {
			return err
		}
	}
	for _, n := range c.Nodes { // they look at the file every two seconds
		create := "http://" + n.HTTP + "/?query=" + url.QueryEscape("CREATE DATABASE IF NOT EXISTS default")
		err := n.until(ctx, func() bool {
			req, err := http.NewRequestWithContext(ctx, http.MethodPost, create, nil)
			if err != nil {
				return false
			}
			res, err := http.DefaultClient.Do(req)
			if err != nil {
				return false
			}
			res.Body.Close()
			return on == (res.StatusCode != http.StatusOK)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func (n *ClickHouseNode) untilReady(ctx context.Context) error {
	return n.until(ctx, func() bool { return answers(ctx, "http://"+n.HTTP+"/ping") })
}

// memoryDir returns a directory in memory if there is one with space: a test makes many
// thousands of small files, which take a disk's file system longer than the database.
// Otherwise it returns that of temporary files.
func memoryDir() string {
	const dir, least = "/dev/shm", 1 << 30
	var fs syscall.Statfs_t
	if err := syscall.Statfs(dir, &fs); err != nil || fs.Bavail*uint64(fs.Bsize) < least {
		return ""
	}
	return dir
}

// newClickHouse makes the directories and chooses the ports.
func newClickHouse(shards, replicas int, start func(*ClickHouse, *ClickHouseNode) error) (_ *ClickHouse, err error) {
	dir, err := os.MkdirTemp(memoryDir(), "tailscope-clickhouse-")
	if err != nil {
		return nil, err
	}
	c := &ClickHouse{dir: dir, start: start}
	defer func() {
		if err != nil {
			err = errors.Join(err, c.Close())
		}
	}()
	for i := range shards * replicas {
		n := &ClickHouseNode{dir: filepath.Join(dir, strconv.Itoa(i+1)), shard: i/replicas + 1, replica: i%replicas + 1}
		c.Nodes = append(c.Nodes, n)
		for _, addr := range []*string{&n.HTTP, &n.tcp, &n.interserver} {
			if *addr, err = freeAddr(); err != nil {
				return nil, err
			}
		}
		if err := os.Mkdir(n.dir, 0o755); err != nil {
			return nil, err
		}
		if err := os.WriteFile(filepath.Join(n.dir, "users.xml"), []byte(clickHouseUsers), 0o644); err != nil {
			return nil, err
		}
	}
	return c, nil
}

const clickHouseUsers = `<?xml version="1.0"?>
<yandex>
  <profiles><default><max_memory_usage>2000000000</max_memory_usage><load_balancing>in_order</load_balancing></default></profiles>
  <users><default><password></password><networks><ip>127.0.0.1</ip></networks><profile>default</profile><quota>default</quota></default></users>
  <quotas><default><interval><duration>3600</duration><queries>0</queries><errors>0</errors><result_rows>0</result_rows><read_rows>0</read_rows><execution_time>0</execution_time></interval></default></quotas>
</yandex>
`

func port(addr string) string {
	_, p, _ := net.SplitHostPort(addr)
	return p
}

// remoteServers is the cluster in a node's configuration.
func (c *ClickHouse) remoteServers() string {
	if len(c.Nodes) == 1 {
		return ""
	}
	var b strings.Builder
	b.WriteString("<remote_servers><tailscope>")
	for i, n := range c.Nodes {
		if n.replica == 1 {
			b.WriteString("<shard><internal_replication>true</internal_replication>")
		}
		fmt.Fprintf(&b, "<replica><host>127.0.0.1</host><port>%s</port></replica>", port(n.tcp))
		if i+1 == len(c.Nodes) || c.Nodes[i+1].replica == 1 {
			b.WriteString("</shard>")
		}
	}
	b.WriteString("</tailscope></remote_servers>")
	return b.String()
}

// replication is what replicated tables need in a node's configuration.
func (c *ClickHouse) replication(n *ClickHouseNode) string {
	if c.keeper == nil {
		return ""
	}
	return fmt.Sprintf("<zookeeper><node><host>127.0.0.1</host><port>%s</port></node><session_timeout_ms>10000</session_timeout_ms></zookeeper><macros><shard>%d</shard><replica>%d</replica></macros>",
		port(c.keptBy), n.shard, n.replica)
}

// config returns a node's configuration.
func (c *ClickHouse) config(n *ClickHouseNode) string {
	return fmt.Sprintf(`<?xml version="1.0"?>
<yandex>
  <logger><level>warning</level><log>%[1]s/server.log</log><errorlog>%[1]s/server.err.log</errorlog><size>100M</size><count>2</count></logger>
  <listen_host>127.0.0.1</listen_host>
  <http_port>%[2]s</http_port> <tcp_port>%[3]s</tcp_port>
  <interserver_http_port>%[4]s</interserver_http_port> <interserver_http_host>127.0.0.1</interserver_http_host>
  <path>%[1]s/data/</path> <tmp_path>%[1]s/tmp/</tmp_path>
  <user_files_path>%[1]s/user_files/</user_files_path> <format_schema_path>%[1]s/format/</format_schema_path>
  <users_config>%[1]s/users.xml</users_config>
  <default_profile>default</default_profile> <default_database>default</default_database>
  <timezone>UTC</timezone> <mark_cache_size>67108864</mark_cache_size>
  <max_connections>256</max_connections> <keep_alive_timeout>3</keep_alive_timeout>
  %[5]s
</yandex>
`, n.dir, port(n.HTTP), port(n.tcp), port(n.interserver), c.remoteServers()+c.replication(n))
}
