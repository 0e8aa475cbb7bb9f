package pdb

// machineX86 is the IMAGE_FILE_MACHINE number of x86.
const machineX86 = 0x014C

// The kinds of symbol records, as cvinfo.h numbers them.
const (
	symEnd           = 0x0006
	symPublicST      = 0x1009
	symLocalProcST   = 0x100A
	symGlobalProcST  = 0x100B
	symThunk         = 0x1102
	symBlock         = 0x1103
	symPublic        = 0x110E
	symLocalProc     = 0x110F
	symGlobalProc    = 0x1110
	symGlobalManProc = 0x112A
	symLocalManProc  = 0x112B
	symTrampoline    = 0x112C
	symSepCode       = 0x1132
	symExport        = 0x1138
	symLocalProcID   = 0x1146
	symGlobalProcID  = 0x1147
	symInlineSite    = 0x114D
	symInlineSiteEnd = 0x114E
	symProcIDEnd     = 0x114F
	symLocalProcDPC  = 0x1155
	symLocalDPCID    = 0x1156
	symInlineSite2   = 0x115D
)

// The kinds of subsections with line numbers, as cvinfo.h numbers them.
const (
	c13Lines     = 0xF2
	c13Checksums = 0xF4
	c13Inlinees  = 0xF6
	c13Imports   = 0xF7
	c13Exports   = 0xF8
)

// crossScope marks an index that refers to a record of another module.
const crossScope = 1 << 31

// The leaves of type and id records, as cvinfo.h numbers them.
const (
	lfModifier   = 0x1001
	lfPointer    = 0x1002
	lfProcedure  = 0x1008
	lfMFunction  = 0x1009
	lfArgList    = 0x1201
	lfArray      = 0x1503
	lfClass      = 0x1504
	lfStructure  = 0x1505
	lfUnion      = 0x1506
	lfEnum       = 0x1507
	lfInterface  = 0x1519
	lfFuncID     = 0x1601
	lfMFuncID    = 0x1602
	lfSubstrList = 0x1604
	lfStringID   = 0x1605
)

// dbiV60 is the first version of the DBI stream with module records of the
// current format.
const dbiV60 = 19970606

// Indexes in the optional debug header.
const (
	optFPO      = 0
	optToSource = 3 // from addresses in the image to internal ones
	optOMAP     = 4 // from internal addresses to those in the image
	optSections = 5
	optNewFPO   = 9
	optOriginal = 10 // section headers before the image was reordered
)
