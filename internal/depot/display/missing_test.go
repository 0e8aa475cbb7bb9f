package display

import (
	"strings"
	"testing"
	"time"

	"github.com/symdepot/symdepot/internal/depot/catalog"
)

// TestMissingCSV: texts that a spreadsheet would compute get an apostrophe.
func TestMissingCSV(t *testing.T) {
	t.Parallel()
	var w strings.Builder
	m, err := NewMissingCSV(&w)
	if err != nil {
		t.Fatal(err)
	}
	at := time.Date(2026, 11, 21, 8, 0, 0, 0, time.UTC)
	for _, f := range []catalog.Wanted{
		{Count: 2, Name: "=cmd|' /C calc'!A0", ID: "+1", Client: "-2", First: at, Last: at},
		{Count: 1, Name: "@a,b.pdb", ID: "0123", Client: "gdb", First: at, Last: at},
		{Count: 1, Name: "a=b.pdb", First: at, Last: at},
	} {
		if err := m.Write(f); err != nil {
			t.Fatal(err)
		}
	}
	if err := m.Flush(); err != nil {
		t.Fatal(err)
	}
	const want = "count,name,id,client,first,last\n" +
		"2,'=cmd|' /C calc'!A0,'+1,'-2,2026-11-21T08:00:00Z,2026-11-21T08:00:00Z\n" +
		"1,\"'@a,b.pdb\",0123,gdb,2026-11-21T08:00:00Z,2026-11-21T08:00:00Z\n" +
		"1,a=b.pdb,,,2026-11-21T08:00:00Z,2026-11-21T08:00:00Z\n"
	if w.String() != want {
		t.Errorf("CSV:\n%swant:\n%s", w.String(), want)
	}
}
