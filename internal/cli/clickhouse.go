package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/spf13/cobra"

	"tailscope/internal/figure"
	"tailscope/internal/guard/notify"
	"tailscope/internal/server"
	"tailscope/internal/store"
	"tailscope/internal/store/chstore"
	"tailscope/internal/store/pebblestore"
)

// A backup of a store in ClickHouse has the form of one of a store in a directory, into
// which it is copied. So each can be restored as the other.

func addStoreFlag(cmd *cobra.Command, address *string) {
	cmd.Flags().StringVar(address, "store", os.Getenv("TAILSCOPE_STORE"), "the `address` of the store in ClickHouse, as tailscope serve has it; default TAILSCOPE_STORE")
	cmd.Flags().Lookup("store").DefValue = "" // it may have a password
}

// identify returns the id of the store of a data directory, in it or in ClickHouse.
func identify(fsys vfs.FS, data, address string) (string, error) {
	if address == "" {
		return pebblestore.Identify(fsys, fsys.PathJoin(data, storePart))
	}
	name, err := server.ReadName(data)
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("%016x", idOf(name)), nil
}

// idOf returns the id of a store whose own writer has the name.
func idOf(name string) uint64 {
	id, err := strconv.ParseUint(name, 16, 64)
	if err != nil {
		return 0x6c6f63616c // "local": that store has no id in its name
	}
	return id
}

// fromClickHouse copies a store in ClickHouse, that of the server of a data directory, into a
// directory that does not exist.
func fromClickHouse(ctx context.Context, fsys vfs.FS, data, address, dir string) (err error) {
	name, err := server.ReadName(data)
	if err != nil {
		return err
	}
	from, err := chstore.OpenExisting(ctx, chstore.Options{Address: address})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, from.Close()) }()
	switch n, err := from.Flushed(ctx, name); {
	case err != nil:
		return err
	case n == 0:
		return fmt.Errorf("server %s has put nothing into %s: give the address that it has with --store", name, chstore.Redact(address))
	}
	content, err := from.Content(ctx)
	if err != nil {
		return err
	}
	to, err := pebblestore.Open(ctx, pebblestore.Options{Dir: dir, FS: fsys, ID: idOf(name), Copy: true})
	if err != nil {
		return err
	}
	return errors.Join(store.Copy(ctx, content, to), to.Close())
}

// toClickHouse restores a backup whose files were checked: its store into ClickHouse, the
// rest into the data directory, whose server gets its name last. Until then the same call
// goes on with it.
func toClickHouse(ctx context.Context, fsys vfs.FS, from, data, address string, c backupContents, io streams) (err error) {
	switch n, err := waitingMessages(fsys, from, c); {
	case err != nil:
		return fmt.Errorf("count what waits for receivers in %s: %w", from, err)
	case n > 0:
		return usage{withHint(fmt.Errorf("%s holds %s for receivers, which servers of a store in ClickHouse would not deliver", from, figure.Counted(n, "message")),
			"restore it without --store, start that server until its receivers have got them, and back it up anew; nothing was changed")}
	}
	where := chstore.Redact(address)
	_, left := fsys.Stat(fsys.PathJoin(data, server.RestoringDir))
	to, ended, err := chstore.OpenCopy(ctx, chstore.Options{Address: address}, "the backup of store "+c.Store+" of "+c.Made.Format(time.RFC3339))
	if ended && left != nil { // it was not this directory's
		err = errors.Join(fmt.Errorf("restore to %s, which holds this backup: %w", where, chstore.ErrNotEmpty), to.Close())
	}
	switch {
	case errors.Is(err, chstore.ErrNotEmpty):
		return usage{withHint(err, "give the address of another database with --store; nothing was changed")}
	case err != nil:
		return fmt.Errorf("restore to %s: %w", where, err)
	}
	defer func() { err = errors.Join(err, to.Close()) }()
	if err := fillClickHouse(ctx, fsys, from, data, c, to, ended); err != nil {
		return withHint(fmt.Errorf("restore to %s and %s: %w", data, where, err), "the backup is whole; run the same command again to go on")
	}
	_, err = fmt.Fprintf(io.out, "%s: %s restored, the store to %s; tailscope serve with --data %s and the same --store starts on it\n", data, figure.Counted(len(c.Files), "file"), where, data)
	return err
}

// waitingMessages returns the number of messages that wait for receivers in a backup.
func waitingMessages(fsys vfs.FS, from string, c backupContents) (n int, err error) {
	dir, err := os.MkdirTemp("", "tailscope-receivers-") // counting opens spools, which writes
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	for _, f := range c.Files {
		if !strings.HasPrefix(f.Name, receiversPart+"/") {
			continue
		}
		to := joinSlashed(fsys, dir, f.Name)
		if err := fsys.MkdirAll(fsys.PathDir(to), 0o700); err != nil {
			return 0, err
		}
		if err := pebblestore.CopyFile(fsys, joinSlashed(fsys, from, f.Path()), to); err != nil {
			return 0, err
		}
	}
	return notify.Waiting(filepath.Join(dir, receiversPart))
}

// fillClickHouse copies the store of a backup, unless that has ended, and puts the rest into
// the data directory.
func fillClickHouse(ctx context.Context, fsys vfs.FS, from, data string, c backupContents, to *chstore.Store, ended bool) error {
	if err := removeMoved(fsys, data); err != nil { // what no server starts beside stays
		return err
	}
	whole := fsys.PathJoin(data, server.RestoringDir, "whole")
	if err := putBack(ctx, fsys, from, whole, c.Files); err != nil {
		return err
	}
	st, err := pebblestore.Open(ctx, pebblestore.Options{Dir: fsys.PathJoin(whole, storePart), FS: fsys})
	if err != nil {
		return err
	}
	if !ended {
		err = store.Copy(ctx, st, to)
	}
	if err := errors.Join(err, st.Close()); err != nil {
		return err
	}
	for _, part := range besideStore {
		if err := fsys.Rename(fsys.PathJoin(whole, part), fsys.PathJoin(data, part)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	if err := pebblestore.SyncDir(fsys, data); err != nil {
		return err
	}
	if err := server.WriteName(data, st.Writer()); err != nil {
		return err
	}
	return fsys.RemoveAll(fsys.PathJoin(data, server.RestoringDir))
}
