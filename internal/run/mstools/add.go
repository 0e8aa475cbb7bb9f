package mstools

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"path/filepath"
	"strings"

	"github.com/symdepot/symdepot/internal/base/durable"
	"github.com/symdepot/symdepot/internal/base/term"
	"github.com/symdepot/symdepot/symfile"
	"github.com/symdepot/symdepot/symstore"
)

var addSyntax = slashSyntax{flags: append([]slashFlag{
	storeFlag,
	{name: "f", kind: slashList, also: []string{"file", "files"}},
	{name: "r", also: []string{"recurse", "recursive", "-recursive"}},
	{name: "t", kind: slashValue, also: []string{"product", "title"}},
	{name: "v", kind: slashValue, also: []string{"version"}},
	{name: "c", kind: slashValue, also: []string{"comment"}},
	{name: "p", also: []string{"pointer", "pointers"}},
	{name: "l", also: []string{"local"}},
	{name: ":msg", kind: slashMaybe, also: []string{"msg", "message"}},
	{name: ":rel", also: []string{"rel", "relative"}},
	{name: ":norefs", also: []string{"norefs"}},
	{name: ":noforcecopy", also: []string{"noforcecopy"}},
	{name: "3", also: []string{"2", "twotier", "index2"}},
	{name: "x", kind: slashValue, also: []string{"index"}},
	{name: "y", kind: slashValue},
	{name: "yi", kind: slashMaybe},
	{name: "g", kind: slashValue, also: []string{"share"}},
	{name: "a", also: []string{"append"}},
	{name: "q", also: []string{"quiet"}},
	{name: "z", kind: slashWord, words: []string{"pub", "pri"}},
	{name: "h", kind: slashWord, words: []string{"pub", "pri"}},
	{name: "m", kind: slashValue},
	{name: "compress", kind: slashWord, words: []string{"cab", "zip", "mszip", "lzx"}, also: []string{"z7"}},
	{name: "-method", kind: slashValue},
	{name: "-all"},
	{name: "-no-replace"},
	{name: "-all-or-nothing"},
	{name: "-oversize-plain"},
	{name: "-force"},
}, commonFlags...)}

var delSyntax = slashSyntax{flags: append([]slashFlag{
	storeFlag, {name: "i", kind: slashValue, also: []string{"id"}},
}, commonFlags...)}

// addForm checks that the options of add can be combined.
func (r *symstoreRun) addForm() error {
	if err := r.inputForm(); err != nil {
		return err
	}
	if err := r.outputForm(); err != nil {
		return err
	}
	return r.pointerForm()
}

// inputForm checks the options that say where the files are.
func (r *symstoreRun) inputForm() error {
	s := r.args
	indexed := s.has("y") || s.get("yi") != ""
	switch {
	case s.has("yi") && !indexed:
		return term.UsageError("/yi needs an index file, after it or after /y")
	case s.has("y") && s.get("yi") != "" && s.get("y") != s.get("yi"):
		return term.UsageError("/y and /yi name two index files")
	case indexed && (s.has("f") || s.has("x")):
		return term.UsageError("/y reads the names of files from the index: omit /f and /x")
	case !indexed && !s.has("f"):
		return term.UsageError("the files are missing: give /f FILES")
	}
	return nil
}

// outputForm checks the options that say where the files, or the index of them, go.
func (r *symstoreRun) outputForm() error {
	s := r.args
	switch {
	case s.has("x") && s.has("s"):
		return term.UsageError("/x writes an index and stores nothing: leave out /s")
	case s.has("x") && (s.has("m") || s.has("h")):
		return term.UsageError("/m and /h choose between files in a store: they cannot be combined with /x")
	case !s.has("x") && (s.has("a") || s.has("q")):
		return term.UsageError("/a and /q say how an index is written: they go with /x")
	case !s.has("x") && !s.has("s"):
		for _, v := range s.values {
			if len(v) > 0 && strings.EqualFold(v[0], "/s") {
				return term.UsageError("the store is missing: give /s STORE. An option before /s has no value and took it")
			}
		}
		return term.UsageError("the store is missing: give /s STORE")
	case !s.has("x") && !s.has("t"):
		return term.UsageError("the product is missing: give /t PRODUCT")
	case s.has("-force") && !s.has("x"):
		return term.UsageError("--force is about an index file: it goes with /x")
	}
	return nil
}

// pointerForm checks the options of pointers.
func (r *symstoreRun) pointerForm() error {
	s := r.args
	switch {
	case (s.has(":msg") || s.has(":rel")) && !s.has("p"):
		return term.UsageError("-:MSG and -:REL are about pointers: they go with /p")
	case s.has(":msg") && !s.has("x") && r.pointerText() == "":
		return term.UsageError("-:MSG without a text takes the comment, and there is none: give -:MSG TEXT or /c COMMENT")
	}
	return nil
}

// pointerText is the text that -:MSG adds to pointers: its value, or the comment of /c.
func (r *symstoreRun) pointerText() string {
	if !r.args.has(":msg") {
		return ""
	}
	return cmp.Or(r.args.get(":msg"), r.args.get("c"))
}

// compression returns the compression that the options name.
func (r *symstoreRun) compression() (symstore.Compression, error) {
	word := strings.ToLower(r.args.get("compress"))
	if m := strings.ToLower(r.args.get("-method")); r.args.has("-method") {
		word = m
	} else if !r.args.has("compress") {
		return symstore.Plain, nil
	}
	switch word {
	case "", "cab", "mszip":
		return symstore.MSZIP, nil
	case "lzx":
		return symstore.LZX, nil
	case "none", "plain":
		return symstore.Plain, nil
	case "zip":
		return 0, term.UsageError("/compress ZIP is not written: no debugger but Microsoft's newest reads it. " +
			"/compress writes cabinets that all read, --method lzx smaller ones")
	}
	return 0, term.UsageError("--method is mszip, lzx or none, not " + word)
}

func typeOption(word string) symstore.Type { return symstore.Type(strings.ToLower(word)) }

// add stores files, or writes an index of them.
func (r *symstoreRun) add() error {
	if err := r.addForm(); err != nil {
		return err
	}
	method, err := r.compression()
	if err != nil {
		return err
	}
	if r.args.has("p") && method != symstore.Plain {
		r.print("SYMSTORE WARNING: pointers are not compressed: /compress is ignored\n")
		method = symstore.Plain
	}
	if r.args.has("x") {
		return r.addIndex()
	}
	s, err := r.createStore()
	if err != nil {
		return r.finish(symstore.AddResult{}, err)
	}
	defer s.Close()
	if r.args.has("3") && s.Tiers() == symstore.One {
		r.message("the store has one tier and keeps it: /3 is for new stores. See symdepot symstore convert")
	}
	if s.NoRefs() && !r.args.has(":norefs") {
		r.message("the store was created with -:NOREFS and keeps no refs.ptr")
	}
	opt := symstore.AddOptions{
		Product: r.args.get("t"), Version: r.args.get("v"), Comment: r.args.get("c"),
		Pointer: r.args.has("p"), AllowLocal: r.args.has("l"), Relative: r.args.has(":rel"), Message: r.pointerText(),
		NoRefs: r.args.has(":norefs"), NoForceCopy: r.args.has(":noforcecopy"), NoReplace: r.args.has("-no-replace"),
		Filter: typeOption(r.args.get("z")), Prefer: symstore.Preference{Prefix: r.args.get("m"), Type: typeOption(r.args.get("h"))},
		Compress: method, OversizePlain: r.args.has("-oversize-plain"), AllKinds: r.args.has("-all"), AllOrNothing: r.args.has("-all-or-nothing"),
	}
	opt.Event = func(e symstore.Event) { r.event(s, opt, e) }
	r.message("0 alternate indexers registered")
	r.reported(s)
	files, index, err := r.addFiles(s)
	if err != nil {
		return r.finish(symstore.AddResult{}, err)
	}
	result, err := s.Add(r.ctx, opt, files)
	if index != nil {
		err = errors.Join(err, index.Close())
	}
	if err == nil && r.args.has("yi") && result.ID != 0 {
		err = r.noteID(result.ID)
	}
	return r.finish(result, err)
}

// createStore opens the store of /s, or creates it.
func (r *symstoreRun) createStore() (*symstore.Store, error) {
	dir, err := r.paths.local(r.args.get("s"))
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errNoStore, err)
	}
	if dir == "" {
		return nil, term.UsageError("/s is empty")
	}
	tiers := symstore.One
	if r.args.has("3") {
		tiers = symstore.Two
	}
	return symstore.Create(dir, tiers, r.opt)
}

// addFiles returns the files that /f or /y names.
func (r *symstoreRun) addFiles(s *symstore.Store) (iter.Seq2[symstore.File, error], io.Closer, error) {
	if r.args.has("f") {
		in := r.inputs()
		in.skip = s.Dir()
		return in.all(r.args.values["f"]), nil, nil
	}
	share := r.args.get("g")
	if !r.args.has("p") {
		// The target of a pointer need not exist on this machine. Files must be
		// readable here.
		if _, err := r.paths.local(share); err != nil {
			return nil, nil, err
		}
	}
	files, index, err := r.paths.openIndexed(r.indexName(), share)
	if err != nil || r.args.has("-all-or-nothing") {
		return files, index, err
	}
	return goodLines(files, func(err error) { r.problem(r.indexName(), err) }), index, nil
}

// indexName is the index file of /y, or of /yi if that names one.
func (r *symstoreRun) indexName() string {
	if r.args.has("y") {
		return r.args.get("y")
	}
	return r.args.get("yi")
}

func (r *symstoreRun) inputs() *inputs {
	return &inputs{
		paths: r.paths, recurse: r.args.has("r"), problem: r.problem,
		note: func(text string) { r.print("SYMSTORE WARNING: %s\n", term.Printable(text)) },
	}
}

// reported prints, with /o, the number of the next transaction as symstore.exe
// does.
func (r *symstoreRun) reported(s *symstore.Store) {
	if !r.verbose() {
		return
	}
	byLastID, byHistory, err := s.Reported()
	if err != nil {
		r.message("no id is reported: %v", err)
		return
	}
	r.message("LastId.txt reported id %d", byLastID)
	r.message("History.txt reported id %d", byHistory)
}

// event prints what happened to one file.
func (r *symstoreRun) event(s *symstore.Store, opt symstore.AddOptions, e symstore.Event) {
	l := symstoreLine{Path: e.Path, Name: e.Name, Key: e.Key}
	dest := filepath.Join(s.Dir(), filepath.FromSlash(e.Dest))
	switch e.Kind {
	case symstore.EventStore:
		compressed := "F"
		if e.Compressed {
			compressed = "T"
		}
		force := "T"
		if opt.NoForceCopy {
			force = "F"
		}
		l.Event = "stored"
		r.message("Copying %s to %s [Force: %s, Compress: %s]", e.Path, dest, force, compressed)
	case symstore.EventPointer:
		l.Event = "pointer"
		r.message("Writing %s for %s", dest, e.Path)
	case symstore.EventIgnored:
		l.Event, l.Error = "ignored", e.Err.Error()
		r.warnIgnored(e)
		r.message("Skipping file %s - not a known file type. ErrorLevel is 13.", e.Path)
	case symstore.EventFailed:
		if !errors.Is(e.Err, context.Canceled) { // otherwise the whole command was interrupted
			r.problem(e.Path, e.Err)
		}
		return
	case symstore.EventRepeat:
		l.Event = "repeated"
		r.message("%s is the same file as one before", e.Path)
	case symstore.EventPlain:
		l.Event = "plain"
		r.print("SYMSTORE WARNING: %s is too large for a cabinet and is stored as it is\n", term.Printable(e.Path))
	case symstore.EventID:
		r.message("Final id is %s", e.ID)
		r.print("Finding ID...  %s\n\n", e.ID)
		return
	}
	r.line(l)
}

// warnIgnored warns about an ignored file that was probably meant to be stored.
func (r *symstoreRun) warnIgnored(e symstore.Event) {
	var asked *symstore.NeedsAllError
	if errors.As(e.Err, &asked) && asked.Kind == symfile.MSFZ {
		r.print("SYMSTORE WARNING: %s is %s; --all stores it\n", term.Printable(e.Path), asked.What)
	}
}

// summary prints the three lines that build systems search for.
func (r *symstoreRun) summary(result symstore.AddResult) {
	noun := "files"
	if r.args.has("p") {
		noun = "pointers"
	}
	r.print("SYMSTORE: Number of %s stored = %d\nSYMSTORE: Number of errors = %d\nSYMSTORE: Number of %s ignored = %d\n",
		noun, result.Stored, result.Failed, noun, result.Ignored)
}

// finish prints the summary and turns errors of files into the exit code.
func (r *symstoreRun) finish(result symstore.AddResult, err error) error {
	// A folder that could not be read is not a file of the transaction.
	first := result.Err
	result.Failed = max(result.Failed, r.errors)
	if err != nil {
		if symstoreCode(err) == ssUsage {
			return err
		}
		if result.ID == 0 {
			result.Stored = 0
		}
		result.Failed = max(result.Failed, 1)
		r.fatal("add", err)
		err = term.Exit(symstoreCode(err))
	}
	r.summary(result)
	done := symstoreLine{Event: "done", Counts: &symstoreCounts{result.Stored, result.Failed, result.Ignored, result.Bytes}}
	if result.ID != 0 {
		done.ID = result.ID.String()
	}
	r.line(done)
	switch {
	case err != nil:
		return err
	case first != nil:
		return term.Exit(symstoreCode(first))
	case result.Failed > 0:
		return term.Exit(ssFailed)
	}
	return nil
}

// addIndex writes an index file (/x).
func (r *symstoreRun) addIndex() (err error) {
	name, err := r.paths.local(r.args.get("x"))
	if err != nil {
		return err
	}
	if err := r.indexAllowed(name); err != nil {
		return err
	}
	share := r.args.get("g")
	if _, mapped := r.paths.mapped(share); !mapped && share != "" {
		if share, err = r.paths.local(share); err != nil {
			return err
		}
		share = absolute(share)
	}
	in := r.inputs()
	in.absolute = true
	opt := symstore.IndexOptions{Share: share, Bare: r.args.has("q"), Filter: typeOption(r.args.get("z")), AllKinds: r.args.has("-all")}
	opt.Event = func(e symstore.Event) {
		switch e.Kind {
		case symstore.EventStore:
			r.message("%s is %s\\%s", e.Path, e.Name, e.Key)
			r.line(symstoreLine{Event: "indexed", Path: e.Path, Name: e.Name, Key: e.Key})
		case symstore.EventIgnored:
			r.warnIgnored(e)
			r.message("Skipping file %s - not a known file type. ErrorLevel is 13.", e.Path)
		case symstore.EventFailed:
			r.problem(e.Path, e.Err)
		}
	}
	var result symstore.AddResult
	err = durable.WriteTo(name, 0o666, func(w io.Writer) (err error) {
		if r.args.has("a") {
			if opt.Append, err = copyExisting(w, name); err != nil {
				return err
			}
		}
		result, err = symstore.WriteIndex(r.ctx, w, opt, in.all(r.args.values["f"]))
		return err
	})
	return r.finish(result, err)
}

// copyExisting copies the current content of a file to w. has reports whether
// there is any.
func copyExisting(w io.Writer, name string) (has bool, err error) {
	old, err := os.Open(name)
	if err != nil {
		return false, nil // an unreadable file is replaced
	}
	defer old.Close()
	n, err := io.Copy(w, old)
	return n > 0, err
}

// noteID appends the number of the transaction to the index (/yi).
func (r *symstoreRun) noteID(id symstore.ID) error {
	name, err := r.paths.local(r.indexName())
	if err != nil {
		return err
	}
	f, err := os.OpenFile(name, os.O_RDWR|os.O_APPEND, 0)
	if err != nil {
		return fmt.Errorf("the files are stored as transaction %s; the index could not be written: %w", id, err)
	}
	text := symstore.IndexComment(id)
	if info, err := f.Stat(); err == nil && info.Size() > 0 {
		var last [1]byte
		if _, err := f.ReadAt(last[:], info.Size()-1); err == nil && last[0] != '\n' {
			text = "\r\n" + text
		}
	}
	_, err = f.WriteString(text)
	return errors.Join(err, f.Close())
}
