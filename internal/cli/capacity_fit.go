package cli

import (
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"tailscope/api"
	"tailscope/internal/report"
	"tailscope/internal/scaling"
)

// newCapacityFit returns the command that fits the scalability law to what was
// stored, or to points of a file.
func newCapacityFit(io streams) *cobra.Command {
	q := newQuestion(io, "text", "markdown", "json", "csv")
	var wanted api.ScalingRequest
	cmd := &cobra.Command{
		Use:   "fit [FILE.csv]",
		Short: "how throughput grows with concurrency, by what was stored: nothing is sent",
		Long: `Fit the Universal Scalability Law, X(N) = λN / (1 + σ(N−1) + κN(N−1)), to a
service's stored requests: in every step there were rate × mean latency of them at a
time. Or to the points of a file, one a line, with a heading that names concurrency
and rate.`,
		Example: `  tailscope capacity fit --service shop --since 1d
  tailscope capacity fit --service shop --operation 'GET /cart' --since 7d --step 10m
  tailscope capacity fit points.csv`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 1 {
				return usage{withHint(fmt.Errorf("%d files", len(args)), "name one file of points, or --service")}
			}
			return nil
		},
	}
	fs := cmd.Flags()
	q.serverFlag.register(fs)
	q.registerNames(fs, "whose requests")
	q.registerPlaces(fs)
	bind(fs, &q.Selection, "match")
	q.registerRange(fs, "1d")
	q.registerFormat(fs)
	fs.IntVar(&q.width, "width", 0, "characters across; default that of the terminal")
	bind(fs, &wanted, "step", "level")
	cmd.RunE = q.run(func(ctx context.Context, args []string) error {
		if wanted.Level != 0 && !(wanted.Level > 0.5) {
			return usage{withHint(fmt.Errorf("--level %v is not between 0.5 and 1", wanted.Level), "write 0.95")}
		}
		var r *api.ScalingResponse
		var err error
		switch {
		case len(args) == 1 && q.service != "":
			return usage{withHint(fmt.Errorf("a file of points and --service"), "write one of them")}
		case len(args) == 1:
			r, err = fitFile(args[0], wanted.Level)
		case q.service == "":
			return usage{withHint(errors.New("nothing to fit"), "write --service shop for what was stored of a service, or a file of points")}
		default:
			r, err = fitStored(ctx, q, wanted)
		}
		if err != nil {
			return err
		}
		return writeFit(q, r)
	})
	return cmd
}

func fitStored(ctx context.Context, q *question, wanted api.ScalingRequest) (_ *api.ScalingResponse, err error) {
	if wanted.Requests, err = q.requests(); err != nil {
		return nil, err
	}
	r, err := q.client().Scaling(ctx, wanted)
	if err != nil {
		return nil, err
	}
	return r, nil
}

// writeFit writes the law. It returns an error if there is none, for scripts.
func writeFit(q *question, r *api.ScalingResponse) error {
	if err := q.answer(report.Scaling(r, q.columns())); err != nil {
		return err
	}
	if r.Law == nil {
		var why []string
		for _, w := range r.Warnings {
			why = append(why, w.Text)
		}
		return withHint(errors.New("scaling is not fitted: "+strings.TrimPrefix(strings.Join(why, "; "), scaling.ErrNoLaw.Error()+": ")),
			"tailscope capacity URL raises load step by step and fits the law to that")
	}
	return nil
}

// fitFile fits the points of a CSV file.
func fitFile(name string, level float64) (*api.ScalingResponse, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	points, err := readPoints(f)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	law, err := scaling.Fit(points, scaling.Options{Level: level})
	if errors.Is(err, scaling.ErrNoLaw) {
		err = withHint(err, "take points from light load to near the limit")
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	r := &api.ScalingResponse{Law: law.API("steps"), Points: scaling.APIPoints(points), Configurations: []api.ScalingConfiguration{}, Warnings: []api.CompareWarning{}}
	for _, w := range law.Warnings {
		r.Warnings = append(r.Warnings, api.CompareWarning{Code: "law", Text: w})
	}
	return r, nil
}

// readPoints reads concurrency and rate, by the names in the heading. Errors name the
// line.
func readPoints(from io.Reader) ([]scaling.Point, error) {
	c := csv.NewReader(from)
	c.Comment, c.TrimLeadingSpace = '#', true
	head, err := c.Read()
	if err != nil {
		return nil, fmt.Errorf("line 1: %w", err)
	}
	column := func(names ...string) int {
		return slices.IndexFunc(head, func(h string) bool { return slices.Contains(names, strings.ToLower(strings.TrimSpace(h))) })
	}
	n, x := column("concurrency", "n", "load", "users", "processors"), column("rate", "x", "throughput", "requests/s")
	if n < 0 || x < 0 {
		return nil, withHint(fmt.Errorf("line 1: %q names no concurrency or no rate", strings.Join(head, ",")), "begin the file with the line concurrency,rate")
	}
	var points []scaling.Point
	for {
		row, err := c.Read()
		if errors.Is(err, io.EOF) {
			return points, nil
		}
		if err != nil {
			return nil, err
		}
		line, _ := c.FieldPos(0)
		p := scaling.Point{Mean: math.NaN(), Time: math.NaN(), Configuration: -1}
		for _, field := range []struct {
			column int
			to     *float64
		}{{n, &p.N}, {x, &p.Rate}} {
			text := strings.TrimSpace(row[field.column])
			if *field.to, err = strconv.ParseFloat(text, 64); err != nil || math.IsNaN(*field.to) || math.IsInf(*field.to, 0) || *field.to < 0 {
				return nil, fmt.Errorf("line %d: %s is %q, not a number of 0 or more", line, head[field.column], text)
			}
		}
		if p.N == 0 {
			return nil, withHint(fmt.Errorf("line %d: a concurrency of 0", line), "leave out points without load")
		}
		p.Mean = p.N / p.Rate
		points = append(points, p)
	}
}
