package chstore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"tailscope/internal/backoff"
	"tailscope/internal/store"
)

// A shard of replicas answers while one of them is away, so a store opens while one is away
// too, if each shard has another and the first host answers. Which shard it is of is not known
// then: it counts as a replica of each shard that may have one more, so that an insertion never
// waits for fewer than most of those that are named. It is used once it answers.

// shard is a part of the rows.
type shard struct {
	members []string                // in the cluster, as its nodes have them: host:port
	nodes   atomic.Pointer[[]*node] // in use, in the address's order: they hold the same
	quorum  quorum
}

func (s *Store) makeShards(members [][]string) {
	s.shards = make([]*shard, len(members))
	for i, m := range members {
		s.shards[i] = &shard{members: m}
		s.shards[i].nodes.Store(&[]*node{})
	}
}

// add has a node used.
func (sh *shard) add(n *node, hosts []string) {
	all := append(slices.Clone(*sh.nodes.Load()), n)
	slices.SortStableFunc(all, func(a, b *node) int { return cmp.Compare(slices.Index(hosts, a.host), slices.Index(hosts, b.host)) })
	sh.nodes.Store(&all)
}

// replicas returns the nodes of a shard that are in use, at least one once the store is open.
func (s *Store) replicas(shard int) []*node { return *s.shards[shard].nodes.Load() }

// replica returns the nth of a shard's replicas, counted round.
func (s *Store) replica(shard, nth int) *node {
	all := s.replicas(shard)
	return all[nth%len(all)]
}

// first returns the node that holds what is not sharded.
func (s *Store) first() *node {
	for i := range s.shards {
		for _, n := range s.replicas(i) {
			if n.host == s.address.hosts[0] {
				return n
			}
		}
	}
	return nil
}

// nodes returns all nodes that are in use.
func (s *Store) nodes() (all []*node) {
	for i := range s.shards {
		all = append(all, s.replicas(i)...)
	}
	return all
}

// membership is what a node says of the cluster.
type membership struct {
	shard   int        // its own, from 1
	members [][]string // by shard
}

// meet learns what a node knows, and where it is in the cluster.
func (s *Store) meet(ctx context.Context, n *node) (membership, error) {
	if err := s.learn(ctx, n); err != nil {
		return membership{}, err
	}
	return s.place(ctx, n)
}

// learn asks a node which of the settings it knows, those of replicas among them, and sets those of
// a node that is alone.
func (s *Store) learn(ctx context.Context, n *node) error {
	names := slices.Sorted(maps.Keys(settingsWanted))
	names = slices.AppendSeq(names, maps.Keys(settingsOfReplicas(1)))
	r, err := s.client.read(ctx, n, "SELECT name FROM system.settings WHERE name IN ("+quoteAll(names)+")")
	if err != nil {
		return err
	}
	n.knows = map[string]bool{}
	for r.next() {
		n.knows[r.string()] = true
	}
	n.set(1)
	return r.err
}

// set sets what the node knows of the settings of a node that is one of so many replicas.
func (n *node) set(replicas int) {
	set := url.Values{}
	put := func(wanted map[string]string) {
		for k, v := range wanted {
			if n.knows[k] {
				set.Set(k, v)
			}
		}
	}
	put(settingsWanted)
	if replicas > 1 {
		put(settingsOfReplicas(replicas))
	}
	n.settings.Store(&set)
}

// place asks a node which shard of the cluster it is, and for the cluster.
func (s *Store) place(ctx context.Context, n *node) (in membership, err error) {
	if s.address.cluster == "" {
		return membership{shard: 1, members: [][]string{{n.host}}}, nil
	}
	r, err := s.client.read(ctx, n, "SELECT toUInt32(shard_num), toUInt8(is_local), host_name, toUInt32(port) FROM system.clusters WHERE cluster = "+quote(s.address.cluster)+" ORDER BY shard_num, is_local")
	if err != nil {
		return in, err
	}
	for r.next() {
		k, local := int(r.uint32()), r.uint8() != 0
		member := net.JoinHostPort(r.string(), strconv.Itoa(int(r.uint32())))
		if r.err != nil {
			break
		}
		for len(in.members) < k {
			in.members = append(in.members, nil)
		}
		in.members[k-1] = append(in.members[k-1], member)
		if local {
			in.shard = k
		}
	}
	switch {
	case r.err != nil:
		return membership{}, r.err
	case len(in.members) == 0:
		return membership{}, fmt.Errorf("%s knows no cluster %s: it is in remote_servers of its configuration; SELECT cluster FROM system.clusters lists those it knows", n.host, s.address.cluster)
	case in.shard == 0:
		return membership{}, fmt.Errorf("%s is not a node of cluster %s", n.host, s.address.cluster)
	}
	return in, nil
}

// meetWithin bounds how long a host that may be a replica is waited for.
const meetWithin = 15 * time.Second

// isAway reports whether an error says that a host cannot be asked now. ctx is the caller's.
func isAway(ctx context.Context, err error) bool {
	var answered *databaseError
	var cut *net.OpError
	return passing(ctx, err) && (errors.As(err, &answered) || errors.Is(err, store.ErrAway) || errors.Is(err, context.DeadlineExceeded) ||
		errors.Is(err, io.ErrUnexpectedEOF) || errors.As(err, &cut))
}

// absentHost is a named host that is not in use.
type absentHost struct {
	*node
	err error // why
}

// absentHosts are the named hosts that were away when the store was opened, until they are used.
type absentHosts struct {
	mu     sync.Mutex
	all    []*absentHost
	cancel context.CancelFunc // ends joining
	joins  sync.WaitGroup
}

// list returns copies.
func (a *absentHosts) list() (all []absentHost) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, one := range a.all {
		all = append(all, *one)
	}
	return all
}

// placeHosts asks all hosts of the address at the same time, and gives each shard its nodes.
func (s *Store) placeHosts(ctx context.Context) error {
	a := s.address
	met, errs := make([]membership, len(a.hosts)), make([]error, len(a.hosts))
	nodes := make([]*node, len(a.hosts))
	var asked sync.WaitGroup
	for i, h := range a.hosts {
		nodes[i] = &node{host: h}
		asked.Go(func() {
			ctx := ctx
			if a.replicated {
				var cancel context.CancelFunc
				ctx, cancel = context.WithTimeout(ctx, meetWithin)
				defer cancel()
			}
			met[i], errs[i] = s.meet(ctx, nodes[i])
		})
	}
	asked.Wait()
	for i, err := range errs {
		switch {
		case err == nil:
		case !isAway(ctx, err):
			return err
		case i == 0:
			return fmt.Errorf("%s, the first host, keeps the log, without which nothing is stored or answered: %w: start it, or see to the network", a.hosts[0], err)
		default:
			s.absent.all = append(s.absent.all, &absentHost{nodes[i], err})
		}
	}
	s.makeShards(met[0].members)
	for i, n := range nodes {
		if errs[i] == nil {
			if err := s.addNode(n, met[i]); err != nil {
				return err
			}
		}
	}
	for i, sh := range s.shards {
		switch {
		case len(s.replicas(i)) > 0:
		case len(s.absent.all) > 0:
			return fmt.Errorf("no host of shard %d of cluster %s answers, in the cluster %s: %w: start it, or see to the network", i+1, a.cluster, strings.Join(sh.members, " and "), s.absent.all[0].err)
		default:
			return fmt.Errorf("no host of shard %d of cluster %s is named: name one of each shard", i+1, a.cluster)
		}
	}
	if len(s.absent.all) > 0 && !a.replicated {
		return fmt.Errorf("%w: start it, or leave it out of the address: each shard has another host", s.absent.all[0].err)
	}
	s.setQuorums()
	return nil
}

// addNode has a node used by its shard.
func (s *Store) addNode(n *node, in membership) error {
	if in.shard > len(s.shards) {
		return fmt.Errorf("%s says that it is shard %d of cluster %s, %s knows %d", n.host, in.shard, s.address.cluster, s.address.hosts[0], len(s.shards))
	}
	if have := s.replicas(in.shard - 1); len(have) > 0 && !s.address.replicated {
		return fmt.Errorf("%s and %s are replicas of one shard: add replicated=true, which needs Keeper, or name one of them", have[0].host, n.host)
	}
	s.shards[in.shard-1].add(n, s.address.hosts)
	return nil
}

// namedReplicas returns the number of replicas of a shard that are named. Of those whose shard
// is not known any may be its, as far as the cluster has so many.
func namedReplicas(used, absent, members int) int { return max(used, min(used+absent, members)) }

// setQuorums has insertions into each shard wait for most of its replicas that are named.
func (s *Store) setQuorums() {
	for i, sh := range s.shards {
		all := s.replicas(i)
		named := namedReplicas(len(all), len(s.absent.all), len(sh.members))
		for _, n := range all {
			if named > 1 && n.quorum == nil { // the store is not open yet
				n.quorum = &sh.quorum
			}
			n.set(named)
		}
	}
}

// defaultJoinEvery is how often hosts that were away are asked whether they are back.
const defaultJoinEvery = 5 * time.Second

// startJoining has the hosts that are away used once they answer.
func (s *Store) startJoining() {
	away := s.absent.list()
	if len(away) == 0 {
		return
	}
	for _, a := range away {
		s.opts.Logger.Warn("a replica is away: the server starts without it, and uses it once it answers", "host", a.host, "err", a.err)
	}
	var ctx context.Context
	ctx, s.absent.cancel = context.WithCancel(context.Background())
	s.absent.joins.Go(func() {
		for backoff.Sleep(ctx, s.joinEvery) == nil && s.joinAll(ctx) > 0 {
		}
	})
}

func (s *Store) stopJoining() {
	if s.absent.cancel != nil {
		s.absent.cancel()
		s.absent.joins.Wait()
	}
}

// joinAll has the hosts used that are back, and returns how many are not.
func (s *Store) joinAll(ctx context.Context) int {
	for _, a := range s.absent.list() {
		err := s.join(ctx, a.node)
		switch {
		case ctx.Err() != nil:
			return 0
		case err == nil:
			s.opts.Logger.Info("a replica that was away is used", "host", a.host)
		case !isAway(ctx, err) && err.Error() != a.err.Error():
			s.opts.Logger.Warn("a replica that was away answers, and is not used", "host", a.host, "err", err)
		}
		s.absent.mu.Lock()
		if k := slices.IndexFunc(s.absent.all, func(b *absentHost) bool { return b.node == a.node }); err != nil {
			s.absent.all[k].err = err
		} else {
			s.absent.all = slices.Delete(s.absent.all, k, k+1)
			s.setQuorums()
		}
		s.absent.mu.Unlock()
	}
	return len(s.absent.list())
}

// join has a host used that was away, if it answers and has its tables.
func (s *Store) join(ctx context.Context, n *node) error {
	ctx, cancel := context.WithTimeout(ctx, meetWithin)
	defer cancel()
	in, err := s.meet(ctx, n)
	if err != nil {
		return err
	}
	if err := s.checkNode(ctx, n); err != nil {
		return err
	}
	if in.shard <= len(s.shards) {
		sh := s.shards[in.shard-1]
		used := len(s.replicas(in.shard - 1))
		if used >= len(sh.members) {
			return fmt.Errorf("%s is one more replica of shard %d than the cluster had when this server started: start the server again", n.host, in.shard)
		}
		n.quorum = &sh.quorum
		n.set(namedReplicas(used, len(s.absent.list()), len(sh.members)))
	}
	return s.addNode(n, in)
}
