package metadata

import "testing"

// TestCompressed has the examples of ECMA-335, II.23.2.
func TestCompressed(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		b        []byte
		unsigned uint32
		signed   int32
	}{
		{[]byte{0x03}, 0x03, -63 - 1 + 1 + 0}, {[]byte{0x7F}, 0x7F, -1}, {[]byte{0x80, 0x80}, 0x80, 64}, {[]byte{0xAE, 0x57}, 0x2E57, 0x172B - 0x2000},
		{[]byte{0xBF, 0xFF}, 0x3FFF, -1}, {[]byte{0xC0, 0x00, 0x40, 0x00}, 0x4000, 0x2000}, {[]byte{0xDF, 0xFF, 0xFF, 0xFF}, 0x1FFFFFFF, -1},
		{[]byte{0x06}, 6, 3}, {[]byte{0x7B}, 0x7B, -3}, {[]byte{0x01}, 1, -64}, {[]byte{0x80, 0x01}, 1, -8192}, {[]byte{0xC0, 0, 0, 0x01}, 1, -268435456}, {[]byte{0xDF, 0xFF, 0xFF, 0xFE}, 0x1FFFFFFE, 268435455},
	} {
		u, s := Blob{Rest: c.b}, Blob{Rest: c.b}
		if got := u.Unsigned(); got != c.unsigned || u.Err != nil {
			t.Errorf("%x: unsigned %#x, error %v; want %#x", c.b, got, u.Err, c.unsigned)
		}
		if got := s.Signed(); got != c.signed || s.Err != nil {
			t.Errorf("%x: signed %d, error %v; want %d", c.b, got, s.Err, c.signed)
		}
	}
	for _, b := range [][]byte{nil, {0x80}, {0xC0, 0, 0}, {0xE0, 0, 0, 0}, {0xFF}} {
		r := Blob{Rest: b}
		if r.Unsigned(); r.Err == nil {
			t.Errorf("%x: no error", b)
		}
	}
}
