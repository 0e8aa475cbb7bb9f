package intake

import (
	"encoding/json"
	"fmt"
	"mime"
	"net/http"
	"strings"
	"time"

	"github.com/symdepot/symdepot/debugid"
	"github.com/symdepot/symdepot/internal/clip"
	"github.com/symdepot/symdepot/internal/stage"
	"github.com/symdepot/symdepot/symfile"
)

// Grafana Pyroscope's debuginfo.v1alpha1.DebuginfoService, as the unary JSON of the
// Connect protocol and the plain upload of a body.

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
	http.StatusServiceUnavailable: "unavailable", http.StatusInsufficientStorage: "resource_exhausted", http.StatusInternalServerError: "internal",
	http.StatusRequestTimeout: "deadline_exceeded", http.StatusUnsupportedMediaType: "invalid_argument",
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
		return "", &failure{http.StatusBadRequest, fmt.Sprintf("the GNU build-id %q is not 2 to 40 hex digits", clip.Text(s))}
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

// connectJSON decodes the JSON body of a unary request. Names are accepted in both
// spellings that the JSON of protocol buffers has.
func (x *exchange) connectJSON(v any) error {
	kind, _, err := mime.ParseMediaType(x.r.Header.Get("Content-Type"))
	if err != nil || kind != "application/json" {
		return &failure{http.StatusUnsupportedMediaType, "send JSON (Content-Type: application/json); protocol buffers and gRPC are not supported"}
	}
	b, err := x.readAll(maxConnect)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(b, v); err != nil {
		return &failure{http.StatusBadRequest, "malformed JSON request body"}
	}
	return nil
}

func (x *exchange) pyroscopeKey(l stage.Labels, id debugid.BuildID) string {
	return x.who.Name + "\x00" + l.Product + "\x00" + string(id)
}

func (x *exchange) pyroscopeAsk(l stage.Labels) error {
	var q struct {
		File struct {
			ID      string `json:"gnuBuildId"`
			SnakeID string `json:"gnu_build_id"`
			Name    string `json:"name"`
		} `json:"file"`
	}
	if err := x.connectJSON(&q); err != nil {
		return err
	}
	answer := func(yes bool, reason string) error {
		return x.json(http.StatusOK, map[string]any{"shouldInitiateUpload": yes, "reason": reason})
	}
	text := first(q.File.ID, q.File.SnakeID)
	if text == "" {
		return answer(false, "the file has no GNU build-id")
	}
	id, err := buildIDOf(text)
	if err != nil {
		return err
	}
	list, err := x.stages.Find(x.r.Context(), x.who.Caller, stage.Query{Lookup: symfile.Lookup{ID: string(id), Role: symfile.Debug, IDKind: symfile.BuildIDs}})
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
	_, err = x.stages.PutClaimed(x.r.Context(), x.who.Caller, stageID, stage.Entry{Path: name, Size: -1}, body, func(a stage.Arrived) error {
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
	// Another client may have been told to send it, too: its upload stays pending.
	x.arrived.put(key, true)
	return x.json(http.StatusOK, struct{}{})
}

func (x *exchange) pyroscopeEnd(l stage.Labels) error {
	var q struct {
		ID      string `json:"gnuBuildId"`
		SnakeID string `json:"gnu_build_id"`
	}
	if err := x.connectJSON(&q); err != nil {
		return err
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
	return x.json(http.StatusOK, struct{}{})
}

// pyroscopeArrived reports whether the product has a file with a build-id. A caller
// that may not read the product is believed: its upload was answered with success only
// if the file was kept.
func pyroscopeArrived(x *exchange, l stage.Labels, id debugid.BuildID) (bool, error) {
	if !x.who.Read(l.Product) {
		return true, nil
	}
	for _, role := range []symfile.Role{symfile.Debug, symfile.Executable} {
		list, err := x.stages.Find(x.r.Context(), x.who.Caller, stage.Query{Lookup: symfile.Lookup{ID: string(id), Role: role, IDKind: symfile.BuildIDs}, Product: &l.Product})
		if len(list) > 0 || err != nil {
			return err == nil, err
		}
	}
	return false, nil
}
