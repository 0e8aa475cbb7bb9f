package web

import (
	"errors"
	"io/fs"
	"strconv"

	"github.com/symdepot/symdepot/internal/depot/catalog"
	"github.com/symdepot/symdepot/internal/depot/display"
	"github.com/symdepot/symdepot/internal/depot/sourcefiles"
	"github.com/symdepot/symdepot/internal/files/srclink"
)

// SourceLists lists the source files that objects name.
type SourceLists struct{ sources *sourcefiles.Files }

// sourceList is a part of the source files that an object names.
type sourceList struct {
	Items []display.SourceName `json:"items"`
	Next  string               `json:"next,omitempty"`
	Total int                  `json:"total"`
	// Incomplete says why names may be missing.
	Incomplete string         `json:"incomplete,omitempty"`
	Links      *srclink.Links `json:"links,omitempty"`
}

// List reads a part of the names of an object. after is the number of names before it.
func (a *SourceLists) List(r *Request, text string, limit int, after string) (l sourceList, next string, err error) {
	from := 0
	if after != "" {
		if from, err = strconv.Atoi(after); err != nil || from <= 0 {
			return l, "", &Problem{Word: "cursor"}
		}
	}
	ref, err := catalog.ParseContent(text)
	if err != nil {
		return l, "", NoContent(text)
	}
	names, total, why, err := a.sources.Names(r.Context(), r.Scope(), ref, from, limit)
	if err == nil {
		l.Links, err = a.sources.Links(r.Context(), r.Scope(), ref)
		if total > 0 && errors.Is(err, fs.ErrNotExist) || errors.Is(err, sourcefiles.ErrNoLinks) {
			err = nil
		}
	}
	if errors.Is(err, fs.ErrNotExist) {
		return l, "", NoContent(text)
	}
	if err != nil {
		return l, "", err
	}
	l.Items, l.Total, l.Incomplete = Describe(names, display.NewSourceName), total, why
	if n := from + len(names); n < total && len(names) > 0 {
		next = strconv.Itoa(n)
	}
	return l, next, nil
}
