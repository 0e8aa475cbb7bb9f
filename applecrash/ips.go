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
	Info          map[string][]text `json:"asi"`
	Faulting      *number           `json:"faultingThread"`
	Threads       []ipsThread       `json:"threads"`
	LastException []ipsFrame        `json:"lastExceptionBacktrace"`
	Images        []ipsImage        `json:"usedImages"`
}

type ipsThread struct {
	ID        number                     `json:"id"`
	Name      text                       `json:"name"`
	Queue     text                       `json:"queue"`
	Triggered bool                       `json:"triggered"`
	Frames    []ipsFrame                 `json:"frames"`
	State     map[string]json.RawMessage `json:"threadState"`
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
	for _, im := range body.Images {
		r.addJSONImage(im)
	}
	for i := range body.Threads {
		r.addJSONThread(i, &body.Threads[i])
	}
	if body.Faulting != nil && uint64(*body.Faulting) < uint64(len(r.Threads)) {
		r.Crashed = int(*body.Faulting)
	}
	r.LastException = r.jsonFrames(body.LastException)
	return nil
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
	var info []string
	for _, image := range slices.Sorted(maps.Keys(b.Info)) {
		for _, s := range b.Info[image] {
			info = append(info, string(s))
		}
	}
	r.Info = strings.TrimSpace(strings.Join(info, "\n"))
}

// addJSONImage adds an image. Frames name images by their numbers, so none is left out.
func (r *Report) addJSONImage(im ipsImage) {
	id, _ := debugid.ParseGUID(string(im.UUID))
	name := string(im.Name)
	if name == "" && im.Path != "" {
		name = path.Base(string(im.Path))
	}
	r.addImage(Image{Base: uint64(im.Base), Size: uint64(im.Size), Name: name, Path: string(im.Path), UUID: id,
		Arch: string(im.Arch), Version: string(im.Version)})
}

func (r *Report) addJSONThread(index int, t *ipsThread) {
	thread := Thread{Index: index, ID: uint64(t.ID), Name: string(t.Name), Queue: string(t.Queue), Crashed: t.Triggered}
	if len(r.Threads) < MaxThreads {
		thread.Frames, thread.Registers = r.jsonFrames(t.Frames), jsonRegisters(t.State)
	}
	r.addThread(thread)
}

func (r *Report) jsonFrames(in []ipsFrame) []Frame {
	var frames []Frame
	for _, f := range in {
		if !r.spendFrame() {
			break
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
	}
	return frames
}

// jsonRegisters reads registers: {"x":[{"value":1},…],"pc":{"value":2},"flavor":"ARM_THREAD_STATE64"}.
func jsonRegisters(state map[string]json.RawMessage) []Register {
	type value struct {
		Value *number `json:"value"`
	}
	var list []Register
	for _, name := range slices.Sorted(maps.Keys(state)) {
		var one value
		var many []value
		switch {
		case len(list) >= maxRegisters:
			return list
		case json.Unmarshal(state[name], &one) == nil && one.Value != nil:
			list = append(list, Register{strings.ToLower(name), uint64(*one.Value)})
		case json.Unmarshal(state[name], &many) == nil:
			for i, v := range many {
				if v.Value != nil && len(list) < maxRegisters {
					list = append(list, Register{strings.ToLower(name) + strconv.Itoa(i), uint64(*v.Value)})
				}
			}
		}
	}
	return list
}
