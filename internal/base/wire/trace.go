package wire

// Paths of the API that explains requests for symbol files.
//
//	GET  trace?path=P     why a request finds a file or does not; or name=N&id=I; as=anonymous
//	                      and as=token:ID explain it for another client, to administrators
//	POST trace/log        the same for each request in the log of a debugger, the body
//	POST trace/ask        asks the upstreams once, and explains then; the body is a TraceAsk
const (
	TracePath    = APIPath + "/trace"
	TraceLogPath = TracePath + "/log"
	TraceAskPath = TracePath + "/ask"
)

// TraceAsk names a request: by Path, which may be a URL, or by Name and ID.
type TraceAsk struct {
	Path string `json:"path,omitempty"`
	Name string `json:"name,omitempty"`
	ID   string `json:"id,omitempty"`
}
