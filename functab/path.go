package functab

import "strings"

// JoinPath joins a compilation directory, a directory and a file name, each
// relative to the one before, and removes "." and ".." as text, without looking
// at the file system. An absolute part replaces the parts before it. The result
// uses backslashes if its first part looks like a Windows path, otherwise
// slashes. Empty parts are omitted.
func JoinPath(parts ...string) string {
	var path string
	for _, p := range parts {
		switch {
		case p == "":
		case path == "" || absolute(p):
			path = p
		default:
			sep := "/"
			if windowsPath(path) {
				sep = `\`
			}
			if strings.HasSuffix(path, "/") || strings.HasSuffix(path, `\`) {
				sep = ""
			}
			path += sep + p
		}
	}
	return cleanPath(path)
}

// drive reports whether p starts with a drive letter and a colon.
func drive(p string) bool {
	return len(p) >= 2 && p[1] == ':' && (p[0]|0x20 >= 'a' && p[0]|0x20 <= 'z')
}

// scheme reports whether p starts with a scheme, as https://host/x and hg:host:x do.
func scheme(p string) bool {
	i := strings.IndexByte(p, ':')
	return i >= 2 && !strings.ContainsAny(p[:i], `/\`)
}

// IsAbsolute reports whether JoinPath takes p as it is, whatever comes before it: it
// begins with a slash, a backslash, a drive letter or a scheme, or is in angle brackets.
func IsAbsolute(p string) bool { return p != "" && absolute(p) }

func absolute(p string) bool {
	return p[0] == '/' || p[0] == '\\' || drive(p) || p[0] == '<' || scheme(p)
}

func windowsPath(p string) bool {
	if drive(p) || strings.HasPrefix(p, `\`) {
		return true
	}
	return !strings.HasPrefix(p, "/") && strings.Contains(p, `\`) && !strings.Contains(p, "/")
}

// cleanPath removes "." and ".." elements and repeated separators. Paths without
// them, and addresses with a scheme, stay as they are.
func cleanPath(p string) string {
	if p == "" || scheme(p) || p[0] == '<' {
		return p
	}
	sep, isSep := "/", func(r rune) bool { return r == '/' }
	if windowsPath(p) {
		sep, isSep = `\`, func(r rune) bool { return r == '/' || r == '\\' }
	}
	root := ""
	rest := p
	if sep == `\` && drive(p) {
		root, rest = p[:2], p[2:]
	}
	if sep == `\` && strings.HasPrefix(rest, `\\`) {
		root, rest = `\\`, rest[2:] // UNC: \\host\share
	} else if rest != "" && isSep(rune(rest[0])) {
		root += sep
	}
	out := make([]string, 0, 16)
	for _, e := range strings.FieldsFunc(rest, isSep) {
		switch {
		case e == ".":
		case e == ".." && len(out) > 0 && out[len(out)-1] != "..":
			out = out[:len(out)-1]
		case e == ".." && root != "" && strings.HasSuffix(root, sep):
			// Nothing is above the root.
		default:
			out = append(out, e)
		}
	}
	return root + strings.Join(out, sep)
}
