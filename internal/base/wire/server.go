package wire

import "time"

// About describes a server.
type About struct {
	Version string    `json:"version"`
	API     int       `json:"api"` // the version of the API: 1
	URL     string    `json:"url"` // the base URL, as the client wrote it
	Time    time.Time `json:"time"`
}

// Connect lists the tools with the settings that make them use a server.
type Connect struct {
	URL   string `json:"url"`
	Note  string `json:"note,omitempty"` // how to send a token
	Tools []Tool `json:"tools"`
}

// Tool is a tool with its settings.
type Tool struct {
	Name     string `json:"name"`
	Where    string `json:"where,omitempty"` // where the settings go
	Settings string `json:"settings"`
}

// WorkerInfo is a worker on another machine.
type WorkerInfo struct {
	Name      string    `json:"name"`
	Slots     int       `json:"slots"` // how many jobs it can take now
	Abilities []Ability `json:"abilities"`
}

// UpstreamAct names the upstream of an act.
type UpstreamAct struct {
	Name string `json:"name"`
}

// UpstreamActed is the outcome of an act.
type UpstreamActed struct {
	Name  string `json:"name"`
	OK    bool   `json:"ok"`
	Error string `json:"error,omitempty"`
}

// Forgotten counts the deleted entries of a negative cache.
type Forgotten struct {
	Misses int64 `json:"misses"`
}
