package intake

// access is the kind of credentials that a request needs.
type access uint8

const (
	accessWrite  access = iota // a principal that may write something
	accessOpen                 // none
	accessOwnKey               // the key of an open upload, which is part of the path
)

// target is the resource that the path of a request names.
type target struct {
	face    *face
	serve   func(x *exchange) error
	access  access
	args    []string
	product string // of a path below /in
	version string
	prefix  string // the escaped /in/PRODUCT[/VERSION], or ""
}

// face is how a protocol answers.
type face struct {
	name string // for logs
	// noCredential and badCredential are the statuses for a request without
	// credentials and with invalid ones.
	noCredential, badCredential int
	// quota, unfit and wrong are the statuses for a used-up quota, for a file that
	// is no symbol file, and for bytes that differ from the request's claims.
	quota, unfit, wrong int
	// write writes the body of a failure.
	write func(x *exchange, status int, text string)
}

// failure is an error with the status and the text of its answer.
type failure struct {
	status int
	text   string
}

func (f *failure) Error() string { return f.text }
