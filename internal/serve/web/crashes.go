package web

import (
	"errors"
	"io/fs"
	"log/slog"
	"strconv"
	"time"

	"github.com/symdepot/symdepot/internal/base/wire"
	"github.com/symdepot/symdepot/internal/depot/dumps"
	"github.com/symdepot/symdepot/internal/serve/auth"
	"github.com/symdepot/symdepot/internal/store/blob"
)

// Crashes lists, reads and deletes the crash dumps that the server keeps, for administrators: dumps have the
// memory of processes. Who reads or deletes one is recorded.
type Crashes struct {
	dumps         *dumps.Dumps
	symbolication *Symbolication
	record        func(auth.Event) error
	log           *slog.Logger
}

// For is how long new dumps are kept; zero: not at all.
func (c *Crashes) For() time.Duration {
	if c.dumps == nil {
		return 0
	}
	return c.dumps.For()
}

// Any reports whether dumps are kept, or were when the server was configured so.
func (c *Crashes) Any() bool { return c.dumps != nil }

// DescribeDump describes a dump that is kept.
func DescribeDump(d dumps.Dump) wire.KeptDump {
	return wire.KeptDump{
		ID: d.ID, Name: d.Name, Who: d.Who, Size: d.Content.Size, Key: d.Key, Reason: d.Reason, Time: d.At, Until: d.Until,
	}
}

// List lists dumps from a place on, newest first, and the place behind them; "" is the first and the last place.
func (c *Crashes) List(r *Request, limit int, after string) (list []wire.KeptDump, next string, err error) {
	if err := r.MayAdminister(); err != nil {
		return nil, "", err
	}
	before := int64(0)
	if after != "" {
		if before, err = strconv.ParseInt(after, 10, 64); err != nil || before <= 0 {
			return nil, "", &Problem{Word: "cursor"}
		}
	}
	found, err := c.dumps.List(r.Context(), before, limit+1)
	if err != nil {
		return nil, "", err
	}
	if len(found) > limit {
		found = found[:limit]
		next = strconv.FormatInt(found[limit-1].No, 10)
	}
	return Describe(found, DescribeDump), next, nil
}

// find finds a dump, and records what is done with it.
func (c *Crashes) find(r *Request, id, what string) (d dumps.Dump, err error) {
	if err := r.MayAdminister(); err != nil {
		return d, err
	}
	if d, err = c.dumps.Find(r.Context(), id); err != nil {
		return d, noDump(err)
	}
	e := auth.Event{Action: auth.ActionDump, Name: d.Name, ID: d.ID, Detail: what, Bytes: d.Content.Size}
	e.By(&r.Identity)
	e.Remote, e.Agent = r.Client().RemoteAddr, r.UserAgent()
	return d, c.record(e)
}

// noDump is the problem of a dump that is not there.
func noDump(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return &Problem{Word: "not-found", Detail: "there is no such dump, or its time is over"}
	}
	return err
}

// Open opens a dump. The caller closes it.
func (c *Crashes) Open(r *Request, id string) (dumps.Dump, blob.File, error) {
	d, err := c.find(r, id, "read")
	if err != nil {
		return d, nil, err
	}
	f, err := c.dumps.Open(r.Context(), &d)
	return d, f, noDump(err)
}

// Remove deletes a dump.
func (c *Crashes) Remove(r *Request, id string) error {
	if _, err := c.find(r, id, "delete"); err != nil {
		return err
	}
	return noDump(c.dumps.Remove(r.Context(), id))
}

// Stacks walks the stacks of a dump, with the files that are there now.
func (c *Crashes) Stacks(r *Request, id string) (*wire.Stacks, error) {
	if err := r.MayAdminister(); err != nil {
		return nil, err
	}
	if c.symbolication.Off() || r.Dump == nil {
		return nil, errOff
	}
	d, err := c.find(r, id, "stack")
	if err != nil {
		return nil, err
	}
	f, err := c.dumps.Open(r.Context(), &d)
	if err != nil {
		return nil, noDump(err)
	}
	defer f.Close()
	s, note, err := r.Dump(r.Context(), f, f.Size())
	if err != nil {
		return nil, notWalked(r, err)
	}
	note(r.Context(), "")
	kept := DescribeDump(d)
	s.Kept = &kept
	return s, nil
}
