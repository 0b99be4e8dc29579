package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/spf13/cobra"

	"tailscope/internal/agg"
	"tailscope/internal/figure"
	"tailscope/internal/server"
	"tailscope/internal/store/pebblestore"
)

func newRestore(io streams) *cobra.Command {
	var from, data, address string
	var verify bool
	cmd := &cobra.Command{
		Use:   "restore",
		Short: "check a backup, and put it back into an empty data directory",
		Long: `Restore puts what tailscope backup has kept into a data directory that does not
exist or is empty, which may be a mount point or a link; tailscope serve then
starts on it. Each file is compared with
the list of the backup before anything is written, and again as it was written.

With --store the store is put into ClickHouse, into a database without rows, and the
rest of the backup into the data directory: tailscope serve with the same --data and
--store goes on from there. A backup with messages that wait for receivers is refused. No
server starts on a part of it; if it is interrupted, the same command goes on with it.

With --verify every table is decoded too: the keys in it are counted, compared with
what the table held when it was copied, and listed by what they hold. A key is one
record of the store, such as a slot of ten seconds of some series. The observations in
journals are counted. Without --data it only verifies.`,
		Example: `  tailscope restore --from /mnt/backup/tailscope --verify
  tailscope restore --from /mnt/backup/tailscope --verify --data /var/lib/tailscope
  tailscope restore --from /mnt/backup/tailscope --data /var/lib/tailscope --store clickhouse://ch1:8123/tailscope`,
		Args: exactArgs(0, ""),
	}
	cmd.Flags().StringVar(&from, "from", "", "the `directory` of the backup")
	cmd.Flags().StringVar(&data, "data", "", "the data `directory` to put it into, empty or absent")
	cmd.Flags().BoolVar(&verify, "verify", false, "decode every table, and count its keys and the observations in journals")
	addStoreFlag(cmd, &address)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		switch {
		case from == "":
			return usage{withHint(errors.New("--from is missing"), "give the directory of the backup: --from /mnt/backup/tailscope")}
		case data == "" && !verify:
			return usage{withHint(errors.New("neither --data nor --verify is given"), "give the directory to put it into with --data, or check it with --verify")}
		}
		if data != "" {
			var err error
			if data, err = followLinks(data); err != nil {
				return err
			}
		}
		return restore(cmd.Context(), vfs.Default, from, data, address, verify, io)
	}
	return cmd
}

func restore(ctx context.Context, fsys vfs.FS, from, data, address string, verify bool, io streams) error {
	fsys = pebblestore.OwnerOnly(fsys)
	c, err := readBackup(fsys, from)
	if errors.Is(err, fs.ErrNotExist) {
		return usage{withHint(fmt.Errorf("%s holds no backup, or one that did not end: there is no %s", from, backupList), "make it with tailscope backup --to %s", from)}
	}
	if err != nil {
		return err
	}
	if data != "" {
		if err := restorable(fsys, data); err != nil {
			return err
		}
	}
	bad := 0
	for _, f := range c.Files {
		if err := ctx.Err(); err != nil {
			return err
		}
		path := joinSlashed(fsys, from, f.Path())
		if why := describeDifference(fsys, path, f, verify); why != "" {
			fmt.Fprintf(io.err, "tailscope: %s: %s\n", path, why)
			bad++
		}
	}
	if bad > 0 {
		return withHint(fmt.Errorf("%d of %d files of the backup are damaged", bad, len(c.Files)), "use another backup; nothing was written")
	}
	if verify {
		if err := printContents(ctx, fsys, from, c, io); err != nil {
			return err
		}
	}
	if data == "" {
		return nil
	}
	if address != "" {
		return toClickHouse(ctx, fsys, from, data, address, c, io)
	}
	_, err = fsys.Stat(data)
	made := errors.Is(err, fs.ErrNotExist)
	if err := putBack(ctx, fsys, from, data, c.Files); err != nil {
		if restorable(fsys, data) == nil {
			err = errors.Join(err, removeRest(fsys, data))
			if made {
				err = errors.Join(err, fsys.Remove(data))
			}
		}
		return withHint(fmt.Errorf("restore to %s: %w", data, err), "the backup is whole; restore it again, or to another disk")
	}
	_, err = fmt.Fprintf(io.out, "%s: %d files restored; tailscope serve --data %s starts on it\n", data, len(c.Files), data)
	return err
}

// printContents prints the contents of a whole backup: its tables, journals and
// observations, and the number of keys by kind.
func printContents(ctx context.Context, fsys vfs.FS, from string, c backupContents, io streams) error {
	var tables, journals int
	var keys int64
	var observations uint64
	dirs := map[string]bool{} // with journals; of a backup that is one
	for _, f := range c.Files {
		if strings.HasSuffix(f.Name, ".sst") {
			tables++
		}
		for _, n := range f.Keys {
			keys += n
		}
		if strings.HasPrefix(f.Name, "journal/") {
			dirs[fsys.PathDir(joinSlashed(fsys, from, f.Path()))] = true
		}
	}
	for dir := range dirs {
		n, o, err := agg.CountJournals(ctx, fsys, dir)
		if err != nil {
			return err
		}
		journals, observations = journals+n, observations+o
	}
	fmt.Fprintf(io.out, "%s: made %s, all of its %s are whole: %s with %s, %s with %s\n", from, c.Made.Format(time.RFC3339), figure.Counted(len(c.Files), "file"),
		figure.Counted(tables, "table"), figure.Counted(keys, "key"), figure.Counted(journals, "journal"), figure.Counted(observations, "observation"))
	if len(c.Keys) > 0 {
		fmt.Fprintln(io.out, "keys of the tables, by what they hold:")
	}
	for _, name := range slices.Sorted(maps.Keys(c.Keys)) {
		fmt.Fprintf(io.out, "  %15s  %s\n", figure.Thousands(c.Keys[name]), name)
	}
	return nil
}

// restorable refuses a data directory that holds anything but the rest of an
// interrupted restore. No server starts on such a rest: see putBack.
func restorable(fsys vfs.FS, data string) error {
	names, err := fsys.List(data)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	allowed := []string{lostFound}
	if slices.Contains(names, server.RestoringDir) {
		inStore, err := fsys.List(fsys.PathJoin(data, storePart))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		if !slices.ContainsFunc(inStore, isManifestMarker) && pebblestore.NeverOpened(fsys, fsys.PathJoin(data, storePart)) == nil {
			allowed = append(allowed, server.RestoringDir, storePart, "LOCK")  // of a server that did not start on it
			allowed = append(allowed, server.NameFile, server.NameFile+".tmp") // which a restore into ClickHouse writes
			allowed = append(allowed, besideStore...)
		}
	}
	for _, n := range names {
		if !slices.Contains(allowed, n) {
			return usage{withHint(fmt.Errorf("%s is not empty", data), "give a directory that does not exist or is empty with --data")}
		}
	}
	return nil
}

// isManifestMarker reports whether a file of the store makes it a database.
func isManifestMarker(name string) bool { return strings.HasPrefix(name, "marker.manifest.") }

// removeRest removes what a restore that did not end has left.
func removeRest(fsys vfs.FS, data string) error {
	if err := removeMoved(fsys, data); err != nil {
		return err
	}
	return fsys.RemoveAll(fsys.PathJoin(data, server.RestoringDir))
}

// removeMoved removes what a restore that did not end has moved into place.
func removeMoved(fsys vfs.FS, data string) error {
	for _, part := range append([]string{storePart, server.NameFile}, besideStore...) {
		if err := fsys.RemoveAll(fsys.PathJoin(data, part)); err != nil {
			return err
		}
	}
	return nil
}

// putBack copies files beside their places, compares the copies, and moves
// them. The identity of the store takes its place first and the marker of its
// manifest last: on what is in between no server starts.
func putBack(ctx context.Context, fsys vfs.FS, from, data string, files []pebblestore.BackupFile) error {
	tmp := fsys.PathJoin(data, server.RestoringDir)
	copied := func(f pebblestore.BackupFile) error {
		if err := ctx.Err(); err != nil {
			return err
		}
		to := joinSlashed(fsys, tmp, f.Name)
		if err := makeDir(fsys, fsys.PathDir(to)); err != nil {
			return err
		}
		if err := pebblestore.CopyFile(fsys, joinSlashed(fsys, from, f.Path()), to); err != nil {
			return err
		}
		if why := describeDifference(fsys, to, f, false); why != "" {
			return fmt.Errorf("%s: %s", to, why)
		}
		return nil
	}
	moved := func(f pebblestore.BackupFile) error {
		to := joinSlashed(fsys, data, f.Name)
		if err := makeDir(fsys, fsys.PathDir(to)); err != nil {
			return err
		}
		return fsys.Rename(joinSlashed(fsys, tmp, f.Name), to)
	}
	synced := func() error {
		dirs := map[string]bool{".": true}
		for _, f := range files {
			for dir := path.Dir(f.Name); dir != "."; dir = path.Dir(dir) {
				dirs[dir] = true
			}
		}
		for dir := range dirs {
			if err := pebblestore.SyncDir(fsys, joinSlashed(fsys, data, dir)); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return err
			}
		}
		return nil
	}
	if err := removeRest(fsys, data); err != nil {
		return err
	}
	if err := makeDir(fsys, tmp); err != nil {
		return err
	}
	var identity, rest, markers []pebblestore.BackupFile
	for _, f := range files {
		switch {
		case isManifestMarker(strings.TrimPrefix(f.Name, storePart+"/")):
			markers = append(markers, f)
		case f.Name == storePart+"/IDENTITY":
			identity = append(identity, f)
		default:
			rest = append(rest, f)
		}
	}
	for _, step := range [][]pebblestore.BackupFile{identity, rest, markers} {
		for _, do := range []func(pebblestore.BackupFile) error{copied, moved} {
			for _, f := range step {
				if err := do(f); err != nil {
					return err
				}
			}
		}
		if err := synced(); err != nil {
			return err
		}
	}
	return fsys.RemoveAll(tmp)
}

// describeDifference describes how a file differs from its entry in the list. It returns
// an empty text if it does not.
func describeDifference(fsys vfs.FS, path string, want pebblestore.BackupFile, keys bool) string {
	got, err := pebblestore.Sum(fsys, path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "the file is missing"
	case got.SHA256 == "":
		return err.Error()
	case got.Bytes != want.Bytes:
		return fmt.Sprintf("the file has %d bytes, the backup was made of %d", got.Bytes, want.Bytes)
	case got.SHA256 != want.SHA256:
		return "the checksum does not match"
	case keys && err != nil:
		return err.Error()
	case keys && !maps.Equal(got.Keys, want.Keys):
		return "the table does not hold as many keys as it did"
	}
	return ""
}
