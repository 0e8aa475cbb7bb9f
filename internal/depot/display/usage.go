package display

import (
	"fmt"
	"io"
	"strconv"
	"time"

	"github.com/symdepot/symdepot/internal/base/term"
	"github.com/symdepot/symdepot/internal/depot/coldstore"
	"github.com/symdepot/symdepot/internal/depot/inplace"
	"github.com/symdepot/symdepot/internal/depot/lifecycle"
	"github.com/symdepot/symdepot/symfile"
)

// Usage is the disk space of a depot by its uses, in JSON. Sizes are in bytes.
type Usage struct {
	Time     time.Time `json:"time"`
	Live     int64     `json:"live"`    // held by live transactions
	Cached   int64     `json:"cached"`  // held only by cached files and unfinished pushes
	Garbage  int64     `json:"garbage"` // freed by gc now
	Trash    int64     `json:"trash"`   // freed by gc after the trash
	InTrash  int       `json:"builds_in_trash"`
	Plan     *PlanSum  `json:"plan,omitempty"` // removals that the policy plans
	Products []Share   `json:"products"`
	Versions []Share   `json:"versions"`
	Classes  []Share   `json:"classes"`
	Kinds    []Share   `json:"kinds"`
	// InPlace are the watched folders. Their files are in none of the sums.
	InPlace []InPlace `json:"in_place,omitempty"`
	// Cold are the sums of cold files; missing: there are none.
	Cold *coldstore.ColdStats `json:"cold,omitempty"`
	// Cost is what a bucket costs; missing: the contents are on a disk.
	Cost *Cost `json:"cost,omitempty"`
}

// InPlace is what is known of a watched folder, in JSON. Sizes are in bytes.
type InPlace struct {
	Folder   string `json:"folder"` // its last name: nobody needs to know where it is
	Product  string `json:"product,omitempty"`
	Version  string `json:"version,omitempty"`
	Files    int64  `json:"files"`    // with objects or source files, packages included
	Packages int64  `json:"packages"` // of them
	Objects  int64  `json:"objects"`
	Bytes    int64  `json:"bytes"`              // of the files
	Problems int64  `json:"problems"`           // files that are left out
	Index    int64  `json:"index"`              // of the index, which is in the depot
	Cache    int64  `json:"cache"`              // of members that are unpacked now
	Away     bool   `json:"away,omitempty"`     // the folder is missing, or its file system is not mounted
	Scanning bool   `json:"scanning,omitempty"` // the first scan goes on: the numbers grow
	Failed   string `json:"failed,omitempty"`   // why nothing is known of it, or why the last scan failed
}

func newInPlace(s *inplace.Status) InPlace {
	return InPlace{
		Folder: symfile.BaseName(s.Where), Product: s.Product, Version: s.Version, Files: s.Files, Packages: s.Packages, Objects: s.Objects,
		Bytes: s.Bytes, Problems: s.Problems, Index: s.Index, Cache: s.Cache, Away: s.Away,
		Scanning: s.Scanning && s.Last.Started.IsZero(), Failed: s.Failed,
	}
}

// PlanSum is the sum of the removals that a policy plans, in JSON.
type PlanSum struct {
	Transactions int   `json:"builds"`
	Frees        int64 `json:"frees"`
}

// Share is the part of one product, version, class or kind, in JSON.
type Share struct {
	Product      *string `json:"product,omitempty"`
	Version      *string `json:"version,omitempty"`
	Class        *string `json:"class,omitempty"`
	Kind         *string `json:"kind,omitempty"`
	Transactions int     `json:"builds,omitempty"`
	// Own is the space that nothing else of the list holds, Shared the space that others hold too.
	Own    int64 `json:"own"`
	Shared int64 `json:"shared"`
	Quota  int64 `json:"quota,omitempty"` // of a product
}

// NewUsage describes the use of the space. quotas are those of products, watched the
// folders that are indexed in place.
func NewUsage(u *lifecycle.Usage, quotas map[string]int64, watched []inplace.Status) Usage {
	l := Usage{Time: u.Time.UTC(), Live: u.Live, Cached: u.Cached, Garbage: u.Garbage, Trash: u.Trash, InTrash: u.InTrash}
	if u.Plan != nil {
		l.Plan = &PlanSum{u.Plan.Transactions, u.Plan.Frees}
	}
	if u.Cold.Contents > 0 {
		l.Cold = &u.Cold
	}
	if u.Bucket {
		l.Cost = &Cost{Bytes: l.Live + l.Cached + l.Trash + l.Garbage}
		l.Cost.At(BucketPrice)
	}
	l.Products = shares(u.Products, func(s *lifecycle.Share, l *Share) { l.Product, l.Quota = &s.Product, quotas[s.Product] })
	l.Versions = shares(u.Versions, func(s *lifecycle.Share, l *Share) { l.Product, l.Version = &s.Product, &s.Version })
	l.Classes = shares(u.Classes, func(s *lifecycle.Share, l *Share) { l.Class = &s.Class })
	l.Kinds = shares(u.Kinds, func(s *lifecycle.Share, l *Share) { l.Kind = &s.Kind })
	for i := range watched {
		l.InPlace = append(l.InPlace, newInPlace(&watched[i]))
	}
	return l
}

// ColdText describes the cold files; "" if there are none.
func (l *Usage) ColdText() string {
	if l.Cold == nil {
		return ""
	}
	return ColdText(*l.Cold)
}

func shares(list []lifecycle.Share, key func(*lifecycle.Share, *Share)) []Share {
	out := make([]Share, len(list))
	for i := range list {
		out[i] = Share{Transactions: list[i].Transactions, Own: list[i].Own, Shared: list[i].Shared}
		key(&list[i], &out[i])
	}
	return out
}

// Print prints the usage for people: the sums, and the shares of what by names:
// product, version, class or kind. It prints at most limit shares; 0: all.
func (l Usage) Print(w io.Writer, by string, limit int) error {
	fmt.Fprintf(w, "live builds %s, cached files %s, in the trash %s (%s), free after gc %s\n", term.Size(l.Live), term.Size(l.Cached),
		term.Size(l.Trash), term.Count(int64(l.InTrash), "build"), term.Size(l.Garbage))
	if l.Plan != nil {
		fmt.Fprintf(w, "the policy would remove %s and free %s; symdepot policy preview shows which\n",
			term.Count(int64(l.Plan.Transactions), "build"), term.Size(l.Plan.Frees))
	}
	if l.Cold != nil {
		fmt.Fprintln(w, "cold files: "+l.ColdText())
	}
	if l.Cost != nil {
		fmt.Fprintln(w, l.Cost.Text())
	}
	fmt.Fprintln(w)
	list, columns := l.Products, []string{"PRODUCT", "BUILDS", "OWN", "SHARED", "QUOTA"}
	switch by {
	case "version":
		list, columns = l.Versions, []string{"PRODUCT", "VERSION", "BUILDS", "OWN", "SHARED"}
	case "class":
		list, columns = l.Classes, []string{"CLASS", "BUILDS", "OWN", "SHARED"}
	case "kind":
		list, columns = l.Kinds, []string{"KIND", "SIZE"}
	}
	t := term.NewTable(w, columns...)
	for i, s := range list {
		if limit > 0 && i == limit {
			break
		}
		var row []string
		for _, name := range []*string{s.Product, s.Version, s.Class, s.Kind} {
			if name != nil {
				row = append(row, *name)
			}
		}
		if by == "kind" {
			t.Row(append(row, term.Size(s.Own))...)
			continue
		}
		row = append(row, strconv.Itoa(s.Transactions), term.Size(s.Own), term.Size(s.Shared))
		if by == "product" {
			quota := ""
			if s.Quota > 0 {
				quota = term.Size(s.Quota)
			}
			row = append(row, quota)
		}
		t.Row(row...)
	}
	if err := t.Flush(); err != nil || len(l.InPlace) == 0 {
		return err
	}
	return printInPlace(w, l.InPlace)
}

// printInPlace prints the watched folders for people.
func printInPlace(w io.Writer, list []InPlace) error {
	fmt.Fprintln(w, "\nin place, in watched folders; not counted above")
	t := term.NewTable(w, "FOLDER", "PRODUCT", "FILES", "OBJECTS", "SIZE", "LEFT OUT", "INDEX", "")
	for _, p := range list {
		note := p.Failed
		if note == "" && p.Scanning {
			note = "being scanned for the first time"
		}
		t.Row(p.Folder, p.Product, strconv.FormatInt(p.Files, 10), strconv.FormatInt(p.Objects, 10), term.Size(p.Bytes),
			strconv.FormatInt(p.Problems, 10), term.Size(p.Index), note)
	}
	return t.Flush()
}

// UsageDay is the space of a product, or of the whole depot, on a day, in JSON.
type UsageDay struct {
	Day          string  `json:"day"`               // YYYY-MM-DD, UTC
	Product      *string `json:"product,omitempty"` // missing: the whole depot
	Transactions int64   `json:"builds"`            // live ones
	Files        int64   `json:"files"`
	Bytes        int64   `json:"bytes"` // disk space
	Own          int64   `json:"own"`   // the part that no other product holds
	// Cached, Garbage and Trash are of the whole depot only.
	Cached  int64 `json:"cached,omitempty"`
	Garbage int64 `json:"garbage,omitempty"`
	Trash   int64 `json:"trash,omitempty"`
	// Added and Removed are lengths of files, not disk space.
	Added   int64 `json:"added"`
	Removed int64 `json:"removed"`
}

// NewUsageDays describes the usage of days.
func NewUsageDays(list []lifecycle.UsageDay) []UsageDay {
	out := make([]UsageDay, len(list))
	for i := range list {
		u := &list[i]
		out[i] = UsageDay{
			u.Day.Format(time.DateOnly), &u.Product, u.Transactions, u.Files, u.Bytes, u.Own, u.Cached, u.Garbage, u.Trash,
			u.Added, u.Removed,
		}
		if u.All {
			out[i].Product = nil
		}
	}
	return out
}

// PrintUsageDays prints the usage of days for people.
func PrintUsageDays(w io.Writer, list []UsageDay, product bool) error {
	columns := []string{"DAY", "BUILDS", "FILES", "LIVE", "CACHED", "GARBAGE", "TRASH", "ADDED", "REMOVED"}
	if product {
		columns = []string{"DAY", "BUILDS", "FILES", "SIZE", "OWN", "ADDED", "REMOVED"}
	}
	t := term.NewTable(w, columns...)
	for _, u := range list {
		row := []string{u.Day, strconv.FormatInt(u.Transactions, 10), strconv.FormatInt(u.Files, 10), term.Size(u.Bytes)}
		if product {
			row = append(row, term.Size(u.Own))
		} else {
			row = append(row, term.Size(u.Cached), term.Size(u.Garbage), term.Size(u.Trash))
		}
		t.Row(append(row, term.Size(u.Added), term.Size(u.Removed))...)
	}
	return t.Flush()
}
