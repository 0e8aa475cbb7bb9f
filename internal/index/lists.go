package index

import (
	"encoding/hex"

	"github.com/symdepot/symdepot/internal/blob"
	"github.com/symdepot/symdepot/internal/index/engine"
)

// inHashes and inTexts are conditions on a column that take a JSON list.
func inHashes(column, arg string) (sqlite, postgres string) {
	return column + " IN (SELECT unhex(value) FROM json_each(" + arg + "))",
		column + " IN (SELECT decode(v, 'hex') FROM json_array_elements_text(" + arg + "::text::json) AS k(v))"
}

func eachHash(before, column, arg, after string) string {
	s, p := inHashes(column, arg)
	return engine.Dialects(before+s+after, before+p+after)
}

func inTexts(before, column, arg string) string {
	return engine.Dialects(before+column+" IN (SELECT value FROM json_each("+arg+"))",
		before+column+" IN (SELECT v FROM json_array_elements_text("+arg+"::text::json) AS k(v))")
}

// hashList returns the JSON list of contents for inHashes.
func hashList(refs []blob.Ref) string {
	b := make([]byte, 0, 2+len(refs)*67)
	b = append(b, '[')
	for i, r := range refs {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, '"')
		b = hex.AppendEncode(b, r[:])
		b = append(b, '"')
	}
	return string(append(b, ']'))
}

// hashes returns a list of rows of one hash.
func hashes(refs []blob.Ref) [][]any {
	rows := make([][]any, len(refs))
	for i := range refs {
		rows[i] = []any{refs[i][:]}
	}
	return rows
}
