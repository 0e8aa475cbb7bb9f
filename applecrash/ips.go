package applecrash

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/symdepot/symdepot/debugid"
)

// number is a number of JSON, or a string that is one. Anything else is zero: a field of another kind
// does not make the rest of a report unreadable.
type number uint64

func (n *number) UnmarshalJSON(b []byte) error {
	s := strings.Trim(string(b), `"`)
	if u, err := strconv.ParseUint(s, 0, 64); err == nil {
		*n = number(u)
	} else if i, err := strconv.ParseInt(s, 0, 64); err == nil {
		*n = number(uint64(i)) // a register that was printed with a sign
	} else if f, err := strconv.ParseFloat(s, 64); err == nil && f >= 0 && f < math.MaxUint64 {
		*n = number(uint64(f))
	}
	return nil
}

// text is a string of JSON. Anything else is empty.
type text string

func (t *text) UnmarshalJSON(b []byte) error {
	var s string
	if json.Unmarshal(b, &s) == nil {
		*t = text(s)
	}
	return nil
}

// ipsHead is the first line of an .ips file.
type ipsHead struct {
	Incident text `json:"incident_id"`
	Time     text `json:"timestamp"`
	OS       text `json:"os_version"`
	Name     text `json:"app_name"`
	Version  text `json:"app_version"`
	Build    text `json:"build_version"`
	Bundle   text `json:"bundleID"`
}

// ipsBody is the second part of an .ips file.
type ipsBody struct {
	Incident text   `json:"incident"`
	Process  text   `json:"procName"`
	Path     text   `json:"procPath"`
	PID      number `json:"pid"`
	CPU      text   `json:"cpuType"`
	Device   text   `json:"modelCode"`
	Time     text   `json:"captureTime"`
	OS       struct {
		Train text `json:"train"`
		Build text `json:"build"`
	} `json:"osVersion"`
	Exception struct {
		Type    text `json:"type"`
		Signal  text `json:"signal"`
		Codes   text `json:"codes"`
		Subtype text `json:"subtype"`
		Message text `json:"message"`
	} `json:"exception"`
	Termination struct {
		Namespace text   `json:"namespace"`
		Code      number `json:"code"`
		Indicator text   `json:"indicator"`
	} `json:"termination"`
	Faulting *number `json:"faultingThread"`
	// Lists are read within limits, later.
	Info          json.RawMessage `json:"asi"`
	Threads       json.RawMessage `json:"threads"`
	LastException json.RawMessage `json:"lastExceptionBacktrace"`
	Images        json.RawMessage `json:"usedImages"`
}

type ipsThread struct {
	ID        number          `json:"id"`
	Name      text            `json:"name"`
	Queue     text            `json:"queue"`
	Triggered bool            `json:"triggered"`
	Frames    json.RawMessage `json:"frames"`
	State     json.RawMessage `json:"threadState"`
}

type ipsFrame struct {
	Image    *number `json:"imageIndex"`
	Offset   number  `json:"imageOffset"`
	Symbol   text    `json:"symbol"`
	Location number  `json:"symbolLocation"`
	File     text    `json:"sourceFile"`
	Line     number  `json:"sourceLine"`
	Inlined  bool    `json:"inline"`
}

type ipsImage struct {
	Base    number `json:"base"`
	Size    number `json:"size"`
	Name    text   `json:"name"`
	Path    text   `json:"path"`
	UUID    text   `json:"uuid"`
	Arch    text   `json:"arch"`
	Version text   `json:"CFBundleShortVersionString"`
}

// readJSON reads an .ips file: a line of JSON, and behind it JSON or, by older systems, the text form.
// The second part alone is read, too.
func (r *Report) readJSON(data []byte) error {
	first, rest, _ := bytes.Cut(data, []byte("\n"))
	var head ipsHead
	if rest = bytes.TrimSpace(rest); len(rest) == 0 || json.Unmarshal(first, &head) != nil {
		rest = data
	}
	r.Incident, r.Process, r.Bundle = string(head.Incident), string(head.Name), string(head.Bundle)
	r.Version = version(string(head.Version), string(head.Build))
	r.setOS(string(head.OS))
	r.setTime(string(head.Time))
	if !bytes.HasPrefix(rest, []byte("{")) {
		return r.readText(rest)
	}
	var body ipsBody
	if err := json.Unmarshal(rest, &body); err != nil {
		return fmt.Errorf("%w: %w", ErrNotReport, err)
	}
	r.setBody(&body)
	each(body.Images, func(im ipsImage) bool { return r.addJSONImage(im) })
	each(body.Threads, func(t ipsThread) bool { return r.addJSONThread(&t) })
	if body.Faulting != nil && uint64(*body.Faulting) < uint64(len(r.Threads)) {
		r.Crashed = int(*body.Faulting)
	}
	r.LastException = r.jsonFrames(body.LastException)
	return nil
}

// each calls fn for the elements of a list, until fn returns false. Elements of another form, and what
// follows them, are left out.
func each[T any](list json.RawMessage, fn func(T) bool) {
	d := json.NewDecoder(bytes.NewReader(list))
	if begin, err := d.Token(); err != nil || begin != json.Delim('[') {
		return
	}
	for d.More() {
		var x T
		if d.Decode(&x) != nil || !fn(x) {
			return
		}
	}
}

// members calls fn for the members of an object, until fn returns false.
func members(object json.RawMessage, fn func(name string, value json.RawMessage) bool) {
	d := json.NewDecoder(bytes.NewReader(object))
	if begin, err := d.Token(); err != nil || begin != json.Delim('{') {
		return
	}
	for d.More() {
		name, err := d.Token()
		var value json.RawMessage
		if err != nil || d.Decode(&value) != nil || !fn(fmt.Sprint(name), value) {
			return
		}
	}
}

// version returns a version with the number of the build as the text form has it.
func version(v, build string) string {
	if build == "" || build == v {
		return v
	}
	return strings.TrimSpace(v + " (" + build + ")")
}

func (r *Report) setBody(b *ipsBody) {
	for _, s := range []struct {
		to   *string
		from text
	}{
		{&r.Incident, b.Incident}, {&r.Process, b.Process}, {&r.Path, b.Path}, {&r.Device, b.Device},
		{&r.Exception.Type, b.Exception.Type}, {&r.Exception.Signal, b.Exception.Signal}, {&r.Exception.Codes, b.Exception.Codes},
		{&r.Exception.Subtype, b.Exception.Subtype}, {&r.Exception.Message, b.Exception.Message},
	} {
		if s.from != "" {
			*s.to = string(s.from)
		}
	}
	r.PID, r.Arch = int64(b.PID), arch(string(b.CPU))
	if b.OS.Train != "" {
		r.setOS(version(string(b.OS.Train), string(b.OS.Build)))
	}
	if b.Time != "" {
		r.setTime(string(b.Time))
	}
	if b.Termination.Namespace != "" {
		r.Exception.Termination = strings.TrimSpace(fmt.Sprintf("Namespace %s, Code %d %s",
			b.Termination.Namespace, b.Termination.Code, b.Termination.Indicator))
	}
	info := map[string][]string{}
	n := 0
	members(b.Info, func(image string, value json.RawMessage) bool {
		each(value, func(t text) bool {
			info[image] = append(info[image], string(t))
			n++
			return n < maxInfo
		})
		n++
		return n < maxInfo
	})
	var all []string
	for _, image := range slices.Sorted(maps.Keys(info)) {
		all = append(all, info[image]...)
	}
	r.Info = strings.TrimSpace(strings.Join(all, "\n"))
}

// maxInfo bounds the texts that programs left.
const maxInfo = 1000

// addJSONImage adds an image. Frames name images by their numbers, so none is left out.
func (r *Report) addJSONImage(im ipsImage) bool {
	id, _ := debugid.ParseGUID(string(im.UUID))
	name := string(im.Name)
	if name == "" && im.Path != "" {
		name = path.Base(string(im.Path))
	}
	return r.addImage(Image{Base: uint64(im.Base), Size: uint64(im.Size), Name: name, Path: string(im.Path), UUID: id,
		Arch: string(im.Arch), Version: string(im.Version)})
}

func (r *Report) addJSONThread(t *ipsThread) bool {
	return r.addThread(Thread{
		Index: len(r.Threads), ID: uint64(t.ID), Name: string(t.Name), Queue: string(t.Queue), Crashed: t.Triggered,
		Frames: r.jsonFrames(t.Frames), Registers: jsonRegisters(t.State),
	})
}

func (r *Report) jsonFrames(list json.RawMessage) (frames []Frame) {
	each(list, func(f ipsFrame) bool {
		if !r.spendFrame() {
			return false
		}
		frame := Frame{Address: uint64(f.Offset), Image: -1, Symbol: string(f.Symbol), SymbolOffset: uint64(f.Location),
			File: string(f.File), Line: uint32(min(f.Line, math.MaxUint32)), Inlined: f.Inlined}
		if f.Image != nil && uint64(*f.Image) < uint64(len(r.Images)) {
			im := r.Images[*f.Image]
			frame.Address, frame.Module = im.Base+uint64(f.Offset), im.Name
			if im.Size > 0 { // else it stands for code in no image
				frame.Image = int(*f.Image)
			}
		}
		frames = append(frames, frame)
		return true
	})
	return frames
}

// jsonRegisters reads registers: {"x":[{"value":1},…],"pc":{"value":2},"flavor":"ARM_THREAD_STATE64"}.
func jsonRegisters(state json.RawMessage) (list []Register) {
	type value struct {
		Value *number `json:"value"`
	}
	add := func(name string, v value) bool {
		if v.Value != nil {
			list = append(list, Register{strings.ToLower(name), uint64(*v.Value)})
		}
		return len(list) < maxRegisters
	}
	members(state, func(name string, text json.RawMessage) bool {
		var one value
		if json.Unmarshal(text, &one) == nil {
			return add(name, one)
		}
		i := 0
		each(text, func(v value) bool {
			i++
			return add(name+strconv.Itoa(i-1), v)
		})
		return len(list) < maxRegisters
	})
	return list
}
