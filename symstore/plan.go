package symstore

import (
	"errors"
)

// errNumberTaken means that another tool made the file of that transaction first.
var errNumberTaken = errors.New("the transaction number is taken")

// The kinds of steps.
const (
	opPut    = "put"    // the staged file From gets the name Path
	opWrite  = "write"  // Path gets the content Data
	opCreate = "create" // the same, but Path must not exist
	opAppend = "append" // the line Data is added to server.txt or history.txt
	opRemove = "remove" // the file Path is removed; it may be missing
	opRmdir  = "rmdir"  // the folder Path is removed if it is empty
	opMove   = "move"   // From is renamed to Path
	opFolder = "folder" // the staged folder From gets the name Path
)

// op is one step of a plan. Path and From are relative to the root of the
// store. Only From of opPut and opFolder is relative to the workspace.
type op struct {
	Do   string `json:"do"`
	Path string `json:"path"`
	From string `json:"from,omitempty"`
	Data []byte `json:"data,omitempty"`
	Had  bool   `json:"had,omitempty"` // Path existed before
	New  bool   `json:"new,omitempty"` // the folder of Path must be made
	// Later, for opRemove of a stored file: it is removed later if another program
	// holds it open.
	Later bool `json:"later,omitempty"`
}

// plan lists the steps of one change. It is written before the first step.
type plan struct {
	Version int    `json:"version"`
	What    string `json:"what"` // add or del or repair
	ID      ID     `json:"id"`
	Ops     []op   `json:"ops"`
}
