package watch

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"slices"
	"strings"
	"sync"

	"github.com/symdepot/symdepot/internal/files/scan"
	"github.com/symdepot/symdepot/internal/index/watched"
	"github.com/symdepot/symdepot/objfile"
)

// The kinds of files in the index.
const (
	kindPlain   = iota
	kindPackage // an archive with members
	kindSources // a Debian source package, or a part of one
)

// Limits of reading one file.
const (
	memberMemory  = 8 << 20   // of a member that is held in memory
	largeMember   = 1 << 20   // from which on only the ends of an ELF file are held
	maxObjects    = 200_000   // of one package
	maxSources    = 1_000_000 // of one package
	maxSourceText = 128 << 20 // of the names of source files of one package
)

// errLies means that a file contradicts itself. It is left out.
var errLies = errors.New("the package is damaged")

// reading reads one file, as the visitor of it.
type reading struct {
	ctx    context.Context
	opt    *Options
	path   string
	at     io.ReaderAt
	size   int64
	whole  map[string]bool // members that must be read whole: see needWhole
	target map[string]bool // objects that are expected and were not met; nil if unknown

	isPackage bool
	listed    []string // the table of contents
	objects   []watched.Object
	sources   map[string]member // by member path
	text      int
	again     map[string]bool // members whose ends did not suffice
	skipped   int             // members of which the middle was not decompressed
	missed    int             // of them, those whose middle was needed
	buf       *[]byte         // for the bytes of one member
	problem   error
}

// member is a file in a package.
type member struct {
	size  int64 // -1: unknown
	place scan.Place
	sum   *uint32 // CRC-32 that the package claims; nil: none
}

// memberName returns the path of a member as its package means it: without the data.tar
// of a Debian package, which is no folder.
func memberName(m string) string {
	if first, rest, ok := strings.Cut(m, scan.Separator); ok && strings.HasPrefix(first, "data.tar") {
		return rest
	}
	return m
}

// nested reports whether the path is that of a file in an archive in a package.
func nested(name string) bool { return strings.Contains(name, scan.Separator) }

// readFile reads an open file. A file that is of no interest has an entry without
// objects, sources and problem. The error is that of the context.
func (f *Folder) readFile(ctx context.Context, h handle, dir, name string, spare chan struct{}) (*watched.Entry, error) {
	p := within(dir, name)
	s := h.stamp()
	e := &watched.Entry{File: watched.File{
		Dir: dir, Name: name, Size: s.size, MTime: s.mtime, CTime: s.ctime, Inode: s.inode, Tag: s.tag,
		Seen: f.opt.Now().UnixNano(),
	}}
	buf, _ := buffers.Get().(*[]byte)
	if buf == nil {
		buf = new([]byte)
	}
	defer buffers.Put(buf)
	r := &reading{ctx: ctx, opt: &f.opt, path: p, at: h, size: s.size, buf: buf}
	opt := f.opt.scanOptions()
	opt.Spare = spare
	var points *noting
	for {
		points.end(false, f.opt.Log)
		points = &noting{files: f.points, path: f.pointsPath(p, s)}
		opt.NotePoints = points.options
		r.objects, r.sources, r.again, r.target, r.text = nil, map[string]member{}, map[string]bool{}, nil, 0
		r.skipped, r.missed = 0, 0
		err := scan.Visit(ctx, scan.Source{Path: p, At: h, Size: s.size}, opt, r)
		if ctx.Err() != nil {
			points.end(false, f.opt.Log)
			return nil, ctx.Err()
		}
		if err != nil && r.problem == nil {
			r.problem = err
		}
		if r.problem != nil || len(r.again) == 0 {
			break
		}
		r.whole = r.again
	}
	points.end(r.problem == nil && !h.changed(), f.opt.Log)
	if r.problem != nil {
		e.File.Problem = r.problem.Error()
		return e, nil
	}
	if !r.isPackage && !isNamedPackage(name, h) {
		e.File.Problem = "it is not a package, although its name says so"
		return e, nil
	}
	if r.isPackage {
		e.File.Kind = kindPackage
		if isSourcePackage(name) {
			e.File.Kind = kindSources
		}
	}
	for _, l := range r.listed {
		r.source(l, member{size: -1})
	}
	e.Objects = r.objects
	e.Sources, e.Names = r.sourceRows(e.File.Kind)
	return e, nil
}

func (o *Options) scanOptions() scan.Options {
	opt := scan.Options{TempDir: o.TempDir, MemberMemory: memberMemory, TotalMemory: 64 << 20, MaxRatio: o.unpackRatio}
	if o.unpackRatio > 0 {
		opt.MaxTotal = 1 << 20
	}
	return opt
}

// Contents receives the list of files of an RPM package.
func (r *reading) Contents(names []string) error {
	r.isPackage, r.listed, r.target = true, names, map[string]bool{}
	for _, n := range names {
		if mayHoldObject(n) {
			r.target[n] = true
		}
	}
	return r.enough()
}

// enough ends the visit if all objects that the package should have were met: the rest
// need not be unpacked.
func (r *reading) enough() error {
	if r.target != nil && len(r.target) == 0 {
		return scan.ErrEnough
	}
	return nil
}

// Meet decides whether a member is opened.
func (r *reading) Meet(e *scan.Entry) (bool, error) {
	r.isPackage = true
	if r.isControl(e.Member) {
		_, inner, within := strings.Cut(e.Member, scan.Separator)
		return !within || inner == "md5sums", nil
	}
	name := memberName(e.Member)
	if name == e.Member && strings.HasPrefix(name, "data.tar") && isDebian(r.path) {
		return true, nil
	}
	if !nested(name) {
		if err := r.enough(); err != nil {
			return false, err
		}
		if r.source(name, member{e.Size, e.Place, e.Sum}) > maxSources || r.text > maxSourceText {
			return false, fmt.Errorf("%w: it has too many source files", errLies)
		}
		delete(r.target, name)
	}
	return mayHoldObject(name), nil
}

// isControl reports whether a member is the control part of a Debian package.
func (r *reading) isControl(m string) bool {
	return strings.HasPrefix(m, "control.tar") && isDebian(r.path)
}

// isDebian reports whether a name is that of a Debian package.
func isDebian(name string) bool {
	switch strings.ToLower(path.Ext(name)) {
	case ".deb", ".ddeb", ".udeb", ".ipk":
		return true
	}
	return false
}

// isNamedPackage reports whether a file whose name is that of a Debian or RPM package
// begins as one; other files may begin as they like.
func isNamedPackage(name string, at io.ReaderAt) bool {
	magic := ""
	switch strings.ToLower(path.Ext(name)) {
	case ".deb", ".ddeb", ".udeb":
		magic = "!<arch>\n"
	case ".rpm":
		magic = "\xed\xab\xee\xdb"
	}
	head := make([]byte, len(magic))
	_, err := at.ReadAt(head, 0)
	return magic == "" || (err == nil || errors.Is(err, io.EOF)) && string(head) == magic
}

// source notes a member that may be a source file, and returns how many there are.
func (r *reading) source(name string, m member) int {
	if isSource(name) {
		if _, have := r.sources[name]; !have {
			r.text += len(name)
			r.sources[name] = m
		}
	}
	return len(r.sources)
}

// Skipped reports what cannot be read. Only damage of the package itself matters: a
// damaged file in it may be one on purpose.
func (r *reading) Skipped(s *scan.Skip) {
	if r.problem != nil {
		return
	}
	own := s.Path == r.path
	if inner, ok := strings.CutPrefix(s.Path, r.path+scan.Separator); ok {
		own = strings.HasPrefix(inner, "data.tar") && !strings.Contains(inner, scan.Separator)
	}
	switch s.Reason {
	case scan.ReasonLimit, scan.ReasonNoSpace:
		r.problem = s
	case scan.ReasonDamaged, scan.ReasonUnreadable:
		if own {
			r.problem = s
		}
	}
}

// File identifies a file.
func (r *reading) File(e *scan.Entry) error {
	if r.isControl(e.Member) {
		return r.md5sums(e)
	}
	if objfile.Detect(e.Head(), e.Name) != nil {
		return nil
	}
	at, size, free, err := r.bytes(e)
	if err != nil {
		return r.unreadable(e, err)
	}
	defer free()
	objects, err := objfile.Identify(at, size, e.Name, objfile.Options{})
	if parts, ok := at.(*ends); ok && size < largeMember && parts.short {
		r.missed++
		return r.readAgain(e) // also for features that depend on the rest
	}
	switch {
	case errors.Is(err, objfile.ErrUnread):
		return r.readAgain(e)
	case errors.Is(err, objfile.ErrNotSymbolFile):
		return nil
	case errors.Is(err, objfile.ErrBroken):
		r.opt.Log.Debug("a file in a watched folder is damaged", "file", r.path, "member", e.Member, "error", err)
		return nil
	case err != nil:
		return r.unreadable(e, err)
	}
	return r.add(e, objects, size)
}

// readAgain reads a member whole whose ends did not suffice: at its place, if that is
// known, else by reading the package again.
func (r *reading) readAgain(e *scan.Entry) error {
	if e.Place.Method == scan.Nested {
		r.again[e.Member] = true
		return nil
	}
	src, err := scan.OpenPlace(r.ctx, r.at, r.size, e.Place, r.opt.scanOptions())
	if err != nil {
		return r.unreadable(e, err)
	}
	defer src.Close()
	at, size, free, err := r.spool(io.LimitReader(src, e.Size), e.Size)
	if err != nil {
		return r.unreadable(e, err)
	}
	defer free()
	objects, err := objfile.Identify(at, size, e.Name, objfile.Options{})
	if errors.Is(err, objfile.ErrNotSymbolFile) || errors.Is(err, objfile.ErrBroken) {
		return nil
	}
	if err != nil {
		return r.unreadable(e, err)
	}
	return r.add(e, objects, size)
}

// add notes the objects in a file.
func (r *reading) add(e *scan.Entry, objects []objfile.Object, size int64) error {
	for i := range objects {
		o := &objects[i]
		keys := keysOf(o.Object)
		if len(keys) == 0 {
			continue
		}
		if len(r.objects) >= maxObjects {
			return fmt.Errorf("%w: it has more than %d objects", errLies, maxObjects)
		}
		name := e.Name
		r.objects = append(r.objects,
			watched.Object{
				Member: e.Member, Place: encodePlace(e.Place), Size: size, Data: encodeObject(o, name, size), Keys: keys,
				Signature: e.Signature,
			})
	}
	return nil
}

// unreadable ends the visit, because the package has less than it says.
func (r *reading) unreadable(e *scan.Entry, err error) error {
	if r.ctx.Err() != nil {
		return r.ctx.Err()
	}
	if e.Member == "" {
		return err
	}
	return fmt.Errorf("%w: %s: %w", errLies, memberName(e.Member), err)
}

// bytes returns the bytes of a file with random access. If the archive has a checksum of
// them, it is compared: they are served later as they are.
func (r *reading) bytes(e *scan.Entry) (at io.ReaderAt, size int64, free func(), err error) {
	if at := e.At(); at != nil {
		if e.Sum != nil {
			err = atEnd(scan.CheckSum(io.NewSectionReader(at, 0, e.Size), e.Size, *e.Sum))
		}
		return at, e.Size, func() {}, err
	}
	src := e.Reader()
	if parts := r.parts(e, src); parts != nil {
		at, err := readEnds(src, e.Size, parts)
		if err == nil && e.Sum != nil {
			err = atEnd(src)
		}
		return at, e.Size, func() {}, err
	}
	if e.Size >= 0 && e.Size <= memberMemory {
		p := r.room(int(e.Size))
		_, err := io.ReadFull(src, p)
		if err == nil && e.Sum != nil {
			err = atEnd(src)
		}
		return &memory{p}, e.Size, func() {}, noEOF(err)
	}
	return r.spool(src, e.Size)
}

// parts returns the parts to read of a member, if its ends may suffice; else nil.
func (r *reading) parts(e *scan.Entry, src io.Reader) [][2]int64 {
	switch {
	case !strings.HasPrefix(string(e.Head()), "\x7fELF") || r.whole[e.Member] || strings.Contains(e.Name, ".dw"):
		return nil
	case e.Size >= largeMember:
		return largeParts(e.Head(), e.Size)
	case e.Size < 0 || e.Sum != nil || e.Place.Method == scan.Nested || r.missed > 1 && r.missed > r.skipped/4:
		return nil // in this package more would be decompressed twice than is skipped
	}
	parts := skippingParts(src, e.Head(), e.Size)
	if parts != nil {
		r.skipped++
	}
	return parts
}

// atEnd reads the rest of a reader that compares a checksum at its end.
func atEnd(r io.Reader) error {
	_, err := io.Copy(io.Discard, r)
	return err
}

// spool reads a stream to its end, into memory or a temporary file. want is its size; -1 if
// that is unknown.
func (r *reading) spool(src io.Reader, want int64) (at io.ReaderAt, size int64, free func(), err error) {
	first := bytes.NewBuffer((*r.buf)[:0])
	if _, err := io.CopyN(first, src, memberMemory); err != nil && !errors.Is(err, io.EOF) {
		return nil, 0, nil, err
	}
	p := first.Bytes()
	*r.buf = p[:0]
	if len(p) < memberMemory {
		if want >= 0 && int64(len(p)) != want {
			return nil, 0, nil, io.ErrUnexpectedEOF
		}
		return &memory{p}, int64(len(p)), func() {}, nil
	}
	t, err := os.CreateTemp(r.opt.TempDir, "symdepot-*")
	if err != nil {
		return nil, 0, nil, err
	}
	gone := os.Remove(t.Name()) == nil // not on Windows
	free = func() {
		_ = t.Close()
		if !gone {
			_ = os.Remove(t.Name())
		}
	}
	_, err = t.Write(p)
	n := int64(len(p))
	if err == nil {
		var more int64
		more, err = io.Copy(t, src)
		n += more
	}
	if err == nil && want >= 0 && n != want {
		err = io.ErrUnexpectedEOF
	}
	if err != nil {
		free()
		return nil, 0, nil, err
	}
	return t, n, free, nil
}

// buffers are for the bytes of members. Each goes from file to file.
var buffers sync.Pool

// room returns n bytes that are valid until the next call.
func (r *reading) room(n int) []byte {
	if cap(*r.buf) < n {
		*r.buf = make([]byte, max(n, 256<<10))
	}
	return (*r.buf)[:n]
}

func noEOF(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

// memory is a file in memory.
type memory struct{ p []byte }

func (m *memory) ReadAt(p []byte, off int64) (int, error) {
	if off < 0 || off >= int64(len(m.p)) {
		return 0, io.EOF
	}
	n := copy(p, m.p[off:])
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}

// md5sums reads the list of files of a Debian package. It lacks configuration files,
// which are neither objects nor sources.
func (r *reading) md5sums(e *scan.Entry) error {
	if e.Name != "md5sums" || e.Size < 0 || e.Size > maxSourceText/8 {
		return nil
	}
	var names []string
	s := bufio.NewScanner(e.Reader())
	for s.Scan() {
		_, name, ok := strings.Cut(s.Text(), " ")
		if !ok {
			return nil // not a list that we know
		}
		names = append(names, strings.TrimPrefix(strings.TrimLeft(name, " *"), "./"))
	}
	if s.Err() != nil {
		return nil //nolint:nilerr // the package is read whole: a list that is cut would hide what it lacks
	}
	if len(names) == 0 {
		return nil
	}
	return r.Contents(names)
}

// dullFolders are folders of packages without symbol files, and sourceFolders those with
// source files only.
var (
	dullFolders = []string{"usr/share/doc/", "usr/share/man/", "usr/share/info/", "usr/share/locale/",
		"usr/share/licenses/", "usr/share/help/",
		"usr/share/icons/", "usr/share/zoneinfo/", "usr/share/fonts/", "usr/share/lintian/", "usr/share/bash-completion/"}
	sourceFolders = []string{"usr/src/debug/", "usr/include/"}
)

// dullSuffixes are the suffixes of files that are no symbol files, besides those of
// source files.
var dullSuffixes = suffixes(`
	html htm css txt md rst tex texi pdf ps svg png jpg jpeg gif ico bmp webp xpm ttf otf woff woff2 ogg wav mp3
	mp4 a o lo gir typelib pod ph al ix pri prl prf qml qmltypes json yaml yml toml ini conf cfg service desktop
	xml xsl xsd dtd rng csv tsv po pot mo qm ts in am ac m4 cmake mk la pc sh bash csh zsh fish pl pm py pyc pyi
	rb tcl lua el elc php sql awk sed bat cmd ps1 diff patch list policy rules pem crt`)

// sourceSuffixes are the suffixes of files that debug information names.
var sourceSuffixes = suffixes(`
	c h cc cpp cxx c++ hh hpp hxx h++ inl inc ipp tcc tpp def s asm sx m mm rs go d f f77 f90 f95 f03 f08 for ftn
	ada adb ads pas pp vala y l yy ll ypp lpp cs vb fs fsi java kt kts scala swift zig nim cr ml mli hs cu cuh cl
	glsl hlsl proto gperf re x td v sv jl idl`)

func suffixes(list string) map[string]bool {
	m := map[string]bool{}
	for s := range strings.FieldsSeq(list) {
		m["."+s] = true
	}
	return m
}

func hasFolder(name string, list []string) bool {
	return slices.ContainsFunc(list, func(dir string) bool { return strings.HasPrefix(name, dir) })
}

// isSource reports whether a member may be a source file that debug information names.
func isSource(name string) bool {
	if nested(name) {
		return false
	}
	return hasFolder(name, sourceFolders) || sourceSuffixes[strings.ToLower(path.Ext(name))]
}

// mayHoldObject reports whether a member may be a symbol file, or hold one. It judges by
// the name, so that a package whose members are all dull need not be unpacked.
func mayHoldObject(name string) bool {
	if hasFolder(name, dullFolders) || hasFolder(name, sourceFolders) {
		return false
	}
	ext := strings.ToLower(path.Ext(name))
	return !dullSuffixes[ext] && !sourceSuffixes[ext]
}

// isSourcePackage reports whether a name is that of a part of a Debian source package:
// NAME_VERSION.orig.tar.*, NAME_VERSION.debian.tar.*, or NAME_VERSION.tar.*.
func isSourcePackage(name string) bool {
	base, _, ok := strings.Cut(name, ".tar.")
	return ok && strings.Contains(base, "_") && !strings.HasSuffix(name, ".sig") && !strings.HasSuffix(name, ".asc")
}
