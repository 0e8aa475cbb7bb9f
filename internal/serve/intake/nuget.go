package intake

import (
	"bytes"
	"context"
	"encoding/xml"
	"fmt"
	"io"
	"net/http"
	"path"
	"strings"

	"github.com/symdepot/symdepot/debugid"
	"github.com/symdepot/symdepot/internal/base/truncate"
	"github.com/symdepot/symdepot/internal/depot/stage"
	"github.com/symdepot/symdepot/internal/files/scan"
	"github.com/symdepot/symdepot/objfile"
	"github.com/symdepot/symdepot/ppdb"
	"github.com/symdepot/symdepot/symfile"
)

// The push of NuGet clients: .nupkg, .snupkg and .symbols.nupkg. Of a package the
// symbol files are kept: PDBs and images.

var nugetFace = &face{
	name: "nuget", noCredential: http.StatusUnauthorized, badCredential: http.StatusForbidden,
	quota: http.StatusRequestEntityTooLarge, unfit: http.StatusBadRequest, wrong: http.StatusBadRequest,
	write: func(x *exchange, status int, text string) {
		// NuGet clients show the status only; a log of theirs may have the header.
		x.w.Header().Set("Warning", `299 - "`+warnText(truncate.To(text, 500))+`"`)
		textFailure(x, status, text)
	},
}

// warnText makes a text that may stand in the quoted string of a Warning header (RFC 7234
// section 5.5): of ASCII only, without control characters, quotes and backslashes. Go's
// client and strict proxies drop an answer whose header has others.
func warnText(s string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == '"':
			return '\''
		case r == '\\':
			return '/'
		case r == '\n' || r == '\r':
			return ' '
		case r < 0x20 || r > 0x7e:
			return '?'
		}
		return r
	}, s)
}

// serveNugetIndex answers the service index, which clients ask for without
// credentials.
func serveNugetIndex(x *exchange) error {
	type resource struct {
		ID   string `json:"@id"`
		Type string `json:"@type"`
	}
	base := x.base() + "/nuget/v2/"
	return x.json(http.StatusOK, map[string]any{"version": "3.0.0", "resources": []resource{
		{base + "package", "PackagePublish/2.0.0"},
		{base + "symbolpackage", "SymbolPackagePublish/4.9.0"},
	}})
}

// assembly is the reference of an image in a package to its PDB.
type assembly struct {
	path string
	id   debugid.ID
	// checksums are those of its PDB, if it is a portable one.
	checksums []objfile.PDBChecksum
}

// pdbFile is a PDB in a package.
type pdbFile struct {
	id debugid.ID
	// sums are the checksums of a portable PDB by algorithm; nil for others.
	sums map[string][]byte
}

// pdbFileOf describes a PDB.
func pdbFileOf(o symfile.Object, c *scan.Content) (pdbFile, error) {
	f := pdbFile{id: o.DebugID}
	if o.Kind != symfile.PortablePDB {
		return f, nil
	}
	f.sums = map[string][]byte{}
	for _, alg := range []string{"SHA1", "SHA256", "SHA384", "SHA512"} {
		sum, err := ppdb.Checksum(c, c.Size(), alg)
		if err != nil {
			return f, err
		}
		f.sums[alg] = sum
	}
	return f, nil
}

// contradicts returns why a PDB is not that of an image; empty if it may be.
func (f pdbFile) contradicts(stem string, image assembly) string {
	if image.id.GUID != f.id.GUID {
		return fmt.Sprintf("%s.pdb has the id %s, but %s was built with the PDB %s",
			truncate.Text(stem), f.id.Breakpad(), truncate.Text(image.path), image.id.Breakpad())
	}
	for _, want := range image.checksums {
		if got, ok := f.sums[strings.ToUpper(want.Algorithm)]; ok && !bytes.Equal(got, want.Sum) {
			return fmt.Sprintf("%s.pdb has the checksum %s:%x, but %s was built with a PDB of %s",
				truncate.Text(stem), want.Algorithm, got, truncate.Text(image.path), truncate.Text(want.String()))
		}
	}
	return ""
}

// nuspec holds the fields of a package's manifest that are used.
type nuspec struct {
	Metadata struct {
		ID      string `xml:"id"`
		Version string `xml:"version"`
	} `xml:"metadata"`
}

const maxNuspec = 1 << 20

// serveNugetPush answers the PUT of a package.
func serveNugetPush(x *exchange) error {
	if err := x.take(); err != nil {
		return err
	}
	seen := false
	f, err := x.readForm(func(_, filename string) bool {
		isFirst := !seen && filename != ""
		seen = seen || isFirst
		return isFirst
	})
	if err != nil {
		return err
	}
	defer f.close()
	if f.file == nil {
		return &failure{http.StatusBadRequest, "the form has no package"}
	}
	spec, err := x.readNuspec(f.file)
	if err != nil {
		return err
	}
	l, err := x.labels(stage.Labels{
		Product: spec.Metadata.ID, Version: spec.Metadata.Version,
		Comment: truncate.To("NuGet package "+spec.Metadata.ID+" "+spec.Metadata.Version, maxLabel-len("…")),
	})
	if err != nil {
		return err
	}
	ext := ".nupkg"
	if x.t.args[0] == "symbolpackage" {
		ext = ".snupkg"
	}
	name, err := cleanPath(spec.Metadata.ID + "." + spec.Metadata.Version + ext)
	if err != nil {
		return err
	}
	key := x.who.ID + "\x00" + strings.ToLower(spec.Metadata.ID+"\x00"+spec.Metadata.Version)
	known, _ := x.packages.get(key) // the images of the package whose symbols these are
	images := map[string]assembly{}
	pdbs := map[string]pdbFile{}
	_, err = x.transaction(l, func(u *upload) error {
		_, err := x.expand(x.r.Context(), u, f.file, name, taking{check: func(p string, a stage.Arrived, c *scan.Content) error {
			return x.nugetFile(x.r.Context(), l, p, a, c, images, pdbs)
		}})
		if err != nil {
			return err
		}
		for stem, pdb := range pdbs {
			image, ok := images[stem]
			if !ok {
				image, ok = known[stem]
			}
			if !ok {
				continue
			}
			if why := pdb.contradicts(stem, image); why != "" {
				return &wrongClaim{why}
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	if len(images) > 0 && len(images) <= maxKnownImages {
		x.packages.put(key, images)
	}
	x.w.WriteHeader(http.StatusCreated)
	return nil
}

// maxKnownImages limits the images that are remembered of one package.
const maxKnownImages = 1000

// nugetFile judges one symbol file of a package.
func (x *exchange) nugetFile(
	ctx context.Context, l stage.Labels, p string, a stage.Arrived, c *scan.Content, images map[string]assembly,
	pdbs map[string]pdbFile,
) error {
	stem := strings.ToLower(strings.TrimSuffix(strings.ReplaceAll(p, `\`, "/"), path.Ext(p)))
	objects, err := objfile.Identify(c, c.Size(), p, objfile.Options{})
	if err != nil {
		return err
	}
	for _, o := range objects {
		switch o.Kind {
		case symfile.PE:
			for _, w := range o.PDBs {
				if strings.EqualFold(strings.TrimSuffix(symfile.BaseName(w.Name), ".pdb"), path.Base(stem)) && !w.DebugID.IsZero() {
					sums, err := objfile.PDBChecksums(c, c.Size())
					if err != nil {
						return err
					}
					images[stem] = assembly{p, w.DebugID, sums}
				}
			}
		case symfile.PDB, symfile.PortablePDB:
			if o.Offset == 0 && o.Deflated == 0 {
				if pdbs[stem], err = pdbFileOf(o.Object, c); err != nil {
					return err
				}
			}
			// A package that is pushed again has the same bytes; other bytes of
			// the same PDB are another build under a version that is in use.
			here, err := x.conflicts(ctx, l.Product, a, c)
			if err != nil && !here {
				return named(p, err)
			}
		}
	}
	return nil
}

// readNuspec finds and reads the manifest of a package.
func (x *exchange) readNuspec(s *spool) (*nuspec, error) {
	var head [4]byte
	if _, err := s.ReadAt(head[:], 0); err != nil || head[0] != 'P' || head[1] != 'K' {
		return nil, &failure{http.StatusBadRequest, "the package is not a zip archive"}
	}
	var spec *nuspec
	err := x.walk(x.r.Context(), s, "package", x.options(), func(member string, f *scan.File) error {
		if strings.ContainsAny(member, `/\`) || !strings.EqualFold(path.Ext(member), ".nuspec") {
			return nil
		}
		if spec != nil {
			return &failure{http.StatusBadRequest, "the package has two .nuspec files"}
		}
		c, err := f.Open(x.r.Context())
		if err != nil {
			return x.skipped(s, "package", err)
		}
		defer c.Close()
		if c.Size() > maxNuspec {
			return &failure{http.StatusBadRequest, fmt.Sprintf("%s is larger than %d bytes", truncate.Text(member), maxNuspec)}
		}
		spec, err = parseNuspec(io.NewSectionReader(c, 0, c.Size()))
		return err
	}, nil)
	if err == nil && spec == nil {
		err = &failure{http.StatusBadRequest, "the package has no .nuspec file"}
	}
	return spec, err
}

func parseNuspec(r io.Reader) (*nuspec, error) {
	var n nuspec
	d := xml.NewDecoder(r)
	d.CharsetReader = func(string, io.Reader) (io.Reader, error) { return nil, fmt.Errorf("the encoding is not UTF-8") }
	if err := d.Decode(&n); err != nil {
		return nil, &failure{http.StatusBadRequest, "the .nuspec file cannot be read: " + truncate.Text(err.Error())}
	}
	n.Metadata.ID, n.Metadata.Version = strings.TrimSpace(n.Metadata.ID), strings.TrimSpace(n.Metadata.Version)
	for what, s := range map[string]string{"id": n.Metadata.ID, "version": n.Metadata.Version} {
		if s == "" || checkLabel(s) != nil || strings.ContainsAny(s, `/\`) || strings.Contains(s, "..") {
			return nil, &failure{http.StatusBadRequest, "the " + what + " in the .nuspec file is empty or not valid"}
		}
	}
	return &n, nil
}
