package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/spf13/cobra"

	"tailscope/internal/config"
	"tailscope/internal/store"
	"tailscope/internal/store/pebblestore"
)

// backupList is the file of a backup that lists all others. It is written last:
// until it is there, the list of the backup before counts, and everything that
// it lists is left as it is.
const backupList = "BACKUP.json"

// backupMark is written before anything else into a directory that holds no
// backup, and removed when the list is there. backupLock keeps two backups from
// writing to one directory at once.
const (
	backupMark = "BACKUP.partial"
	backupLock = "BACKUP.lock"
)

// runPrefix begins the name of the directory in a backup that holds what one
// run alone has: journals, spools, manifest and logs. Tables lie in store/.
const runPrefix = "backup-"

// isRun says whether a path in a backup lies in the directory of a run. A user may
// keep others there that begin alike.
func isRun(at string) bool {
	top, _, _ := strings.Cut(at, "/")
	n, ok := strings.CutPrefix(top, runPrefix)
	return ok && len(n) >= 6 && strings.Trim(n, "0123456789") == ""
}

// besideStore lists the parts of a data directory that a backup holds beside the
// store. The journal is copied before the store: a generation that the store stores
// meanwhile is copied twice, and counts once.
var besideStore = []string{"journal", receiversPart}

const receiversPart = "receivers"

type backupContents struct {
	Format int                      `json:"format"` // in 1, every file lies under its name
	Made   time.Time                `json:"made"`
	By     string                   `json:"by"`
	Store  string                   `json:"store,omitempty"` // the store's id, since format 2
	Files  []pebblestore.BackupFile `json:"files"`
	// Keys counts the writes in all tables, by what they are about.
	Keys map[string]int64 `json:"keys"`
}

func newBackup(io streams) *cobra.Command {
	var data, to, address string
	cmd := &cobra.Command{
		Use:   "backup",
		Short: "copy a data directory, while the server runs or not",
		Long: `Backup copies the store, the journal and the spools of receivers out of a data
directory, whether a server has it open or not: it holds everything that was
acknowledged before it began. It runs on the machine of the server, as its user.

A second backup into the same directory copies only what is new: tables never
change once they are written. Until it is done the backup before stays whole.
Every block that is copied is checked on the way; BACKUP.json lists each file
with its size and SHA-256, and how many keys the tables hold about what.

Of a server that keeps its data in ClickHouse give the same --store: the backup is
of the same form, that of a store in a directory, made anew each time. restore
puts it into a directory or into ClickHouse.

The directory must be empty, or hold a backup of the same store. A backup is left
as it is when the store has lost something since, until doctor --repair has
acknowledged that: it may hold the only copy.`,
		Example: `  tailscope backup --data /var/lib/tailscope --to /mnt/backup/tailscope
  tailscope backup --data /var/lib/tailscope --store clickhouse://ch1:8123/tailscope --to /mnt/backup/tailscope`,
		Args: exactArgs(0, ""),
	}
	cmd.Flags().StringVar(&data, "data", config.Default().Data, "the data `directory`")
	cmd.Flags().StringVar(&to, "to", "", "the `directory` that the backup is kept in, made if absent")
	addStoreFlag(cmd, &address)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if to == "" {
			return usage{withHint(errors.New("--to is missing"), "give the directory that the backup is kept in: --to /mnt/backup/tailscope")}
		}
		from, into, err := refuseNested(data, to)
		if err != nil {
			return err
		}
		c, copied, err := makeBackup(cmd.Context(), vfs.Default, from, into, address)
		var wrong usage
		switch {
		case errors.As(err, &wrong):
			return err
		case errors.Is(err, errLoss):
			return withHint(err, "put the backup back with tailscope restore, or give another directory with --to; tailscope doctor --repair acknowledges the loss, after which the backup follows")
		case address == "" && (errors.Is(err, store.ErrCorrupt) || errors.Is(err, fs.ErrNotExist)):
			return withHint(fmt.Errorf("back up %s: %w", data, err), "tailscope doctor --data %s explains what is damaged", data)
		case err != nil:
			return withHint(fmt.Errorf("back up %s: %w", data, err), "a backup that was there before is still whole; run tailscope backup again")
		}
		total := int64(0)
		for _, f := range c.Files {
			total += f.Bytes
		}
		_, err = fmt.Fprintf(io.out, "%s: %d files of %d bytes, %d tables copied\n", to, len(c.Files), total, copied)
		return err
	}
	return cmd
}

const restoreHint = "tailscope restore --from %s --data DIR makes a data directory of it"

// refuseBackup refuses a backup where a data directory is meant, with a hint.
func refuseBackup(fsys vfs.FS, data, hint string, args ...any) error {
	for _, name := range []string{backupList, backupMark} {
		if _, err := fsys.Stat(fsys.PathJoin(data, name)); err == nil {
			return usage{withHint(fmt.Errorf("%s is a backup, not a data directory", data), hint, args...)}
		}
	}
	return nil
}

// refuseLoss refuses to bring a backup up to date with a store that has lost
// something since: the backup may hold the only copy of it.
func refuseLoss(fsys vfs.FS, data, to string) error {
	o := storeOptions(data)
	o.FS = fsys
	known, err := pebblestore.KnownDamage(o)
	if err != nil {
		return err
	}
	for _, d := range known {
		if d.Lost != "" || d.Observations != 0 {
			return fmt.Errorf("%s: %s: %s has lost %s, which the backup in %s may still hold: %w", d.File, d.Reason, data, cmp.Or(describeLoss(d), "something"), to, errLoss)
		}
	}
	return nil
}

var errLoss = errors.New("the backup is left as it is")

// makeBackup copies what is not in the directory yet, and writes the list.
// address is that of the store in ClickHouse, or empty for that of the data directory.
func makeBackup(ctx context.Context, fsys vfs.FS, data, to, address string) (c backupContents, copied int, err error) {
	fsys = pebblestore.OwnerOnly(fsys)
	if err := refuseBackup(fsys, data, "give the data directory with --data, and the backup with --to"); err != nil {
		return c, 0, err
	}
	id, err := identify(fsys, data, address)
	if err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return c, 0, usage{withHint(fmt.Errorf("%s holds no store", data), "give the data directory of a server with --data, and --store if its store is in ClickHouse")}
		}
		return c, 0, err
	}
	former, err := backupBefore(fsys, to, id)
	if err != nil {
		return c, 0, err
	}
	if former.Format != 0 {
		if err := refuseLoss(fsys, data, to); err != nil {
			return c, 0, err
		}
	}
	if err := makeDir(fsys, to); err != nil {
		return c, 0, err
	}
	unlock, err := lockBackup(fsys, to)
	if err != nil {
		return c, 0, err
	}
	defer func() { err = errors.Join(err, unlock()) }()
	before, err := backupBefore(fsys, to, id) // another may have ended meanwhile
	if err != nil {
		return c, 0, err
	}
	if before.Format == 0 {
		if err := pebblestore.WriteFile(fsys, fsys.PathJoin(to, backupMark), formatMark(id)); err != nil {
			return c, 0, err
		}
	}
	c = backupContents{Format: 2, Made: time.Now().UTC().Truncate(time.Second), By: "tailscope " + Version(), Store: id, Keys: map[string]int64{}}
	if c.Files, err = copyAll(ctx, fsys, data, to, address, before.Files); err != nil {
		return c, 0, errors.Join(err, prune(fsys, to, before.Files, nil))
	}
	known := map[string]string{}
	for _, f := range before.Files {
		known[f.Name] = f.SHA256
	}
	for _, f := range c.Files {
		for name, n := range f.Keys {
			c.Keys[name] += n
		}
		if f.Keys != nil && known[f.Name] != f.SHA256 {
			copied++
		}
	}
	b, err := json.MarshalIndent(c, "", " ")
	if err != nil {
		return c, 0, err
	}
	if err := pebblestore.WriteFile(fsys, fsys.PathJoin(to, backupList), append(b, '\n')); err != nil {
		return c, 0, err
	}
	if err := fsys.Remove(fsys.PathJoin(to, backupMark)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return c, 0, err
	}
	return c, copied, prune(fsys, to, c.Files, before.Files)
}

// formatMark returns the content of backupMark.
func formatMark(id string) []byte {
	return fmt.Appendf(nil, "a backup of store %s is being made, or was interrupted\n", cmp.Or(id, "unknown"))
}

// backupBefore reads the list of the backup in a directory, and refuses a
// directory that a backup of the store must not be written to. It changes nothing.
func backupBefore(fsys vfs.FS, to, id string) (c backupContents, err error) {
	refuse := func(err error, format string, args ...any) error {
		return usage{withHint(err, format+"; nothing was changed", args...)}
	}
	names, err := fsys.List(to)
	if err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			err = nil
		}
		return c, err
	}
	switch {
	case slices.Contains(names, backupList):
		if c, err = readBackup(fsys, to); err != nil {
			return c, refuse(err, "give an empty directory with --to")
		}
		had := c.Store
		if c.Format == 1 {
			had, _ = pebblestore.Identify(fsys, fsys.PathJoin(to, storePart))
		}
		if had == "" || had != id {
			return c, refuse(fmt.Errorf("%s holds a backup of store %s, and the store to back up is %s", to, cmp.Or(had, "without an id"), cmp.Or(id, "without an id")),
				"give an empty directory with --to")
		}
	case slices.Contains(names, backupMark):
		b, err := pebblestore.ReadFile(fsys, fsys.PathJoin(to, backupMark))
		if err != nil {
			return c, err
		}
		if string(b) != string(formatMark(id)) {
			return c, refuse(fmt.Errorf("%s holds the rest of a backup of another store", to), "give an empty directory with --to")
		}
	default:
		for _, n := range names {
			if !slices.Contains([]string{backupLock, backupMark + ".tmp", lostFound}, n) {
				return c, refuse(fmt.Errorf("%s holds %s and no backup", to, n), "give an empty directory with --to, or one that holds a backup of this store")
			}
		}
		return c, nil
	}
	switch err := pebblestore.NeverOpened(fsys, fsys.PathJoin(to, storePart)); {
	case errors.Is(err, store.ErrLocked):
		return c, refuse(fmt.Errorf("a server runs on %s", to), "give another directory with --to")
	case errors.Is(err, pebblestore.ErrOpened):
		return c, refuse(fmt.Errorf("%s was a backup until a server ran on it", to), "give an empty directory with --to")
	case err != nil:
		return c, err
	}
	return c, nil
}

// lostFound lies in the root of every ext4 file system.
const lostFound = "lost+found"

// storePart is the store in a data directory.
const storePart = "store"

// lockBackup keeps other backups out of a directory. Some network file systems
// have no locks: there it does nothing.
func lockBackup(fsys vfs.FS, to string) (unlock func() error, err error) {
	l, err := fsys.Lock(fsys.PathJoin(to, backupLock))
	switch {
	case err == nil:
		return l.Close, nil
	case errors.Is(err, syscall.ENOLCK), errors.Is(err, syscall.ENOSYS), errors.Is(err, syscall.EOPNOTSUPP):
		return func() error { return nil }, nil
	case errors.Is(err, syscall.EAGAIN), errors.Is(err, syscall.EACCES):
		return nil, usage{withHint(fmt.Errorf("another tailscope backup writes to %s: %w", to, err), "wait until it is done")}
	}
	return nil, fmt.Errorf("lock %s: %w", to, err)
}

// makeDir makes a directory that lasts.
func makeDir(fsys vfs.FS, dir string) error {
	if _, err := fsys.Stat(dir); err == nil || !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	parent := fsys.PathDir(dir)
	if err := makeDir(fsys, parent); err != nil {
		return err
	}
	if err := fsys.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	return pebblestore.SyncDir(fsys, parent)
}

// copyAll copies what the backup before does not have, into new files only.
func copyAll(ctx context.Context, fsys vfs.FS, data, to, address string, before []pebblestore.BackupFile) (out []pebblestore.BackupFile, err error) {
	run := ""
	for n := 1; ; n++ {
		run = fmt.Sprintf("%s%06d", runPrefix, n)
		if _, err := fsys.Stat(fsys.PathJoin(to, run)); errors.Is(err, fs.ErrNotExist) {
			break
		} else if err != nil {
			return nil, err
		}
	}
	for _, dir := range []string{storePart, run, path.Join(run, storePart)} {
		if err := makeDir(fsys, joinSlashed(fsys, to, dir)); err != nil {
			return nil, err
		}
	}
	for _, part := range besideStore {
		if address != "" && part == receiversPart {
			continue // servers that share a store have in it what receivers are owed
		}
		files, err := copyPart(ctx, fsys, data, part, to, run)
		if err != nil {
			return nil, err
		}
		out = append(out, files...)
	}
	from := fsys.PathJoin(data, storePart)
	if address != "" {
		from = joinSlashed(fsys, to, path.Join(run, "copy"))
		defer func() { err = errors.Join(err, fsys.RemoveAll(from)) }()
		if err := fromClickHouse(ctx, fsys, data, address, from); err != nil {
			return nil, err
		}
	}
	files, err := pebblestore.Backup(ctx, fsys, from, pebblestore.BackupTo{Dir: to, Part: storePart, Run: run, Have: before, Anew: address != ""})
	return append(out, files...), err
}

// joinSlashed returns the path of a file of a backup below dir; its own path has slashes.
func joinSlashed(fsys vfs.FS, dir, slashed string) string {
	return fsys.PathJoin(append([]string{dir}, strings.Split(slashed, "/")...)...)
}

// copyPart copies the files of a directory, and of those in it: each receiver has
// directories of its own. A file that goes meanwhile is left out: what was in it is
// in the store, or has been delivered to its receiver.
func copyPart(ctx context.Context, fsys vfs.FS, data, part, to, run string) (out []pebblestore.BackupFile, err error) {
	from := joinSlashed(fsys, data, part)
	names, err := fsys.List(from)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	slices.Sort(names)
	dir := joinSlashed(fsys, to, path.Join(run, part))
	if err := makeDir(fsys, dir); err != nil {
		return nil, err
	}
	for _, n := range names {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		info, err := fsys.Stat(fsys.PathJoin(from, n))
		if err == nil && info.IsDir() && part != besideStore[0] {
			files, err := copyPart(ctx, fsys, data, path.Join(part, n), to, run)
			if err != nil {
				return nil, err
			}
			out = append(out, files...)
			continue
		}
		if err == nil && !info.Mode().IsRegular() {
			continue
		}
		if err == nil {
			err = pebblestore.CopyFile(fsys, fsys.PathJoin(from, n), fsys.PathJoin(dir, n))
		}
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		f, err := pebblestore.Sum(fsys, fsys.PathJoin(dir, n))
		if err != nil {
			return nil, err
		}
		f.Name, f.At = path.Join(part, n), path.Join(run, part, n)
		out = append(out, f)
	}
	return out, pebblestore.SyncDir(fsys, dir)
}

// prune removes from a backup what is not listed: files of the backup before,
// and what interrupted ones have left. It touches nothing that no backup wrote.
func prune(fsys vfs.FS, to string, listed, before []pebblestore.BackupFile) error {
	keep, had := map[string]bool{}, map[string]bool{}
	for _, f := range listed {
		keep[f.Path()] = true
	}
	for _, f := range before {
		had[f.Path()] = true
	}
	var walk func(dir string) error
	walk = func(dir string) error {
		names, err := fsys.List(joinSlashed(fsys, to, dir))
		if err != nil {
			return err
		}
		left := len(names)
		for _, n := range names {
			at := path.Join(dir, n)
			ours := had[at] || isRun(at) ||
				dir == storePart && (strings.HasSuffix(n, ".sst") || strings.HasSuffix(n, ".sst.tmp"))
			info, err := fsys.Stat(joinSlashed(fsys, to, at))
			switch {
			case err != nil:
				return err
			case info.IsDir():
				if !ours {
					continue
				}
				if err := walk(at); err != nil {
					return err
				}
			case ours && !keep[at]:
				if err := fsys.Remove(joinSlashed(fsys, to, at)); err != nil {
					return err
				}
				left--
			}
		}
		if left > 0 {
			return nil
		}
		return fsys.Remove(joinSlashed(fsys, to, dir))
	}
	names, err := fsys.List(to)
	if err != nil {
		return err
	}
	for _, n := range names {
		if n == storePart || slices.Contains(besideStore, n) || isRun(n) {
			if err := walk(n); err != nil {
				return fmt.Errorf("remove what is of earlier backups: %w", err)
			}
		}
	}
	return nil
}

// refuseNested follows the links in both paths, and refuses a backup inside of what
// is backed up.
func refuseNested(data, to string) (from, into string, err error) {
	if from, err = followLinks(data); err != nil {
		return "", "", err
	}
	if into, err = followLinks(to); err != nil {
		return "", "", err
	}
	for _, part := range append([]string{".", storePart, "damaged"}, besideStore...) {
		of, err := os.Stat(filepath.Join(from, part))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return "", "", err
		}
		for dir, last := filepath.Join(into, storePart), ""; dir != last; dir, last = filepath.Dir(dir), dir {
			if info, err := os.Stat(dir); err == nil && os.SameFile(info, of) {
				return "", "", usage{withHint(fmt.Errorf("%s lies in the data directory %s", to, data), "give a directory on another disk with --to")}
			}
		}
	}
	return from, into, nil
}

// followLinks returns a path without links, of a directory that need not exist.
func followLinks(dir string) (string, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return "", err
	}
	real, err := filepath.EvalSymlinks(dir)
	if err == nil || !errors.Is(err, fs.ErrNotExist) {
		return real, err
	}
	if _, err := os.Lstat(dir); err == nil {
		return "", usage{withHint(fmt.Errorf("%s is a link to a directory that does not exist", dir), "make that directory, or mount its disk")}
	}
	parent, err := followLinks(filepath.Dir(dir))
	return filepath.Join(parent, filepath.Base(dir)), err
}

func readBackup(fsys vfs.FS, dir string) (c backupContents, err error) {
	b, err := pebblestore.ReadFile(fsys, fsys.PathJoin(dir, backupList))
	if err != nil {
		return c, err
	}
	if err := json.Unmarshal(b, &c); err != nil {
		return c, fmt.Errorf("%s: %w: %w", fsys.PathJoin(dir, backupList), store.ErrCorrupt, err)
	}
	if c.Format != 1 && c.Format != 2 {
		return c, fmt.Errorf("%s has format %d, this program knows 1 and 2: %w", fsys.PathJoin(dir, backupList), c.Format, store.ErrVersion)
	}
	for _, f := range c.Files {
		for _, p := range []string{f.Name, f.Path()} {
			if !filepath.IsLocal(filepath.FromSlash(p)) {
				return c, fmt.Errorf("%s lists %q: %w", fsys.PathJoin(dir, backupList), p, store.ErrCorrupt)
			}
		}
	}
	return c, nil
}
