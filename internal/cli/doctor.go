package cli

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/spf13/cobra"

	"tailscope/internal/agg"
	"tailscope/internal/config"
	"tailscope/internal/report"
	"tailscope/internal/store"
	"tailscope/internal/store/chstore"
	"tailscope/internal/store/pebblestore"
)

// newDoctor finds and explains what is damaged in a data directory.
func newDoctor(io streams) *cobra.Command {
	var data, shared string
	var repair, yes, asJSON, acknowledge bool
	var at serverFlag
	cmd := &cobra.Command{
		Use:   "doctor [DIR]",
		Short: "find, explain and repair what is damaged in a data directory",
		Long: `Doctor reads every file of a stopped server's data directory: the identity, the
list of tables, every block of every table, the log, the journals and what was
kept aside before. It says of each file that is damaged or missing what it costs and what a
repair does about it. It changes nothing unless --repair is given, and a repair
deletes nothing: what it replaces goes to damaged/ in the data directory.

With --store it asks the nodes of ClickHouse that servers share, which may be running, and
watches the servers' records for eight seconds: nodes that do not answer, the tables'
version, clocks, parts, disks, Keeper, and a first host that was emptied. It changes nothing.

With --acknowledge it asks a running server to report no longer what was found
before: the account of it stays in damaged/.

It exits with 0 if everything is whole, 1 if something is damaged or wrong, 2 if it was
used wrongly, and 3 if a running server has the directory.`,
		Example: `  tailscope doctor /var/lib/tailscope
  tailscope doctor /var/lib/tailscope --repair
  tailscope doctor --store 'clickhouse://ch1,ch2,ch3/tailscope?cluster=main'
  tailscope doctor --acknowledge --server 127.0.0.1:7099`,
	}
	cmd.Args = func(cmd *cobra.Command, args []string) error {
		switch {
		case len(args) == 0:
			return nil
		case len(args) > 1 || cmd.Flags().Changed("data"):
			return usage{withHint(errors.New("doctor examines one data directory"), "write %s", cmd.UseLine())}
		}
		data = args[0]
		return nil
	}
	f := cmd.Flags()
	f.StringVar(&data, "data", config.Default().Data, "the data `directory`")
	f.StringVar(&shared, "store", "", "the `address` of a store in ClickHouse, in place of a directory")
	f.BoolVar(&repair, "repair", false, "repair what can be repaired, after asking")
	f.BoolVar(&yes, "yes", false, "repair without asking")
	f.BoolVar(&acknowledge, "acknowledge", false, "have a running server acknowledge what was found before")
	at.register(f)
	f.BoolVar(&asJSON, "json", false, "write the findings as JSON")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if shared != "" {
			if len(cmd.Flags().Args()) > 0 || cmd.Flags().Changed("data") || repair || yes || acknowledge {
				return usage{withHint(errors.New("--store goes with --json alone: nothing in ClickHouse is repaired"), "write tailscope doctor --store %s", chstore.Redact(shared))}
			}
			return examineCluster(cmd.Context(), io, shared, asJSON)
		}
		if acknowledge {
			return acknowledgeDamage(cmd.Context(), io, at)
		}
		if yes && !repair {
			return usage{withHint(errors.New("--yes goes with --repair"), "write tailscope doctor --repair --yes")}
		}
		if asJSON && repair && !yes {
			return usage{withHint(errors.New("--json does not ask"), "write tailscope doctor --repair --yes --json")}
		}
		if err := refuseBackup(vfs.Default, data, restoreHint, data); err != nil {
			return err
		}
		o := storeOptions(data)
		found, err := examination(cmd.Context(), data, o, pebblestore.Examine)
		if err != nil {
			return err
		}
		if !repair || len(found.Findings) == 0 {
			return found.write(io, asJSON)
		}
		if !asJSON {
			if err := found.text(io); err != nil {
				return err
			}
		}
		if !yes && !askConsent(io) {
			return ended{errSilent, exitFailed}
		}
		if found, err = examination(cmd.Context(), data, o, repairAndAcknowledge); err != nil {
			return err
		}
		if !asJSON {
			fmt.Fprintln(io.out, "\nAfter the repair:")
		}
		return found.write(io, asJSON)
	}
	return cmd
}

// exitInUse says that a running server has the directory, whatever its state.
const exitInUse = 3

// acknowledgeDamage has a running server report no longer what was found before.
func acknowledgeDamage(ctx context.Context, io streams, at serverFlag) error {
	got, err := at.client().AcknowledgeDamage(ctx)
	if err != nil {
		return at.failed(err)
	}
	if fmt.Fprintf(io.out, "%d acknowledged\n", got.Acknowledged); got.Left > 0 {
		fmt.Fprintf(io.out, "%d are still in place and need tailscope doctor --repair, after a stop\n", got.Left)
	}
	return nil
}

// repairAndAcknowledge repairs a store, after which what was found damaged
// before is reported no more.
func repairAndAcknowledge(ctx context.Context, o pebblestore.Options) (*pebblestore.Report, error) {
	if _, err := pebblestore.Repair(ctx, o); err != nil {
		return nil, err
	}
	if err := pebblestore.AcknowledgeDamage(o, nil); err != nil {
		return nil, err
	}
	return pebblestore.Examine(ctx, o)
}

// storeOptions returns the options of the store in a data directory.
func storeOptions(data string) pebblestore.Options {
	return pebblestore.Options{Dir: filepath.Join(data, "store"), DamagedDir: filepath.Join(data, "damaged")}
}

// askConsent asks whether to go on, and reports whether the answer is yes.
func askConsent(io streams) bool {
	fmt.Fprint(io.err, "\nRepair as said above? [y/N] ")
	if io.in == nil {
		return false
	}
	line, _ := bufio.NewReader(io.in).ReadString('\n')
	switch strings.ToLower(strings.TrimSpace(line)) {
	case "y", "yes":
		return true
	}
	fmt.Fprintln(io.err, "nothing was changed")
	return false
}

// examined holds the findings of doctor; JSON has them under these names.
type examined struct {
	Data     string           `json:"data"`
	Whole    bool             `json:"whole"`
	Starts   bool             `json:"starts"` // a server starts on it as it is
	ID       string           `json:"id,omitempty"`
	Created  *time.Time       `json:"created,omitempty"`
	Tables   int              `json:"tables"`
	Bytes    int64            `json:"bytes"`
	Logs     int              `json:"logs"`
	Journals int              `json:"journals"`
	Findings []examinedDamage `json:"findings"`
	Kept     []string         `json:"kept"` // files in damaged/
}

type examinedDamage struct {
	File   string     `json:"file"`
	Reason string     `json:"reason"`
	Costs  string     `json:"costs,omitempty"`
	From   *time.Time `json:"from,omitempty"`
	To     *time.Time `json:"to,omitempty"`
	Repair string     `json:"repair,omitempty"`
}

func examination(ctx context.Context, data string, o pebblestore.Options, do func(context.Context, pebblestore.Options) (*pebblestore.Report, error)) (*examined, error) {
	r, err := do(ctx, o)
	var inUse *pebblestore.InUseError
	switch {
	case errors.As(err, &inUse):
		by := ""
		if inUse.PID != 0 {
			by = fmt.Sprintf(" (pid %d)", inUse.PID)
		}
		return nil, ended{withHint(fmt.Errorf("%s: in use by a running server%s", data, by),
			"ask its /readyz, or stop it; tailscope backup works on a running one"), exitInUse}
	case errors.Is(err, fs.ErrNotExist) && len(journalsIn(data)) > 0:
		r = &pebblestore.Report{Starts: true, Findings: []pebblestore.Finding{{
			Damage: store.Damage{File: o.Dir, Reason: "the store is gone, and journals are there", Lost: "everything that is not in the journals"},
			Repair: "the next start makes a new store and replays the journals; tailscope restore puts a backup back",
		}}}
	case errors.Is(err, fs.ErrNotExist):
		return nil, usage{withHint(fmt.Errorf("%s holds no store", data), "give the data directory of a server with --data")}
	case err != nil:
		return nil, fmt.Errorf("examine %s: %w", data, err)
	}
	out := &examined{Data: data, Whole: len(r.Findings) == 0, Starts: r.Starts, ID: r.ID, Tables: r.Tables, Bytes: r.Bytes, Logs: r.Logs, Findings: []examinedDamage{}, Kept: []string{}}
	timeOf := func(t time.Time) *time.Time {
		if t.IsZero() {
			return nil
		}
		return &t
	}
	out.Created = timeOf(r.Created)
	for _, f := range r.Findings {
		out.Findings = append(out.Findings, examinedDamage{f.File, f.Reason, f.Lost, timeOf(f.From), timeOf(f.To), f.Repair})
	}
	journals, damaged, err := examineJournals(ctx, data, o, r)
	if err != nil {
		return nil, fmt.Errorf("examine %s: %w", data, err)
	}
	out.Journals = journals
	for _, d := range damaged {
		out.Whole = false
		out.Findings = append(out.Findings, examinedDamage{d.File, d.Reason, describeLoss(d), timeOf(d.From), timeOf(d.To),
			"the next start of the server replays what is whole, and keeps what is damaged in damaged/"})
	}
	known, err := pebblestore.KnownDamage(o)
	if err != nil {
		return nil, fmt.Errorf("examine %s: %w", data, err)
	}
	for _, d := range known {
		out.Whole = false
		out.Findings = append(out.Findings, examinedDamage{d.File, "found before: " + d.Reason, describeLoss(d), timeOf(d.From), timeOf(d.To),
			"it is acknowledged: servers no longer report it"})
	}
	kept, err := os.ReadDir(o.DamagedDir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	for _, e := range kept {
		if !strings.HasSuffix(e.Name(), ".json") {
			out.Kept = append(out.Kept, filepath.Join(o.DamagedDir, e.Name()))
		}
	}
	return out, nil
}

// examineJournals does the accounting of a start. A store with nothing in it, or
// one that cannot be read as it is, has no say in it.
func examineJournals(ctx context.Context, data string, o pebblestore.Options, r *pebblestore.Report) (journals int, damaged []store.Damage, err error) {
	var st agg.Records
	var writer string
	if r.Starts && r.ID != "" {
		records, err := pebblestore.OpenWriters(ctx, o)
		switch {
		case err == nil:
			defer records.Close()
			st, writer = records, records.Own()
		case errors.Is(err, syscall.EROFS): // the store was read without a lock, its records cannot be
		case len(r.Findings) == 0:
			return 0, nil, err
		}
	}
	return agg.CheckJournals(ctx, vfs.Default, filepath.Join(data, "journal"), st, writer)
}

// journalsIn lists the files beside a store that hold what was acknowledged.
func journalsIn(data string) []os.DirEntry {
	list, err := os.ReadDir(filepath.Join(data, "journal"))
	if err != nil {
		return nil
	}
	return list
}

// describeLoss describes in words and figures what is lost.
func describeLoss(d store.Damage) string {
	if d.Observations > 0 && d.Lost == "" {
		return fmt.Sprintf("%d acknowledged observations", d.Observations)
	}
	return d.Lost
}

// write writes the findings; damage ends the command with 1.
func (e *examined) write(io streams, asJSON bool) error {
	var err error
	if asJSON {
		enc := json.NewEncoder(io.out)
		enc.SetIndent("", "  ")
		err = enc.Encode(e)
	} else {
		err = e.text(io)
	}
	if err == nil && !e.Whole {
		err = ended{errSilent, exitFailed}
	}
	return err
}

func (e *examined) text(io streams) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %d tables of %d bytes, %d logs, %d journals", e.Data, e.Tables, e.Bytes, e.Logs, e.Journals)
	if e.ID != "" {
		fmt.Fprintf(&b, "; store %s of %s", e.ID, e.Created.Format(time.RFC3339))
	}
	b.WriteByte('\n')
	for _, f := range e.Findings {
		fmt.Fprintf(&b, "\n%s\n  %s\n", report.Printable(f.File), report.Printable(f.Reason))
		if f.Costs != "" {
			fmt.Fprintf(&b, "  costs:  %s\n", f.Costs)
		}
		if f.Repair != "" {
			fmt.Fprintf(&b, "  repair: %s\n", f.Repair)
		}
	}
	for i, k := range e.Kept {
		if i == 0 {
			b.WriteString("\nKept aside before:\n")
		}
		fmt.Fprintf(&b, "  %s\n", k)
	}
	switch {
	case e.Whole:
		b.WriteString("everything is whole\n")
	case e.Starts:
		b.WriteString("\nA server starts on it and answers the rest.\n")
	case slices.ContainsFunc(e.Findings, func(f examinedDamage) bool { return f.Costs != "" }):
		b.WriteString("\nNo server starts on it: tailscope doctor --repair puts it in order, tailscope restore a backup back.\n")
	default:
		b.WriteString("\nNo server starts on it: tailscope doctor --repair puts it in order.\n")
	}
	_, err := fmt.Fprint(io.out, b.String())
	return err
}
