package dwarf

import "fmt"

// Forms of attribute values (DWARF 5, table 7.6), with GNU's and LLVM's.
const (
	formAddr          = 0x01
	formBlock2        = 0x03
	formBlock4        = 0x04
	formData2         = 0x05
	formData4         = 0x06
	formData8         = 0x07
	formString        = 0x08
	formBlock         = 0x09
	formBlock1        = 0x0a
	formData1         = 0x0b
	formFlag          = 0x0c
	formSdata         = 0x0d
	formStrp          = 0x0e
	formUdata         = 0x0f
	formRefAddr       = 0x10
	formRef1          = 0x11
	formRef2          = 0x12
	formRef4          = 0x13
	formRef8          = 0x14
	formRefUdata      = 0x15
	formIndirect      = 0x16
	formSecOffset     = 0x17
	formExprloc       = 0x18
	formFlagPresent   = 0x19
	formStrx          = 0x1a
	formAddrx         = 0x1b
	formRefSup4       = 0x1c
	formStrpSup       = 0x1d
	formData16        = 0x1e
	formLineStrp      = 0x1f
	formRefSig8       = 0x20
	formImplicitConst = 0x21
	formLoclistx      = 0x22
	formRnglistx      = 0x23
	formRefSup8       = 0x24
	formStrx1         = 0x25
	formStrx2         = 0x26
	formStrx3         = 0x27
	formStrx4         = 0x28
	formAddrx1        = 0x29
	formAddrx2        = 0x2a
	formAddrx3        = 0x2b
	formAddrx4        = 0x2c
	formGNUAddrIndex  = 0x1f01
	formGNUStrIndex   = 0x1f02
	formGNURefAlt     = 0x1f20
	formGNUStrpAlt    = 0x1f21
	formLLVMAddrxOff  = 0x2001
)

// Tags of debugging information entries that matter here (DWARF 5, table 7.3).
const (
	tagClass      = 0x02
	tagLexical    = 0x0b
	tagCompile    = 0x11
	tagStruct     = 0x13
	tagUnion      = 0x17
	tagInlined    = 0x1d
	tagModule     = 0x1e
	tagWith       = 0x22
	tagCatch      = 0x25
	tagSubprogram = 0x2e
	tagTry        = 0x32
	tagInterface  = 0x38
	tagNamespace  = 0x39
	tagPartial    = 0x3c
	tagType       = 0x41
	tagSkeleton   = 0x4a
)

// Attributes that matter here (DWARF 5, table 7.5), with GNU's.
const (
	atSibling        = 0x01
	atName           = 0x03
	atStmtList       = 0x10
	atLowPC          = 0x11
	atHighPC         = 0x12
	atLanguage       = 0x13
	atCompDir        = 0x1b
	atAbstractOrigin = 0x31
	atSpecification  = 0x47
	atRanges         = 0x55
	atCallFile       = 0x58
	atCallLine       = 0x59
	atLinkageName    = 0x6e
	atStrOffsetsBase = 0x72
	atAddrBase       = 0x73
	atRnglistsBase   = 0x74
	atDwoName        = 0x76
	atMIPSLinkage    = 0x2007
	atGNUDwoName     = 0x2130
	atGNUDwoID       = 0x2131
	atGNURangesBase  = 0x2132
	atGNUAddrBase    = 0x2133
)

// encoding holds the parameters that the sizes of forms depend on.
type encoding struct {
	version  uint16
	addrSize uint8
	is64     bool
}

func (e encoding) offsetSize() int {
	if e.is64 {
		return 8
	}
	return 4
}

// maxAddress is the highest address of the unit's target.
func (e encoding) maxAddress() uint64 {
	if e.addrSize >= 8 {
		return 1<<64 - 1
	}
	return 1<<(8*e.addrSize) - 1
}

// refAddrSize is the size of DW_FORM_ref_addr, which is an address in version 2.
func (e encoding) refAddrSize() int {
	if e.version <= 2 {
		return int(e.addrSize)
	}
	return e.offsetSize()
}

// fixedSize returns the size of a form if it does not depend on the content, or
// -1.
func (e encoding) fixedSize(form uint16) int {
	switch form {
	case formFlagPresent, formImplicitConst:
		return 0
	case formData1, formRef1, formFlag, formStrx1, formAddrx1:
		return 1
	case formData2, formRef2, formStrx2, formAddrx2:
		return 2
	case formStrx3, formAddrx3:
		return 3
	case formData4, formRef4, formRefSup4, formStrx4, formAddrx4:
		return 4
	case formData8, formRef8, formRefSig8, formRefSup8:
		return 8
	case formData16:
		return 16
	case formAddr:
		return int(e.addrSize)
	case formRefAddr:
		return e.refAddrSize()
	case formStrp, formSecOffset, formStrpSup, formLineStrp, formGNURefAlt, formGNUStrpAlt:
		return e.offsetSize()
	}
	return -1
}

// value is the value of one attribute: a number as stored, and the form that
// says what the number means. For a form with bytes in place (strings, blocks, 16
// bytes) it is the position of these bytes in the window.
type value struct {
	form uint16
	u    uint64
}

// read reads one value. The error is about an unknown form; a read beyond the
// window sets c.short.
func (e encoding) read(c *cursor, form uint16, implicit int64) (value, error) {
	for range 4 { // DW_FORM_indirect may name itself
		v := value{form: form}
		switch form {
		case formIndirect:
			form = uint16(min(c.uleb(), 0xffff))
			if c.short || form == formImplicitConst {
				return v, badForm(form)
			}
			continue
		case formImplicitConst:
			v.u = uint64(implicit)
		case formFlagPresent:
			v.u = 1
		case formString:
			v.u = uint64(c.i)
			c.cstring()
		case formBlock, formExprloc:
			n := c.uleb()
			v.u = uint64(c.i)
			c.skip(n)
		case formBlock1:
			n := c.u8()
			v.u = uint64(c.i)
			c.skip(uint64(n))
		case formBlock2:
			n := c.u16()
			v.u = uint64(c.i)
			c.skip(uint64(n))
		case formBlock4:
			n := c.u32()
			v.u = uint64(c.i)
			c.skip(uint64(n))
		case formSdata:
			v.u = uint64(c.sleb())
		case formUdata, formRefUdata, formStrx, formAddrx, formLoclistx, formRnglistx, formGNUAddrIndex, formGNUStrIndex:
			v.u = c.uleb()
		case formLLVMAddrxOff:
			v.u = c.uleb()&0xffffffff | uint64(c.u32())<<32
		case formData16:
			v.u = uint64(c.i)
			c.skip(16)
		default:
			n := e.fixedSize(form)
			if n < 0 {
				return v, badForm(form)
			}
			v.u = c.uint(n)
		}
		return v, nil
	}
	return value{}, badForm(formIndirect)
}

// skip skips one value.
func (e encoding) skip(c *cursor, form uint16) error {
	switch form {
	case formUdata, formRefUdata, formStrx, formAddrx, formLoclistx, formRnglistx, formGNUAddrIndex, formGNUStrIndex, formSdata:
		c.skipLEB()
		return nil
	case formExprloc, formBlock:
		c.skip(c.uleb())
		return nil
	case formBlock1:
		c.skip(uint64(c.u8()))
		return nil
	}
	if n := e.fixedSize(form); n >= 0 {
		c.skip(uint64(n))
		return nil
	}
	_, err := e.read(c, form, 0)
	return err
}

func badForm(form uint16) error { return fmt.Errorf("%w: form %#x", errBad, form) }

// isAddress reports whether a form is of the class address.
func isAddress(form uint16) bool {
	switch form {
	case formAddr, formAddrx, formAddrx1, formAddrx2, formAddrx3, formAddrx4, formGNUAddrIndex, formLLVMAddrxOff:
		return true
	}
	return false
}
