package cli

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"tailscope/api"
	"tailscope/client"
	"tailscope/internal/report"
)

// appliedWithin bounds the wait for a change; programs report every second.
const appliedWithin = 5 * time.Second

func newMirrorSet(io streams) *cobra.Command {
	var share float64
	var using, amplify []string
	var pause, resume, stop bool
	q := newQuestion(io, "table")
	cmd := &cobra.Command{
		Use:   "set [ID]",
		Short: "change a session that runs",
		Long: `Set changes a mirror session while it runs: what is copied, how many servers of
a pool are used, and how many copies they get. Without an id it changes the one
that runs.`,
		Example: `  tailscope mirror set --share 0.5
  tailscope mirror set 20260301-120000-5f1c0de5 --using candidate=3 --amplify candidate=2
  tailscope mirror set --pause`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) > 1 {
				return exactArgs(1, "one session")(cmd, args)
			}
			return nil
		},
	}
	q.serverFlag.register(cmd.Flags())
	f := cmd.Flags()
	f.Float64Var(&share, "share", 0, "copy this share of requests, from 0 to 1")
	f.StringArrayVar(&using, "using", nil, "use so many servers of a pool: `NAME=N`, or N if there is one candidate")
	f.StringArrayVar(&amplify, "amplify", nil, "give so many copies of each request: `NAME=N`, or N if there is one candidate")
	f.BoolVar(&pause, "pause", false, "copy nothing, and go on serving clients")
	f.BoolVar(&resume, "resume", false, "copy again")
	f.BoolVar(&stop, "stop", false, "end the session: its program stops serving clients")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if pause && resume {
			return usage{errors.New("--pause and --resume: write one of them")}
		}
		ctx, c := cmd.Context(), q.client()
		x, err := chosenSession(ctx, c, args)
		if err != nil {
			return q.failed(err)
		}
		change := api.MirrorChange{Stop: stop}
		if f.Changed("share") {
			if !(share >= 0 && share <= 1) {
				return usage{fmt.Errorf("--share %v: write a number from 0 to 1, such as 0.5", share)}
			}
			s := api.Float(share)
			change.Share = &s
		}
		if pause || resume {
			change.Paused = &pause
		}
		for _, text := range using {
			if err := setShadow(&change, x, "--using", text, func(v float64, s *api.ShadowChange) bool {
				n := int(v)
				s.Using = &n
				return float64(n) == v && n >= 0
			}); err != nil {
				return usage{err}
			}
		}
		for _, text := range amplify {
			if err := setShadow(&change, x, "--amplify", text, func(v float64, s *api.ShadowChange) bool {
				a := api.Float(v)
				s.Amplify = &a
				return v >= 0
			}); err != nil {
				return usage{err}
			}
		}
		if change.Share == nil && change.Paused == nil && change.Shadows == nil && !stop {
			return usage{withHint(errors.New("nothing is to be changed"), "%s --help lists what can be", cmd.CommandPath())}
		}
		wanted, err := c.ChangeSession(ctx, x.ID, change)
		if err != nil {
			return q.failed(err)
		}
		return printApplied(ctx, io, c, x.ID, wanted)
	}
	return cmd
}

// chosenSession returns the session that is named, or the only one that runs.
func chosenSession(ctx context.Context, c *client.Client, args []string) (*api.Session, error) {
	if len(args) == 1 {
		return c.Session(ctx, args[0])
	}
	r, err := c.Sessions(ctx, api.SessionsRequest{Kind: "mirror", State: "running"})
	if err != nil {
		return nil, err
	}
	switch len(r.Sessions) {
	case 0:
		return nil, withHint(errors.New("no mirror session runs"), "tailscope mirror starts one; tailscope session list shows those that have ended")
	case 1:
		return &r.Sessions[0], nil
	}
	var ids []string
	for _, x := range r.Sessions {
		ids = append(ids, fmt.Sprintf("%s (%s)", x.ID, x.Name))
	}
	return nil, usage{withHint(fmt.Errorf("%d sessions run", len(ids)), "name one: %s", strings.Join(ids, ", "))}
}

// setShadow reads NAME=N, or N where there is but one candidate.
func setShadow(change *api.MirrorChange, x *api.Session, flag, text string, set func(float64, *api.ShadowChange) bool) error {
	var known, candidates []string
	if x.Mirror != nil {
		for _, s := range x.Mirror.Shadows {
			known = append(known, s.Name)
			if s.Role == "candidate" {
				candidates = append(candidates, s.Name)
			}
		}
	}
	name, number, named := strings.Cut(text, "=")
	if !named {
		if len(candidates) != 1 {
			return fmt.Errorf("%s %s: write NAME=%s, with one of %s", flag, text, text, strings.Join(known, ", "))
		}
		name, number = candidates[0], text
	}
	found := false
	for _, k := range known {
		found = found || k == name
	}
	if !found {
		return fmt.Errorf("%s %s: there is no shadow %q; write one of %s", flag, text, name, strings.Join(known, ", "))
	}
	if change.Shadows == nil {
		change.Shadows = map[string]api.ShadowChange{}
	}
	s := change.Shadows[name]
	v, err := strconv.ParseFloat(number, 64)
	if err != nil || !set(v, &s) {
		return fmt.Errorf("%s %s: %q is not allowed; write a number such as %s=2", flag, text, number, name)
	}
	change.Shadows[name] = s
	return nil
}

// printApplied waits until the session's program has made a change, and prints the values
// in force.
func printApplied(ctx context.Context, io streams, c *client.Client, id string, wanted *api.MirrorChange) error {
	every := time.NewTicker(200 * time.Millisecond)
	defer every.Stop()
	limit := time.NewTimer(appliedWithin)
	defer limit.Stop()
	for {
		x, err := c.Session(ctx, id)
		if wanted.Stop && errors.Is(err, client.ErrUnreachable) {
			// The server that took the change runs in the session's program.
			fmt.Fprintln(io.out, "ended, and with it the server that reported it")
			return nil
		}
		if err != nil {
			return err
		}
		if m := x.Mirror; m != nil && m.Applied >= wanted.Number || x.State == "ended" {
			fmt.Fprintln(io.out, formatChangeable(x))
			return nil
		}
		select {
		case <-every.C:
		case <-limit.C:
			fmt.Fprintf(io.out, "asked for; the program of session %s has not done it yet\n", id)
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// formatChangeable returns in one line the values of a session that can be changed.
func formatChangeable(x *api.Session) string {
	if x.State == "ended" {
		return "ended"
	}
	m := x.Mirror
	parts := []string{"share " + report.Digits(float64(m.Settings.Share))}
	if m.Settings.Paused {
		parts = append(parts, "paused")
	}
	for _, s := range m.Shadows {
		parts = append(parts, fmt.Sprintf("%s uses %d of %d servers, %s copies", s.Name, s.Using, len(s.Servers), report.Digits(float64(s.Amplify))))
	}
	return strings.Join(parts, "; ")
}
