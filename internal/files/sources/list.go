package sources

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"

	"github.com/symdepot/symdepot/dwarf"
	"github.com/symdepot/symdepot/objfile"
	"github.com/symdepot/symdepot/objtab"
	"github.com/symdepot/symdepot/pdb"
	"github.com/symdepot/symdepot/ppdb"
	"github.com/symdepot/symdepot/symfile"
)

// Limits of links, in bytes.
const (
	maxLinks  = 16 << 20
	maxSrcsrv = 64 << 20
)

// Options of List. The zero value works.
type Options struct {
	// Others are the files that the DWARF of an ELF file refers to: the supplementary file
	// of dwz, the .dwp package, .dwo files. Without them some names are missing, and
	// Incomplete says so.
	Others objtab.ELFFiles
	// Sections says how compressed sections are decompressed. The zero value keeps them in
	// memory, 256 MiB together; names that need more are missing.
	Sections objfile.SectionOptions
	// Names is the greatest number of names; 0 means MaxNames.
	Names int
}

// List returns the source files that the debug information of an object names, in its
// order: each canonical path once, without names of the compiler's own, such as
// <built-in>, and without precompiled headers. r has the size bytes of the object o, as
// objfile.Identify returns it. Damage loses names, and Incomplete says so. The error wraps
// fs.ErrNotExist if the object has no debug information that names sources, or it is that
// of ctx or of reading.
func List(ctx context.Context, r io.ReaderAt, size int64, o symfile.Object, opt Options) (*Listed, error) {
	l := &lister{at: map[string]int{}, most: opt.Names}
	if l.most <= 0 {
		l.most = MaxNames
	}
	var err error
	switch o.Kind {
	case symfile.PDB, symfile.PDB20, symfile.MSFZ:
		err = l.pdb(ctx, r, size)
	case symfile.PortablePDB:
		err = l.portable(ctx, r, size)
	default:
		err = l.dwarf(ctx, objtab.File{Reader: r, Size: size}, o.Kind, opt)
	}
	if errors.Is(err, errEnough) {
		l.incomplete("the object names more than %d source files", l.most)
		err = nil
	}
	if err != nil {
		return nil, fmt.Errorf("source files of %s: %w", o.Name, err)
	}
	if len(l.Names) == 0 && l.Links == nil && l.Srcsrv == nil && l.Incomplete == "" {
		return nil, fmt.Errorf("source files of %s: %w", o.Name, fs.ErrNotExist)
	}
	return &l.Listed, nil
}

// lister collects the names of one object.
type lister struct {
	Listed
	at   map[string]int // by canonical path
	text int            // bytes of names
	most int
}

var errEnough = errors.New("enough names")

func (l *lister) incomplete(format string, args ...any) {
	if l.Incomplete != "" {
		l.Incomplete += "; "
	}
	l.Incomplete += fmt.Sprintf(format, args...)
}

// skip reports whether a name is not that of a source file.
func skip(name string) bool {
	base := symfile.BaseName(name)
	return base == "" || base == "?" || len(name) > maxNameSize || strings.HasPrefix(base, "<") && strings.HasSuffix(base, ">") ||
		strings.HasSuffix(base, "(compiler internal)") || strings.HasSuffix(strings.ToLower(base), ".pch") ||
		strings.ContainsAny(name, "\x00\n\r")
}

// add adds a name, or completes one that is there.
func (l *lister) add(n Name) error {
	if skip(n.Name) {
		return nil
	}
	key := Canonical(n.Name)
	if key == "" {
		return nil
	}
	if i, ok := l.at[key]; ok {
		have := &l.Names[i]
		if have.Alg == "" {
			have.Alg, have.Sum = n.Alg, n.Sum
		}
		if have.Embedded == nil {
			have.Embedded = n.Embedded
		}
		return nil
	}
	if l.text += len(key); len(l.Names) >= l.most || l.text > maxNameText {
		return errEnough
	}
	l.at[key] = len(l.Names)
	l.Names = append(l.Names, n)
	return nil
}

// dwarf lists what line tables name.
func (l *lister) dwarf(ctx context.Context, f objtab.File, kind symfile.Kind, opt Options) error {
	if opt.Sections.Scratch == nil && opt.Sections.Limit == 0 && opt.Sections.Memory == 0 {
		left := int64(maxSections)
		opt.Sections = objfile.SectionOptions{Memory: 1, Scratch: func() (objfile.Scratch, error) { return &chunks{left: &left}, nil }}
	}
	d, err := objtab.Data(f, kind, opt.Others, opt.Sections)
	if err != nil {
		return notThere(err)
	}
	st, err := dwarf.Files(ctx, d, func(s dwarf.SourceFile) error {
		n := Name{Name: s.Name}
		if s.MD5 != nil {
			n.Alg, n.Sum = "md5", s.MD5
		}
		if text := s.Text; text != nil {
			n.Embedded = func() (io.ReadCloser, error) { return io.NopCloser(limit(text.Reader(), MaxFile)), nil }
		}
		return l.add(n)
	})
	if errors.Is(err, dwarf.ErrBudget) {
		l.incomplete("%v", err)
		err = nil
	}
	if st.Unread != "" {
		l.incomplete("%s", st.Unread)
		if errors.Is(err, fs.ErrNotExist) {
			return nil // there are names, but not for us
		}
	}
	if st.Damaged > 0 {
		l.incomplete("%d of %d line tables are damaged", st.Damaged, st.Tables)
	}
	if st.NoFolder > 0 {
		why := "the compilation directory of %d line tables is not known"
		if kind == symfile.ELF && d.Alternate == nil {
			if links, err := objtab.LinksOf(ctx, f); err == nil && links.AlternateID != "" {
				l.Alternate = links.AlternateID
				why += ": it is in the supplementary debug file with the build-id " + string(links.AlternateID)
			}
		}
		l.incomplete(why, st.NoFolder)
	}
	if st.Missing > 0 {
		l.incomplete("the split debug information of %d units is missing, which may name more headers", st.Missing)
	}
	return notThere(err)
}

// maxSections is how many bytes of compressed sections are kept in memory.
const maxSections = 256 << 20

// chunks is a section in memory.
type chunks struct {
	list [][]byte // of chunkSize bytes, except the last
	size int64
	left *int64 // for all sections
}

const chunkSize = 256 << 10

// Write implements io.Writer.
func (c *chunks) Write(p []byte) (int, error) {
	if *c.left -= int64(len(p)); *c.left < 0 {
		return 0, fmt.Errorf("compressed sections have more than %d bytes", maxSections)
	}
	for rest := p; len(rest) > 0; {
		if c.size%chunkSize == 0 {
			c.list = append(c.list, make([]byte, 0, chunkSize))
		}
		last := &c.list[len(c.list)-1]
		n := min(len(rest), chunkSize-len(*last))
		*last, rest = append(*last, rest[:n]...), rest[n:]
		c.size += int64(n)
	}
	return len(p), nil
}

// ReadAt implements io.ReaderAt.
func (c *chunks) ReadAt(p []byte, off int64) (n int, err error) {
	for n < len(p) {
		if off < 0 || off >= c.size {
			return n, io.EOF
		}
		m := copy(p[n:], c.list[off/chunkSize][off%chunkSize:])
		n, off = n+m, off+int64(m)
	}
	return n, nil
}

// notThere is err, or fs.ErrNotExist for a file that is damaged as a whole or of a kind
// without sources.
func notThere(err error) error {
	if errors.Is(err, objfile.ErrBroken) || errors.Is(err, objfile.ErrNotSymbolFile) {
		return fmt.Errorf("%w: %w", fs.ErrNotExist, err)
	}
	return err
}

// pdb lists what the modules of a PDB name, and injected files.
func (l *lister) pdb(ctx context.Context, r io.ReaderAt, size int64) error {
	f, err := pdb.Open(r, size)
	if err != nil {
		return broken(err)
	}
	damaged, err := f.SourceFiles(ctx, func(s pdb.SourceFile) error { return l.add(Name{Name: s.Name, Alg: s.Algorithm, Sum: s.Sum}) })
	if damaged > 0 {
		l.incomplete("%d modules are damaged", damaged)
	}
	if err := l.soft(ctx, "modules", err); err != nil {
		return err
	}
	injected, err := f.InjectedSources()
	if err := l.soft(ctx, "injected files", err); err != nil {
		return err
	}
	for _, s := range injected {
		if s.Compression != 0 {
			l.incomplete("the injected file %s is compressed", symfile.BaseName(s.Name))
			continue
		}
		if err := l.add(Name{Name: s.Name, Embedded: func() (io.ReadCloser, error) {
			r, err := s.Open()
			if err != nil {
				return nil, err
			}
			return io.NopCloser(limit(r, MaxFile)), nil
		}}); err != nil {
			return err
		}
	}
	links, err := f.SourceLinks()
	if err := l.soft(ctx, "Source Link", err); err != nil {
		return err
	}
	var all [][]byte
	left := int64(maxLinks)
	for _, s := range links {
		if left -= s.Size(); left < 0 {
			l.incomplete("Source Link has more than %d bytes", maxLinks)
			break
		}
		p, err := io.ReadAll(s)
		if err := l.soft(ctx, "Source Link", err); err != nil {
			return err
		}
		all = append(all, p)
	}
	l.Links = mergeLinks(all)
	s, err := f.NamedStream("srcsrv")
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil && s.Size() > maxSrcsrv {
		l.incomplete("the source index has %d bytes", s.Size())
		return nil
	}
	if err == nil {
		l.Srcsrv, err = io.ReadAll(s)
	}
	return l.soft(ctx, "source index", err)
}

// broken is the error of opening a file of a known kind: damage means that there are no
// names.
func broken(err error) error {
	if errors.As(err, new(*fs.PathError)) || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	return fmt.Errorf("%w: %w", fs.ErrNotExist, err)
}

// soft notes the damage of a part. The errors that end all reading are returned.
func (l *lister) soft(ctx context.Context, part string, err error) error {
	if err == nil {
		return nil
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if errors.Is(err, errEnough) || errors.As(err, new(*fs.PathError)) {
		return err
	}
	l.incomplete("%s: %v", part, err)
	return nil
}

// mergeLinks merges the JSON of several object files. Of equal patterns the first counts.
func mergeLinks(all [][]byte) []byte {
	if len(all) == 0 {
		return nil
	}
	if len(all) == 1 {
		return all[0]
	}
	merged := struct {
		Documents map[string]json.RawMessage `json:"documents"`
	}{map[string]json.RawMessage{}}
	for _, p := range all {
		var one struct {
			Documents map[string]json.RawMessage `json:"documents"`
		}
		if json.Unmarshal([]byte(strings.TrimPrefix(string(p), "\ufeff")), &one) != nil {
			continue
		}
		for k, v := range one.Documents {
			if _, ok := merged.Documents[k]; !ok {
				merged.Documents[k] = v
			}
		}
	}
	p, err := json.Marshal(merged)
	if err != nil {
		return nil
	}
	return p
}

// hashAlgorithms are the GUIDs of the hashes of documents (Portable PDB format, Document
// table).
var hashAlgorithms = map[string]string{
	"ff1816ecaa5e4d1087f76f4963833460": "sha1",
	"8829d00f11b84213878b770e8597ac16": "sha256",
	"406ea66064cf4c82b6f042d48172a799": "md5",
}

// portable lists the documents of a portable PDB.
func (l *lister) portable(ctx context.Context, r io.ReaderAt, size int64) error {
	f, err := ppdb.Open(r, size)
	if err != nil {
		return broken(err)
	}
	lines, err := f.Lines()
	if err != nil {
		return broken(err)
	}
	embedded, err := lines.EmbeddedSources()
	if err := l.soft(ctx, "embedded sources", err); err != nil {
		return err
	}
	texts := map[uint32]ppdb.EmbeddedSource{}
	for _, e := range embedded {
		if _, twice := texts[e.Document]; !twice {
			texts[e.Document] = e
		}
	}
	if l.Links, err = lines.SourceLink(); err != nil && !errors.Is(err, fs.ErrNotExist) {
		if err := l.soft(ctx, "Source Link", err); err != nil {
			return err
		}
	}
	damaged := 0
	for i := uint32(1); i <= lines.Documents(); i++ {
		if i%1024 == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		d, err := lines.Document(i)
		if errors.As(err, new(*fs.PathError)) {
			return err
		}
		if err != nil {
			damaged++
			continue
		}
		n := Name{Name: d.Name}
		if alg := hashAlgorithms[d.HashAlgorithm.Lower()]; alg != "" && len(d.Hash) > 0 {
			n.Alg, n.Sum = alg, d.Hash
		}
		if e, ok := texts[i]; ok {
			n.Embedded = func() (io.ReadCloser, error) { return openEmbedded(e) }
		}
		if err := l.add(n); err != nil {
			return err
		}
	}
	if damaged > 0 {
		l.incomplete("%d of %d documents are damaged", damaged, lines.Documents())
	}
	return nil
}

// openEmbedded opens the text of a document if its size is credible.
func openEmbedded(e ppdb.EmbeddedSource) (io.ReadCloser, error) {
	if e.Size > MaxFile || e.Size/maxRatio > e.Stored() {
		return nil, fmt.Errorf("%w: %d bytes, %d of them stored", ErrTooLarge, e.Size, e.Stored())
	}
	return e.Open(), nil
}

// Extract reads all embedded texts, in the order of the names, and calls take for each. A
// text that is too large or damaged is left out, and refused says why; take must read the
// text to its end to find that out, and forget what it was given if it gets an error of r.
// So are all texts after MaxEmbedded bytes. The error is that of take or of ctx.
func (l *Listed) Extract(ctx context.Context, take func(i int, r io.Reader) error) (refused []Refusal, err error) {
	left := int64(MaxEmbedded)
	for i, n := range l.Names {
		if n.Embedded == nil {
			continue
		}
		if err := ctx.Err(); err != nil {
			return refused, err
		}
		r, err := n.Embedded()
		if err != nil {
			refused = append(refused, Refusal{Name: i, Reason: err.Error()})
			continue
		}
		in := &counted{r: limit(r, left)}
		err = take(i, in)
		_ = r.Close() // it was only read
		left -= in.n
		if in.err != nil {
			refused = append(refused, Refusal{Name: i, Reason: in.err.Error()})
			continue
		}
		if err != nil {
			return refused, err
		}
	}
	return refused, nil
}

// counted counts the bytes that were read, and keeps the error of reading.
type counted struct {
	r   io.Reader
	n   int64
	err error
}

// Read implements io.Reader.
func (c *counted) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	c.n += int64(n)
	if err != nil && !errors.Is(err, io.EOF) {
		c.err = err
	}
	return n, err
}
