// Package dsym writes debug information of Apple's programs as LLDB wants it: dSYM bundles in
// a folder, and the property list in which a dsymForUUID program answers.
package dsym

import (
	"encoding/xml"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/symdepot/symdepot/debugid"
)

// Answer is what is known of one UUID. The keys of the property list are those that LLDB's
// DebugSymbols support reads (Host/macosx/.../HostInfo and SymbolLocatorDebugSymbols).
type Answer struct {
	UUID       string // upper case, with hyphens
	Arch       string // as lipo names it; empty: not known
	Bundle     string // folder NAME.dSYM; empty: there is none
	DWARF      string // the file in the bundle
	Executable string // the program itself; empty: not known
	Error      string // why there is no bundle
}

// ParseUUID reads a UUID in any usual spelling, and returns it as Apple spells it.
func ParseUUID(text string) (string, debugid.GUID, error) {
	g, err := debugid.ParseGUID(strings.TrimSpace(text))
	if err != nil {
		return "", g, fmt.Errorf("%q is not a UUID, such as 4C4C4404-5555-3144-A1FC-C9A4F9CE3EE7", text)
	}
	hex := strings.ToUpper(strings.ReplaceAll(g.LLDB(), "/", ""))
	return hex[:8] + "-" + hex[8:12] + "-" + hex[12:16] + "-" + hex[16:20] + "-" + hex[20:], g, nil
}

// Places returns the folder of a bundle and its file, below a folder for all bundles. Both
// depend on the UUID alone.
func Places(dir, uuid string) (bundle, dwarf string) {
	bundle = filepath.Join(dir, uuid+".dSYM")
	return bundle, filepath.Join(bundle, "Contents", "Resources", "DWARF", uuid)
}

// InfoPlist is the Info.plist of a bundle.
func InfoPlist(uuid string) string {
	return list(pair("CFBundleDevelopmentRegion", "English") +
		pair("CFBundleIdentifier", "com.apple.xcode.dsym."+uuid) +
		pair("CFBundleInfoDictionaryVersion", "6.0") +
		pair("CFBundlePackageType", "dSYM") +
		pair("CFBundleSignature", "????") +
		pair("CFBundleShortVersionString", "1.0") +
		pair("CFBundleVersion", "1"))
}

// PropertyList returns the answers as a property list: a dictionary of dictionaries by UUID.
func PropertyList(answers []Answer) string {
	var b strings.Builder
	for _, a := range answers {
		b.WriteString("<key>" + escape(a.UUID) + "</key>\n<dict>\n")
		for _, p := range [][2]string{
			{"DBGArchitecture", a.Arch}, {"DBGDSYMPath", a.DWARF}, {"DBGSymbolRichExecutable", a.Executable},
			{"DBGError", a.Error},
		} {
			if p[1] != "" {
				b.WriteString(pair(p[0], p[1]))
			}
		}
		b.WriteString("</dict>\n")
	}
	return list(b.String())
}

func list(body string) string {
	return xml.Header + `<!DOCTYPE plist PUBLIC "-//Apple//DTD PLIST 1.0//EN" "http://www.apple.com/DTDs/PropertyList-1.0.dtd">` +
		"\n<plist version=\"1.0\">\n<dict>\n" + body + "</dict>\n</plist>\n"
}

func pair(key, value string) string {
	return "<key>" + key + "</key>\n<string>" + escape(value) + "</string>\n"
}

func escape(text string) string {
	var b strings.Builder
	_ = xml.EscapeText(&b, []byte(text)) // a Builder does not fail
	return b.String()
}
