package manual

import "strings"

// Texts reads a file of texts that are too long for the tags of Go: a name at the beginning
// of a line, and its text in indented lines below it, which are joined by spaces.
func Texts(file string) map[string]string {
	texts := map[string]string{}
	name := ""
	for line := range strings.Lines(file) {
		if text := strings.TrimSpace(line); line[0] != ' ' {
			name = text
		} else {
			texts[name] = strings.TrimSpace(texts[name] + " " + text)
		}
	}
	return texts
}
