package web

// CheckState is the result of a check of the server.
type CheckState string

// The states.
const (
	CheckOK      CheckState = "ok"
	CheckUnknown CheckState = "unknown" // not looked at, or not wholly
	CheckWarn    CheckState = "warn"
	CheckBad     CheckState = "bad"
)

// Check says in a sentence how a part of the server is.
type Check struct {
	Name  string
	State CheckState
	Text  string
}

// Facts describe a running server.
type Facts struct {
	Settings string // the effective configuration without secrets, for people
	Checks   []Check
}
