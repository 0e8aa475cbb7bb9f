package record

import (
	"encoding/hex"
	"strings"

	"github.com/symdepot/symdepot/internal/index/engine"
	"github.com/symdepot/symdepot/internal/store/blob"
)

// InHashes returns the condition of both dialects that a column of hashes, which has an index,
// is in a JSON list. In PostgreSQL the list is an array, so that the index is used whatever
// is known of the table.
func InHashes(column, arg string) (sqlite, postgres string) {
	return column + " IN (SELECT unhex(value) FROM json_each(" + arg + "))",
		column + " = ANY (ARRAY(SELECT decode(v, 'hex') FROM json_array_elements_text(" + arg + "::text::json) AS k(v)))"
}

// AmongHashes returns a statement of both dialects: before, a condition that a column of hashes is in a JSON list, after.
func AmongHashes(before, column, arg, after string) string {
	s, p := InHashes(column, arg)
	return engine.Dialects(before+s+after, before+p+after)
}

// AmongTexts is AmongHashes for a column of texts at the end of the statement.
func AmongTexts(before, column, arg string) string {
	return engine.Dialects(before+column+" IN (SELECT value FROM json_each("+arg+"))",
		before+column+" = ANY (ARRAY(SELECT v FROM json_array_elements_text("+arg+"::text::json) AS k(v)))")
}

// headBytes is the length of the beginning of a hash.
const headBytes = 5

// Head is an expression for the beginning of the hash of a content. In SQLite contents have an index of it: a condition for
// whole hashes needs one for their beginnings too, as HashIs has it.
func Head(hash string) string { return "substr(" + hash + ", 1, 5)" }

// HeadOf returns the beginning of a hash.
func HeadOf(hash blob.Ref) []byte { return hash[:headBytes] }

// HashIs returns the condition that a column with the hashes of contents is equal to a hash.
func HashIs(column, hash string) string {
	return column + " = " + hash + " AND " + Head(column) + " = " + Head(hash)
}

// IsContent and IsC are HashIs for the argument $1 and contents without another name, or named c.
const (
	IsContent = "sha256 = $1 AND substr(sha256, 1, 5) = substr($1, 1, 5)"
	IsC       = "c.sha256 = $1 AND substr(c.sha256, 1, 5) = substr($1, 1, 5)"
)

// HashBetween returns the condition that a column with the hashes of contents is from one hash to another.
func HashBetween(column, from, to string) string {
	return column + " >= " + from + " AND " + column + " <= " + to + " AND " +
		Head(column) + " >= " + Head(from) + " AND " + Head(column) + " <= " + Head(to)
}

// AmongContents is AmongHashes for the hashes of contents.
func AmongContents(before, column, arg, after string) string {
	s, p := InHashes(column, arg)
	heads := " AND " + Head(column) + " IN (SELECT " + Head("unhex(value)") + " FROM json_each(" + arg + "))"
	return engine.Dialects(before+s+heads+after, before+p+after)
}

// HashList returns the JSON list of contents for inHashes.
func HashList(refs []blob.Ref) string {
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

// HashRows returns a list of rows of one hash.
func HashRows(refs []blob.Ref) [][]any {
	rows := make([][]any, len(refs))
	for i := range refs {
		rows[i] = []any{refs[i][:]}
	}
	return rows
}

// LikeEscaper escapes what LIKE treats specially, and translates wildcards.
var LikeEscaper = strings.NewReplacer(`\`, `\\`, "%", `\%`, "_", `\_`, "*", "%", "?", "_")

// IsPattern reports whether a name has wildcards.
func IsPattern(name string) bool { return strings.ContainsAny(name, "*?") }

// RefRange returns the first and the last hash that begin with some hex digits.
func RefRange(digits string) (from, to blob.Ref, ok bool) {
	if digits == "" || len(digits) > 2*len(from) {
		return from, to, false
	}
	from, err := blob.ParseRef(digits + strings.Repeat("0", 2*len(from)-len(digits)))
	if err == nil {
		to, err = blob.ParseRef(digits + strings.Repeat("f", 2*len(to)-len(digits)))
	}
	return from, to, err == nil
}

// PrefixEnd returns the end of the range of texts that begin with prefix.
func PrefixEnd(prefix string) string { return prefix + "\U0010FFFF" }

// LiteralPrefix returns the prefix of a pattern that every match begins with.
func LiteralPrefix(pattern, special string) string {
	if i := strings.IndexAny(pattern, special); i >= 0 {
		return pattern[:i]
	}
	return pattern
}
