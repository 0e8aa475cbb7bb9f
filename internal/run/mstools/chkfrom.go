package mstools

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"path/filepath"
	"strings"

	"github.com/symdepot/symdepot/internal/base/durable"
	"github.com/symdepot/symdepot/internal/files/scan"
	"github.com/symdepot/symdepot/objfile"
	"github.com/symdepot/symdepot/symfile"
)

// uncommented removes comments, which begin with a semicolon, from lines.
func uncommented(lines []string) []string {
	var list []string
	for _, l := range lines {
		if l, _, _ = strings.Cut(l, ";"); strings.TrimSpace(l) != "" {
			list = append(list, strings.TrimSpace(l))
		}
	}
	return list
}

// programList reads the list of programs of /ea or /ee.
func (c *checkRun) programList(option string) ([]string, error) {
	if !c.run.args.has(option) {
		return nil, nil
	}
	lines, err := c.run.inputs().response(c.run.args.get(option))
	return uncommented(lines), err
}

// listed reports whether a list has a program: its path, or its file name in
// any letter case, perhaps as a pattern with * and ?.
func listed(list []string, program string) bool {
	for _, l := range list {
		if strings.EqualFold(l, program) || !strings.ContainsAny(l, `/\`) && wildcardMatch(l, symfile.BaseName(program)) {
			return true
		}
	}
	return false
}

// wanted applies /fm and /ea, in which a module is named with or without its
// extension.
func (c *checkRun) wanted(program string) bool {
	if listed(c.unasked, program) {
		return false
	}
	if !c.run.args.has("fm") {
		return true
	}
	base := symfile.BaseName(program)
	modules := c.run.args.values["fm"]
	return listed(modules, base) || listed(modules, strings.TrimSuffix(base, path.Ext(base)))
}

// cabinet visits the programs in a cabinet such as a hotfix, and in nested
// cabinets.
func (c *checkRun) cabinet(name string, visit func(program) error) error {
	local, err := c.run.paths.local(name)
	if err != nil {
		return err
	}
	opened := false
	for f, err := range scan.Walk(c.run.ctx, []string{filepath.Clean(local)}, scan.Options{Want: objfile.Detect}) {
		var skip *scan.Skip
		switch {
		case errors.As(err, &skip):
			if skip.Reason != scan.ReasonUnwanted {
				c.run.problem(skip.Path, skip)
			}
			opened = opened || strings.Contains(skip.Path, scan.Separator)
			continue
		case err != nil:
			return err
		}
		opened = opened || f.Archive != ""
		if f.Archive == "" || !c.wanted(f.Name) {
			f.Discard()
			continue
		}
		p := program{path: f.Path}
		if content, err := f.Open(c.run.ctx); err != nil {
			p.err = err
		} else {
			c.look(&p, content, content.Size())
			_ = content.Close()
		}
		f.Discard()
		if err := visit(p); err != nil {
			return err
		}
	}
	if !opened && c.run.errors == 0 {
		c.run.problem(name, errors.New("it is not a cabinet"))
	}
	return nil
}

// copyToClassic copies a symbol file to the path at which debuggers look in a
// folder without keys: symbols, the extension of the program, the name.
func (c *checkRun) copyToClassic(chain symbolChain, program string, n need) error {
	dir, err := c.run.paths.local(c.run.args.get("oc"))
	if err != nil {
		return err
	}
	rel := path.Join("symbols", symfile.Fold(strings.TrimPrefix(path.Ext(symfile.BaseName(program)), ".")), n.name)
	if !symfile.ValidName(n.name) || !fs.ValidPath(rel) {
		return fmt.Errorf("%s is not a valid name for a file", n.name)
	}
	switch have, ok := c.classic[symfile.Fold(rel)]; {
	case ok && have == n:
		return nil
	case ok:
		return fmt.Errorf("%s already has a different %s", n.name, path.Dir(rel))
	}
	err = errors.New("the file does not exist any more")
	for _, src := range chain.sources {
		found, ferr := src.find(c.run.ctx, n.name, n.key)
		if ferr != nil || found == nil {
			continue
		}
		var in io.ReadCloser
		if in, err = src.open(c.run.ctx, found); err != nil {
			continue
		}
		err = errors.Join(c.putClassic(dir, rel, in, n), in.Close())
		if err == nil {
			c.classic[symfile.Fold(rel)] = n
			return nil
		}
	}
	return err
}

func (c *checkRun) putClassic(dir, rel string, in io.Reader, n need) error {
	if err := durable.MkdirAll(dir, 0o777); err != nil {
		return err
	}
	tree, err := durable.OpenTree(dir)
	if err != nil {
		return err
	}
	defer tree.Close()
	temp, err := receive(c.run.ctx, tree, in)
	if err != nil {
		return err
	}
	err = sameKey(filepath.Join(dir, filepath.FromSlash(temp.Name())), n.name, n.key)
	if err == nil {
		err = tree.MkdirAll(path.Dir(rel), 0o777)
	}
	if err != nil {
		temp.Abort()
		return err
	}
	return temp.Commit(rel)
}

// maxVersion is the number of bytes of a program that are searched for its
// version.
const maxVersion = 64 << 20

// fileVersion returns the file version in the version resource of a program, or
// an empty string. It searches for the signature at the start of the resource.
func fileVersion(r io.ReaderAt, size int64) string {
	const mark, length = "\xbd\x04\xef\xfe\x00\x00\x01\x00", 16
	buf := make([]byte, 64<<10)
	for at := int64(0); at < min(size, maxVersion); at += int64(len(buf) - length) {
		n, err := r.ReadAt(buf, at)
		if i := strings.Index(string(buf[:n]), mark); i >= 0 && i+length <= n {
			v := func(o int) uint16 { return binary.LittleEndian.Uint16(buf[i+o:]) }
			return fmt.Sprintf("%d.%d.%d.%d", v(10), v(8), v(14), v(12))
		}
		if err != nil {
			break
		}
	}
	return ""
}
