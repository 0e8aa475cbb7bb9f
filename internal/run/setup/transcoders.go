package setup

import (
	"cmp"
	"context"
	"log/slog"

	"github.com/symdepot/symdepot/internal/depot"
	"github.com/symdepot/symdepot/internal/derive/transcode"
	"github.com/symdepot/symdepot/internal/run/config"
)

// OpenTranscoders tests the transcoders. A transcoder that fails is logged and
// not used until it works. scratch is the working folder unless the
// configuration sets one. The caller must call the returned function at the end.
func OpenTranscoders(ctx context.Context, c *config.Config, scratch string, log *slog.Logger) (depot.TranscodeOptions, func(), error) {
	t := c.Transcoding
	opt := depot.TranscodeOptions{Slots: t.Jobs, NoUpgrades: !t.Upgrades, DropPDBs: !c.SymCache.KeepPDB}
	programs, err := c.Programs()
	if err != nil || len(programs) == 0 {
		return opt, func() {}, err
	}
	room, err := transcode.OpenWorkspace(cmp.Or(t.Scratch, scratch))
	if err != nil {
		return opt, nil, err
	}
	opt.Transcoders = transcode.NewTranscoders(room, log, programs...)
	if err := opt.Transcoders.Probe(ctx); err != nil {
		log.Error("cannot use a transcoder", "error", err)
	}
	return opt, func() { _ = room.Close() }, nil
}

// TestTranscoders runs every transcoder once on a small PDB, in a scratch folder that is
// removed at the end. Those that have not ended with ctx are not tested.
func TestTranscoders(ctx context.Context, c *config.Config) ([]transcode.Status, error) {
	programs, err := c.Programs()
	if err != nil || len(programs) == 0 {
		return nil, err
	}
	room, err := transcode.OpenWorkspace(cmp.Or(c.Transcoding.Scratch, transcode.DefaultRoot()))
	if err != nil {
		return nil, err
	}
	ts := transcode.NewTranscoders(room, nil, programs...)
	_ = ts.Probe(ctx) // its errors are in the states
	return ts.Status(), room.Close()
}
