package sources

import (
	"archive/zip"
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"iter"
	"maps"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/klauspost/compress/flate"

	"github.com/symdepot/symdepot/symfile"
)

// A source bundle is "SYSB", a version, and a zip archive whose offsets count from the
// beginning of the file. Its last member describes the others.
const (
	bundleMagic    = "SYSB"
	bundleVersion  = 2
	bundleHeader   = 8
	manifestName   = "manifest.json"
	sourceType     = "source"
	MaxBundledFile = 1 << 20 // bytes of a file in a bundle that WriteBundle makes
)

// Attributes name the object whose sources are in a bundle. Empty ones are left out.
type Attributes struct {
	Arch       string
	DebugID    string // as Sentry prints it: lower case, with hyphens, the age if it is not 0
	ObjectName string
	CodeID     string
}

// AttributesOf returns the attributes for an object and its processor, spelled as
// objfile does.
func AttributesOf(o symfile.Object, arch string) Attributes {
	a := Attributes{Arch: arch, ObjectName: o.Name, CodeID: o.CodeID}
	if o.BuildID != "" {
		a.CodeID = string(o.BuildID)
	}
	if !o.DebugID.IsZero() {
		a.DebugID = o.DebugID.String()
	}
	return a
}

// BundledFile is a file in a bundle.
type BundledFile struct {
	// Path is the name as the debug information has it.
	Path string
	// URL and Type are for bundles of scripts. An empty type is that of a source.
	URL, Type string
	// Size is the number of bytes, as the archive says; WriteBundle ignores it.
	Size int64
	// Open returns the content. WriteBundle leaves a file out whose error wraps
	// fs.ErrNotExist or ErrTooLarge.
	Open func() (io.ReadCloser, error)
}

// Bundle is what WriteBundle writes.
type Bundle struct {
	Attributes
	// Links map patterns of paths to URLs.
	Links map[string]string
	// Files are the files, in the order in which they are written.
	Files iter.Seq[BundledFile]
	// Skip is called with each file that is left out, and the reason for people; may be nil.
	Skip func(path, reason string)
}

// BundleStats counts what WriteBundle has done.
type BundleStats struct {
	Files, Skipped int
	Bytes          int64 // of the files in the bundle
}

// manifestFile is an entry of a manifest.
type manifestFile struct {
	Type string `json:"type,omitempty"`
	Path string `json:"path,omitempty"`
	URL  string `json:"url,omitempty"`
}

// WriteBundle writes a source bundle as Sentry's tools do, and equal input gives equal
// bytes: times are 1980-01-01, the manifest is last. Left out are files of more than
// MaxBundledFile bytes and those that are not UTF-8, which readers of bundles need, and
// files after MaxNames. It keeps one file and the manifest in memory. If no file is left,
// it writes nothing and the error wraps fs.ErrNotExist. Another error is that of w or of a
// file.
func WriteBundle(w io.Writer, b Bundle) (BundleStats, error) {
	bw := &bundleWriter{out: w, files: map[string]manifestFile{}}
	skip := func(path, reason string) {
		bw.stats.Skipped++
		if b.Skip != nil {
			b.Skip(path, reason)
		}
	}
	for f := range b.Files {
		if f.Path == "" || len(bw.files) >= MaxNames {
			skip(f.Path, fmt.Sprintf("a bundle has at most %d files with names", MaxNames))
			continue
		}
		content, err := readBundled(f)
		switch {
		case errors.Is(err, fs.ErrNotExist), errors.Is(err, ErrTooLarge):
			skip(f.Path, err.Error())
			continue
		case err != nil:
			return bw.stats, fmt.Errorf("%s: %w", f.Path, err)
		case !utf8.Valid(content):
			skip(f.Path, "the file is not UTF-8")
			continue
		}
		if err := bw.add(f, content); err != nil {
			return bw.stats, err
		}
	}
	if bw.stats.Files == 0 {
		return bw.stats, fmt.Errorf("source bundle: no files: %w", fs.ErrNotExist)
	}
	return bw.stats, bw.finish(b)
}

func readBundled(f BundledFile) (content []byte, err error) {
	r, err := f.Open()
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	return io.ReadAll(limit(r, MaxBundledFile))
}

// bundleWriter is a bundle under way.
type bundleWriter struct {
	out    io.Writer
	zip    *zip.Writer // nil before the first file
	z      *flate.Writer
	packed bytes.Buffer
	files  map[string]manifestFile // by member
	stats  BundleStats
}

// separators are what an entry has one slash for.
var separators = regexp.MustCompile(`:?[/\\]+`)

// member returns the name of the member for a path, which no other one has.
func (w *bundleWriter) member(path string) string {
	clean := strings.TrimLeft(separators.ReplaceAllString(path, "/"), "/")
	if hasDots(clean) {
		clean = strings.TrimLeft(Canonical(clean), "/")
	}
	name := "files/" + clean
	for n := 1; ; n++ {
		if _, taken := w.files[name]; !taken {
			return name
		}
		name = fmt.Sprintf("files/%s.%d", clean, n)
	}
}

// hasDots reports whether a path has a segment "..".
func hasDots(path string) bool {
	return slices.Contains(strings.FieldsFunc(path, func(r rune) bool { return r == '/' || r == '\\' }), "..")
}

func (w *bundleWriter) add(f BundledFile, content []byte) error {
	if w.zip == nil {
		head := append([]byte(bundleMagic), bundleVersion, 0, 0, 0)
		if _, err := w.out.Write(head); err != nil {
			return err
		}
		w.zip = zip.NewWriter(w.out)
		w.zip.SetOffset(bundleHeader)
	}
	name := w.member(f.Path)
	w.files[name] = manifestFile{Type: cmp.Or(f.Type, sourceType), Path: f.Path, URL: f.URL}
	w.stats.Files++
	w.stats.Bytes += int64(len(content))
	return w.write(name, func(z io.Writer) error {
		_, err := z.Write(content)
		return err
	})
}

// counter counts bytes and sums them up.
type counter struct {
	w   io.Writer
	n   uint64
	crc uint32
}

// Write implements io.Writer.
func (c *counter) Write(p []byte) (int, error) {
	c.n += uint64(len(p))
	c.crc = crc32.Update(c.crc, crc32.IEEETable, p)
	return c.w.Write(p)
}

// write adds a member whose sizes are in front of it: not all readers know those behind.
func (w *bundleWriter) write(name string, fill func(io.Writer) error) error {
	w.packed.Reset()
	if w.z == nil {
		z, err := flate.NewWriter(&w.packed, flate.DefaultCompression)
		if err != nil {
			return err
		}
		w.z = z
	}
	w.z.Reset(&w.packed)
	plain := &counter{w: w.z}
	if err := fill(plain); err != nil {
		return err
	}
	if err := w.z.Close(); err != nil {
		return err
	}
	const unix, regular, version, firstDay, utf8Name = 3, 0o100644, 20, 1<<5 | 1, 0x800
	h := &zip.FileHeader{
		Name: name, Method: zip.Deflate, CRC32: plain.crc, CompressedSize64: uint64(w.packed.Len()), UncompressedSize64: plain.n,
		CreatorVersion: unix<<8 | version, ReaderVersion: version, ExternalAttrs: regular << 16,
		ModifiedDate: firstDay, //nolint:staticcheck // raw headers have this
	}
	if strings.ContainsFunc(name, func(r rune) bool { return r >= utf8.RuneSelf }) {
		h.Flags |= utf8Name
	}
	m, err := w.zip.CreateRaw(h)
	if err != nil {
		return err
	}
	_, err = m.Write(w.packed.Bytes())
	return err
}

// finish writes the manifest and the end of the archive.
func (w *bundleWriter) finish(b Bundle) error {
	if err := w.write(manifestName, func(z io.Writer) error { return w.manifest(z, b) }); err != nil {
		return err
	}
	return w.zip.Close()
}

// manifest writes the manifest: the files, links, and then the attributes, each in order.
func (w *bundleWriter) manifest(out io.Writer, b Bundle) error {
	text := func(v any) []byte {
		var p bytes.Buffer
		e := json.NewEncoder(&p)
		e.SetEscapeHTML(false)
		if err := e.Encode(v); err != nil {
			return []byte("null") // strings have no other error
		}
		return bytes.TrimSuffix(p.Bytes(), []byte("\n"))
	}
	var line bytes.Buffer
	line.WriteString(`{"files":{`)
	for i, name := range slices.Sorted(maps.Keys(w.files)) {
		if i > 0 {
			line.WriteByte(',')
		}
		line.Write(text(name))
		line.WriteByte(':')
		line.Write(text(w.files[name]))
		if _, err := line.WriteTo(out); err != nil {
			return err
		}
	}
	line.WriteByte('}')
	if len(b.Links) > 0 {
		line.WriteString(`,"source_links":`)
		line.Write(text(b.Links))
	}
	for _, a := range b.list() {
		if *a.value != "" {
			fmt.Fprintf(&line, `,"%s":%s`, a.name, text(*a.value))
		}
	}
	line.WriteByte('}')
	_, err := line.WriteTo(out)
	return err
}

// attribute is a member of a manifest with a value.
type attribute struct {
	name  string
	value *string
}

// list returns the attributes in the order of their names.
func (a *Attributes) list() []attribute {
	return []attribute{{"arch", &a.Arch}, {"code_id", &a.CodeID}, {"debug_id", &a.DebugID}, {"object_name", &a.ObjectName}}
}
