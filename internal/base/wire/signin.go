package wire

import "time"

// MePath is the path that says who the client is: GET answers a Me.
const MePath = "/-/api/v1/me"

// SignInsPath is the path of the sign-ins of browsers and programs below a server's base URL:
//
//	GET     (the path itself)   a SignInList; parameters limit and cursor
//	DELETE  ID                  ends a sign-in
//
// Errors are a Problem.
const SignInsPath = "/-/api/v1/signins" //nolint:misspell // a word of addresses

// AuditPath is the path of the server's audit log: GET answers items, each a record, the
// newest first, and next, the cursor of the next part. A part without items may have a
// next: the server reads a limited part of its log for each answer. Parameters: since,
// until, who, product, file, id, action, remote, node, order (newest or oldest), format
// (json, csv or ndjson: the last two have all), limit and cursor.
const AuditPath = "/-/api/v1/audit"

// Me is who a client is and what it may do.
type Me struct {
	Name      string `json:"name"` // "" is anonymous
	Anonymous bool   `json:"anonymous"`
	// Method is how the client proved its identity: token, basic, negotiate,
	// certificate or oidc; empty: it did not.
	Method string `json:"method,omitempty"`
	// Carrier is where the credentials were: path, basic, bearer, header, negotiate or
	// cookie.
	Carrier string    `json:"carrier,omitempty"`
	TokenID string    `json:"token_id,omitempty"`
	SignIn  string    `json:"signin,omitempty"` // its id
	Login   string    `json:"login,omitempty"`  // the id of the login of a program
	Until   time.Time `json:"until,omitzero"`   // when the credentials expire
	Rights  Rights    `json:"rights"`
	// Words are the rights in sentences.
	Words []string `json:"words"`
}

// Rights are what a client may do.
type Rights struct {
	Admin bool     `json:"admin"`
	Read  []string `json:"read"`  // products; null is all
	Write []string `json:"write"` // products; null is all
	// Public are the products of which it may read the public forms only; "*" is all that are
	// not in Read.
	Public []string `json:"public,omitempty"`
}

// The kinds of sign-ins: a browser has a cookie, a program the tokens of a login.
const (
	SignInBrowser = "browser"
	SignInProgram = "program"
)

// SignInInfo is the sign-in of a browser, or the login of a program.
type SignInInfo struct {
	ID       string    `json:"id"`
	Kind     string    `json:"kind"`              // SignInBrowser or SignInProgram
	Machine  string    `json:"machine,omitempty"` // what a program calls its machine
	Name     string    `json:"name"`              // of the principal
	Method   string    `json:"method"`            // token, basic, negotiate, oidc or, of a program, certificate
	TokenID  string    `json:"token_id,omitempty"`
	Address  string    `json:"address"` // of the browser or the program when it began
	Browser  string    `json:"browser"` // its User-Agent
	Created  time.Time `json:"created"`
	LastUsed time.Time `json:"last_used"`
	Expires  time.Time `json:"expires"`           // without further use
	Current  bool      `json:"current,omitempty"` // that of this request
}

// SignInList is a part of the list of sign-ins, oldest first. Next, if not empty, is
// the cursor of the next part.
type SignInList struct {
	Items []SignInInfo `json:"items"`
	Next  string       `json:"next,omitempty"`
}
