package chstore

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"sync"
	"time"

	"tailscope/api"
	"tailscope/internal/figure"
	"tailscope/internal/store"
)

// leastFree is the share of a node's disks below which a finding is reported.
const leastFree = 0.1

// askWithin bounds the time in which a node has to describe itself.
const askWithin = 3 * time.Second

// Health returns what the nodes say of themselves, the first host first and then by shard,
// and what is wrong with them. That a node does not answer is a finding.
func (s *Store) Health(ctx context.Context) ([]api.ClusterNode, []api.ClusterFinding) {
	var all []described
	for i := range s.shards {
		for _, n := range s.replicas(i) {
			all = append(all, described{node: n, shard: i + 1})
		}
	}
	for _, a := range s.absent.list() {
		all = append(all, described{node: a.node, err: a.err})
	}
	nodes, wrong := s.describe(ctx, all)
	for _, d := range all {
		if d.err != nil && d.says.Answers && !isAway(ctx, d.err) {
			wrong = append(wrong, api.ClusterFinding{Where: d.host, What: "it was away when this server started, and is not used: " + d.err.Error(), Costs: s.missing(false, 0),
				Next: "see to that: the server uses it within seconds then"})
		}
	}
	return nodes, wrong
}

// described is a node, and what it says of itself.
type described struct {
	*node
	shard    int   // from 1; 0 if it is not known
	of       int   // shards that it knows
	err      error // why its shard is not known
	says     api.ClusterNode
	findings []api.ClusterFinding
}

// describe asks nodes at the same time.
func (s *Store) describe(ctx context.Context, all []described) (nodes []api.ClusterNode, wrong []api.ClusterFinding) {
	slices.SortStableFunc(all, func(a, b described) int {
		other := func(d described) int { return min(1, slices.Index(s.address.hosts, d.host)) }
		return cmp.Or(cmp.Compare(other(a), other(b)), cmp.Compare(a.shard, b.shard))
	})
	ctx, cancel := context.WithTimeout(ctx, askWithin)
	defer cancel()
	var asked sync.WaitGroup
	for i := range all {
		d := &all[i]
		asked.Go(func() { s.ask(ctx, d) })
	}
	asked.Wait()
	for _, d := range all {
		nodes, wrong = append(nodes, d.says), append(wrong, d.findings...)
	}
	return nodes, wrong
}

// ask asks one node, and says what is wrong with it.
func (s *Store) ask(ctx context.Context, d *described) {
	unknown := api.Float(math.NaN())
	first := d.host == s.address.hosts[0]
	d.says = api.ClusterNode{Host: d.host, Shard: d.shard, First: first, Away: unknown, Ahead: unknown, Free: unknown, Total: unknown}
	err := s.askFigures(ctx, d)
	d.says.Statements, d.says.Failed = d.requests.Load(), d.failures.Load()
	if err != nil {
		d.says.Error = err.Error()
		if away := d.away.Load(); away != 0 {
			d.says.Away = api.Float(float64(away) / 1000)
		}
		d.findings = append(d.findings, api.ClusterFinding{
			Where: d.host, What: "it does not answer: " + err.Error(), Costs: s.missing(first, d.shard),
			Next: "start it, or see to the network: servers go on by themselves once it answers",
		})
		return
	}
	d.says.Answers = true
	d.findings = append(d.findings, findings(&d.says)...)
}

// findings returns what is wrong with a node that answers.
func findings(n *api.ClusterNode) (out []api.ClusterFinding) {
	found := func(what, costs, next string) {
		out = append(out, api.ClusterFinding{Where: n.Host, What: what, Costs: costs, Next: next})
	}
	if clock := figure.Clock(float64(n.Ahead)); clock != "" {
		found("its clock is "+clock, "Its logs, and Keeper, go by it; Tailscope does not.", figure.SetClocks)
	}
	if n.Delayed > 0 && 2*n.Crowded >= n.Delayed {
		found(fmt.Sprintf("a partition has %d parts, and from %d on insertions are slowed down", n.Crowded, n.Delayed), "Beyond that what arrives waits in the servers' journals.",
			"see system.merges for what keeps it from merging; a longer ingest.flush makes fewer parts")
	}
	if free := float64(n.Free / n.Total); free < leastFree {
		found(figure.Percent(free)+" of its disks is free", "Once they are full nothing is stored, and merges need space before that.", "add space, or shorten retention.* of the servers")
	}
	return out
}

// missing says what a node that is away costs.
func (s *Store) missing(first bool, shard int) string {
	const waits = "What arrives waits in the servers' journals, and is not lost."
	switch {
	case first:
		return "Nothing is stored and no question is answered: it keeps the log, which decides what counts. " + waits
	case s.address.replicated:
		return "If no other replica of its shard answers, questions fail and nothing is stored. " + waits
	}
	of := "its shard"
	if shard > 0 {
		of = fmt.Sprintf("shard %d of %d", shard, len(s.shards))
	}
	return "The series of " + of + " are missing, so questions fail in place of answering less, and no generation is stored. " + waits
}

// askFigures asks a node for its figures, by the columns that all versions have.
func (s *Store) askFigures(ctx context.Context, d *described) error {
	here := " WHERE active AND database = " + quote(s.address.database)
	begin := time.Now()
	err := s.figures(ctx, d.node, `SELECT version(), toUInt32(now()), toUInt64(sum(n)), toUInt64(max(n)), toUInt64(sum(r)), toUInt64(sum(b))
FROM (SELECT count() AS n, sum(rows) AS r, sum(bytes_on_disk) AS b FROM system.parts`+here+` GROUP BY table, partition)`, func(r *rows) {
		d.says.Version = r.string()
		// A second that is cut is half a second too little.
		clock := time.Unix(int64(r.uint32()), 0).Add(time.Second / 2)
		d.says.Ahead = api.Float(math.Round(clock.Sub(begin.Add(time.Since(begin) / 2)).Seconds()))
		d.says.Parts, d.says.Crowded, d.says.Rows, d.says.Bytes = r.uint64(), r.uint64(), r.uint64(), r.uint64()
	})
	if err != nil {
		return err
	}
	// What follows says more, where the user may read it.
	_ = s.figures(ctx, d.node, "SELECT toUInt64(max(toUInt64OrZero(value))) FROM system.merge_tree_settings WHERE name = 'parts_to_delay_insert'", func(r *rows) {
		d.says.Delayed = r.uint64()
	})
	has := map[string]bool{}
	_ = s.figures(ctx, d.node, "SELECT name FROM system.tables WHERE database = 'system' AND name IN ('disks', 'zookeeper')", func(r *rows) { has[r.string()] = true })
	if has["disks"] {
		_ = s.figures(ctx, d.node, "SELECT toUInt64(sum(free_space)), toUInt64(sum(total_space)) FROM system.disks", func(r *rows) {
			d.says.Free, d.says.Total = api.Float(r.uint64()), api.Float(r.uint64())
		})
	}
	if !s.address.replicated {
		return nil
	}
	found := func(what string) {
		d.findings = append(d.findings, api.ClusterFinding{Where: d.host, What: what, Costs: "Its tables take no rows, and get none of other replicas.", Next: "see to Keeper and to <zookeeper> in the node's configuration"})
	}
	if !has["zookeeper"] {
		found("tables are replicated, and it has no Keeper")
		return nil
	}
	_ = s.figures(ctx, d.node, "SELECT toUInt64(count()) FROM system.replicas WHERE is_readonly AND database = "+quote(s.address.database), func(r *rows) {
		if n := r.uint64(); n > 0 {
			found(fmt.Sprintf("%s without a session with Keeper", figure.Counted(n, "replicated table")))
		}
	})
	return nil
}

// figures calls row for each row that a node answers. It asks once.
func (s *Store) figures(ctx context.Context, n *node, query string, row func(*rows)) error {
	b, err := s.client.send(ctx, n, "", query+"\nFORMAT RowBinary", nil)
	if err != nil {
		return err
	}
	r := &rows{b: b}
	for r.next() {
		row(r)
	}
	return r.err
}

// Examination is what Examine finds.
type Examination struct {
	Nodes    []api.ClusterNode
	Findings []api.ClusterFinding
	// Records are those that servers share; nil if they cannot be read.
	Records store.Records

	store *Store
}

// Close closes the connections.
func (e *Examination) Close() error { return e.store.Close() }

// Examine finds what is wrong with a store, and changes nothing. Nodes that do not answer,
// and tables that are missing or of another version, are findings. An error is that of the
// address.
func Examine(ctx context.Context, o Options) (*Examination, error) {
	s, err := newStore(o)
	if err != nil {
		return nil, err
	}
	e := &Examination{store: s}
	found := func(where, what, next string) {
		e.Findings = append(e.Findings, api.ClusterFinding{Where: where, What: what, Next: next})
	}
	all := make([]described, len(s.address.hosts))
	var asked sync.WaitGroup
	for i, h := range s.address.hosts {
		all[i].node = &node{host: h}
		asked.Go(func() {
			ctx, cancel := context.WithTimeout(ctx, askWithin)
			defer cancel()
			d := &all[i]
			var in membership
			in, d.err = s.meet(ctx, d.node)
			d.shard, d.of = in.shard, len(in.members)
		})
	}
	asked.Wait()
	s.makeShards(make([][]string, slices.MaxFunc(all, func(a, b described) int { return cmp.Compare(a.of, b.of) }).of))
	for _, d := range all {
		if d.err == nil {
			s.shards[d.shard-1].add(d.node, s.address.hosts)
		}
	}
	e.Nodes, e.Findings = s.describe(ctx, all)
	whole := true
	for _, d := range all {
		switch {
		case !d.says.Answers:
			whole = false
		case d.err != nil:
			found(d.host, d.err.Error(), "correct the address of the store, or the node's configuration")
		case d.of != len(s.shards):
			found(d.host, fmt.Sprintf("it knows %s, another node %d", figure.Counted(d.of, "shard"), len(s.shards)), "give all nodes the same remote_servers")
		}
	}
	for i := range s.shards {
		ns := s.replicas(i)
		switch {
		case len(ns) == 0 && whole:
			found("", fmt.Sprintf("no host of shard %d of cluster %s is named", i+1, s.address.cluster), "name one of each shard in the address")
		case len(ns) > 1 && !s.address.replicated:
			found(ns[1].host, "it is a replica of the same shard as "+ns[0].host, "add replicated=true to the address, which needs Keeper, or name one of them")
		}
	}
	if s.first() != nil {
		s.examineTables(ctx, e, found)
	}
	return e, nil
}

// examineTables finds tables that are missing, or of another program, where the first host
// answers.
func (s *Store) examineTables(ctx context.Context, e *Examination, found func(where, what, next string)) {
	host := s.first().host
	version, err := s.readVersion(ctx)
	switch {
	case err != nil:
		found(host, err.Error(), "see docs/clickhouse.md, The address")
		return
	case version > schemaVersion:
		found(host, fmt.Sprintf("its tables are of version %d, this program writes version %d", version, schemaVersion), "start the newer program")
		return
	case version == 0:
		if err := s.checkFirst(ctx); err != nil {
			found(host, err.Error(), "servers do not start before that")
		} else {
			found(host, "database "+s.address.database+" has no tables of Tailscope", "a server creates them at its start; if there were some, the address names another database")
		}
		return
	case version < schemaVersion:
		found(host, fmt.Sprintf("its tables are of version %d, this program writes version %d", version, schemaVersion), "start a server of this version, which migrates them")
	}
	for _, n := range s.nodes() {
		if err := s.checkNode(ctx, n); err != nil {
			found(n.host, err.Error(), "servers do not start before that")
		}
	}
	e.Records = s
}
