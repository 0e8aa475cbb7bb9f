package index

import (
	"context"
	"errors"
	"os"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/symdepot/symdepot/internal/base/symtest"
	"github.com/symdepot/symdepot/internal/index/pgtest"
	"github.com/symdepot/symdepot/internal/index/record"
	"github.com/symdepot/symdepot/symfile"
)

// The roles of docs/scale-out.md: one owns the tables and is used by hand, for upgrades; the
// servers have one that may change rows and nothing else.
const (
	ownerRole = "symdepot_owner"
	leastRole = "symdepot_server"
	readRole  = "somebody_reading"
)

var rolesOnce sync.Once

// roleStatements returns the statements of docs/scale-out.md for roles and rights: first
// those of the server, then those of the database.
func roleStatements(t testing.TB) (server, database []string) {
	t.Helper()
	page, err := os.ReadFile("../../docs/scale-out.md")
	if err != nil {
		t.Fatal(err)
	}
	block := regexp.MustCompile("(?s)```sql\n(.*?)```").FindAllStringSubmatch(string(page), -1)
	if len(block) != 2 {
		t.Fatalf("docs/scale-out.md has %d blocks of SQL, want that of the server and that of the database", len(block))
	}
	split := func(text string) (list []string) {
		for s := range strings.SplitSeq(text, ";\n") {
			if s = strings.TrimSpace(s); s != "" {
				list = append(list, s)
			}
		}
		return list
	}
	return split(block[0][1]), split(block[1][1])
}

func execAll(t testing.TB, where string, statements ...string) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), where)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(context.WithoutCancel(t.Context())) }()
	for _, s := range statements {
		if _, err := conn.Exec(t.Context(), s); err != nil {
			t.Fatalf("%s: %v", s, err)
		}
	}
}

// as returns the URL of a database for another role.
func as(where, role string) string { return strings.Replace(where, "//symdepot@", "//"+role+"@", 1) }

// nameIn returns the name of the database in a URL.
func nameIn(where string) string {
	return where[strings.LastIndex(where, "/")+1 : strings.Index(where, "?")]
}

// prepare gives an empty database of the shared server the roles and rights of
// docs/scale-out.md.
func prepare(t testing.TB, where string) {
	t.Helper()
	server, database := roleStatements(t)
	rolesOnce.Do(func() {
		for _, stmt := range server {
			if strings.HasPrefix(stmt, "CREATE ROLE") {
				pgtest.Shared(t).SQL(t, stmt)
			}
		}
		pgtest.Shared(t).SQL(t, "CREATE ROLE "+readRole+" LOGIN")
	})
	name := nameIn(where)
	for i, stmt := range database {
		database[i] = strings.ReplaceAll(stmt, "DATABASE symdepot", "DATABASE "+name)
	}
	execAll(t, where, append([]string{"ALTER DATABASE " + name + " OWNER TO " + ownerRole}, database...)...)
}

// leastDatabase returns a database with all tables, for the role of the servers.
func leastDatabase(t testing.TB) string {
	t.Helper()
	return as(pgtest.Shared(t).Made(t, "least", func(where string) error {
		prepare(t, where)
		db, err := Open(t.Context(), as(where, ownerRole), Options{})
		if err != nil {
			return err
		}
		return db.Close()
	}), leastRole)
}

// TestLeastPrivilege: a role that may change rows, and can neither make tables nor roles nor
// read the files of the server, is enough for everything but an upgrade.
func TestLeastPrivilege(t *testing.T) {
	symtest.Unraced(t, "the same tests run as the owner of the tables, under the detector too")
	for name, test := range map[string]func(*testing.T){
		"EveryFieldComesBack": testEveryFieldComesBack, "Drop": testDrop, "Derived": testDerived, "Lookup": testLookup, "Find": testFind,
		"Pages": testPages, "ListShowStats": testListShowStats, "Cached": testCached, "Evict": testEvict, "Colds": testColds, "Jobs": testJobs,
		"ManyWorkers": testManyWorkers, "Misses": testMisses, "Wanted": testWanted, "Places": testPlaces, "Origins": testOrigins, "Sources": testSources,
		"StageCommit": testStageCommit, "StageUploads": testStageUploads, "Tokens": testTokens, "Failures": testFailures, "ExchangedTokens": testExchangedTokens,
		"SignIns": testSignIns, "Logins": testLogins, "LoginRequests": testLoginRequests, "Trash": testTrash, "Purge": testPurge, "Holds": testHolds, "Runs": testRuns, "PolicyRows": testPolicyRows, "Reads": testReads,
		"WatchGeneration": testWatchGeneration, "StoredSegments": testStoredSegments, "ColdOrders": testColdReads,
	} {
		t.Run(leastRole+"/"+name+"/postgres", test)
	}
}

// TestRolesRefuse: what a role may not do is refused with the reason, and nothing is lost.
func TestRolesRefuse(t *testing.T) {
	where := pgtest.Shared(t).Database(t)
	prepare(t, where)
	// The servers' role makes no tables.
	if db, err := Open(t.Context(), as(where, leastRole), Options{}); err == nil {
		_ = db.Close()
		t.Error("a role that may make no tables opens an empty database, want an error")
	} else if text := err.Error(); !strings.Contains(text, "permission denied") || !strings.Contains(text, leastRole) {
		t.Errorf("an empty database: error %q, want one that names the role and the missing right", text)
	}
	owner, err := Open(t.Context(), as(where, ownerRole), Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := owner.Close(); err != nil {
		t.Fatal(err)
	}
	db, err := Open(t.Context(), as(where, leastRole), Options{})
	if err != nil {
		t.Fatalf("after the owner has made the tables: %v", err)
	}
	t.Cleanup(func() { _ = db.Close() })
	e := pdb(1)
	commitTest(t, db, "P", e)
	conn, err := pgx.Connect(t.Context(), as(where, leastRole))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(context.WithoutCancel(t.Context())) })
	for _, stmt := range []string{
		"CREATE TABLE x (y bigint)", "DROP TABLE tx", "TRUNCATE tx CASCADE", "ALTER TABLE tx ADD COLUMN x bigint", "CREATE TEMPORARY TABLE x (y bigint)",
		"CREATE FUNCTION x() RETURNS bigint LANGUAGE sql AS 'SELECT 1'", "CREATE ROLE x", "COPY tx TO PROGRAM 'true'", "COPY tx TO '/tmp/x'", "SELECT pg_read_file('/etc/passwd')",
		"CREATE EXTENSION amcheck", "CREATE SCHEMA x", "CREATE DATABASE x", "SELECT rolpassword FROM pg_authid", "SET ROLE " + ownerRole,
	} {
		if _, err := conn.Exec(t.Context(), stmt); sqlState(err) != "42501" && sqlState(err) != "" {
			t.Errorf("%s as the role of the servers: %v, want that it is not permitted (42501)", stmt, err)
		} else if err == nil {
			t.Errorf("%s as the role of the servers is done, want that it is not permitted", stmt)
		}
	}
	// A role that only reads is told so at once: a server with it would lose what is uploaded.
	execAll(t, where, "GRANT USAGE ON SCHEMA public TO "+readRole, "GRANT SELECT ON ALL TABLES IN SCHEMA public TO "+readRole, "GRANT CONNECT ON DATABASE "+nameIn(where)+" TO "+readRole)
	reader, err := Open(t.Context(), as(where, readRole), Options{})
	if err == nil {
		_, err = reader.Commit(t.Context(), record.Tx{Kind: "add", Product: "P", Entries: []record.Entry{pdb(2)}}, nil)
		_ = reader.Close()
	}
	if err == nil || !strings.Contains(err.Error(), "permission denied") || !strings.Contains(err.Error(), readRole) {
		t.Errorf("a role that only reads: error %v, want one that names the role and the missing right", err)
	}
	// A role without any right to the database.
	execAll(t, where, "REVOKE CONNECT ON DATABASE "+nameIn(where)+" FROM "+readRole)
	if db, err := Open(t.Context(), as(where, readRole), Options{}); err == nil {
		_ = db.Close()
		t.Error("a role that may not connect opens the index, want an error")
	} else if !strings.Contains(err.Error(), readRole) && !strings.Contains(err.Error(), "permission denied") {
		t.Errorf("a role that may not connect: %v, want the reason", err)
	}
	a := e.Aliases[0]
	hits, err := db.Lookup(t.Context(), all, symfile.Lookup{ID: a.ID, Name: a.Name, Role: symfile.AnyRole})
	if err != nil || len(hits) != 1 {
		t.Errorf("what was there before: %d objects, %v; want 1", len(hits), err)
	}
	clean(t, db)
}

// sqlState returns the SQLSTATE of an error of the server, or an empty string.
func sqlState(err error) string {
	if pe, ok := errors.AsType[*pgconn.PgError](err); ok {
		return pe.Code
	}
	return ""
}
