package pdb

import (
	"strconv"
	"strings"
)

// undecorate returns the shown form of a decorated name.
var undecorate = func(raw string) string { return raw }

// paramBytes returns the name and the size of the parameters of a decorated C
// name: _name@12, @name@12 or name@@12.
func paramBytes(raw string) (name string, bytes uint32, ok bool) {
	i := strings.LastIndexByte(raw, '@')
	if i < 1 || strings.ContainsAny(raw, ":(?") {
		return "", 0, false
	}
	n, err := strconv.ParseUint(raw[i+1:], 10, 32)
	if err != nil {
		return "", 0, false
	}
	name = raw[:i]
	if rest, double := strings.CutSuffix(name, "@"); double {
		return rest, uint32(n), rest != ""
	}
	if len(name) > 1 && (name[0] == '_' || name[0] == '@') {
		return name[1:], uint32(n), true
	}
	return "", 0, false
}
