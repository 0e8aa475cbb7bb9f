package retention

import "github.com/symdepot/symdepot/internal/base/term"

// synonyms are words of other tools and of commands for our keys.
var synonyms = map[string]string{
	"keep_days": "keep_within", "days": "keep_within", "keep_unused": "keep_used", "keep": "keep_last", "max_bytes": "cap", "quota": "cap",
	"size": "cap", "hold": "keep_last", "min_keep": "floor", "grace": "trash", "rules": "classes", "caps": "products",
	"public": "publish", "audience": "publish",
}

// nearest names the class that a misspelled one was probably meant to be, as a part of an error;
// it is empty if none is near.
func nearest(class string, known []string) string {
	if s := term.Nearest(class, known); s != "" {
		return "; the nearest is " + s
	}
	return ""
}
