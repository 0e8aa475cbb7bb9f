package wire

import "time"

// CoveragePath is the path of the API for what the depot has of files that ship:
//
//	POST coverage              what the depot has of the files (CoverageAsk, CoverageAnswer)
//	PUT  builds/N/coverage     stores the result of a check (BuildCoverage)
//	GET  coverage?product=P    the stored results of the newest builds of a product
const CoveragePath = APIPath + "/coverage"

// CoverageAsk is the body of a request for what the depot has of files that ship.
type CoverageAsk struct {
	Files []CoverageFile `json:"files"`
	// Sources says how much is done to count sources; empty: nothing, see SourcesBriefly and
	// SourcesLong.
	Sources string `json:"sources,omitempty"`
	// NotSources are patterns of source names that do not count, with * and ?.
	NotSources []string `json:"not_sources,omitempty"`
}

// How sources are counted. The server remembers how far it has come, so the same question again
// goes on there.
const (
	SourcesBriefly = "briefly" // as far as a fraction of a second suffices
	SourcesLong    = "long"    // for some seconds
)

// CoverageFile is a file that ships, as debuggers know it. Ids are in any spelling.
type CoverageFile struct {
	Kind    string `json:"kind"` // pe, elf, macho or wasm
	Name    string `json:"name"`
	CodeID  string `json:"code_id,omitempty"`
	DebugID string `json:"debug_id,omitempty"`
	BuildID string `json:"build_id,omitempty"`
	// Debug says that the file has debug information itself.
	Debug bool `json:"debug,omitempty"`
	// PDBs are those that a PE image names.
	PDBs []CoveragePDB `json:"pdbs,omitempty"`
}

// CoveragePDB is a PDB that an image names.
type CoveragePDB struct {
	Name     string `json:"name"`
	ID       string `json:"id"`
	Portable bool   `json:"portable,omitempty"`
}

// CoverageAnswer has an item for each of the files, in their order.
type CoverageAnswer struct {
	Items []Coverage `json:"items"`
}

// Coverage is what the depot has of one file, as far as the client may read it.
type Coverage struct {
	// Symbols is the debug information of exactly this file.
	Symbols CoverageHeld `json:"symbols"`
	// Program is the file itself, by its ids.
	Program CoverageHeld `json:"program"`
	// Unwind says that a stored file has unwind data.
	Unwind bool `json:"unwind"`
	// Sources counts the source files that the debug information names; nil: not asked, or not
	// known of a file that is served in place.
	Sources *CoverageSources `json:"sources,omitempty"`
	// Layouts has the state of the debug information in each layout that debuggers of such files
	// use: CoverageHere, CoverageMade or CoverageMissing.
	Layouts map[string]string `json:"layouts"`
	// Verdict says what else the depot has if Symbols are missing; see CoverageLater and needed.Verdict.
	Verdict string `json:"verdict,omitempty"`
	// LaterAge is the age of the PDB that is stored in place of the right one, with the verdict
	// CoverageLater.
	LaterAge int64 `json:"later_age,omitempty"`
	// Error says why the name or the ids are not valid.
	Error string `json:"error,omitempty"`
}

// CoverageLater is the verdict that the depot has the PDB of a later link: one of the same GUID
// with another age.
const CoverageLater = "later-link"

// CoverageNoID is the verdict that the file has no id under which debug information could be found.
const CoverageNoID = "no-id"

// The states of debug information in a layout.
const (
	CoverageHere    = "here"
	CoverageMade    = "made" // the server makes it of other files when it is asked for
	CoverageMissing = "missing"
)

// CoverageHeld is a file that the depot has.
type CoverageHeld struct {
	Here bool `json:"here"`
	// Kind, SHA256, Size and Features are those of the file. SHA256 is empty, and Features may be nil, in a
	// served folder.
	Kind     string   `json:"kind,omitempty"`
	SHA256   string   `json:"sha256,omitempty"`
	Size     int64    `json:"size,omitempty"`
	Features []string `json:"features,omitzero"`
}

// CoverageSources counts source files.
type CoverageSources struct {
	Named   int64 `json:"named"`   // without those that do not count
	Found   int64 `json:"found"`   // of them, with the checksum that the debug information has
	Linked  int64 `json:"linked"`  // of the others, those that Source Link has an address for
	Pending bool  `json:"pending"` // not all are counted yet
	// Missing are the first names that were not found.
	Missing []string `json:"missing,omitempty"`
}

// What a check requires of a file that ships. The files of the first four are at the server, or in the
// folder that is checked against.
const (
	RequireSymbols = "symbols" // debug information of exactly this file
	RequireLines   = "lines"   // which has more than names: lines of source files
	RequireUnwind  = "unwind"  // unwind data, in the program or in debug information
	RequireSources = "sources" // all sources that the debug information names
	RequireProgram = "program" // the file itself, for dumps
)

// Requirements are all of them, in the order in which they are shown.
var Requirements = []string{RequireSymbols, RequireLines, RequireUnwind, RequireSources, RequireProgram}

// BuildCoverage is the result of a check of what ships, which a server keeps beside the build.
type BuildCoverage struct {
	// Files are those that need symbols, and Covered those of them that have all that Require says.
	Files   int64    `json:"files"`
	Covered int64    `json:"covered"`
	Allowed int64    `json:"allowed,omitempty"` // files of others, which need none
	Require []string `json:"require"`
	// Gaps are the first files that are not covered.
	Gaps []CoverageGap `json:"gaps,omitempty"`
	// Checked and By are the time, and who has checked; the server sets them.
	Checked time.Time `json:"checked,omitzero"`
	By      string    `json:"by,omitempty"`
}

// CoveredBuild is a build with the result of its last check.
type CoveredBuild struct {
	Build   int64  `json:"build"`
	Version string `json:"version"`
	BuildCoverage
}

// CoverageGap is a file that is not covered, with the requirements that it lacks.
type CoverageGap struct {
	Path  string   `json:"path"`
	Lacks []string `json:"lacks"`
}

// Uncovered is the number of files with gaps.
func (c BuildCoverage) Uncovered() int64 { return c.Files - c.Covered }

// Percent is the share of the covered files, rounded down to hundredths; 100 if there are none.
func (c BuildCoverage) Percent() float64 {
	if c.Files == 0 {
		return 100
	}
	return float64(c.Covered*10000/c.Files) / 100
}
