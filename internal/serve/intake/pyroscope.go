package intake

import (
	"encoding/json"
	"fmt"
	"mime"
	"net/http"
	"strings"
	"time"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/symdepot/symdepot/debugid"
	"github.com/symdepot/symdepot/internal/base/truncate"
	"github.com/symdepot/symdepot/internal/depot/stage"
	"github.com/symdepot/symdepot/symfile"
)

// Grafana Pyroscope's debuginfo.v1alpha1.DebuginfoService, as unary requests of the
// Connect protocol in both its codecs, and the plain upload of a body.

const pyroscopeService = "debuginfo.v1alpha1.DebuginfoService"

var pyroscopeFace = &face{
	name: "pyroscope", noCredential: http.StatusUnauthorized, badCredential: http.StatusUnauthorized,
	quota: http.StatusRequestEntityTooLarge, unfit: http.StatusBadRequest, wrong: http.StatusBadRequest,
	write: connectFailure,
}

// connectCodes are the codes of the Connect protocol by status.
var connectCodes = map[int]string{
	http.StatusBadRequest: "invalid_argument", http.StatusUnauthorized: "unauthenticated", http.StatusForbidden: "permission_denied",
	http.StatusNotFound: "not_found", http.StatusConflict: "already_exists", http.StatusPreconditionFailed: "failed_precondition",
	http.StatusRequestEntityTooLarge: "resource_exhausted", http.StatusNotImplemented: "unimplemented",
	http.StatusServiceUnavailable: "unavailable", http.StatusInsufficientStorage: "resource_exhausted",
	http.StatusInternalServerError: "internal",
	http.StatusRequestTimeout:      "deadline_exceeded", http.StatusUnsupportedMediaType: "invalid_argument",
}

func connectFailure(x *exchange, status int, text string) {
	_ = x.json(status, map[string]string{"code": first(connectCodes[status], "unknown"), "message": text})
}

const (
	maxConnect = 1 << 20
	// pyroscopeIdle is how long the steps of an upload may be apart.
	pyroscopeIdle = 10 * time.Minute
)

// buildIDOf reads a build-id as this service accepts it.
func buildIDOf(s string) (debugid.BuildID, error) {
	id, err := debugid.ParseBuildID(s)
	if err != nil || len(s) > 40 {
		return "", &failure{http.StatusBadRequest, fmt.Sprintf("the GNU build-id %q is not 2 to 40 hex digits", truncate.Text(s))}
	}
	return id, nil
}

// servePyroscope answers the methods of the service.
func servePyroscope(x *exchange) error {
	if err := x.take(); err != nil {
		return err
	}
	l, err := x.labels(stage.Labels{Product: x.r.Header.Get("X-Scope-Orgid")})
	if err != nil {
		return err
	}
	switch args := x.t.args; {
	case len(args) == 2 && args[0] == "Upload":
		return x.pyroscopeUpload(l, args[1])
	case len(args) == 1 && args[0] == "ShouldInitiateUpload":
		return x.pyroscopeAsk(l)
	case len(args) == 1 && args[0] == "UploadFinished":
		return x.pyroscopeEnd(l)
	}
	return &failure{http.StatusNotImplemented, "not implemented; this server has ShouldInitiateUpload, Upload and UploadFinished"}
}

// debuginfoFile is what the requests of the service say of a file.
type debuginfoFile struct {
	ID      string `json:"gnuBuildId"`
	SnakeID string `json:"gnu_build_id"` // the JSON of protocol buffers has both spellings
	Name    string `json:"name"`
}

// Numbers of fields of the service's messages: ShouldInitiateUploadRequest.file,
// FileMetadata, UploadFinishedRequest.gnu_build_id and ShouldInitiateUploadResponse.
const (
	protoAskFile     protowire.Number = 1
	protoFileID      protowire.Number = 1
	protoFileName    protowire.Number = 4
	protoFinishedID  protowire.Number = 1
	protoAskedShould protowire.Number = 1
	protoAskedReason protowire.Number = 2
)

// connect reads the message of a unary request: in JSON into v, or its fields if it is
// binary. Binary messages are what the generated clients send unless they are told
// otherwise.
func (x *exchange) connect(v any) (fields map[protowire.Number][]byte, err error) {
	kind, _, err := mime.ParseMediaType(x.r.Header.Get("Content-Type"))
	if err != nil || kind != "application/json" && kind != connectProto {
		return nil, &failure{
			http.StatusUnsupportedMediaType,
			"send Connect's unary requests, Content-Type application/json or application/proto; gRPC is not supported",
		}
	}
	b, err := x.readAll(maxConnect)
	if err != nil {
		return nil, err
	}
	if kind == connectProto {
		if fields, err = protoFields(b); err != nil {
			return nil, &failure{http.StatusBadRequest, "malformed request body: no message of protocol buffers"}
		}
		return fields, nil
	}
	if err := json.Unmarshal(b, v); err != nil {
		return nil, &failure{http.StatusBadRequest, "malformed JSON request body"}
	}
	return nil, nil
}

// connectProto is the media type of binary messages.
const connectProto = "application/proto"

// protoFields returns the fields of a message that are texts or messages. Of several with
// one number the last counts.
func protoFields(b []byte) (map[protowire.Number][]byte, error) {
	fields := map[protowire.Number][]byte{}
	for len(b) > 0 {
		number, kind, n := protowire.ConsumeTag(b)
		if n < 0 {
			return nil, protowire.ParseError(n)
		}
		b = b[n:]
		if n = protowire.ConsumeFieldValue(number, kind, b); n < 0 {
			return nil, protowire.ParseError(n)
		}
		if kind == protowire.BytesType {
			fields[number], _ = protowire.ConsumeBytes(b)
		}
		b = b[n:]
	}
	return fields, nil
}

// connectAnswer answers a unary request in its codec.
func connectAnswer(x *exchange, v any, binary []byte) error {
	if kind, _, _ := mime.ParseMediaType(x.r.Header.Get("Content-Type")); kind != connectProto {
		return x.json(http.StatusOK, v)
	}
	x.w.Header().Set("Content-Type", connectProto)
	x.w.WriteHeader(http.StatusOK)
	_, _ = x.w.Write(binary) // the client may have left
	return nil
}

func (x *exchange) pyroscopeKey(l stage.Labels, id debugid.BuildID) string {
	return x.who.ID + "\x00" + l.Product + "\x00" + string(id)
}

func (x *exchange) pyroscopeAsk(l stage.Labels) error {
	var q struct {
		File debuginfoFile `json:"file"`
	}
	fields, err := x.connect(&q)
	if err != nil {
		return err
	}
	if fields != nil {
		file, err := protoFields(fields[protoAskFile])
		if err != nil {
			return &failure{http.StatusBadRequest, "malformed request body: the field file is no message"}
		}
		q.File = debuginfoFile{ID: string(file[protoFileID]), Name: string(file[protoFileName])}
	}
	answer := func(yes bool, reason string) error {
		binary := protowire.AppendVarint(protowire.AppendTag(nil, protoAskedShould, protowire.VarintType), protowire.EncodeBool(yes))
		binary = protowire.AppendString(protowire.AppendTag(binary, protoAskedReason, protowire.BytesType), reason)
		return connectAnswer(x, map[string]any{"shouldInitiateUpload": yes, "reason": reason}, binary)
	}
	text := first(q.File.ID, q.File.SnakeID)
	if text == "" {
		return answer(false, "the file has no GNU build-id")
	}
	id, err := buildIDOf(text)
	if err != nil {
		return err
	}
	list, err := x.stages.Find(x.r.Context(), x.who.Caller, stage.Query{Lookup: symfile.Lookup{
		ID: string(id), Role: symfile.Debug, IDKind: symfile.BuildIDs,
	}})
	if err != nil {
		return err
	}
	name := symfile.BaseName(q.File.Name)
	if _, err := cleanPath(name); err != nil {
		name = string(id)
	}
	if len(list) > 0 {
		stageID, err := x.collect(l)
		if err != nil {
			return err
		}
		_, ok, err := x.enter(x.r.Context(), x.who.Caller, stageID, name, list[0])
		if err != nil {
			return err
		}
		if ok {
			return answer(false, "the file with debug information is there already")
		}
	}
	x.pending.put(x.pyroscopeKey(l, id), name)
	return answer(true, "the build-id has no file with debug information")
}

func (x *exchange) pyroscopeUpload(l stage.Labels, text string) error {
	id, err := buildIDOf(text)
	if err != nil {
		return err
	}
	key := x.pyroscopeKey(l, id)
	name, ok := x.pending.get(key)
	if !ok && !x.alone.knowsAll() {
		// Another server, or the process before this one, was asked. The name was part
		// of that request.
		name, ok = string(id), true
	}
	if !ok {
		return &failure{http.StatusPreconditionFailed, "no pending upload of this build-id; call ShouldInitiateUpload first"}
	}
	body, err := x.decoded(x.body, x.r.Header.Get("Content-Encoding"))
	if err != nil {
		return err
	}
	defer body.Close()
	stageID, err := x.collect(l)
	if err != nil {
		return err
	}
	a, err := x.stages.PutClaimed(x.r.Context(), x.who.Caller, stageID, stage.Entry{Path: name, Size: -1}, body, func(a stage.Arrived) error {
		for _, o := range a.Objects {
			if strings.EqualFold(string(o.BuildID), string(id)) {
				return nil
			}
		}
		return wrongID(name, string(id), a.Objects)
	})
	if err != nil {
		return err
	}
	tellOther(x.w.Header(), &a)
	// Another client may have been told to send it, too: its upload stays pending.
	x.arrived.put(key, true)
	return x.json(http.StatusOK, struct{}{})
}

func (x *exchange) pyroscopeEnd(l stage.Labels) error {
	var q debuginfoFile
	fields, err := x.connect(&q)
	if err != nil {
		return err
	}
	if fields != nil {
		q.ID = string(fields[protoFinishedID])
	}
	id, err := buildIDOf(first(q.ID, q.SnakeID))
	if err != nil {
		return err
	}
	_, ok := x.arrived.get(x.pyroscopeKey(l, id))
	if !ok && !x.alone.knowsAll() {
		if ok, err = pyroscopeArrived(x, l, id); err != nil {
			return err
		}
	}
	if !ok {
		return &failure{http.StatusPreconditionFailed, "nothing was uploaded for this build-id"}
	}
	return connectAnswer(x, struct{}{}, nil)
}

// pyroscopeArrived reports whether the product has a file with a build-id. A caller
// that may not read the product is believed: its upload was answered with success only
// if the file was kept.
func pyroscopeArrived(x *exchange, l stage.Labels, id debugid.BuildID) (bool, error) {
	if !x.who.Read(l.Product) {
		return true, nil
	}
	for _, role := range []symfile.Role{symfile.Debug, symfile.Executable} {
		list, err := x.stages.Find(x.r.Context(), x.who.Caller, stage.Query{
			Lookup: symfile.Lookup{ID: string(id), Role: role, IDKind: symfile.BuildIDs}, Product: &l.Product,
		})
		if len(list) > 0 || err != nil {
			return err == nil, err
		}
	}
	return false, nil
}
