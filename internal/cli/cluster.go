package cli

import (
	"context"
	"errors"
	"time"

	"github.com/spf13/cobra"

	"tailscope/api"
	"tailscope/internal/cluster"
	"tailscope/internal/report"
	"tailscope/internal/store/chstore"
)

func newCluster(io streams) *cobra.Command {
	q := newQuestion(io, "table", "json")
	cmd := &cobra.Command{
		Use:   "cluster",
		Short: "the servers that share a store, the nodes of ClickHouse, and agents",
		Long: `Cluster asks a server which servers share its store and what each does for all,
how the nodes of ClickHouse are, and which agents send. tailscope doctor --store asks the
nodes themselves, without a server.`,
		Example: `  tailscope cluster --server 127.0.0.1:7099`,
		Args:    exactArgs(0, ""),
	}
	q.serverFlag.register(cmd.Flags())
	q.registerFormat(cmd.Flags())
	cmd.RunE = q.run(func(ctx context.Context, _ []string) error {
		r, err := q.client().Cluster(ctx)
		if err != nil {
			return err
		}
		return q.answer(report.Cluster(r))
	})
	return cmd
}

// examineCluster finds what is wrong with a store that servers share.
func examineCluster(ctx context.Context, io streams, address string, asJSON bool) (err error) {
	e, err := chstore.Examine(ctx, chstore.Options{Address: address})
	if err != nil {
		return usage{err}
	}
	defer func() { err = errors.Join(err, e.Close()) }()
	r := &api.ClusterResponse{Store: chstore.Redact(address), Nodes: e.Nodes, Findings: e.Findings}
	if e.Records != nil {
		members, err := cluster.Look(ctx, e.Records)
		if err != nil {
			return err
		}
		servers, findings := cluster.Servers(members)
		r.Servers, r.Findings = servers, append(r.Findings, findings...)
	}
	r.Now = api.Float(time.Now().Unix())
	d, format := report.Cluster(r), "table"
	if asJSON {
		format = "json"
	}
	if len(r.Findings) == 0 {
		d.Gap()
		d.Line("nothing is wrong")
	}
	if err := d.Write(io.out, report.FormatOf(format)); err != nil {
		return err
	}
	if len(r.Findings) > 0 {
		return ended{errSilent, exitFailed}
	}
	return nil
}
