package record

import (
	"slices"
	"strings"

	"github.com/symdepot/symdepot/internal/index/engine"
)

// LongObject is the row of an object as it is stored, and what can be stored shorter of it.
type LongObject struct {
	id, content, kind int64
	name              string // the short name, if it has one and not yet stored
	named             bool
	shorter           Compact // empty columns stay; the others change, debug_id and build_id with ident only
}

// IsLong reports whether the row can be shorter.
func (l *LongObject) IsLong() bool {
	return l.named || l.shorter.CodeID != "" || l.shorter.Arch != "" || l.shorter.Features != "" || l.shorter.Ident != nil
}

// Rows runs a statement and calls fn for each row of its result.
type Rows func(text string, args []any, fn func(scan engine.Scan) error) error

const longObjects = `SELECT o.id, o.content_id, o.kind, o.name, o.name_fold, o.code_id, o.debug_id, o.build_id, o.arch, o.features,
	o.ident FROM object o WHERE o.id >= $1 AND o.id <= $2 ORDER BY o.id LIMIT $3`

// LongObjects reads the rows of the objects from one on up to another, at most limit. next is the object that follows
// them; it is higher than to if there is none.
func LongObjects(read Rows, from, to int64, limit int) (list []LongObject, next int64, err error) {
	next = to + 1
	err = read(longObjects, []any{from, to, limit}, func(scan engine.Scan) error {
		var l LongObject
		var name, folded string
		var c Compact
		if err := scan(&l.id, &l.content, &l.kind, &name, &folded, &c.CodeID, &c.DebugID, &c.BuildID, &c.Arch, &c.Features,
			&c.Ident); err != nil {
			return err
		}
		if name != "" && name != initialName {
			l.name = ShortName(name, folded)
			l.named = l.name != name
		}
		l.shorter = c.shorten()
		list = append(list, l)
		return nil
	})
	if err == nil && len(list) == limit {
		next = list[limit-1].id + 1
	}
	return list, next, err
}

// shorten returns what can be stored shorter of the columns. Columns that stay are empty.
func (c *Compact) shorten() (s Compact) {
	var before, after Stored
	if err := c.expand(&before); err != nil {
		return Compact{} // a lookup reports the damage
	}
	short := Short(before.Object, before.Arch, before.Features)
	changed := *c
	if len(short.Arch) == 1 && short.Arch != c.Arch {
		s.Arch, changed.Arch = short.Arch, short.Arch
	}
	if len(short.Features) == 1 && short.Features != c.Features && valueOf(c.Features, features) == strings.Join(before.Features, " ") {
		s.Features, changed.Features = short.Features, short.Features
	}
	if c.Ident == nil && short.Ident != nil && c.DebugID == before.Object.DebugID.Breakpad() {
		s.Ident, s.DebugID, s.BuildID = short.Ident, short.DebugID, short.BuildID
		changed.Ident, changed.DebugID, changed.BuildID = short.Ident, short.DebugID, short.BuildID
		if short.CodeID == sameID {
			s.CodeID, changed.CodeID = sameID, sameID
		}
	}
	// The new columns stand for the same.
	if err := changed.expand(&after); err != nil || after.Object != before.Object || after.Arch != before.Arch ||
		!slices.Equal(after.Features, before.Features) {
		return Compact{}
	}
	return s
}

var (
	shortNames = engine.Over("content_id number, kind number", `SELECT x.content_id, x.kind, x.name FROM {k} CROSS JOIN object x
		WHERE x.content_id = k.content_id AND x.kind = k.kind AND x.name IN ('', '`+initialName+`')`)
	shortenObjects = engine.Over("id number, named number, name text, code_id text, debug_id text, build_id text, arch text, features text, "+
		"ident hash", `UPDATE object SET name = CASE k.named WHEN 1 THEN k.name ELSE object.name END,
		code_id = CASE k.code_id WHEN '' THEN object.code_id ELSE k.code_id END,
		debug_id = CASE WHEN k.ident IS NULL THEN object.debug_id ELSE k.debug_id END,
		build_id = CASE WHEN k.ident IS NULL THEN object.build_id ELSE k.build_id END,
		arch = CASE k.arch WHEN '' THEN object.arch ELSE k.arch END,
		features = CASE k.features WHEN '' THEN object.features ELSE k.features END,
		ident = coalesce(k.ident, object.ident) FROM {k} WHERE object.id = k.id`)
)

// ShortenObjects makes rows short that LongObjects has read in the same write.
func ShortenObjects(w *engine.Write, list []LongObject) error {
	type key struct {
		content, kind int64
		name          string
	}
	taken := make(map[key]bool) // one object of a content and a kind can have a short name
	var asked, rows [][]any
	for _, l := range list {
		if l.named {
			asked = append(asked, []any{l.content, l.kind})
		}
	}
	if err := w.EachOver(shortNames, asked, nil, func(scan engine.Scan) error {
		var k key
		err := scan(&k.content, &k.kind, &k.name)
		taken[k] = true
		return err
	}); err != nil {
		return err
	}
	for _, l := range list {
		if k := (key{l.content, l.kind, l.name}); l.named && !taken[k] {
			taken[k] = true
		} else {
			l.named, l.name = false, ""
		}
		if !l.IsLong() {
			continue
		}
		named, s := 0, l.shorter
		if l.named {
			named = 1
		}
		var ident any // not a nil slice
		if s.Ident != nil {
			ident = s.Ident
		}
		rows = append(rows, []any{l.id, named, l.name, s.CodeID, s.DebugID, s.BuildID, s.Arch, s.Features, ident})
	}
	_, err := w.ExecOver(shortenObjects, rows)
	return err
}
