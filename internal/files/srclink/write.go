package srclink

import (
	"bufio"
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"strings"
)

// Line is a source file of a stream to be written.
type Line struct {
	Name string // as in the PDB's list of files
	Path string // below BASE/-/src/, of HashPath or LabelPath
}

// HashPath returns the path of a source file with this content. The server
// finds the file by the SHA-256; the name is for people.
func HashPath(sha256 [32]byte, name string) string {
	name = name[strings.LastIndexAny(name, `/\`)+1:]
	plain := []byte(name)
	for i, c := range plain {
		if !isPlain(c) {
			plain[i] = '_'
		}
	}
	if len(bytes.Trim(plain, ".")) == 0 {
		plain = []byte("source")
	}
	return "sha256/" + hex.EncodeToString(sha256[:]) + "/" + string(plain)
}

// LabelPath returns the path of the source file rel of a version of a product. The
// error is for texts that a source server stream cannot hold: a debugger would
// take their percent signs for variables.
func LabelPath(product, version, rel string) (string, error) {
	for what, s := range map[string]string{"product": product, "version": version} {
		if s == "" || strings.Trim(s, ".") == "" ||
			strings.ContainsFunc(s, func(c rune) bool { return c > 0x7E || !isPlain(byte(c)) && !strings.ContainsRune("+@!,", c) }) {
			return "", fmt.Errorf("the %s %q cannot stand in a source server stream: letters, digits and -._~+@!, can", what, s)
		}
	}
	rel = strings.TrimLeft(strings.ReplaceAll(rel, `\`, "/"), "/")
	if rel == "" || strings.ContainsAny(rel, "%#?*\r\n\x00") {
		return "", fmt.Errorf("the name %q cannot stand in a source server stream", rel)
	}
	return product + "/" + version + "/" + rel, nil
}

// CheckBase checks the URL of a server and returns it without slashes at the
// end. Whoever has the PDB reads the URL, so it must have no credentials.
func CheckBase(base string) (string, error) {
	u, err := url.Parse(base)
	switch {
	case err != nil:
		return "", err
	case u.Scheme != "http" && u.Scheme != "https" || u.Host == "":
		return "", fmt.Errorf("%q is not the URL of a server: https://symbols.example.com", base)
	case u.User != nil || strings.Contains(u.Path, "/t/"): // also behind a prefix of a proxy
		return "", errors.New("the URL has credentials, which all who have the PDB could read: " +
			"leave them out, and let symdepot proxy add them on the developers' machines")
	case u.RawQuery != "" || u.Fragment != "" || strings.ContainsAny(base, "%*?#\r\n"):
		return "", fmt.Errorf("the URL %q cannot stand in a source server stream", base)
	}
	return strings.TrimRight(base, "/"), nil
}

// WriteScript writes a source server stream by which debuggers download the
// files from the server at base. It has no command.
func WriteScript(w io.Writer, base string, lines []Line) error {
	base, err := CheckBase(base)
	if err != nil {
		return err
	}
	if len(lines) > maxLines-20 {
		return fmt.Errorf("%d source files, more than the limit of %d", len(lines), maxLines-20)
	}
	var b strings.Builder
	for _, s := range []string{
		head("ini"), "VERSION=2", "INDEXVERSION=2", "VERCTRL=http",
		head("variables"), "SRCSRVVERCTRL=http", "HTTP_ALIAS=" + base + "/-/src",
		"HTTP_EXTRACT_TARGET=%HTTP_ALIAS%/%var2%", "SRCSRVTRG=%http_extract_target%", "SRCSRVCMD=",
		head(filesSection),
	} {
		b.WriteString(s + "\r\n")
	}
	for _, l := range lines {
		if l.Name == "" || strings.ContainsAny(l.Name, "*\r\n\x00") || strings.ContainsAny(l.Path, "*\r\n\x00") ||
			len(l.Name)+len(l.Path) > maxResult {
			return fmt.Errorf("the name %.200q cannot stand in a source server stream", l.Name)
		}
		b.WriteString(l.Name + "*" + l.Path + "\r\n")
	}
	b.WriteString(head("end") + "\r\n")
	if b.Len() > MaxScript {
		return fmt.Errorf("a source server stream of %d bytes, more than the limit of %d", b.Len(), MaxScript)
	}
	_, err = io.WriteString(w, b.String())
	return err
}

// Fits reports whether a stream can have a line for a file of this name.
func Fits(name string) bool {
	return name != "" && len(name) < maxResult/2 && !strings.ContainsAny(name, "*\r\n\x00")
}

// head returns the line with which a section starts.
func head(section string) string {
	s := "SRCSRV: " + section + " "
	return s + strings.Repeat("-", 60-len(s))
}

// Rebase copies the text of the stream to w, in which each value that begins
// with the URL old begins with the URL to instead. It returns the number of values
// that it changed.
func (s *Script) Rebase(w io.Writer, old, to string) (int, error) {
	old, to = strings.TrimRight(old, "/"), strings.TrimRight(to, "/")
	out := bufio.NewWriter(w)
	n, section := 0, ""
	in := bufio.NewReaderSize(io.NewSectionReader(s.r, 0, s.size), maxLine)
	for {
		raw, err := in.ReadSlice('\n')
		if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, bufio.ErrBufferFull) {
			return n, fmt.Errorf("source server stream: %w", err)
		}
		long := errors.Is(err, bufio.ErrBufferFull)
		line := string(raw)
		text := strings.TrimRight(line, "\r\n\x00")
		if h, ok := cutFold(text, "SRCSRV:"); ok {
			section = strings.ToLower(strings.TrimRight(strings.TrimSpace(h), "- "))
		} else if !long {
			sep := "="
			if section == filesSection {
				sep = "*"
			}
			parts := strings.Split(text, sep)
			if sep == "=" {
				parts = strings.SplitN(text, sep, 2)
			}
			for i := 1; i < len(parts); i++ {
				if moved, ok := rebase(parts[i], old, to); ok {
					parts[i] = moved
					n++
				}
			}
			line = strings.Join(parts, sep) + line[len(text):]
		}
		if _, e := out.WriteString(line); e != nil {
			return n, e
		}
		for long && errors.Is(err, bufio.ErrBufferFull) {
			raw, err = in.ReadSlice('\n')
			if _, e := out.Write(raw); e != nil {
				return n, e
			}
		}
		if errors.Is(err, io.EOF) {
			return n, out.Flush()
		}
	}
}

// rebase replaces the URL old at the start of s if the server and the path of
// s do not go on there.
func rebase(s, old, to string) (string, bool) {
	rest, ok := strings.CutPrefix(s, old)
	if !ok || old == "" || rest != "" && !strings.ContainsRune("/%?#*", rune(rest[0])) {
		return s, false
	}
	return to + rest, true
}

// RebaseMap returns a text of Source Link in which each URL that begins with
// old begins with to instead, and the number of these. All else stays as it is.
func RebaseMap(text []byte, old, to string) ([]byte, int, error) {
	old, to = strings.TrimRight(old, "/"), strings.TrimRight(to, "/")
	if len(text) > MaxMap {
		return nil, 0, fmt.Errorf("source link: %d bytes, more than the limit of %d", len(text), MaxMap)
	}
	mark := []byte("\xEF\xBB\xBF")
	body := bytes.TrimPrefix(text, mark)
	if !json.Valid(body) {
		return nil, 0, errors.New("source link: not valid JSON")
	}
	out := text[: len(text)-len(body) : len(text)-len(body)]
	dec := json.NewDecoder(bytes.NewReader(body))
	n, at := 0, int64(0)
	for {
		before := dec.InputOffset()
		t, err := dec.Token()
		if errors.Is(err, io.EOF) {
			return append(out, body[at:]...), n, nil
		}
		if err != nil {
			return nil, 0, fmt.Errorf("source link: %w", err)
		}
		s, ok := t.(string)
		if !ok {
			continue
		}
		moved, ok := rebase(s, old, to)
		if !ok {
			continue
		}
		quoted, err := json.Marshal(moved)
		if err != nil {
			return nil, 0, err
		}
		start := before + int64(bytes.IndexByte(body[before:], '"'))
		out = append(append(out, body[at:start]...), quoted...)
		at = dec.InputOffset()
		n++
	}
}
