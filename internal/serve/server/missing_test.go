package server

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/symdepot/symdepot/internal/depot/catalog"
)

// brokenList fails after one file.
type brokenList struct{}

func (brokenList) List(_ context.Context, _ catalog.WantedFilter, each func(catalog.Wanted) error) error {
	if err := each(catalog.Wanted{Name: "a.pdb"}); err != nil {
		return err
	}
	return errors.New("the disk broke")
}

// twoMissing lists two files.
type twoMissing struct{ asked *catalog.WantedFilter }

func (m twoMissing) List(_ context.Context, f catalog.WantedFilter, each func(catalog.Wanted) error) error {
	*m.asked = f
	return errors.Join(each(catalog.Wanted{Count: 2, Name: "gone.pdb", ID: "0123456789abcdef0123456789abcdef1"}), each(catalog.Wanted{Count: 1, Name: "=cmd,x.pdb", ID: "1"}))
}

// TestMissingCSV: callers that may read everything get the list of missing files.
func TestMissingCSV(t *testing.T) {
	g := newGuarded(t, demand, Config{Prefixes: []string{"corp"}})
	var asked catalog.WantedFilter
	g.s.routes.own.handler.(*ownPaths).wanted = twoMissing{&asked}
	for _, tt := range []struct {
		path, token string
		status      int
		lines       int
	}{
		{"/missing.csv", g.all, 200, 3}, {"/corp/missing.csv", g.all, 200, 3}, {"/t/" + g.all + "/missing.csv", "", 200, 3}, {"/missing.csv?name=Gone*&limit=7&since=1h&client=gdb", g.all, 200, 3},
		{"/missing.csv?since=yesterday", g.all, 400, 1},
		{"/missing.csv", g.ours, 404, 1}, {"/missing.csv", g.writes, 404, 1}, {"/missing.csv", "", 401, 0},
	} {
		var headers []string
		if tt.token != "" {
			headers = append(headers, bearer(tt.token))
		}
		r := ask(g.s, "GET", tt.path, headers...)
		if r.status != tt.status || tt.lines > 0 && strings.Count(r.body, "\n") != tt.lines {
			t.Errorf("GET %s: status %d, %q; want %d and %d lines", tt.path, r.status, r.body, tt.status, tt.lines)
		}
		if tt.status == 200 && (r.header.Get("Content-Type") != "text/csv; charset=utf-8" || !strings.HasPrefix(r.body, "count,name,id,client,first,last\n")) {
			t.Errorf("GET %s: type %q, %q; want CSV with a header line", tt.path, r.header.Get("Content-Type"), r.body)
		}
	}
	if r := ask(g.s, "GET", "/missing.csv", bearer(g.all)); !strings.Contains(r.body, "\n2,gone.pdb,0123456789abcdef0123456789abcdef1,") || !strings.Contains(r.body, "\"'=cmd,x.pdb\"") {
		t.Errorf("the list is %q; want gone.pdb twice, and a quoted name", r.body)
	}
	asked = catalog.WantedFilter{}
	ask(g.s, "GET", "/missing.csv?name=Gone*&limit=7&since=1h&client=gdb", bearer(g.all))
	if asked.Name != "gone*" || asked.Limit != 7 || asked.Client != "gdb" || time.Since(asked.Since).Round(time.Minute) != time.Hour {
		t.Errorf("the filter is %+v; want the name gone*, the limit 7, the client gdb and an hour", asked)
	}
	if r := ask(g.s, "HEAD", "/missing.csv", bearer(g.all)); r.status != 200 || r.body != "" {
		t.Errorf("HEAD: status %d, %q; want 200 without a body", r.status, r.body)
	}
	g.s.routes.own.handler.(*ownPaths).wanted = brokenList{}
	if r := ask(g.s, "GET", "/missing.csv", bearer(g.all)); r.status != 500 {
		t.Errorf("a list that cannot be read: status %d, want 500", r.status)
	}
}
