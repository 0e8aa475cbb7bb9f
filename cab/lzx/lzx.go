// Package lzx reads and writes LZX as cabinets use it: a window of 32 KiB to
// 2 MiB, frames of 32 KiB whose bit streams begin on a 16-bit boundary, and
// state that lasts from the first frame of a folder to its last.
//
// It knows nothing of cabinets: frames go in and come out, and whoever stores
// them keeps their lengths. Other users of the name (WIM, Xbox, patches)
// differ in block headers and are not served here.
package lzx

import (
	"encoding/binary"
	"errors"
)

const (
	// FrameSize is the number of bytes that each frame of a folder but the last
	// expands to.
	FrameSize = 32768
	// MaxFrame is the most compressed bytes of one frame.
	MaxFrame = 32768 + 6144
	// MinWindow is the smallest window, as a power of two.
	MinWindow = 15
	// MaxWindow is the largest window, as a power of two.
	MaxWindow = 21

	minMatch, maxMatch = 2, 257
	maxSlots           = 50
	numChars           = 256
	maxMain            = numChars + 8*maxSlots
	numLengths         = 249
	numAligned         = 8
	numPre             = 20
	maxCode            = 16

	blockVerbatim     = 1
	blockAligned      = 2
	blockUncompressed = 3

	// translatedFrames is how many frames from the start of a folder have their
	// x86 call targets translated: one GiB.
	translatedFrames = 32768
	// translationSize is what genuine encoders write, whatever the file's size.
	translationSize = 12000000
	// translationTail is how many bytes at the end of a frame are never the
	// start of a translated call.
	translationTail = 10
)

// ErrFormat says that a frame is no valid LZX, or expands to another size than
// was claimed.
var ErrFormat = errors.New("lzx: damaged data")

// slotsOf is the number of position slots of each window from 2^15 to 2^21.
var slotsOf = [...]int{30, 32, 34, 36, 38, 42, 50}

// slotExtra and slotBase give the extra bits and the first formatted offset
// (offset + 2) of each position slot.
var slotExtra [maxSlots]uint8
var slotBase [maxSlots + 1]uint32

func init() {
	for s := range slotExtra {
		if s >= 4 {
			slotExtra[s] = uint8(min(s/2-1, 17))
		}
		slotBase[s+1] = slotBase[s] + 1<<slotExtra[s]
	}
}

// translate turns relative call targets into absolute ones (encode) or back.
// frame is a whole frame that begins cur bytes into the folder; size is the
// folder's translation size.
func translate(frame []byte, cur, size int32, encode bool) {
	end := len(frame) - translationTail
	for i := 0; i < end; i++ {
		if frame[i] != 0xE8 {
			continue
		}
		at := frame[i+1 : i+5]
		v, here := int32(binary.LittleEndian.Uint32(at)), cur+int32(i)
		switch {
		case v < -here || v >= size:
		case encode && v < size-here:
			binary.LittleEndian.PutUint32(at, uint32(v+here))
		case encode:
			binary.LittleEndian.PutUint32(at, uint32(v-size))
		case v >= 0:
			binary.LittleEndian.PutUint32(at, uint32(v-here))
		default:
			binary.LittleEndian.PutUint32(at, uint32(v+size))
		}
		i += 4
	}
}
