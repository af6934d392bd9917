package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/spf13/cobra"

	"github.com/regent-policy/regent/config"
	"github.com/regent-policy/regent/gate/approval"
	"github.com/regent-policy/regent/gate/ledger"
)

func newLedger(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "ledger",
		Short: "Verify, export and back up the record of approvals",
		Long: `Verify, export and back up the record of approvals. Each change of an approval
is an event in a chain of hashes, so that whatever is edited, removed or cut off
shows. The commands work on the file, whether or not a daemon serves it.`,
		Example: `  $ regent ledger verify
  ok: 1 event about 1 approval
  head: 1 ...
  $ regent ledger export > ledger.jsonl
  $ regent ledger backup ledger.bak`,
	}
	group(a, cmd)
	cmd.AddCommand(newLedgerVerify(a), newLedgerExport(a), newLedgerBackup(a), newLedgerPath(a))
	for _, sub := range append(cmd.Commands(), cmd) {
		needsDaemon(sub) // or one that ran
	}
	exits(cmd, exitDone, exitFailed, exitUsage)
	return cmd
}

// ledgerPath is the file of the home's ledger.
func (a *app) ledgerPath() (string, error) {
	home, err := config.HomeDir(a.global.home, a.getenv)
	if err != nil {
		return "", badInput(err)
	}
	c, _, err := config.LoadHome(home)
	if err != nil {
		return "", badInput(err)
	}
	return c.Ledger.Path, nil
}

// openLedger opens the file that was named, else that of the home, which has to
// be there: a reader makes none.
func (a *app) openLedger(ctx context.Context, args []string) (db *ledger.DB, path string, err error) {
	if len(args) > 0 {
		path = args[0]
	} else if path, err = a.ledgerPath(); err != nil {
		return nil, "", err
	}
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist) && len(args) == 0:
		return nil, "", fmt.Errorf("there is no ledger at %s yet; regent serve makes it", path)
	case err != nil:
		return nil, "", badInput(err)
	case !info.Mode().IsRegular():
		return nil, "", usagef("%s is no file", path)
	case info.Size() == 0:
		// SQLite would take it for a new one.
		return nil, "", fmt.Errorf("%s: %w: it is empty\n%s", path, approval.ErrDamaged, afterDamage)
	}
	db, err = ledger.Open(ctx, path, ledger.Options{})
	return db, path, damaged(err)
}

const afterDamage = "keep the file as it is, with those that have -wal and -shm after its name, to be looked at; then put a backup in their place (regent ledger backup makes one), or nothing, to start anew"

// damaged adds to an error what to do about a ledger that cannot be used.
func damaged(err error) error {
	if errors.Is(err, approval.ErrDamaged) {
		return fmt.Errorf("%w\n%s", err, afterDamage)
	}
	return err
}

// oneFile is for commands that take one file or none.
func oneFile(cmd *cobra.Command, args []string) error {
	if len(args) > 1 {
		return usagef("unexpected argument %q; %s takes one file", args[1], cmd.CommandPath())
	}
	return nil
}

// knownHead is a head that was kept, by itself or in the report that told it.
type knownHead struct {
	ledger.Head
	Report *ledger.Head `json:"head"`
}

func (a *app) readHead(file string) (ledger.Head, error) {
	name, data, err := a.readFile(file)
	if err != nil {
		return ledger.Head{}, err
	}
	var known knownHead
	if err := json.Unmarshal(bytes.TrimSpace(data), &known); err != nil {
		return ledger.Head{}, usagef("%s: %w", name, err)
	}
	if known.Report != nil {
		known.Head = *known.Report
	}
	if known.Seq < 1 || len(known.Hash) != 64 {
		return ledger.Head{}, usagef("%s holds no head; keep what regent ledger verify --output json prints", name)
	}
	return known.Head, nil
}

func newLedgerVerify(a *app) *cobra.Command {
	var known []string
	cmd := &cobra.Command{
		Use:   "verify [FILE]",
		Short: "Find rows that were edited, removed, added, moved or cut off",
		Long: `Find rows that were edited, removed, added, moved or cut off, in the home's
ledger or in FILE. Each fault is a line that names the row.

The chain has no key: whoever can write the file can make up a whole new one. Keep
the JSON report of an earlier run where they cannot, and name it with --known.`,
		Example: `  $ regent ledger verify
  ok: 1 event about 1 approval
  head: 1 ...
  $ regent ledger verify --output json > head.json
  $ regent ledger verify --known head.json
  ok: 1 event about 1 approval
  head: 1 ...`,
		Args:              oneFile,
		ValidArgsFunction: cobra.FixedCompletions(nil, cobra.ShellCompDirectiveDefault),
		RunE: action(func(cmd *cobra.Command, args []string) error {
			var heads []ledger.Head
			for _, file := range known {
				head, err := a.readHead(file)
				if err != nil {
					return err
				}
				heads = append(heads, head)
			}
			return a.ledgerVerify(cmd, args, heads)
		}),
	}
	cmd.Flags().StringArrayVar(&known, "known", nil, "a head or report of an earlier run in `FILE`, to hold the ledger to; may be repeated")
	exitsAs(cmd, map[int]string{exitDone: "everything is as it was written", exitFailed: "it is not, or the ledger cannot be read"},
		exitDone, exitFailed, exitUsage)
	return cmd
}

func (a *app) ledgerVerify(cmd *cobra.Command, args []string, known []ledger.Head) (err error) {
	db, _, err := a.openLedger(cmd.Context(), args)
	if err != nil {
		return err
	}
	defer closing(db, &err)
	report, err := db.Verify(cmd.Context(), known...)
	if err != nil {
		return damaged(err)
	}
	switch {
	case a.global.json():
		if err := writeJSON(a.stdout, report, true); err != nil {
			return err
		}
	case len(report.Faults) == 0:
		_, err := fmt.Fprintf(a.stdout, "ok: %s about %s\n", plural(int(report.Events), "event"), plural(int(report.Approvals), "approval"))
		if err != nil || report.Events == 0 {
			return err
		}
		_, err = fmt.Fprintf(a.stdout, "head: %d %s\n", report.Head.Seq, report.Head.Hash)
		return err
	default:
		for _, f := range report.Faults {
			if _, err := fmt.Fprintln(a.stdout, shown(f.String())); err != nil {
				return err
			}
		}
	}
	if n := len(report.Faults); n > 0 {
		return fmt.Errorf("%s: the ledger is not what was written to it", plural(n, "fault"))
	}
	return nil
}

// closing closes db at the end of a function that returns *err.
func closing(db *ledger.DB, err *error) {
	if closeErr := db.Close(); *err == nil {
		*err = closeErr
	}
}

func newLedgerExport(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "export [FILE]",
		Short: "Write all approvals and events as JSON lines",
		Long: `Write all approvals and events as JSON lines to stdout, from the home's ledger or
from FILE, as it stands at one moment: each approval in the order of asking
({"approval": ...}), each event in order ({"event": ...}) and {"head": ...} last,
without which the export is not complete. Secrets are masked as in the ledger.`,
		Example:           `  $ regent ledger export > ledger.jsonl`,
		Args:              oneFile,
		ValidArgsFunction: cobra.FixedCompletions(nil, cobra.ShellCompDirectiveDefault),
		RunE: action(func(cmd *cobra.Command, args []string) (err error) {
			db, _, err := a.openLedger(cmd.Context(), args)
			if err != nil {
				return err
			}
			defer closing(db, &err)
			return damaged(db.Export(cmd.Context(), a.stdout))
		}),
	}
	exits(cmd, exitDone, exitFailed, exitUsage)
	return cmd
}

// backup is what `regent ledger backup` prints.
type backup struct {
	From string      `json:"from"`
	File string      `json:"file"`
	Head ledger.Head `json:"head"`
}

func newLedgerBackup(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "backup FILE",
		Short: "Copy the ledger to a file that can take its place",
		Long: `Copy the ledger to a file that can take its place, as it stands at one moment and
while a daemon writes to it. FILE must not be there yet; only its owner can read
it. The copy is verified before the command says that it is there.

To go back to it: stop the daemon, put the copy where regent ledger path says,
remove the files that have -wal and -shm after that name, and start it again.`,
		Example: `  $ regent ledger backup ledger.bak
  ledger.bak  1 event about 1 approval`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) != 1 {
				return usagef("name the one file to write to")
			}
			return nil
		},
		ValidArgsFunction: cobra.FixedCompletions(nil, cobra.ShellCompDirectiveDefault),
		RunE:              action(func(cmd *cobra.Command, args []string) error { return a.ledgerBackup(cmd.Context(), args[0]) }),
	}
	exitsAs(cmd, map[int]string{exitFailed: "FILE is there already, or the ledger cannot be read or has faults"}, exitDone, exitFailed, exitUsage)
	return cmd
}

func (a *app) ledgerBackup(ctx context.Context, file string) (err error) {
	db, from, err := a.openLedger(ctx, nil)
	if err != nil {
		return err
	}
	defer closing(db, &err)
	if err := db.Backup(ctx, file); err != nil {
		return damaged(err)
	}
	report, err := verified(ctx, file)
	if err != nil {
		return fmt.Errorf("verify %s: %w", file, err)
	}
	if n := len(report.Faults); n > 0 {
		return fmt.Errorf("%s was written, with %s that the ledger has too; regent ledger verify lists them", file, plural(n, "fault"))
	}
	if a.global.json() {
		return writeJSON(a.stdout, backup{From: from, File: file, Head: report.Head}, true)
	}
	_, err = fmt.Fprintf(a.stdout, "%s  %s about %s\n", printable(file), plural(int(report.Events), "event"), plural(int(report.Approvals), "approval"))
	return err
}

func verified(ctx context.Context, file string) (report ledger.Report, err error) {
	db, err := ledger.Open(ctx, file, ledger.Options{})
	if err != nil {
		return report, err
	}
	defer closing(db, &err)
	return db.Verify(ctx)
}

func newLedgerPath(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "path",
		Short: "Print where the ledger is",
		Long:  "Print the file of the home's ledger, which need not be there yet.",
		Example: `  $ regent ledger path
  /home/sam/home/.regent/runtime/runtime.db`,
		Args: noArgs("path takes none"),
		RunE: action(func(*cobra.Command, []string) error {
			path, err := a.ledgerPath()
			if err != nil {
				return err
			}
			if a.global.json() {
				return writeJSON(a.stdout, map[string]string{"path": path}, true)
			}
			_, err = fmt.Fprintln(a.stdout, path)
			return err
		}),
	}
	exits(cmd, exitDone, exitFailed, exitUsage)
	return cmd
}
